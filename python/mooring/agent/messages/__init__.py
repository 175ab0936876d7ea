"""Coordination: lines for the driver's log."""
