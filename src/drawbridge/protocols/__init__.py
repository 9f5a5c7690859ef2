"""Protocols without I/O: bytes or messages in, events and bytes out. These modules do not import asyncio, socket,
subprocess or ssl."""
