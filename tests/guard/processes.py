"""``drawbridge hook`` as a real process: in the form that ``drawbridge setup`` installs, and as the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from drawbridge.guard import hook
from drawbridge.setup.installed import LOADER
from tests.waiting import PATIENCE

SOURCE = str(Path(hook.__file__).parents[2])

STUB = """\
import sys

sys.path.insert(0, {source!r})
from drawbridge.guard.hook import run

run({settings!r})
"""


class Ended(NamedTuple):
    code: int
    output: bytes
    errors: str

    @property
    def answer(self) -> Any:
        """The answer that the agent reads. Fails if the hook printed anything else or failed."""
        assert (self.code, self.errors) == (0, "")
        assert self.output.endswith(b"\n")
        assert self.output.count(b"\n") == 1
        return json.loads(self.output)


def fast_form(directory: Path, settings: Mapping[str, object]) -> list[str]:
    """Writes the hook's script, and returns the command that runs it in an isolated interpreter without ``site``."""
    stub = directory / "claude.py"
    stub.write_text(STUB.format(source=SOURCE, settings=settings))
    return [sys.executable, "-I", "-S", "-c", LOADER, str(stub)]


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "drawbridge", "hook", *flags]


def as_json(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload).encode()


def run(words: list[str], data: bytes | dict[str, Any] | None, **options: Any) -> Ended:
    """Runs a command with ``data`` as its standard input. With None, it gets the test's own standard input."""
    given = as_json(data) if isinstance(data, dict) else data
    done = subprocess.run(words, input=given, capture_output=True, timeout=PATIENCE, **options, env=os.environ)
    return Ended(done.returncode, done.stdout, done.stderr.decode())
