"""Agents: the kernel that every driver shares, a folder for each agent, and ``catalog`` with one row for each."""
