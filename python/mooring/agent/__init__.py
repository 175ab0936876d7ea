"""The agent beside the Spark driver: events in, decisions, orders out."""
