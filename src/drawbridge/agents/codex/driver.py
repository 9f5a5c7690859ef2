"""Runs Codex for the server: ``codex exec --json``, one process per prompt (measured with 0.169.0). Codex never asks.
Its sandbox, which the permission mode selects, decides what it may do.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from drawbridge.agents import catalog, process
from drawbridge.agents.attached import is_text
from drawbridge.agents.base import (
    MODEL_NAME,
    AgentLine,
    AgentUnusable,
    Event,
    Launch,
    Output,
    check_options,
)
from drawbridge.agents.codex.failures import failure
from drawbridge.agents.codex.shown import Shown
from drawbridge.agents.codex.transcript import ID
from drawbridge.agents.environment import environment
from drawbridge.agents.one_shot import LONGEST_TEXT, OneShot, Turn
from drawbridge.agents.output import sentence, session_id_of, text_in
from drawbridge.agents.results import FAILED, NO_SESSION, Failure

ROW: Final = catalog.AGENTS["codex"]

SUPPORTED: Final = ("dangerously_skip_permissions", "permission_mode", "model", "add_dirs", "partial_messages")
"""The options that can be set. ``partial_messages`` has no effect."""

SANDBOXES: Final[Mapping[str | None, str]] = {
    None: "read-only",
    "default": "read-only",
    "manual": "read-only",
    "plan": "read-only",
    "dontAsk": "read-only",
    "acceptEdits": "workspace-write",
    "auto": "workspace-write",
}
"""Maps a permission mode (None if none was chosen) to Codex's sandbox. Codex can't ask, so it may write only in a mode
that allows edits. The sandbox is off only with ``dangerously_skip_permissions``."""

ITEMS: Final = ("item.started", "item.updated", "item.completed")


class Codex:
    name, asks, own_modes, sees, forks = ROW.name, ROW.asks, ROW.own_modes, ROW.sees, ROW.forks
    sessions = None
    embeds = staticmethod(is_text)

    def __init__(self, path: str | None = None, environment: Mapping[str, str] = os.environ) -> None:
        """``path``: the program. If it is None, PATH is searched at each start."""
        self._path = path
        self._environment = environment

    async def start(self, launch: Launch, emit: Callable[[Event], None]) -> process.Process:
        words = list(arguments(launch))
        command = [await process.program(self.name, self._path or ROW.program, self._environment, ROW.title), *words]
        variables = environment(self._environment, launch.directory, launch.mark)
        return await process.start(
            ROW.title,
            command,
            launch.directory,
            variables,
            CodexConversation(ROW.title),
            emit,
            launch.confinement,
            OneShot,
        )


def agent(path: str | None) -> Codex:
    return Codex(path)


def arguments(launch: Launch) -> Iterator[str]:
    """Yields the arguments for Codex. Raises ``AgentUnusable``: VALIDATION_FAILED for an option or a value that Codex
    does not support (the text names the option), SESSION_NOT_FOUND for an id that is not a UUID."""
    options = launch.options
    check_options(options, SUPPORTED, ROW.title)
    session_id = launch.fork_from or (launch.session_id if launch.resume else None)
    if session_id is not None and not ID.fullmatch(session_id):
        raise AgentUnusable(NO_SESSION, f"{ROW.title} does not have a conversation with this ID. Start a new session.")
    if options.model is not None and not MODEL_NAME.fullmatch(options.model):
        raise AgentUnusable(
            "VALIDATION_FAILED", "options.model: it is not a valid model name. The agent was not started."
        )
    yield "exec"
    if session_id is not None:
        yield "fork" if launch.fork_from else "resume"
    yield from ("--json", "--skip-git-repo-check")
    if options.dangerously_skip_permissions:
        yield "--dangerously-bypass-approvals-and-sandbox"
    else:
        yield from _sandbox(options.permission_mode)
    if options.model is not None:
        yield f"--model={options.model}"
    if options.add_dirs:
        yield f"--config=sandbox_workspace_write.writable_roots={json.dumps(options.add_dirs)}"
    if session_id is not None:
        yield session_id
    yield "-"


def _sandbox(mode: str | None) -> tuple[str, str]:
    if mode not in SANDBOXES:
        text = f"options.permission_mode: {ROW.title} does not have the `{mode}` mode."
        raise AgentUnusable("VALIDATION_FAILED", f"{text} The agent was not started.")
    return f'--config=sandbox_mode="{SANDBOXES[mode]}"', '--config=approval_policy="never"'


class CodexConversation(Turn):
    _error = ""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._shown = Shown(f"{uuid.uuid4().hex[:12]}.")

    def meant(self, message: Mapping[str, Any], data: bytes) -> list[Output]:
        kind, item = message.get("type"), message.get("item")
        if kind in ITEMS and isinstance(item, dict):
            return [*self._shown.add(session_id_of(self.session_id), item, is_over=kind == "item.completed")]
        line = AgentLine(data, session_id_of(message.get("session_id")))
        if kind == "thread.started":
            return [*self.in_session(message.get("thread_id")), line]
        if kind == "turn.failed" and isinstance(message.get("error"), dict):
            self._error = text_in(message["error"].get("message")) or "it gave no reason"
        return [line]

    def failed(self, code: int, words: str) -> Failure | None:
        if code == 0 and not self._error:
            return None
        errors = [
            line for line in words.splitlines() if line.startswith(("Error:", "error:"))
        ]  # a backtrace may follow
        reason = self._error or "\n".join(errors) or words
        known = failure(self.name, reason)
        if known is None and code == 0:
            return Failure(FAILED, sentence(f"{self.name} reported a failure: {reason}"[:LONGEST_TEXT]))
        return known or super().failed(code, reason)
