"""Explains which limit of the operating system kept an agent from starting, and how to raise it."""

from __future__ import annotations

import errno
import resource
from typing import Final

from drawbridge.agents.base import AgentUnusable

CODE: Final = "RESOURCE_LIMIT"


def shortage(error: OSError) -> AgentUnusable | None:
    """The error to raise if the system's limits kept an agent from starting; None if ``error`` has another cause."""
    match error.errno:
        case errno.EMFILE | -1:  # uvloop 0.23 reports -1 instead of the reason if its socketpair fails
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            why = f"the server has reached its limit of {most} open files"
            what = "Raise the limit (`ulimit -n`, or LimitNOFILE= of the service)"
        case errno.ENFILE:
            why, what = "this machine has reached its limit of open files", "Raise the limit (sysctl fs.file-max)"
        case errno.EAGAIN:
            why = "the server's user or service has reached its process limit"
            what = "Raise the limit (`ulimit -u`, or TasksMax= of the service)"
        case errno.ENOMEM:
            why, what = "this machine is out of memory", "Quit other programs"
        case _:
            return None
    return AgentUnusable(CODE, f"The agent was not started: {why}. {what}, or allow fewer runs at once (--max-runs).")
