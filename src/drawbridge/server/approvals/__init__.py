"""Approval requests: questions from agents that wait for a person's decision, and the surfaces for deciding on
them."""
