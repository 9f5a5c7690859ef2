"""Agents: the kernel that every driver shares, a folder for each agent, and ``catalog``, one row an agent."""
