"""The agents that the server can run: one port, and each agent's dialect behind it."""
