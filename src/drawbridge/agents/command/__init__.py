"""Any program as an agent."""
