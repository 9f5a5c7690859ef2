"""``drawbridge setup``: installs Drawbridge in the settings of agents and editors, and removes exactly that.

Agents read JSON files that are the person's; ``jsonc`` edits those texts in place, ``hooks`` determines what to edit, ``files``
writes. The guard that they then call is a copy of its own (``installed``), so that it outlives the environment that
Drawbridge was run from. Nothing is written before ``command`` has shown it.
"""
