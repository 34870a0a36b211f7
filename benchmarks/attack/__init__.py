"""Attacks on the commands: inputs that readers do not expect, made on purpose."""
