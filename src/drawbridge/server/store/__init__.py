"""The histories of projects and terminal sessions. Each record is stored once, has a number, and is in a file before it
is published."""
