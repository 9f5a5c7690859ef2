"""The directories in which sessions work: which are allowed, and whether an agent works in another work tree."""
