"""What a bridge starts from: it listens, and agents find it. Loaded first: it is there in milliseconds."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final

from drawbridge.agents import catalog
from drawbridge.core.errors import BadSetting, NoPort, NotPrivate
from drawbridge.ide.discovery import (
    DiscoveryFile,
    GeminiFile,
    LockFile,
    gemini_directory,
    lock_directory,
    unsayable_folders,
)

PORTS: Final = range(10_000, 65_536)
"""Where a free port is looked for (CON-02 of the connection spec)."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Those that end a bridge in good order."""

UNSAYABLE: Final = 'Gemini CLI does not find the editor from {}: to it a ":" in the name begins another folder.'

TOKEN_LENGTH: Final = 32
"""Least characters of a token that is handed over by ``DRAWBRIDGE_TOKEN``."""


class Launched:
    """What the bridge starts from: a listening socket, a lock file on disk, the settings."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.token = _token()
        self.listener = listen(values["port"])
        self.port: int = self.listener.getsockname()[1]
        self.files: dict[str, DiscoveryFile] = {}
        ways = {catalog.AGENTS[name].bridge for name in values["agent"]}
        if catalog.WEBSOCKET in ways:
            self.files["lock_file"] = LockFile(lock_directory(), self.port, self.token)
        if catalog.HTTP in ways:
            self.files["discovery_file"] = GeminiFile(gemini_directory(), self.port, self.token)

    def write_files(self, editor_pid: int, ide_name: str, folders: Sequence[str]) -> list[str]:
        """Every agent's discovery file; what people must know of one that could not be written.

        Gemini's lies where all users of a machine have theirs, and the place may be somebody else's: that must not keep
        Claude away. Without Claude's, or without any, ``NotPrivate`` is raised.
        """
        problems = {}
        for name, file in self.files.items():
            try:
                file.write(editor_pid, ide_name, folders)
            except NotPrivate as error:
                problems[name] = str(error)
        if "lock_file" in problems or len(problems) == len(self.files):
            raise NotPrivate(" ".join(problems.values()))
        unsayable = unsayable_folders(folders) if "discovery_file" in self.files else []
        return [*problems.values(), *(UNSAYABLE.format(folder) for folder in unsayable)]

    def remove_files(self) -> None:
        for file in self.files.values():
            file.remove()

    def announce(self) -> None:
        """The ready line: stdout, or stderr where stdout carries RPC."""
        paths = {name: file.path for name, file in self.files.items() if file.path}
        line = {"event": "ready", "port": self.port, "pid": os.getpid(), **paths}
        if self.values["folder"] is not None and sys.stdout.isatty() and not self.values["json"]:
            return  # a person reads the words that follow
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
                # A restarted bridge takes its old port while old connections linger; a living listener still wins.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(128)
        except OSError:
            listener.close()
            continue
        listener.setblocking(False)
        return listener
    raise NoPort("No port of 127.0.0.1 between 10000 and 65535 is free. Nothing was started; end what holds them.")


def _token() -> str:
    """A new one for each session (AUTH-03), a random UUID; or the one that the editor's session had before."""
    given = os.environ.pop("DRAWBRIDGE_TOKEN", None)
    if given is None:
        import uuid

        return str(uuid.uuid4())
    if len(given) < TOKEN_LENGTH or not all(33 <= ord(character) < 127 for character in given):
        raise BadSetting(f"DRAWBRIDGE_TOKEN must be {TOKEN_LENGTH} or more visible ASCII characters.")
    return given
