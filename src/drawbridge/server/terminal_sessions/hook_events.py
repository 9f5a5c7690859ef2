"""The reports of Claude Code's hooks, with the fields that concern the state of a session (2.1.329). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents import base
from drawbridge.agents.claude.prompts import LEAVING_PLAN
from drawbridge.agents.reported import LONGEST_NAME, name_of, text_of
from drawbridge.agents.results import NOT_LOGGED_IN, RATE_LIMITED
from drawbridge.server.events import ApprovalRequested

PATHS: Final = ("file_path", "notebook_path")

TASK_ENDED: Final = "<task-notification"
"""The beginning of the prompt that the CLI sends the agent when one of its background tasks has ended."""

ASKS_IN_TERMINAL: Final = ("permission_prompt", "agent_needs_input", "elicitation_dialog")
"""The types of the notifications that the CLI sends when a dialog has been open in the terminal for a few seconds."""


MAY_BEGIN: Final = ("UserPromptSubmit", "PreToolUse")
"""Events that can be the first of a run. A tool call can be the first, because no hook reports a queued prompt when its
run begins."""

COPIED: Final = "fork"
"""The ``source`` of a ``SessionStart`` if the session begins as a copy of another one."""

SUBAGENT: Final = "subagent"

_KINDS: Final = {SUBAGENT: "local_agent", "shell": "local_bash"}
"""The type of a task in the hooks → its type in Claude Code's stream, which clients know."""


_CODES: Final = {"authentication_failed": NOT_LOGGED_IN, "rate_limit": RATE_LIMITED}
"""``error`` in ``StopFailure``, and in the message in the transcript (2.1.329) → the code in the client protocol."""


def code_of(error: str) -> str | None:
    """The client protocol's code for a failed request to the model; None if the protocol has no code for it."""
    return _CODES.get(error)


class Task(Struct, frozen=True):
    """Something that an agent has left running in the background. The fields that default to ``None`` are only shown to
    people, and may have any type."""

    id: str
    type: str = ""
    status: str = "running"
    description: Any = None
    command: Any = None
    agent_type: Any = None

    @property
    def shown(self) -> base.Task:
        """The task as clients see it."""
        words = text_of(self.description) or text_of(self.command) or name_of(self.agent_type) or ""
        kind = _KINDS.get(self.type) or name_of(self.type)
        return base.Task(self.id[:LONGEST_NAME], words, "running", kind, name_of(self.agent_type), background=True)

    @property
    def stored(self) -> Task:
        """The task as it is stored: each text that is shown to people is shortened to one line of limited length."""
        words, command = text_of(self.description), text_of(self.command)
        return Task(self.id, self.type, self.status, words, command, name_of(self.agent_type))


class HookEvent(Struct, frozen=True):
    """An event that a hook reports. ``prompt_id``: the id of the turn that it belongs to. Claude Code does not give a
    question an id: the question's tool and input identify it.

    ``agent_id``: the subagent that the event is about; None for the main agent.
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
    error: Any = None
    background_tasks: Raw = Raw(b"[]")

    @property
    def is_new_process(self) -> bool:
        """Whether the agent's program has just been started, with a new conversation or an earlier one."""
        return self.hook_event_name == "SessionStart" and self.source in ("startup", "resume")

    @property
    def code(self) -> str | None:
        """The client protocol's code for a failed request to the model (``StopFailure``); None if the protocol has no
        code for it, or for any other event."""
        return code_of(self.error) if isinstance(self.error, str) else None

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks that are running in the background, by id; empty if they are not valid."""
        try:
            found = msgspec.json.decode(self.background_tasks, type=list[Task])
        except msgspec.MsgspecError:
            return {}
        return {task.id: task for task in found if task.status == "running"}


_decoder: Final = msgspec.json.Decoder(HookEvent)


EARLIER: Final = "claude"
"""The agent of a hook that does not name its agent: earlier versions of the guard supported only this one."""


def _read(payload: Raw) -> HookEvent:
    event = _decoder.decode(payload)
    if not event.cwd.startswith("/"):
        raise ValueError("cwd is not absolute")
    return event


READERS: Final[Mapping[str, Callable[[Raw], HookEvent]]] = {"claude": _read}
"""An agent's name → the function that reads the payload of its hooks. The function raises ``ValueError`` if the payload
is not valid."""


def same_call(approval: ApprovalRequested, tool: str, after: Mapping[str, Any], *, as_run: bool) -> bool:
    """Whether a call with the input ``after`` is the one that the approval request is about.

    ``as_run``: whether ``after`` is what the call ran with. It may then contain additional fields (answers), or differ
    because a person has edited the text; the file is still the same.
    """
    if tool != approval.tool_name:
        return False
    if tool == LEAVING_PLAN:  # only one can be open; the agent's own call has no input
        return True
    before = json_object(approval.input)
    if all(name in after and after[name] == before[name] for name in before):
        return True
    return as_run and any(name in before and before[name] == after.get(name) for name in PATHS)


def json_object(data: Raw) -> Mapping[str, Any]:
    """The JSON object in ``data``; an empty object if ``data`` contains anything else."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
