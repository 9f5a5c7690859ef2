"""Protocols without I/O: bytes or messages in, events and bytes out. No asyncio, socket, subprocess or ssl here."""
