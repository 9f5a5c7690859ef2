"""Sessions: one agent process, one queue and one history each."""
