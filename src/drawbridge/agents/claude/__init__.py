"""Claude Code."""
