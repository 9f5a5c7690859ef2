"""Codex in a terminal. Implements ``agents.terminal.TerminalAgent``.

Measured with 0.169.0: Codex shows its own dialog only after the hook has ended. A hook can allow or deny a call, but
can't change its input. The first hook runs when the first prompt is sent. No hook reports a failed turn, but the
transcript contains it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from drawbridge.agents.base import AgentState, AskedBy, Decision
from drawbridge.agents.codex import transcript
from drawbridge.agents.codex.reports import Reports
from drawbridge.agents.codex.transcript import HOOKED_SHELL, ID, PATCH_FIELD, REJECTED
from drawbridge.agents.modes import AUTO, BYPASS
from drawbridge.agents.output import valid
from drawbridge.agents.reported import name_of
from drawbridge.agents.terminal import (
    Entry,
    HookEvent,
    HookPayload,
    NotItsFile,
    TerminalAgent,
    TerminalReports,
)
from drawbridge.core.errors import BadArgument
from drawbridge.core.json_text import UNDECODABLE

DENIED: Final = f"{REJECTED}. Do not try it in another way; ask what to do instead."


class _Payload(HookPayload, frozen=True):
    """The input of a hook, with the fields that concern the state of a session."""

    transcript_path: str | None = None
    permission_mode: str = ""
    turn_id: str = ""
    last_assistant_message: str | None = None


_decoder: Final = msgspec.json.Decoder(_Payload)


class CodexInTerminal(TerminalAgent):
    accepts_changed_input = accepts_typing = reports_tasks = False
    names_turns = reports_mode = True

    def event(self, payload: Raw) -> HookEvent:
        found = _decoder.decode(payload)
        return HookEvent(
            name=found.hook_event_name,
            session_id=found.session_id,
            # In an event about a call, it is the directory in which the call runs.
            cwd="" if found.tool_name else found.cwd,
            directory=found.cwd if found.tool_name == HOOKED_SHELL else "",
            # A subagent's events contain the path of the subagent's own transcript.
            transcript="" if found.agent_id else found.transcript_path or "",
            # The hook reports "default" for most sandboxes. The transcript contains the sandbox.
            permission_mode=BYPASS if found.permission_mode == BYPASS else None,
            turn=found.turn_id,
            prompt=found.prompt,
            last_message=found.last_assistant_message or "",
            tool_name=found.tool_name,
            tool_input=_input(found),
            call=found.tool_use_id or "",
            agent_id=found.agent_id,
            agent_type=name_of(found.agent_type),
        )

    def answer(self, decision: Decision, tool_name: str, given: Raw, suggestions: Raw) -> Mapping[str, Any]:
        """The answer has no other keys, because Codex rejects them."""
        if decision.updated_input is not None:
            raise BadArgument("updated_input", "Codex does not accept edited input. The request stays open.")
        if decision.allow:
            return {"behavior": "allow"}
        reason = f"{REJECTED}: {decision.message}" if decision.message else DENIED
        return {"behavior": "deny", "message": valid(reason)}

    def hides_dialog(self, asked_by: AskedBy | None) -> bool:
        return True

    def asks_people(self, mode: str | None) -> bool:
        return mode != AUTO  # Codex runs its hooks before its own review

    def is_same_call(self, tool: str, before: Mapping[str, Any], after: Mapping[str, Any], *, as_run: bool) -> bool:
        """Compares only the command or the patch, if the question contains one, because the hook after a command does
        not report the description that the question contains."""
        names = [name for name in ("command", PATCH_FIELD) if name in before] or list(before)
        return all(name in after and _trimmed(after[name]) == _trimmed(before[name]) for name in names)

    def reports_input(self, tool: str) -> bool:
        return False  # the hook reports the input, but there is nothing to compare, because it can't have changed

    def is_command(self, prompt: str) -> bool:
        return prompt.startswith(("/", "!"))

    def checked(self, path: str, session_id: str, config: str) -> str:
        """The path has the form ``<Codex's directory>/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl``."""
        place = Path(path)
        if not ID.fullmatch(session_id) or not re.fullmatch(rf"rollout-[-0-9T]+-{session_id}\.jsonl", place.name):
            raise NotItsFile(path)
        year, month, day = place.parts[-4:-1] if len(place.parts) > 4 else ("", "", "")
        if not re.fullmatch(r"\d{4}/\d\d/\d\d", f"{year}/{month}/{day}") or ".." in place.parts:
            raise NotItsFile(path)
        homes = {str(Path.home() / ".codex"), os.environ.get("CODEX_HOME") or "", config} - {""}
        expected = [Path(os.path.realpath(Path(home) / "sessions"), year, month, day) for home in homes]
        if Path(os.path.realpath(place.parent)) not in expected:
            raise NotItsFile(path)
        return path

    def entries(self, line: bytes, session_id: str) -> Sequence[Entry]:
        found = transcript.entry(line, session_id)
        return () if found is None else (found,)

    def end_of(self, uuid: str, data: bytes) -> int | None:
        ordinal = re.escape(uuid.rpartition(":")[2].encode())
        lines = re.finditer(rb'^\{"timestamp":"[^"]*","ordinal":' + ordinal + rb"[,}][^\n]*\n", data, re.MULTILINE)
        return max((found.end() for found in lines), default=None)

    def reports(self, state: AgentState) -> TerminalReports:
        return Reports(state)


def agent() -> TerminalAgent:
    return CodexInTerminal()


def _input(found: _Payload) -> Raw:
    """The input of the call. A patch, which Codex sends in the field ``command``, is converted by ``patch_input``."""
    if found.tool_name != transcript.PATCH:
        return found.tool_input
    try:
        patch = msgspec.json.decode(found.tool_input, type=dict[str, Any]).get("command")
    except UNDECODABLE:
        return found.tool_input
    if not isinstance(patch, str):
        return found.tool_input
    return Raw(msgspec.json.encode(transcript.patch_input(patch, found.cwd)))


def _trimmed(value: object) -> object:
    return value.strip("\n") if isinstance(value, str) else value
