"""What a bridge starts from: a socket that listens, and the files by which agents find it. Loads in milliseconds."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final

from drawbridge.core.errors import BadSetting, NoPort, NotPrivate
from drawbridge.ide.discovery import (
    DiscoveryFile,
    GeminiFile,
    LockFile,
    folders_with_separator,
    gemini_directory,
    lock_directory,
)

PORTS: Final = range(10_000, 65_536)
"""The range of ports (CON-02 of the connection spec)."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that end a bridge in good order."""

SEPARATOR_IN_FOLDER: Final = (
    'Gemini CLI cannot find the editor from {}: it takes the ":" in the name for the end of a folder.'
)

TOKEN_LENGTH: Final = 32
"""The fewest characters of a token in ``DRAWBRIDGE_TOKEN``."""


class Launched:
    """What the bridge starts from: a listening socket, a lock file on disk, the settings."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.token = _token()
        self.listener = listen(values["port"])
        self.port: int = self.listener.getsockname()[1]
        self.files: dict[str, DiscoveryFile] = {}
        if "claude" in values["agent"]:
            self.files["lock_file"] = LockFile(lock_directory(), self.port, self.token)
        if "gemini" in values["agent"]:
            self.files["discovery_file"] = GeminiFile(gemini_directory(), self.port, self.token)

    def write_files(self, editor_pid: int, ide_name: str, folders: Sequence[str]) -> list[str]:
        """Writes every agent's discovery file. Returns the problems that the person should know.

        Gemini's directory is shared by all users of a machine and may belong to another one: then Claude can still connect.
        Raises ``NotPrivate`` where Claude's file, or none at all, can be written.
        """
        problems = {}
        for name, file in self.files.items():
            try:
                file.write(editor_pid, ide_name, folders)
            except NotPrivate as error:
                problems[name] = str(error)
        if "lock_file" in problems or len(problems) == len(self.files):
            raise NotPrivate(" ".join(problems.values()))
        unsayable = folders_with_separator(folders) if "discovery_file" in self.files else []
        return [*problems.values(), *(SEPARATOR_IN_FOLDER.format(folder) for folder in unsayable)]

    def remove_files(self) -> None:
        for file in self.files.values():
            file.remove()

    def announce(self) -> None:
        """The ready line: stdout, or stderr where stdout carries RPC."""
        paths = {name: file.path for name, file in self.files.items() if file.path}
        line = {"event": "ready", "port": self.port, "pid": os.getpid(), **paths}
        if self.values["folder"] is not None and sys.stdout.isatty() and not self.values["json"]:
            return  # a person reads the messages that follow
        print(json.dumps(line), file=sys.stderr if self.values["nvim"] == "stdio" else sys.stdout, flush=True)


def listen(wanted: int | None) -> socket.socket:
    """A socket that listens on 127.0.0.1: on ``wanted`` or the next free port, else on a random free one of ``PORTS``."""
    first = wanted or PORTS[int.from_bytes(os.urandom(4), "big") % len(PORTS)]
    after = [port for port in PORTS if port > first]
    before = [port for port in PORTS if port < first]
    for port in [first, *after, *before]:
        listener = socket.socket()
        try:
            if os.name == "posix":
                # A restarted bridge can use its port again while old connections linger; a port in use is still refused.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(128)
        except OSError:
            listener.close()
            continue
        listener.setblocking(False)
        return listener
    raise NoPort("No port of 127.0.0.1 between 10000 and 65535 is free. Stop a program that uses one, then try again.")


def _token() -> str:
    """A random UUID for each session (AUTH-03), or the token of the same editor session before a restart."""
    given = os.environ.pop("DRAWBRIDGE_TOKEN", None)
    if given is None:
        import uuid

        return str(uuid.uuid4())
    if len(given) < TOKEN_LENGTH or not all(33 <= ord(character) < 127 for character in given):
        raise BadSetting(f"DRAWBRIDGE_TOKEN must be {TOKEN_LENGTH} or more visible ASCII characters.")
    return given
