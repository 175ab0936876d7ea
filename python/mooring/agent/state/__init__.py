"""Coordination: what the agent knows, as values, and which version of the plan executors know."""
