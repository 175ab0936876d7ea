"""What `mooring demo` shows: a real stream on three hosts of one machine, a kill, a restart, and the right answer."""
