"""Coordination: the records of an application in a metadata store, for its next agent and for clients."""
