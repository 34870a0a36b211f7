"""Attacks on the commands: seeded generators of inputs that readers do not expect, and a campaign that tries them all."""
