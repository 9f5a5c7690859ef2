"""The addresses by which a server is reached: for its certificate, for its output, for a device that is to be paired."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

import psutil

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104


def of_this_machine() -> set[Address]:
    """All addresses that this machine has now."""
    found = set()
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family in (socket.AF_INET, socket.AF_INET6):
                found.add(ipaddress.ip_address(one.address.partition("%")[0]))
    return found


def served(host: str, public: Sequence[str]) -> tuple[str, ...]:
    """Names and addresses for other machines: the public ones first, then those that it listens on; () on loopback alone."""
    if host not in EVERYWHERE:
        own: tuple[str, ...] = () if is_loopback(host) else (host,)
    else:
        reachable = [one for one in of_this_machine() if not (one.is_loopback or one.is_link_local)]
        if host == EVERYWHERE[0]:
            reachable = [one for one in reachable if one.version == 4]
        own = tuple(str(one) for one in sorted(reachable, key=lambda one: (not one.is_private, one.version, int(one))))
    return tuple(dict.fromkeys([*public, *own]))


def is_loopback(host: str) -> bool:
    """Whether ``host`` is a loopback address: a server there is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def bracketed(host: str) -> str:
    """The address as written in a URL."""
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
