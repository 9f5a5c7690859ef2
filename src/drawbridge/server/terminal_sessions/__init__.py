"""Terminal sessions: agents that people have started in terminals of this machine."""
