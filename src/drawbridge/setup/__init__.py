"""``drawbridge setup``: connects Drawbridge to agents, editors and the service manager, and removes exactly what it
added.

Agents read JSON files that belong to the user. ``jsonc`` edits the text of these files in place, ``hooks`` determines
what to edit, and ``files`` writes them. The guard that the agents then call is a separate copy (``installed``), so that
it outlives the environment from which Drawbridge was run. Unless ``--json`` is given, nothing is written before
``command`` has shown it.
"""
