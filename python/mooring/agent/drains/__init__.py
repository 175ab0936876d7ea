"""Drain: which queries are told to end, when, and how far they are."""
