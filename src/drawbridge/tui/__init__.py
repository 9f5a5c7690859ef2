"""``drawbridge attach``: a server's projects, conversations and questions in a terminal.

A client like any other: it knows docs/protocols/client.md and nothing of the server's own modules.
"""
