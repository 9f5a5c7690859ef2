"""``drawbridge info``: the running editors, bridges and servers, the open files, and whether the guard works."""
