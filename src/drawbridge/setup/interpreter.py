"""Chooses the Python that runs the guard: a permanent one that has the modules that the guard needs, and that is not
behind a shim, which would slow its start."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from drawbridge.core.errors import NoProgram

OLDEST = (3, 11)

PROBE = (
    "import sys, _socket, select, _json, json;"
    "print(json.dumps([sys.version_info[:2], sys._base_executable or sys.executable, sys.implementation.cache_tag]))"
)

SYSTEM = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
NAMES = ("python3", *(f"python3.{minor}" for minor in range(20, OLDEST[1] - 1, -1)))
PASSING = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  # nothing is written there: these directories are avoided


class Interpreter(NamedTuple):
    """A Python interpreter. ``path``: the real program, not a link, a shim or a virtual environment's. ``tag``: the tag
    in the names of its bytecode files, such as ``cpython-311``."""

    path: str
    tag: str


def choose() -> Interpreter:
    """The interpreter that runs this process, without its virtual environment. If that can't be used, or is in a
    temporary or cache directory, the first suitable one on PATH or in the system's directories.

    Raises ``NoProgram`` if none can be used.
    """
    for candidate in _candidates():
        found = _probe(candidate)
        if found and not is_passing(found.path):
            return found
    wanted = f"Python {OLDEST[0]}.{OLDEST[1]} or newer"
    own = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    why = f"; {own} is in a temporary or cache directory" if is_passing(own) else ""
    raise NoProgram(f"No permanent {wanted} was found{why}. Install {wanted}, and run this again.")


def is_passing(path: str) -> bool:
    """Whether a path is in a temporary directory or a cache (uvx and ``pipx run`` use one)."""
    places = [*PASSING, tempfile.gettempdir(), *filter(None, [os.environ.get("UV_CACHE_DIR")])]
    inside = any(Path(path).is_relative_to(os.path.realpath(place)) for place in places)
    return inside or bool({".cache", "Caches"} & set(Path(path).parts))


def _candidates() -> Iterator[str]:
    yield os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    for directory in (os.environ.get("PATH"), os.pathsep.join(SYSTEM)):
        for name in NAMES:
            if found := shutil.which(name, path=directory):
                yield found


def _probe(candidate: str) -> Interpreter | None:
    """The real interpreter behind links, shims and environments; None if the guard can't run with it."""
    try:
        command = [candidate, "-I", "-S", "-c", PROBE]
        answer = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=10, check=True).stdout
        version, base, tag = json.loads(answer)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    below = os.path.realpath(base)
    if tuple(version) < OLDEST or not tag:
        return None
    return Interpreter(below, tag) if below == candidate else _probe(below)
