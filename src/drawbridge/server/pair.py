"""``drawbridge pair``: a code that connects one device, as text and as a QR code for its camera."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Final

import segno

from drawbridge.core.errors import NoServer
from drawbridge.core.terminal_text import Terminal
from drawbridge.server.auth import pairing
from drawbridge.server.auth.audit import Audit
from drawbridge.server.auth.devices import Devices
from drawbridge.server.tokens import Rights
from drawbridge.transport import running
from drawbridge.transport.running import Running

BLACK_ON_WHITE: Final = "\x1b[97;40m", "\x1b[0m"
"""Colours of the QR code, whatever the terminal's own are, so that cameras can read it; the light squares are drawn."""

ALONE: Final = (
    "The server listens on this machine only, so a phone can't reach it. A browser on this machine can use the code.",
    "For a phone, restart the server with --host 0.0.0.0 (or, behind a tunnel or VPN, with --public-host NAME),",
    "and pair again.",
)


def run(data: Path, name: str | None, rights: Rights) -> int:
    """``name``: the device's, None to let it choose. Raises ``NoServer`` if none runs; nothing is written then."""
    server = running.find(data)
    if server is None:
        raise NoServer(f"No server is running with the data in {data}. Start `drawbridge serve` first.")
    code = pairing.new_code(Devices(data), rights.scope, name, rights.projects, rights.lifetime)
    Audit(data).write("pairing_code_made", device=name, scope=rights.scope)
    _show(Terminal(sys.stdout), server, code, rights.scope)
    return 0


def link(server: Running, code: str) -> str:
    """The content of the QR code. The code is after the ``#``, which is not sent to a server and not logged."""
    fingerprint = f"&fp={server.fingerprint.replace(':', '').lower()}" if server.fingerprint else ""
    return f"{server.pages[0]}#pair={code.replace('-', '')}{fingerprint}"


def _show(terminal: Terminal, server: Running, code: str, scope: str) -> None:
    minutes = int(pairing.LIFETIME.total_seconds() // 60)
    lines = [f"For one device, with the scope {scope}; valid for {minutes} minutes.", ""]
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
        rows += [("to trust", f"{server.pages[0]}ca.crt: once it is installed, there are no more certificate warnings")]
    for name, text in rows:
        lines.append(
            f"  {terminal.paint(f'{name:<13}', 'dim')}{terminal.paint(text, 'path' if name == 'code' else 'context')}"
        )
    lines += [
        "",
        "`drawbridge token list` shows the device once it is paired; `drawbridge token revoke` revokes its token.",
        "",
    ]
    terminal.write("\n".join(lines))


def _picture(text: str, terminal: Terminal) -> list[str]:
    """Draws the code in half blocks, two squares per character."""
    drawn = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(drawn, compact=True)
    begin, end = BLACK_ON_WHITE if terminal.colour else ("", "")
    if not terminal.draws:
        return ["(This terminal can't show a QR code: type the code instead.)"]
    return [f"{begin}{line}{end}" for line in drawn.getvalue().splitlines()]
