"""The agent processes of managed sessions."""
