"""Coordination: which of a job's drivers leads, and how an agent leaves its place to the next one."""
