"""Data sets of labelled faces: sources, preprocessing, manifests, protocols and audits."""
