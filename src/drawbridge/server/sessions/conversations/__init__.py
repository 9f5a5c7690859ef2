"""The conversations of sessions: the stored ones, the current one, and the ways to read them."""
