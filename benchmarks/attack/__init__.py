"""Attacks: seeded generators of hostile inputs."""
