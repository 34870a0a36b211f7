"""A model: the network, its files, and what runs it."""
