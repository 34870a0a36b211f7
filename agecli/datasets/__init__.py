"""Faces with ages: manifests, splits and batches."""
