"""Drain: which queries are ordered to end, when, and their progress."""
