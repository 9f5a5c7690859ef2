"""Agents: the code that all drivers share, a folder for each agent, and ``catalog`` with one row for each."""
