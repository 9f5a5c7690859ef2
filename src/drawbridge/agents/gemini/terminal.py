"""Gemini CLI in a terminal. Implements ``agents.terminal.TerminalAgent``.

Source: version 0.61.0, its ``docs/hooks`` and its program.

* ``BeforeAgent`` runs before a prompt is in the conversation's file, and ``AfterAgent`` after everything that belongs to
  its turn. Neither names the turn.
* ``AfterAgent`` also runs if the request to the model has failed or was interrupted, without reporting that. It does not
  run if the user rejects or interrupts a call. The file contains that (see ``transcript``).
* No hook can allow a call. ``BeforeTool`` runs before the CLI decides whether it asks, and can only deny the call or
  make the CLI ask. ``Notification`` runs just before the CLI asks, and its answer is ignored.
* No hook reports the permission mode, which the user can change at any time.
* Subagents call the hooks of the session that has started them, without naming themselves.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from drawbridge.agents.base import AgentState, Decision
from drawbridge.agents.gemini import sessions, transcript
from drawbridge.agents.gemini.reports import Reports
from drawbridge.agents.reported import text_of
from drawbridge.agents.terminal import (
    Entry,
    HookEvent,
    HookPayload,
    NotItsFile,
    Prompt,
    TerminalAgent,
    TerminalReports,
)

NAMES: Final[Mapping[str, str]] = {
    "BeforeAgent": "UserPromptSubmit",
    "AfterAgent": "Stop",
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
}
"""Maps Gemini CLI's names of events to those in ``HookEvent``. The names of all other events are the same in both."""

ASKS: Final = "ToolPermission"
"""The type of the notification that the CLI sends before it opens a dialog."""


class _Payload(HookPayload, frozen=True):
    """The input of a hook, with the fields that concern the state of a session."""

    transcript_path: str = ""
    timestamp: str = ""
    notification_type: str = ""


_decoder: Final = msgspec.json.Decoder(_Payload)


class GeminiInTerminal(TerminalAgent):
    """Gemini CLI in a terminal. Its questions are the proposals that it sends to an editor. An answer to one may change
    the proposed text."""

    accepts_changed_input = True
    accepts_typing = reports_tasks = names_turns = reports_mode = False

    def event(self, payload: Raw) -> HookEvent:
        found = _decoder.decode(payload)
        name = NAMES.get(found.hook_event_name, found.hook_event_name)
        prompt = found.prompt if name == "UserPromptSubmit" else ""
        return HookEvent(
            name=name,
            session_id=found.session_id,
            cwd=found.cwd,
            transcript=found.transcript_path,
            turn=_turn(found) if name == "UserPromptSubmit" else "",
            prompt=transcript.prompt_words(prompt),
            continues=transcript.continues(prompt),
            source=found.source,
            tool_name=found.tool_name,
            tool_input=found.tool_input,
            asks_in_terminal=found.notification_type == ASKS,
        )

    def answer(self, decision: Decision, tool_name: str, given: Raw, suggestions: Raw) -> Mapping[str, Any]:
        """Returns an empty answer, because no hook reports a question."""
        return {}

    def is_command(self, prompt: str) -> bool:
        return prompt.startswith(("/", "!", "?"))

    def checked(self, path: str, session_id: str, config: str) -> str:
        """The path has the form ``<home>/.gemini/tmp/<project>/chats/session-<minute>-<start of the id>.jsonl``, in
        which ``<home>`` may be set by GEMINI_CLI_HOME."""
        place = Path(path)
        if not sessions.ID.fullmatch(session_id) or ".." in place.parts:
            raise NotItsFile(path)
        if not re.fullmatch(rf"session-[-0-9T]+-{session_id[:8]}\.jsonl", place.name) or place.parent.name != "chats":
            raise NotItsFile(path)
        homes = {str(Path.home()), os.environ.get("GEMINI_CLI_HOME") or "", config} - {""}
        expected = [os.path.realpath(Path(home) / ".gemini" / "tmp") for home in homes if home.startswith("/")]
        project = place.parent.parent
        if os.path.realpath(project.parent) not in expected or project.is_symlink() or place.parent.is_symlink():
            raise NotItsFile(path)
        return path

    def entries(self, line: bytes, session_id: str) -> Sequence[Entry]:
        return transcript.entries(line, session_id)

    def end_of(self, uuid: str, data: bytes) -> int | None:
        return transcript.end_of(uuid, data)

    def title(self, transcript: Path) -> str | None:
        """The first prompt of the conversation."""
        try:
            with transcript.open("rb") as opened:
                lines = opened.read(sessions.HEAD_BYTES).split(b"\n")
        except OSError:
            return None
        prompts = (entry.text for line in lines for entry in self.entries(line, "") if isinstance(entry, Prompt))
        return text_of(next(prompts, None), sessions.LONGEST_TITLE)

    def reports(self, state: AgentState) -> TerminalReports:
        return Reports(state)


def agent() -> TerminalAgent:
    return GeminiInTerminal()


def _turn(found: _Payload) -> str:
    """The id of the turn that a prompt begins, made from the time of its hook."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{found.session_id} {found.timestamp}"))
