"""Claude Code in a terminal. Implements ``agents.terminal.TerminalAgent``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from drawbridge.agents.base import LEAVING_PLAN, AgentState, AskedBy, Decision, Proposal
from drawbridge.agents.claude import edits, hook, process_file, prompts, reports, sessions, start_mode, transcript
from drawbridge.agents.claude.prompts import LONGEST_NAME, LONGEST_PATH, LONGEST_REASON
from drawbridge.agents.claude.suggestions import offered
from drawbridge.agents.claude.tools import PATHS
from drawbridge.agents.claude.transcript import code_of
from drawbridge.agents.proposals import Reader
from drawbridge.agents.terminal import (
    Entry,
    HookEvent,
    HookPayload,
    NotItsFile,
    ProcessState,
    Task,
    TerminalAgent,
    TerminalReports,
)
from drawbridge.core.json_text import UNDECODABLE

TASK_ENDED: Final = "<task-notification"
"""The beginning of the prompt that the CLI sends the agent when one of its background tasks has ended."""

ASKS_IN_TERMINAL: Final = ("permission_prompt", "agent_needs_input", "elicitation_dialog")
"""The types of the notifications that the CLI sends when a dialog has been open in the terminal for a few seconds."""

SPARE: Final = {("SessionStart", "startup"), ("SessionEnd", "")}
"""The name and the source of each event that a background session sends before it has been given any work. The CLI's
daemon starts such sessions in advance.
"""

STARTED: Final = ("startup", "resume")
"""The ``source`` of a ``SessionStart`` if the program has just been started, with a new conversation or an earlier
one."""

LEAVES: Final = frozenset({"exit", "quit", ":q", ":q!", ":wq", ":wq!"})
"""Words that end Claude Code if nothing else is typed (2.1.329)."""

PASTE_MARK: Final = re.compile(r'</?pasted_content id="\w*">')
"""The tags that Claude Code puts around a long paste (2.1.329)."""


class _Payload(HookPayload, frozen=True):
    """The input of a hook, with the fields that concern the state of a session (2.1.329)."""

    transcript_path: str = ""
    permission_mode: str | None = None
    prompt_id: str = ""
    last_assistant_message: str = ""
    permission_suggestions: Raw = Raw(b"[]")
    decision_reason: str | None = None
    blocked_path: str | None = None
    notification_type: str = ""
    error: Any = None
    background_tasks: Raw = Raw(b"[]")


_decoder: Final = msgspec.json.Decoder(_Payload)


class ClaudeInTerminal(TerminalAgent):
    accepts_changed_input = accepts_typing = reports_tasks = names_turns = reports_mode = True

    def event(self, payload: Raw) -> HookEvent:
        found = _decoder.decode(payload)
        return HookEvent(
            name=found.hook_event_name,
            session_id=found.session_id,
            cwd=found.cwd,
            transcript=found.transcript_path,
            permission_mode=found.permission_mode,
            turn=found.prompt_id,
            prompt=found.prompt,
            continues=found.prompt.startswith(TASK_ENDED),
            woken=found.prompt.startswith(TASK_ENDED) and hook.WAKES in found.prompt,
            source=found.source,
            last_message=found.last_assistant_message,
            tool_name=found.tool_name,
            tool_input=found.tool_input,
            suggestions=offered(found.tool_name, found.permission_suggestions),
            call=found.tool_use_id or "",
            agent_id=found.agent_id,
            agent_type=prompts.words(found.agent_type, LONGEST_NAME),
            reason=prompts.words(found.decision_reason, LONGEST_REASON),
            blocked_path=prompts.words(found.blocked_path, LONGEST_PATH),
            asks_in_terminal=found.notification_type in ASKS_IN_TERMINAL,
            code=code_of(found.error, found.last_assistant_message) if found.error is not None else None,
            tasks=_tasks(found.background_tasks),
            is_new_process=found.hook_event_name == "SessionStart" and found.source in STARTED,
        )

    def is_spare(self, event: HookEvent) -> bool:
        return (event.name, event.source) in SPARE

    def answer(self, decision: Decision, tool_name: str, given: Raw, suggestions: Raw) -> Mapping[str, Any]:
        """The CLI treats an input in the answer as changed by the user, but without one, it ignores that a plan was
        accepted (2.1.329)."""
        verdict = prompts.verdict(decision, tool_name, given, suggestions)
        if decision.updated_input is None and tool_name != LEAVING_PLAN:
            verdict.pop("updatedInput", None)
        return verdict

    def proposal(self, tool: str, given: Mapping[str, Any], read: Reader) -> Proposal | None:
        return edits.proposal(tool, given, read)

    def hides_dialog(self, asked_by: AskedBy | None) -> bool:
        return asked_by is not None and asked_by.agent_type not in hook.VISIBLE_DIALOG

    def asks_people(self, mode: str | None) -> bool:
        return True

    def is_same_call(self, tool: str, before: Mapping[str, Any], after: Mapping[str, Any], *, as_run: bool) -> bool:
        if tool == LEAVING_PLAN:  # only one such question can be open, and the agent's own call has no input
            return True
        if all(name in after and after[name] == before[name] for name in before):
            return True
        return as_run and any(name in before and before[name] == after.get(name) for name in PATHS)

    def reports_input(self, tool: str) -> bool:
        return tool != LEAVING_PLAN  # measured with 2.1.329

    def is_command(self, prompt: str) -> bool:
        return prompt.startswith(("/", "!")) or prompt in LEAVES

    def words(self, prompt: str) -> str:
        return PASTE_MARK.sub("", prompt)

    def checked(self, path: str, session_id: str, config: str) -> str:
        """The path has the form ``<Claude Code's directory>/projects/<name>/<session>.jsonl``."""
        place = Path(path)
        configs = {str(Path.home() / ".claude"), os.environ.get("CLAUDE_CONFIG_DIR") or ""} - {""}
        configs |= {config} if config.startswith("/") else set()
        if not sessions.ID.fullmatch(session_id) or place.name != f"{session_id}.jsonl" or ".." in place.parts:
            raise NotItsFile(path)
        projects = place.parent.parent
        if not any(os.path.realpath(projects) == os.path.realpath(Path(one) / "projects") for one in configs):
            raise NotItsFile(path)
        if not re.fullmatch(r"[A-Za-z0-9-]+", place.parent.name) or place.parent.is_symlink():
            raise NotItsFile(path)
        return path

    def entries(self, line: bytes, session_id: str) -> Sequence[Entry]:
        found = transcript.entry(line, session_id)
        return () if found is None else (found,)

    def end_of(self, uuid: str, data: bytes) -> int | None:
        # This matches the line with this uuid, not the next line, which contains it as its parent's uuid.
        lines = re.finditer(rb'"uuid": ?"' + re.escape(uuid.encode()) + rb'"[^\n]*\n', data)
        return max((found.end() for found in lines), default=None)

    def title(self, transcript: Path) -> str | None:
        return sessions.title_of(transcript)

    def reports(self, state: AgentState) -> TerminalReports:
        return reports.Reports(state)

    def last_state(self, lines: Sequence[bytes], session_id: str) -> AgentState:
        return reports.last_state(lines, session_id)

    def start_mode(self, pid: int, directory: Path) -> str | None:
        return start_mode.of_process(pid, directory)

    def process(self, transcript: str, pid: int, session_id: str) -> ProcessState:
        file = process_file.read(transcript, pid)
        return ProcessState(file.moved_to(session_id), file.idle_since(session_id))


def agent() -> TerminalAgent:
    return ClaudeInTerminal()


def _tasks(given: Raw) -> dict[str, Task]:
    """The tasks that are running in the background, by id; empty if they are not valid."""
    try:
        found = msgspec.json.decode(given, type=list[Task])
    except UNDECODABLE:
        return {}
    return {task.id: task for task in found if task.status == "running"}
