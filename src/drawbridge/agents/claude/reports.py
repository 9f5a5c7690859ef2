"""Reads what Claude Code reports about itself in its stream: model, context, to-dos, tasks, retries, and what it
offers. Pure.

Only what a client can't know from the last records of the history is read here. The formats were measured with 2.1.329.
To-do lists in the format of older versions are also read. Fields of an unexpected type are ignored, and everything is
bounded in number and length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import (
    AgentOffers,
    AgentState,
    McpServer,
    ModelOffer,
    Offer,
    OffersReported,
    Output,
    Retry,
    StateReported,
    Task,
)
from drawbridge.agents.reported import LONGEST_DESCRIPTION, MOST, count_of, decoded, each, name_of, text_of, todo_of

STEERS: Final = "interrupt_cancel_queued_v1"
"""The capability that ``steer`` requires. Without it, an interrupt would begin a turn with a message that was added to
the interrupted turn."""

SYNTHETIC: Final = "<synthetic>"
"""The model name in a message that Claude Code itself wrote, such as an error."""

TODO_TOOL: Final = b"TodoWrite"
"""A line is decoded to look for a to-do list only if it contains these bytes."""


class _Usage(Struct):
    input_tokens: Any = 0
    cache_creation_input_tokens: Any = 0
    cache_read_input_tokens: Any = 0
    output_tokens: Any = 0


class _Block(Struct):
    type: Any = None
    name: Any = None
    input: Raw = Raw(b"null")


class _Message(Struct):
    model: Any = None
    usage: Raw = Raw(b"null")
    content: Raw = Raw(b"[]")


class _Assistant(Struct):
    message: _Message


class _Todos(Struct):
    todos: list[Any]


class _System(Struct):
    """The fields of ``system`` lines that are read."""

    model: Any = None
    slash_commands: Any = None
    skills: Any = None
    agents: Any = None
    mcp_servers: Any = None
    capabilities: Any = None
    status: Any = None
    attempt: Any = None
    max_retries: Any = None
    retry_delay_ms: Any = None
    error_status: Any = None
    error: Any = None
    tasks: Any = None
    task_id: Any = None
    task_type: Any = None
    description: Any = None
    subagent_type: Any = None
    is_backgrounded: Any = None
    patch: Any = None
    compact_metadata: Any = None
    compactMetadata: Any = None  # noqa: N815 - as Claude Code's own file has it


class _Recorded(Struct):
    """The fields of a line of a conversation, from the stream or from Claude Code's own file (in camel case)."""

    type: Any = None
    subtype: Any = None
    entrypoint: Any = None
    parent_tool_use_id: Any = None
    isSidechain: Any = None  # noqa: N815
    session_id: Any = None
    message: Raw = Raw(b"null")


class _Initialized(Struct):
    commands: Any = None
    agents: Any = None
    models: Any = None


class Reports:
    """The current state of one process and what it offers."""

    def __init__(self, state: AgentState | None = None) -> None:
        """``state``: what was already known about the conversation; None if nothing was."""
        self._state = state or AgentState()
        self._offers = AgentOffers()
        self._tasks: dict[str, Task] = {}
        """The running tasks, by their ids, in the order in which they were reported."""
        self._answer = _Message()
        """The main agent's latest message that ``recorded`` has read."""
        self._named = False
        """Whether ``init`` has reported the model. If so, the names in messages, which may be shorter, are ignored."""

    @property
    def state(self) -> AgentState:
        return self._state

    @property
    def steers(self) -> bool:
        return self._offers.steer

    def system(self, subtype: object, data: bytes) -> list[Output]:
        """Reads a line of type ``system``."""
        reader = _READERS.get(subtype) if isinstance(subtype, str) else None
        if reader is None:
            return []
        before = self._state, self._offers
        reader(self, decoded(data, _System) or _System())
        return self._changed(before)

    def answered(self) -> list[Output]:
        """Handles an answer from the API, after which the agent no longer retries."""
        before = self._state, self._offers
        self._change(retry=None)
        return self._changed(before)

    def todo_list(self, data: bytes) -> list[Output]:
        """Reads a line of type ``assistant`` that contains ``TODO_TOOL``."""
        before = self._state, self._offers
        self._todos(data)
        return self._changed(before)

    def result(self, result: dict[str, Any], last_answer: bytes | None) -> list[Output]:
        """Reads a line of type ``result``. ``last_answer``: the main agent's latest line of type ``assistant``; None
        before the first one and after a compaction."""
        before = self._state, self._offers
        answer = decoded(last_answer, _Assistant) if last_answer is not None else None
        if answer is not None:
            self._context(answer.message, result)
        return self._changed(before)

    def recorded(self, data: bytes) -> list[Output]:
        """Reads a stored line of a conversation, from a history or from Claude Code's own file."""
        before = self._state, self._offers
        line = decoded(data, _Recorded)
        if line is None or line.parent_tool_use_id or line.isSidechain is True:
            return []  # a subagent's line
        if isinstance(line.entrypoint, str) and line.entrypoint.startswith("sdk"):
            return []  # written by another process that continued the conversation
        if line.type == "assistant":
            self._answer = decoded(line.message, _Message) or _Message()
            model = name_of(self._answer.model)
            if model is not None and model != SYNTHETIC and not self._named:
                self._change(model=model)
            self._change(retry=None)
            self._context(self._answer, {})
            if TODO_TOOL in data:
                self._todos(data)
        elif line.type == "result":
            self._context(self._answer, decoded(data, dict[str, Any]) or {})
        elif line.type == "system":
            return self.system(line.subtype, data)
        return self._changed(before)

    def initialized(self, response: bytes | Raw) -> list[Output]:
        """Reads the answer to ``initialize``: the commands, subagents and models with their descriptions."""
        before = self._state, self._offers
        answer = decoded(response, _Initialized) or _Initialized()
        self._offer(
            commands=_offers(answer.commands, hint="argumentHint"),
            agents=_offers(answer.agents),
            models=each(answer.models, _model),
        )
        return self._changed(before)

    def effort_set(self, effort: str) -> list[Output]:
        before = self._state, self._offers
        self._change(effort=effort)
        return self._changed(before)

    def ended(self) -> list[Output]:
        """Handles the end of the process, which also ends its tasks."""
        before = self._state, self._offers
        self._tasks.clear()
        self._change(retry=None, compacting=False, tasks=())
        return self._changed(before)

    def _changed(self, before: tuple[AgentState, AgentOffers]) -> list[Output]:
        state, offers = before
        found: list[Output] = [StateReported(self._state)] if self._state != state else []
        return [*found, OffersReported(self._offers)] if self._offers != offers else found

    def _change(self, **fields: Any) -> None:
        self._state = msgspec.structs.replace(self._state, **fields)

    def _offer(self, **fields: Any) -> None:
        """Updates what the agent offers, ignoring empty fields, because a later line may contain less."""
        self._offers = msgspec.structs.replace(self._offers, **{name: value for name, value in fields.items() if value})

    def _context(self, message: _Message, result: dict[str, Any]) -> None:
        usage = decoded(message.usage, _Usage)
        tokens = sum(filter(None, map(count_of, msgspec.structs.astuple(usage)))) if usage is not None else 0
        models = result.get("modelUsage")
        used = models.get(message.model) if isinstance(models, dict) and isinstance(message.model, str) else None
        window = count_of(used.get("contextWindow")) if isinstance(used, dict) else None
        if tokens:  # a synthetic answer, for example after an error, reports no tokens
            self._change(context_tokens=tokens, context_window=window or self._state.context_window)

    def _todos(self, data: bytes) -> None:
        answer = decoded(data, _Assistant)
        blocks = decoded(answer.message.content, list[_Block]) if answer is not None else None
        for block in blocks or []:
            found = decoded(block.input, _Todos) if block.name == "TodoWrite" else None
            if found is not None:
                self._change(todos=each(found.todos, todo_of))

    # The lines of type ``system``.

    def _init(self, line: _System) -> None:
        model = name_of(line.model)
        self._named = model is not None
        if model is not None and model != self._state.model:
            self._change(model=model, context_window=None)
        known = {offer.name: offer for offer in (*self._offers.commands, *self._offers.agents)}

        def described(names: object) -> tuple[Offer, ...]:
            return tuple(known.get(name) or Offer(name) for name in each(names, name_of))

        self._offer(
            commands=described(line.slash_commands),
            skills=each(line.skills, name_of),
            agents=described(line.agents),
            mcp_servers=each(line.mcp_servers, _server),
            steer=STEERS in line.capabilities if isinstance(line.capabilities, list) else False,
        )

    def _status(self, line: _System) -> None:
        self._change(compacting=line.status == "compacting")

    def _retry(self, line: _System) -> None:
        attempt, attempts = count_of(line.attempt), count_of(line.max_retries)
        if attempt is not None and attempts is not None:
            reason = name_of(line.error) or "unknown"
            self._change(
                retry=Retry(attempt, attempts, reason, count_of(line.error_status), count_of(line.retry_delay_ms) or 0)
            )

    def _task_started(self, line: _System) -> None:
        task_id = name_of(line.task_id)
        if task_id is None or len(self._tasks) >= MOST:
            return
        self._tasks[task_id] = Task(
            task_id,
            text_of(line.description) or "",
            "running",
            name_of(line.task_type),
            name_of(line.subagent_type),
            background=line.is_backgrounded is True,
        )
        self._change(tasks=tuple(self._tasks.values()))

    def _task_updated(self, line: _System) -> None:
        """Updates a task, or removes it from the state if it has ended, because the history contains a line about its
        end.
        """
        status = line.patch.get("status") if isinstance(line.patch, dict) else line.status
        task = self._tasks.get(line.task_id) if isinstance(line.task_id, str) else None
        if task is None:
            return
        if isinstance(status, str) and status not in ("running", "pending"):
            del self._tasks[task.task_id]
        elif isinstance(line.patch, dict) and isinstance(line.patch.get("is_backgrounded"), bool):
            self._tasks[task.task_id] = msgspec.structs.replace(task, background=line.patch["is_backgrounded"])
        self._change(tasks=tuple(self._tasks.values()))

    def _background(self, line: _System) -> None:
        """Reads a line with the complete list of background tasks."""
        listed = {
            id: one
            for one in (line.tasks if isinstance(line.tasks, list) else [])[:MOST]
            if isinstance(one, dict) and (id := name_of(one.get("task_id"))) is not None
        }
        for id, task in list(self._tasks.items()):
            if id in listed or not task.background:
                continue
            del self._tasks[id]
        for id, one in listed.items():
            known = self._tasks.get(id) or Task(
                id, text_of(one.get("description")) or "", "running", name_of(one.get("task_type"))
            )
            self._tasks[id] = msgspec.structs.replace(known, background=True)
        self._change(tasks=tuple(self._tasks.values()))

    def _compacted(self, line: _System) -> None:
        streamed, stored = line.compact_metadata, line.compactMetadata
        tokens = streamed.get("post_tokens") if isinstance(streamed, dict) else None
        tokens = stored.get("postTokens") if isinstance(stored, dict) else tokens
        self._change(compacting=False, context_tokens=count_of(tokens))


_READERS: Final[dict[str, Callable[[Reports, _System], None]]] = {
    "init": Reports._init,
    "status": Reports._status,
    "api_retry": Reports._retry,
    "task_started": Reports._task_started,
    "task_updated": Reports._task_updated,
    "task_notification": Reports._task_updated,
    "background_tasks_changed": Reports._background,
    "compact_boundary": Reports._compacted,
}


def last_state(lines: Sequence[bytes], session_id: str) -> AgentState:
    """See ``Reconstructs.last_state``. Only lines of the conversation ``session_id`` are read."""
    reports = Reports()
    for data in lines:
        line = decoded(data, _Recorded)
        if line is not None and line.session_id == session_id:
            reports.recorded(data)
    reports.ended()
    return reports.state


def _offers(given: object, hint: str = "") -> tuple[Offer, ...]:
    def offer(one: Any) -> Offer | None:
        name = name_of(one.get("name")) if isinstance(one, dict) else None
        if name is None:
            return None
        return Offer(
            name, text_of(one.get("description"), LONGEST_DESCRIPTION), name_of(one.get(hint)) if hint else None
        )

    return each(given, offer)


def _model(given: Any) -> ModelOffer | None:
    name = name_of(given.get("value")) if isinstance(given, dict) else None
    if name is None:
        return None
    return ModelOffer(
        name,
        name_of(given.get("displayName")),
        text_of(given.get("description"), LONGEST_DESCRIPTION),
        name_of(given.get("resolvedModel")),
        each(given.get("supportedEffortLevels"), name_of),
    )


def _server(given: Any) -> McpServer | None:
    name = name_of(given.get("name")) if isinstance(given, dict) else None
    return None if name is None else McpServer(name, name_of(given.get("status")))
