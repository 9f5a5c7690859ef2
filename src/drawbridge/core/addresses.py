"""Decides which addresses count as the same peer. Does no I/O."""

from __future__ import annotations

import ipaddress


def unmapped(address: str) -> str:
    """The IPv4 address of a peer that a socket for both IPv4 and IPv6 reports as an IPv6 address (``::ffff:192.0.2.7``).
    Any other text is returned unchanged."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return address if mapped is None else str(mapped)


def network_of(address: str) -> str:
    """The key of an address: an IPv4 address, or the /64 network that one IPv6 peer controls. Text that is not an
    address is returned unchanged."""
    try:
        found = ipaddress.ip_address(unmapped(address))
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
