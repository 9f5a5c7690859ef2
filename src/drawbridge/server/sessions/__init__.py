"""Projects and their runs: one agent at work, one queue, one history."""
