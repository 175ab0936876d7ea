"""Catalogue and in-use notes: what the agent writes into the checkpoints of running queries."""
