"""Terminal sessions: agents that people started in terminals on this machine."""
