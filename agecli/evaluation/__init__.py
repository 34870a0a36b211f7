"""Evaluation of runs and checkpoints on faces with ages."""
