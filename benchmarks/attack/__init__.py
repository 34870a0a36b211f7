"""Attacks on the commands: seeded generators of inputs that readers do not expect."""
