"""Drawbridge stands between coding agents and your files, and lets you decide who crosses.

Each job has its own folder (``ide``, ``guard``, ``server``, ``tui``, and those of commands, such as ``setup``);
``agents``, ``core``, ``editors``, ``protocols``, ``settings``, ``text`` and ``transport`` are shared. Nothing is
imported here: each command loads only what it needs.
"""
