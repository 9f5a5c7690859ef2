"""Job 1: the bridge that makes a running editor an IDE for coding agents, which read its state and propose changes."""
