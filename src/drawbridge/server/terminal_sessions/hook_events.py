"""What the hooks of Claude Code report, as far as it concerns the state of a session. Pure. Seen on 2.1.329."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.claude.prompts import LEAVING_PLAN
from drawbridge.server.events import ApprovalRequested

PATHS: Final = ("file_path", "notebook_path")

TASK_ENDED: Final = "<task-notification"
"""The beginning of the prompt that the CLI sends the agent when one of its background tasks has ended."""

ASKS_IN_TERMINAL: Final = ("permission_prompt", "agent_needs_input", "elicitation_dialog")
"""Types of notifications: a dialog has been open in the terminal for some seconds."""


class Task(Struct, frozen=True):
    """Something that an agent has left running in the background."""

    id: str
    type: str = ""
    status: str = "running"


class HookEvent(Struct, frozen=True):
    """``prompt_id``: the turn that it belongs to. A question has no id: it is known by its tool and its input.

    ``agent_id``: the subagent that it is about; None for the main agent.
    """

    hook_event_name: str
    session_id: str
    cwd: str
    transcript_path: str = ""
    permission_mode: str | None = None
    prompt_id: str = ""
    prompt: str = ""
    source: str = ""
    last_assistant_message: str = ""
    tool_name: str = ""
    tool_input: Raw = Raw(b"{}")
    permission_suggestions: Raw = Raw(b"[]")
    agent_id: str | None = None
    agent_type: str | None = None
    decision_reason: str | None = None
    blocked_path: str | None = None
    notification_type: str = ""
    background_tasks: Raw = Raw(b"[]")

    @property
    def tasks(self) -> dict[str, str]:
        """What runs in the background: id → type."""
        try:
            found = msgspec.json.decode(self.background_tasks, type=list[Task])
        except msgspec.MsgspecError:
            return {}
        return {task.id: task.type for task in found if task.status == "running"}


_decoder: Final = msgspec.json.Decoder(HookEvent)


def read(payload: Raw) -> HookEvent:
    """Raises ``ValueError`` if it is not such a payload."""
    event = _decoder.decode(payload)
    if not event.cwd.startswith("/"):
        raise ValueError("cwd is not absolute")
    return event


def same_call(approval: ApprovalRequested, tool: str, after: Mapping[str, Any], *, as_run: bool) -> bool:
    """Whether a call with the input ``after`` is the one that was asked about.

    ``as_run``: it is what the call ran with. That may have grown (answers), or changed if a person has edited the text;
    the file is the same then.
    """
    if tool != approval.tool_name:
        return False
    if tool == LEAVING_PLAN:  # one at a time; the agent's own call has no input
        return True
    before = json_object(approval.input)
    if all(name in after and after[name] == before[name] for name in before):
        return True
    return as_run and any(name in before and before[name] == after.get(name) for name in PATHS)


def json_object(data: Raw) -> Mapping[str, Any]:
    """Empty if it is not an object."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
