"""Job 1: the bridge that makes a running editor an IDE which coding agents can see and propose changes to."""
