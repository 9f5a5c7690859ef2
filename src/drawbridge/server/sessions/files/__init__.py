"""A project's files, as clients may see them."""
