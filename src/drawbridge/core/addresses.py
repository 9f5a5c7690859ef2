"""Decides which addresses count as the same peer. Does no I/O."""

from __future__ import annotations

import ipaddress


def place(address: str) -> str:
    """The key of an address: an IPv4 address, or the /64 network that one IPv6 peer controls. Text that is not an
    address is returned unchanged."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
