"""Sessions: what both kinds share, and managed sessions, each with its agent process, its queue and its history."""
