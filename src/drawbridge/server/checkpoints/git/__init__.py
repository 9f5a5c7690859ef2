"""The confined git: which program it is, where its directory is, and what it reads and writes."""
