"""Runs the programs of others that set things up: service managers and editors."""

from __future__ import annotations

import shlex
import subprocess
from typing import Final

from drawbridge.core.errors import ProgramFailed

SECONDS: Final = 120
"""The maximum duration of a command. code-server starts Node.js first."""


def output_of(*command: str) -> str:
    """The output of a command. Raises ``ProgramFailed`` with the last line of the error output (or of the output, if
    the error output is empty) if the command fails, or with the reason if it can't be run or takes too long."""
    shown = f"`{shlex.join(command)}`"
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise ProgramFailed(f"{shown} failed: it can't be run ({why}).") from None
    except subprocess.TimeoutExpired:
        raise ProgramFailed(f"{shown} failed: it took longer than {SECONDS} seconds.") from None
    if ended.returncode:
        last = ((ended.stderr or ended.stdout).strip().splitlines() or ["no output"])[-1].removesuffix(".")
        raise ProgramFailed(f"{shown} failed with exit code {ended.returncode}: {last}.")
    return ended.stdout


def succeeds(*command: str) -> bool:
    try:
        output_of(*command)
    except ProgramFailed:
        return False
    return True
