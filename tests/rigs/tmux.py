"""Runs real programs in real terminals: types keys into the panes of a private tmux server, and reads their screens."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tests import programs
from tests.waiting import PATIENCE

T = TypeVar("T")

TERMINAL = {"TERM": "tmux-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "SHELL": "/bin/sh"}
"""The environment variables that a program in a terminal can rely on."""

OPTIONS = """
set -g default-terminal tmux-256color
set -g escape-time 0
# The last screen of a program that has ended stays: a failed test shows it.
set -g remain-on-exit on
"""

POLL = 0.05
"""Seconds between two checks in ``wait_until``."""


class Pane:
    """One program in its own terminal. ``id`` is tmux's ID of the pane (``%3``), ``pid`` the program's process ID."""

    def __init__(self, tmux: Tmux, pane_id: str, pid: int, name: str) -> None:
        self._tmux = tmux
        self.id = pane_id
        self.pid = pid
        self.name = name

    @property
    def screen(self) -> str:
        return self._tmux.run("capture-pane", "-p", "-t", self.id)

    @property
    def colored(self) -> str:
        """The screen with the escape sequences of its colors, and with trailing blanks."""
        return self._tmux.run("capture-pane", "-p", "-e", "-N", "-t", self.id)

    @property
    def framed(self) -> str:
        """The screen in a frame, for the message of a failed test."""
        lines = (f"│ {line}" for line in self.screen.rstrip().splitlines())
        return "\n".join(["┌" + "─" * 78, *lines, "└" + "─" * 78])

    def type(self, words: str) -> None:
        """Types ``words`` literally. tmux does not interpret key names in them."""
        self._tmux.run("send-keys", "-t", self.id, "-l", "--", words)

    def press(self, *keys: str) -> None:
        """Presses keys by their tmux names: ``Enter``, ``Escape``, ``C-c``. Each is sent separately, since Escape would
        otherwise become Meta.
        """
        for key in keys:
            self._tmux.run("send-keys", "-t", self.id, key)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux.run("resize-window", "-t", self.id, "-x", str(columns), "-y", str(rows))

    def kill(self) -> None:
        """Kills the program without giving it a chance to clean up."""
        os.kill(self.pid, signal.SIGKILL)

    def wait_for(self, *patterns: str, timeout: float = PATIENCE) -> str:
        """Waits until the screen matches all the regular expressions, and returns it. ``timeout`` is in seconds."""

        def matching() -> str | None:
            screen = self.screen
            return screen if all(re.search(pattern, screen) for pattern in patterns) else None

        return self._wait(matching, f"never showed {' and '.join(map(repr, patterns))}", timeout)

    def wait_until_gone(self, pattern: str, *, timeout: float = PATIENCE) -> str:
        """Waits until the regular expression matches nowhere on the screen, and returns the screen. ``timeout`` is in
        seconds.
        """

        def without() -> str | None:
            screen = self.screen
            return None if re.search(pattern, screen) else screen

        return self._wait(without, f"still shows {pattern!r}", timeout)

    def wait_for_exit(self, *, timeout: float = PATIENCE) -> int:
        """Waits until the program has exited on its own, and returns its exit code. ``timeout`` is in seconds."""

        def ended() -> str | None:
            # tmux 3.3a sometimes misses that a child has ended, until another child ends, so each check starts one.
            # Nothing waits for that child, because tmux may miss its end, too.
            self._tmux.run("run-shell", "-b", "true")
            dead, status = self._tmux.run(
                "display-message", "-p", "-t", self.id, "#{pane_dead} #{pane_dead_status}"
            ).split(" ")
            return status.strip() or None if dead == "1" else None

        return int(self._wait(ended, "did not end", timeout))

    def _wait(self, read: Callable[[], str | None], complaint: str, timeout: float) -> str:
        try:
            return wait_until(read, timeout=timeout)
        except TimeoutError:
            raise AssertionError(f"{self.name} {complaint} in {timeout} s:\n{self.framed}") from None


class Tmux:
    """A private tmux server with its own socket. The server and all its programs end when the context exits."""

    def __init__(self, folder: Path, *, columns: int, rows: int) -> None:
        self.panes: list[Pane] = []
        self._socket = folder / "socket"
        self._options = folder / "tmux.conf"
        self._options.write_text(OPTIONS)
        self._size = ("-x", str(columns), "-y", str(rows))

    @classmethod
    @contextlib.contextmanager
    def server(cls, *, columns: int = 110, rows: int = 40) -> Iterator[Tmux]:
        programs.tmux()
        # Not in pytest's temporary directory, because the path of a socket must be shorter than 108 bytes.
        with tempfile.TemporaryDirectory(prefix="db-tmux-") as folder:
            tmux = cls(Path(folder), columns=columns, rows=rows)
            try:
                yield tmux
            finally:
                with contextlib.suppress(subprocess.CalledProcessError):
                    tmux.run("kill-server")

    def run(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-S", str(self._socket), "-f", str(self._options), *arguments]
        environment = TERMINAL | {"PATH": os.environ["PATH"], "HOME": str(self._socket.parent)}
        return subprocess.run(
            command, env=environment, check=True, text=True, capture_output=True, timeout=PATIENCE
        ).stdout

    def start(self, name: str, command: list[str], *, cwd: Path, environment: Mapping[str, str]) -> Pane:
        """Runs a program in its own terminal, with only the variables in ``environment`` and ``TERMINAL``."""
        settings = [f"{key}={value}" for key, value in (TERMINAL | dict(environment)).items()]
        line = "exec " + shlex.join(["env", "-i", *settings, *command])
        report = ("-P", "-F", "#{pane_id} #{pane_pid}")
        pane_id, pid = self.run("new-session", "-d", *self._size, "-c", str(cwd), *report, line).split()
        self.panes.append(Pane(self, pane_id, int(pid), name))
        return self.panes[-1]


def wait_until(read: Callable[[], T | None], *, timeout: float = PATIENCE) -> T:
    """Calls ``read`` until it returns something other than None, and returns that value. Raises TimeoutError after
    ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while (found := read()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(POLL)
    return found
