"""Terminal sessions: agents that people have started in terminals on this machine."""
