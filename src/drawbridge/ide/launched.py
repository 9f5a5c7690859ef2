"""The first part of a bridge: a listening socket, and the discovery files. Loads in milliseconds."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Final

from drawbridge.agents import catalog
from drawbridge.core.errors import BadSetting, NoPort, NotPrivate
from drawbridge.ide.discovery import (
    DiscoveryFile,
    GeminiFile,
    LockFile,
    folders_with_separator,
    gemini_directory,
    lock_directory,
)
from drawbridge.settings.ide import IdeSettings

PORTS: Final = range(10_000, 65_536)
"""The range from which a free port is chosen (CON-02 of the connection specification)."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that end a bridge cleanly."""

SEPARATOR_IN_FOLDER: Final = (
    'Gemini CLI can\'t find the editor from {}: it reads the ":" in the path as a separator between two folders. '
    "Rename the folder."
)

TOKEN_LENGTH: Final = 32
"""The minimum number of characters in ``DRAWBRIDGE_TOKEN``."""


class Launched:
    """A listening socket, the discovery files on disk, and the settings."""

    def __init__(self, settings: IdeSettings) -> None:
        self.settings = settings
        self.token = _token()
        self.listener = listen(settings.port)
        self.port: int = self.listener.getsockname()[1]
        self.is_ending = False
        """Whether a signal has arrived that has not been acted on yet."""
        self.files: dict[str, DiscoveryFile] = {}
        ways = {catalog.AGENTS[name].bridge for name in settings.agent}
        if catalog.WEBSOCKET in ways:
            self.files["lock_file"] = LockFile(lock_directory(), self.port, self.token)
        if catalog.HTTP in ways:
            self.files["discovery_file"] = GeminiFile(gemini_directory(), self.port, self.token)

    def write_files(self, editor_pid: int, ide_name: str, folders: Sequence[str]) -> list[str]:
        """Writes every agent's discovery file, and returns the problems that the user should know about.

        Gemini's file is in a directory that all users of a machine share and another user may own, which must not
        prevent Claude from connecting. Raises ``NotPrivate`` if Claude's file, or all of them, could not be written.
        """
        problems = {}
        for name, file in self.files.items():
            try:
                file.write(editor_pid, ide_name, folders)
            except NotPrivate as error:
                problems[name] = str(error)
        if "lock_file" in problems or len(problems) == len(self.files):
            raise NotPrivate(" ".join(problems.values()))
        unusable = folders_with_separator(folders) if "discovery_file" in self.files else []
        return [*problems.values(), *(SEPARATOR_IN_FOLDER.format(folder) for folder in unusable)]

    def end(self) -> None:
        """Ends the bridge at the next step of its launch. Called by a signal handler."""
        self.is_ending = True

    def remove_files(self) -> None:
        for file in self.files.values():
            file.remove()

    def announce(self) -> None:
        """Prints the ready line: on stdout, or on stderr if stdout carries RPC. Prints nothing if the folder editor
        runs in a terminal, where text for the user follows (unless JSON was requested)."""
        paths = {name: file.path for name, file in self.files.items() if file.path}
        line = {"event": "ready", "port": self.port, "pid": os.getpid(), **paths}
        if self.settings.folder is not None and sys.stdout.isatty() and not self.settings.json:
            return  # text for the user follows
        print(json.dumps(line), file=sys.stderr if self.settings.nvim == "stdio" else sys.stdout, flush=True)


def listen(wanted: int | None) -> socket.socket:
    """A socket that listens on 127.0.0.1: on ``wanted`` or the next free port, or, without ``wanted``, on a random free
    port in ``PORTS``. Raises ``NoPort`` if none is free."""
    first = wanted or PORTS[int.from_bytes(os.urandom(4), "big") % len(PORTS)]
    after = [port for port in PORTS if port > first]
    before = [port for port in PORTS if port < first]
    for port in [first, *after, *before]:
        listener = socket.socket()
        try:
            if os.name == "posix":
                # A restarted bridge can reuse its port while old connections are closing. A port in use is still
                # refused.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(128)
        except OSError:
            listener.close()
            continue
        listener.setblocking(False)
        return listener
    raise NoPort("No port on 127.0.0.1 between 10000 and 65535 is free. Stop a program that uses one, then try again.")


def _token() -> str:
    """Removes ``DRAWBRIDGE_TOKEN``, with which an editor restarts its bridge, from the environment and returns it; a
    random UUID if it is not set (AUTH-03). Raises ``BadSetting`` if the given token is not valid."""
    given = os.environ.pop("DRAWBRIDGE_TOKEN", None)
    if given is None:
        import uuid

        return str(uuid.uuid4())
    if len(given) < TOKEN_LENGTH or not all(33 <= ord(character) < 127 for character in given):
        raise BadSetting(f"DRAWBRIDGE_TOKEN must be at least {TOKEN_LENGTH} visible ASCII characters long.")
    return given
