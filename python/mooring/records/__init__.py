"""Coordination: what an application keeps in a metadata store, for its next agent and for clients."""
