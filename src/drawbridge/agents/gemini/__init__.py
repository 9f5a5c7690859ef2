"""Gemini CLI: its driver, its hooks and the files in which it stores conversations."""
