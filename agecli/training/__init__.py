"""Training: from faces with ages to checkpoints in a run folder."""
