"""Measurements of the evaluation with the bundled model: leakage, recalibration and the shift alarm."""
