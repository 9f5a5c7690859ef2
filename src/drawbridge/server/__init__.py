"""Job 3: the agent server. It runs agents and shows their sessions and approval requests to clients."""
