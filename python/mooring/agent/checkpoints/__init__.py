"""Catalogue: what the agent notes of the checkpoints of running queries."""
