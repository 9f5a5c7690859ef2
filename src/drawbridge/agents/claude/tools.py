"""Interprets Claude Code's tool calls (2.1.329). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from drawbridge.agents.base import LEAVING_PLAN, Form, Proposal
from drawbridge.agents.claude import edits
from drawbridge.agents.claude.suggestions import BASH, WEB_FETCH, grants
from drawbridge.agents.tool_calls import (
    Act,
    Kind,
    ToolCall,
    Tools,
    command_directory,
    command_field,
    shown_name,
    text_fields,
)

ASK, NOTEBOOK, WEB_SEARCH = "AskUserQuestion", "NotebookEdit", "WebSearch"

KINDS: Final[Mapping[str, Kind]] = {
    "Edit": "edit",
    "MultiEdit": "edit",
    "Write": "overwrite",
    NOTEBOOK: "notebook",
    BASH: "command",
    "Monitor": "command",
    LEAVING_PLAN: "plan",
    ASK: "question",
    WEB_FETCH: "fetch",
    WEB_SEARCH: "search",
    "Grep": "search",
    "Glob": "search",
    "Read": "read",
}

ACTS: Final[Mapping[str, Act]] = {
    "Read": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "MultiEdit": "edit",
    NOTEBOOK: "edit",
    "Write": "write",
    BASH: "command",
    "PowerShell": "command",
    "Grep": "search",
    "Glob": "find",
    "LS": "find",
    WEB_FETCH: "fetch",
    WEB_SEARCH: "web",
    "Task": "agent",
    "Agent": "agent",
    "TodoWrite": "todo",
    ASK: "question",
    LEAVING_PLAN: "plan",
    "BashOutput": "output",
    "TaskOutput": "output",
    "KillShell": "stop",
    "KillBash": "stop",
    "TaskStop": "stop",
    "Skill": "skill",
    "SlashCommand": "skill",
}
"""What each tool does. Includes tools that earlier versions had, because their calls stay in the history."""

TASKS: Final = {
    "local_bash": "Command",
    "local_agent": "Subagent",
    "remote_agent": "Subagent",
    "local_workflow": "Workflow",
}

TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Edit": ("old_string", "new_string"),
    "MultiEdit": ("edits",),
    "Write": ("content",),
    NOTEBOOK: ("new_source",),
}
"""The fields of a tool's input that contain the text that it writes."""

EDITABLE: Final[Mapping[str, tuple[str, ...]]] = {
    **TEXTS,
    BASH: ("command",),
    LEAVING_PLAN: ("plan",),
    ASK: ("answers",),
    WEB_FETCH: ("url", "prompt"),
    WEB_SEARCH: ("query",),
}
"""The fields of a tool's input that clients let the user change. For other tools, these are the text fields."""

PATHS: Final = ("file_path", "notebook_path")


class ClaudeTools(Tools):
    acts = ACTS
    tasks = TASKS

    def call(self, name: str, given: Mapping[str, Any], suggestions: Raw, form: Form) -> ToolCall:
        kind = KINDS.get(name, "tool")
        asked = given.get("questions")
        return ToolCall(
            kind=kind,
            name=shown_name(name),
            paths=tuple(given[field] for field in PATHS if isinstance(given.get(field), str)),
            command=command_field(given) if kind in ("command", "tool") else "",
            directory=command_directory(given),
            is_only_command=name == BASH and not given.keys() - {"command", "description"},
            searches_web=name == WEB_SEARCH,
            questions=len(asked) if isinstance(asked, list) else 1,
            answers="answers" if kind == "question" else "",
            texts=TEXTS.get(name, ()),
            editable=_editable(name, given),
            grants=grants(suggestions),
        )

    def changed_text(self, name: str, given: Mapping[str, Any], old_text: str) -> str | None:
        return edits.changed_text(name, given, old_text)

    def with_text(self, name: str, given: Mapping[str, Any], old_text: str, text: str) -> dict[str, Any] | None:
        return edits.with_text(name, given, old_text, text)

    def shown_fields(self, name: str, given: Mapping[str, Any], proposal: Proposal) -> tuple[str, ...]:
        return edits.shown_fields(name, given, proposal)


TOOLS: Final = ClaudeTools()


def _editable(name: str, given: Mapping[str, Any]) -> tuple[str, ...]:
    if name == NOTEBOOK and given.get("edit_mode") == "delete":
        return ()  # the tool ignores the new source in this case
    return EDITABLE.get(name) or text_fields(given)
