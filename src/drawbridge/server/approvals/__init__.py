"""Approvals: questions from agents that wait for a person's decision, and the surfaces on which they can be decided."""
