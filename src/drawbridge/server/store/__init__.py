"""The histories: every record once, numbered, and on disk before it is published."""
