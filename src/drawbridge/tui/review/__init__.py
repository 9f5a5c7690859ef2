"""The review of a run in a terminal: its parts, comments and dialogs."""
