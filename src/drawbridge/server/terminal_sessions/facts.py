"""The state of a terminal session that is stored for a restart, in addition to its metadata."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from drawbridge.agents.terminal import Task
from drawbridge.core.process_start import StartTime
from drawbridge.server.terminal_sessions.prompts import SentPrompt

FACTS_FILE: Final = "desk.json"
"""The name of the file in a session's directory that contains its stored state."""


class ProcessFacts(Struct):
    """The facts that an agent's process reported about itself. ``pid``: None if no process is known. ``config`` and
    ``background``: as in ``Process``."""

    pid: int | None = None
    began: StartTime | None = None
    """When the process ``pid`` was started; None if not known. It is stored because another program may get the PID
    later."""
    transcript: str = ""
    permission_mode: str | None = None
    background: bool = False
    config: str = ""


class Facts(ProcessFacts):
    """The stored state. The inherited fields are about the process that reported last. ``sent``: as in ``Prompts``.
    ``others``: the other processes that have the conversation open. ``ended``: whether no process has it open, although
    one may still be alive, with another conversation. ``continued_in``: the id of the session that continues this one.
    ``works``: the PID of the process with the active run, if it is known. ``rests``: whether that process has stopped
    working, so that the run is kept open only by what it left running in the background. ``tasks``: what it left
    running. ``turns``: the agent's ids of the turns that belong to the active run, except the run's own id, in
    alphabetical order. ``past``: the ids of the latest runs that are over, oldest first. ``is_unattended``: whether a
    question was left to the terminal because no client had answered in time, and no client has answered a question
    since."""

    sent: SentPrompt | None = None
    others: tuple[ProcessFacts, ...] = ()
    ended: bool = False
    continued_in: str | None = None
    works: int | None = None
    rests: bool = False
    tasks: tuple[Task, ...] = ()
    turns: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    is_unattended: bool = False
