"""Any agent that supports the Agent Client Protocol."""
