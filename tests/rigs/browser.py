"""A headless Chromium that a Node.js script controls. Each command is one line of JSON, and so is its answer.

Each answer contains the ``id`` of its command. A test that times out in the middle of a command leaves an unread answer
behind, which must not be taken for the answer to the next command.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests import programs

ENDING = 10.0
"""Seconds that the script and the browser have to exit before they are killed."""


class BrowserProcess:
    """Runs ``script`` until ``close`` is called. ``whole`` is passed to ``programs.chromium``. ``environment`` is added
    to the test's environment.
    """

    def __init__(self, script: Path, *, whole: bool = True, **environment: str) -> None:
        environment |= {
            "DRAWBRIDGE_TEST_PLAYWRIGHT": str(programs.playwright()),
            "DRAWBRIDGE_TEST_CHROMIUM": str(programs.chromium(whole=whole)),
        }
        self._process = subprocess.Popen(
            [str(programs.node()), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | environment,
            start_new_session=True,
        )
        self._ids = itertools.count(1)
        assert self._receive() == {"ready": True}

    def send(self, **command: Any) -> Any:
        """Sends one command to the script and returns its result."""
        number = self.begin(**command)
        while (answer := self._receive())["id"] != number:
            pass
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def begin(self, **command: Any) -> int:
        """Sends a command without waiting for its answer. Returns the command's ``id``."""
        number = next(self._ids)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command | {"id": number}).encode() + b"\n")
        self._process.stdin.flush()
        return number

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the browser has ended"
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()
