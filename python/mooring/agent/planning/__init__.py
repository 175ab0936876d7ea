"""Host affinity and hot standby: from what the agent knows to the next job model, and from that to scheduler rows."""
