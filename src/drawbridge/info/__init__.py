"""``drawbridge info``: the running editors and bridges, their open files, and whether the guard works."""
