"""Drawbridge stands between coding agents and your files, and lets you decide who crosses.

Each job has its own folder (``ide``, ``guard``, ``server``, ``tui``); ``core``, ``protocols``, ``transport`` and
``editors`` are shared. Nothing is imported here: each command loads only what it needs.
"""
