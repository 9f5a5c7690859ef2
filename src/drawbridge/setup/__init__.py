"""``drawbridge setup``: Drawbridge is made known to agents and editors, and that is taken back exactly.

Agents read JSON files that are the person's; ``jsonc`` edits those texts in place, ``hooks`` says what to edit, ``files``
writes. The guard that they then call is a copy of its own (``installed``), so that it outlives the environment that
Drawbridge was run from. Nothing is written before ``command`` has shown it.
"""
