"""The catalogue of committed state: the rows that the agent adds to it, and how the command reads them."""
