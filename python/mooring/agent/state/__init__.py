"""Coordination: what the agent knows, as values, and which version of the job model executors have taken up."""
