"""The prompts of managed sessions, and what users send with them."""
