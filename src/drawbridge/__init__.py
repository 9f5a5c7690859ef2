"""Drawbridge stands between coding agents and your files, and lets you decide who crosses.

One folder a job (``ide``; later ``guard`` and ``server``) over one shared floor (``wire``, ``editors``). Nothing is
imported here: each command loads only what it needs.
"""
