"""One-time codes: a person types or scans the code with a device, and the server gives that device a token for it.

A code is short, and valid for ten minutes and one device. Guesses are limited (``rate_limits``), so 40 bits are enough.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from drawbridge.core.errors import BadArgument
from drawbridge.server.auth import devices as store
from drawbridge.server.auth.devices import Code, Device, Devices, File, hashed, is_name, same
from drawbridge.server.auth.scopes import Scope
from drawbridge.server.protocol.client_errors import ClientError

LIFETIME: Final = timedelta(minutes=10)

REMEMBERED: Final = timedelta(days=1)
"""How long a code is remembered, to report that it was used or has expired."""

LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without characters that people confuse with each other."""

LENGTH: Final = 8

UNNAMED: Final = "device"


def new_code(
    devices: Devices,
    scope: Scope,
    name: str | None = None,
    projects: Sequence[str] | None = None,
    lifetime: timedelta | None = None,
) -> str:
    """Creates a code for a device of this name (None: the device chooses). Raises ``BadArgument`` if the name is not valid."""
    if name is not None and not is_name(name):
        raise BadArgument("--name", "must be 1 to 60 printable characters. Nothing was changed.")
    code = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
    now = store.now()
    with devices.changed() as file:
        file.codes = [one for one in file.codes if now - one.until < REMEMBERED]
        seconds = lifetime.total_seconds() if lifetime else None
        until = now + LIFETIME
        file.codes.append(
            Code(
                hash=hashed(code),
                scope=scope,
                until=until,
                name=name,
                projects=tuple(projects) if projects else None,
                lifetime=seconds,
            )
        )
    return f"{code[:4]}-{code[4:]}"


def redeem(devices: Devices, given: str, name: str | None) -> tuple[Device, str]:
    """Turns a code into a device. Returns the device and its token. Raises ``ClientError``; the code is unchanged then.

    Called on the server's event loop, so it does not wait long for another process.
    """
    if name is not None and not is_name(name):
        raise ClientError("VALIDATION_FAILED", "name: it must be 1 to 60 printable characters.", "data.name")
    with devices.changed(patience=0.5) as file:
        place, code = _found(file, hashed(given.upper().replace("-", "").replace(" ", "")))
        lifetime = timedelta(seconds=code.lifetime) if code.lifetime is not None else None
        file.codes[place] = msgspec.structs.replace(code, used=True)
        return store.added(file, _free(file, code.name or name or UNNAMED), code.scope, code.projects, lifetime)


def _found(file: File, given: str) -> tuple[int, Code]:
    """Compares with all codes, so that the time reveals nothing."""
    hits = [(place, code) for place, code in enumerate(file.codes) if same(given, code.hash)]
    if not hits:
        raise ClientError(
            "PAIRING_WRONG",
            "The pairing code is not valid. Nothing was done. Check the code and try again.",
            "data.code",
        )
    if hits[0][1].used:
        raise ClientError("PAIRING_USED", "This code has already been used. Ask the owner for a new one.", "data.code")
    if hits[0][1].until <= store.now():
        raise ClientError("PAIRING_EXPIRED", "This code has expired. Ask the owner for a new one.", "data.code")
    return hits[0]


def _free(file: File, name: str) -> str:
    """The name, with a number appended if another device has it."""
    taken = store.valid_names(file)
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name[:56].rstrip()} {number}"
    return found
