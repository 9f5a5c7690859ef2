"""The driver for any agent that supports the Agent Client Protocol."""
