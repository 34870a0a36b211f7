"""Figures, drawn with matplotlib: data in, the bytes of an SVG, PNG or PDF file out.

style: shared sizes, colours, legends and rendering; accuracy and intervals: figures of evaluations; history: of a training;
leaves: of a forest; face: of one prediction. What they show is read by `agecli.reports.figure_data`.
"""
