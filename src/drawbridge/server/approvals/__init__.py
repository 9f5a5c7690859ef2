"""Approvals: what waits for a decision of a person, and the surfaces on which it can be decided."""
