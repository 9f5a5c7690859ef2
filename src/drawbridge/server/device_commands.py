"""The owner's commands for devices. ``drawbridge token`` creates, lists and revokes tokens, whether the server is
running or not. ``drawbridge pair`` shows a code that connects one device, as text and, if other machines can reach the
server, as a QR code for the device's camera.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import segno

from drawbridge.core.errors import BadArgument, NoServer
from drawbridge.core.own_command import own_command
from drawbridge.core.terminal_text import Terminal
from drawbridge.server.auth.audit import AuditLog
from drawbridge.server.auth.devices import CODE_LIFETIME, Device, Devices, new_code, paired_by, pairing_link
from drawbridge.server.auth.scopes import Scope
from drawbridge.transport import running
from drawbridge.transport.running import Running

UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Rights(NamedTuple):
    """The permissions of a device. ``projects``: the directories that it may use; None for all. ``lifetime``: how long
    its token is valid; None for no limit.
    """

    scope: Scope
    projects: list[str] | None = None
    lifetime: timedelta | None = None


def rights(scope: Scope, projects: Sequence[str], expires: str | None) -> Rights:
    """The permissions that the flags describe. Raises ``BadArgument`` if a directory or the lifetime is not valid."""
    found = []
    for given in projects:
        path = Path(given).expanduser()
        if not path.is_dir():
            raise BadArgument("--project", f"{given} is not a directory.")
        found.append(str(path.resolve()))
    return Rights(scope, found or None, _lifetime(expires))


def create(data: Path, name: str, given: Rights) -> int:
    """Creates a device and prints only its token on stdout, so that a script can read it. Like all commands in this
    module, returns the exit code. Raises the errors of ``Devices.add``.
    """
    device, token = Devices(data).add(name, given.scope, given.projects, given.lifetime)
    AuditLog(data).write("token_made", device=device.name, device_id=device.id, scope=device.scope)
    until = _moment(device.expires) if device.expires else "it is revoked"
    where = f", only for projects in {', '.join(device.projects)}" if device.projects else ""
    _say(f"{device.name} ({device.id}) has the {device.scope} scope{where}.")
    _say(f"Its token is valid until {until}, and is shown only once:")
    Terminal(sys.stdout).write(f"{token}\n")
    return 0


def revoke(data: Path, which: str) -> int:
    """Revokes the token of a device, and names the devices that it paired, because they keep their access. ``which``:
    its name or ID. Raises the errors of ``Devices.revoke``."""
    devices = Devices(data)
    device = devices.revoke(which)
    AuditLog(data).write("token_revoked", device=device.name, device_id=device.id)
    _say(
        f"The token of {device.name} ({device.id}) was revoked. If the device is connected, it will be disconnected "
        "within 5 seconds."
    )
    paired = paired_by(devices, device.id)
    if paired:
        _say(f"Devices that it paired still have access: {', '.join(map(_named, paired))}. To revoke their tokens:")
    for one in paired:
        _say(f"  {own_command()} token revoke {one.id}")
    return 0


def _lifetime(given: str | None) -> timedelta | None:
    if given is None:
        return None
    parts = re.fullmatch(r"([1-9][0-9]{0,4})([mhdw])", given)
    if parts is None:
        raise BadArgument(
            "--expires", f"must be a number from 1 to 99999 followed by m, h, d or w, such as 30d, not {given}."
        )
    return timedelta(**{UNITS[parts[2]]: int(parts[1])})


def show(data: Path, *, as_json: bool) -> int:
    """Lists the devices, as a table or as a JSON array."""
    devices = Devices(data)
    now = datetime.now(UTC)
    terminal = Terminal(sys.stdout)
    if as_json:
        terminal.write(json.dumps([_shown(device, now) for device in devices], indent=1) + "\n")
        return 0
    rows: list[tuple[str, ...]] = [("NAME", "ID", "SCOPE", "STATE", "LAST USED", "EXPIRES", "PAIRED BY", "PROJECTS")]
    known = {device.id: device for device in devices}
    for device in known.values():
        projects = ", ".join(device.projects) if device.projects else "all"
        times = [_moment(moment) if moment else "never" for moment in (device.last_used, device.expires)]
        if device.made_by is None:
            maker = "owner"
        else:
            # The key of an SSH client and a device that is no longer in the list have no name.
            maker = _named(known[device.made_by]) if device.made_by in known else device.made_by
        rows.append((device.name, device.id, device.scope, device.state(now), *times, maker, projects))
    if len(rows) == 1:
        _say(f"No device has a token. `{own_command()} token new NAME` creates one.")
        return 0
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for index, row in enumerate(rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        terminal.write(terminal.plain(line, "dim" if index == 0 else "context") + "\n")
    return 0


def _named(device: Device) -> str:
    return f"{device.name} ({device.id})"


def _shown(device: Device, now: datetime) -> dict[str, Any]:
    times = {name: getattr(device, name) for name in ("created", "last_used", "expires", "revoked")}
    return {
        "id": device.id,
        "name": device.name,
        "scope": device.scope,
        "projects": list(device.projects) if device.projects else None,
        **{name: moment.isoformat().replace("+00:00", "Z") if moment else None for name, moment in times.items()},
        "state": device.state(now),
        "made_by": device.made_by,
    }


def _moment(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _say(text: str) -> None:
    terminal = Terminal(sys.stderr)
    terminal.write(terminal.plain(text) + "\n")


BLACK_ON_WHITE: Final = "\x1b[97;40m", "\x1b[0m"
"""The escape sequences that set and reset the colors of the QR code, so that cameras can read it in any terminal. Its
light squares are drawn in the foreground color."""

LIMITS: Final[Mapping[str, str]] = {
    "run": "The device can use projects, but not add or remove them: for that, pair it with --scope admin.",
    "approve": (
        "The device can answer requests and stop runs, but not send prompts: for that, pair it with --scope run."
    ),
    "view": "The device can only watch.",
}
"""Maps each limited scope to a sentence about what a device with this scope can and can't do."""

ALONE: Final = (
    "The server listens on this machine only, so a phone can't reach it. A browser on this machine can use the code.",
    "For a phone, restart the server with --host 0.0.0.0 (or, behind a tunnel or a proxy, with --public-host NAME),",
    "and pair again.",
)


def pair(data: Path, name: str | None, rights: Rights) -> int:
    """Creates a pairing code and shows it. ``name``: the device's name; None lets the device choose it. Raises
    ``NoServer``, before anything is written, if no server is running, and the errors of ``new_code``.
    """
    server = running.find(data)
    if server is None:
        raise NoServer(f"No server is running with the data in {data}. Start `{own_command()} serve` first.")
    code = new_code(Devices(data), rights.scope, name, rights.projects, rights.lifetime)
    AuditLog(data).write("pairing_code_made", device=name, scope=rights.scope)
    _show_code(Terminal(sys.stdout), server, code, rights.scope)
    return 0


def link(server: Running, code: str) -> str:
    """The link that the QR code contains."""
    return pairing_link(server.pages[0], code, server.fingerprint)


def _show_code(terminal: Terminal, server: Running, code: str, scope: str) -> None:
    minutes = int(CODE_LIFETIME.total_seconds() // 60)
    lines = [f"Valid for one device and {minutes} minutes, with the {scope} scope."]
    lines += [*([LIMITS[scope]] if scope in LIMITS else []), ""]
    if server.loopback:
        lines += [*ALONE, ""]
    else:
        lines += [*_picture(link(server, code), terminal), ""]
    rows = [("code", code), *(("address" if index == 0 else "", page) for index, page in enumerate(server.pages))]
    if server.fingerprint:
        middle = len(server.fingerprint) // 2
        rows += [("certificate", "SHA-256; compare it when the device asks")]
        rows += [("", server.fingerprint[:middle]), ("", server.fingerprint[middle + 1 :])]
    if server.authority and not server.loopback:
        rows += [("to trust", f"{server.pages[0]}ca.crt: install it to remove certificate warnings")]
    for name, text in rows:
        lines.append(
            f"  {terminal.paint(f'{name:<13}', 'dim')}{terminal.paint(text, 'path' if name == 'code' else 'context')}"
        )
    lines += [
        "",
        f"`{own_command()} token list` shows the device once it is paired; `{own_command()} token revoke` revokes its token.",
        "",
    ]
    terminal.write("\n".join(lines))


def _picture(text: str, terminal: Terminal) -> list[str]:
    """``text`` as a QR code in half blocks, two squares per character; a hint if the terminal can't show it."""
    drawn = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(drawn, compact=True)
    begin, end = BLACK_ON_WHITE if terminal.color else ("", "")
    if not terminal.draws:
        return ["(A QR code can't be shown in the encoding of the output. Type the code instead.)"]
    return [f"{begin}{line}{end}" for line in drawn.getvalue().splitlines()]
