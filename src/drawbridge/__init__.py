"""Drawbridge is the layer between coding agents and your files. You decide which changes get through.

Each part has its own folder (``ide``, ``guard``, ``server``, ``tui``, and folders for commands, such as ``setup``);
``agents``, ``core``, ``editors``, ``protocols``, ``settings``, ``text`` and ``transport`` are shared. Nothing is
imported here, because each command loads only what it needs.
"""
