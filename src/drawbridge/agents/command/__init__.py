"""The driver that runs any program as an agent."""
