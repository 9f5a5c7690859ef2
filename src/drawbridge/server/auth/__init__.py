"""Who may come, how much they may do, and the record of it."""
