"""Agents: the code that all drivers share, a folder for each driver, and ``catalog``, with a row for each known
agent."""
