"""``drawbridge attach``: a server's projects, conversations and approval requests in a terminal.

It is a client like any other: it relies on docs/protocols/client.md and uses none of the server's own modules.
"""
