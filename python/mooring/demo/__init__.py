"""`mooring demo`: a real stream on three simulated hosts, a kill, a restart, a drain, and the right answer."""
