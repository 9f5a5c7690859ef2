"""The histories: every record once, numbered, and in a file before it is published."""
