"""The agent server, which runs agents and shows their sessions and approval requests to clients."""
