"""Drawbridge stands between coding agents and your files, and lets you decide who crosses.

One folder a job (``ide``, ``guard``, ``server``, ``tui``) over a shared floor (``core``, ``protocols``, ``transport``,
``editors``). Nothing is imported here: each command loads only what it needs.
"""
