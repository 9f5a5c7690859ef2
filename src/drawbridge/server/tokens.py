"""``drawbridge token``: a device's token is made, listed, revoked; with a server that runs or without one."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from drawbridge.core.errors import BadArgument
from drawbridge.core.terminal_text import Terminal
from drawbridge.server.auth.audit import Audit
from drawbridge.server.auth.devices import Device, Devices

UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def run(chosen: argparse.Namespace, data: Path) -> int:
    devices = Devices(data)
    if chosen.target == "new":
        return _new(devices, chosen, Audit(data))
    if chosen.target == "revoke":
        device = devices.revoke(chosen.name)
        Audit(data).write("token_revoked", device=device.name, device_id=device.id)
        _say(
            f"{device.name} ({device.id}) has no token any more; where it is connected it is cut off within 5 seconds."
        )
        return 0
    return _list(devices, as_json=chosen.json)


def rights(chosen: argparse.Namespace) -> Mapping[str, Any]:
    """``scope``, ``projects`` and ``lifetime`` as ``Devices.add`` takes them. Raises ``BadArgument``."""
    found = []
    for given in chosen.project:
        path = Path(given).expanduser()
        if not path.is_dir():
            raise BadArgument("--project", f"{given} is no directory. Nothing was changed.")
        found.append(str(path.resolve()))
    return {"scope": chosen.scope, "projects": found or None, "lifetime": _lifetime(chosen.expires)}


def _lifetime(given: str | None) -> timedelta | None:
    if given is None:
        return None
    parts = re.fullmatch(r"([1-9][0-9]{0,4})([mhdw])", given)
    if parts is None:
        raise BadArgument("--expires", f"must be a number with m, h, d or w behind it, as 30d, not {given}.")
    return timedelta(**{UNITS[parts[2]]: int(parts[1])})


def _new(devices: Devices, chosen: argparse.Namespace, audit: Audit) -> int:
    """The token alone goes to stdout, so that a script can take it."""
    device, token = devices.add(chosen.name, **rights(chosen))
    audit.write("token_made", device=device.name, device_id=device.id, scope=device.scope)
    until = f"until {_moment(device.expires)}" if device.expires else "until it is revoked"
    where = f" in {', '.join(device.projects)}" if device.projects else ""
    _say(f"{device.name} ({device.id}) may {device.scope}{where}, {until}. Its token, which is shown this once:")
    Terminal(sys.stdout).write(f"{token}\n")
    return 0


def _list(devices: Devices, *, as_json: bool) -> int:
    now = datetime.now(UTC)
    terminal = Terminal(sys.stdout)
    if as_json:
        terminal.write(json.dumps([_shown(device, now) for device in devices], indent=1) + "\n")
        return 0
    rows: list[tuple[str, ...]] = [("NAME", "ID", "SCOPE", "STANDING", "LAST USED", "EXPIRES", "PROJECTS")]
    for device in devices:
        projects = ", ".join(device.projects) if device.projects else "all"
        times = [_moment(moment) if moment else "never" for moment in (device.last_used, device.expires)]
        rows.append((device.name, device.id, device.scope, device.standing(now), *times, projects))
    if len(rows) == 1:
        _say("No device has a token. `drawbridge token new NAME` makes one.")
        return 0
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for index, row in enumerate(rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        terminal.write(terminal.plain(line, "dim" if index == 0 else "context") + "\n")
    return 0


def _shown(device: Device, now: datetime) -> dict[str, Any]:
    times = {name: getattr(device, name) for name in ("created", "last_used", "expires", "revoked")}
    return {
        "id": device.id,
        "name": device.name,
        "scope": device.scope,
        "projects": list(device.projects) if device.projects else None,
        **{name: moment.isoformat().replace("+00:00", "Z") if moment else None for name, moment in times.items()},
        "standing": device.standing(now),
    }


def _moment(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _say(text: str) -> None:
    terminal = Terminal(sys.stderr)
    terminal.write(terminal.plain(text) + "\n")
