"""Codex: its driver and its hooks."""
