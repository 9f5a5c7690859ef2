"""The state of one project's conversation, derived only from snapshots, records and live messages. Does no I/O.

``items`` are what the user sees, ordered by ``seq``. They show a part of the history without gaps. ``prepend`` adds an
older part, and items far from the reader are released. ``cursor``: the ``seq`` up to which everything was received.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from drawbridge.text.counts import counted
from drawbridge.text.review_words import decided_words, interrupted_words

MOST_ITEMS: Final = 600
"""The maximum number of items in memory. Each is laid out once, and again when the terminal's width changes."""

NEVER: Final = 2**63
"""A number greater than any ``seq``, because the run of a prompt that was removed from the queue never begins."""

UNKNOWN: Final = "unknown content"
"""Replaces a part of a tool's result that does not name its type."""

Kind: TypeAlias = Literal["prompt", "text", "aside", "tool", "question", "finished", "notice"]
Json: TypeAlias = Mapping[str, Any]


class Record(NamedTuple):
    """A record of the history. ``truncated``: set if the message is a preview; describes the complete record."""

    seq: int
    timestamp: str
    direction: str
    message: Any
    truncated: Json | None = None


class Result(NamedTuple):
    """The result of a tool call. ``error``: whether the call failed. ``truncated``: as in ``Record``."""

    text: str
    error: bool
    truncated: Json | None
    denied: bool
    """Whether the tool was not allowed to run."""


@dataclass(slots=True, eq=False)
class Item:
    """One item of a conversation. ``version`` counts its changes. ``Conversation`` defines what ``data`` contains for
    each ``kind``. ``nested``: whether it belongs to a subagent."""

    key: int
    seq: int
    timestamp: str
    kind: Kind
    data: dict[str, Any] = field(default_factory=dict)
    truncated: Json | None = None
    nested: bool = False
    version: int = 0


class Conversation:
    """The conversation of the project ``id``."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.joined = False
        self.cursor = 0
        self.first = 1
        """The lowest ``seq`` in memory."""
        self.begins = 1
        """The first ``seq`` on the server, if known. The server may have deleted older history."""
        self.last = 0
        """The highest ``seq`` in memory; below ``cursor`` if the end was released."""
        self.items: list[Item] = []
        self.open: dict[str, Json] = {}
        """Open approval requests by id, as the server sends them."""
        self.answers: dict[str, Json] = {}
        """The decisions that were received for approval requests, or their withdrawals, by id."""
        self.run: Json | None = None
        self.queue: list[Json] = []
        self.agent: Json = {}
        """The agent's state as the agent reports it: ``agent_state`` in the protocol."""
        self.offers: Json = {}
        """The agent's offers: ``agent_offers`` in the protocol."""
        self.live = ""
        """Partial text of the message in progress, which is not in the history yet."""
        self.thinking = False
        self.cost = 0.0
        self._keys = count(1)
        self._early: dict[int, Record] = {}
        self._tools: dict[str, Item] = {}
        self._results: dict[str, Result] = {}
        self._questions: dict[str, Item] = {}
        self._snapshot = 0
        self._prompts: dict[str, Record] = {}
        """By run id, the records of prompts whose runs begin at a later record, or are not known to have begun."""
        self._edits: dict[str, Record] = {}
        """By run id, the record of the latest edit to a prompt in the queue."""
        self._begun: dict[str, int] = {}
        """By run id, the ``seq`` at which the run began, or ended if it never began; ``NEVER`` if its prompt was
        removed from the queue."""
        self._accepted: dict[str, Json] = {}
        """By run id, prompts that neither the queue nor a run contains yet."""

    @property
    def waiting(self) -> list[Json]:
        """The prompts of runs that have not begun, the next one first."""
        queued = [one for one in self.queue if one["position"] > 0]
        known = {one["run_id"] for one in queued}
        run = self.run
        if run is not None and "prompt" in run and not run.get("started_at") and run["run_id"] not in self._begun:
            known.add(run["run_id"])
            queued.insert(0, run)
        return [one for id, one in self._accepted.items() if id not in known] + queued

    @property
    def has_older(self) -> bool:
        return self.first > self.begins

    @property
    def at_end(self) -> bool:
        return self.last >= self.cursor

    def join(self, snapshot: Json, *, restart: bool) -> None:
        """Applies the snapshot in ``project_joined``. ``restart``: whether to drop what was known before."""
        if restart:
            self.cursor = self.last = snapshot["last_seq"]
            self.first = snapshot["last_seq"] + 1
            self.begins = 1
            self.cost = 0.0
            self._prompts.clear()
            self._edits.clear()
            self._begun.clear()
            self._release_all()
        self.joined = True
        self._snapshot = snapshot["last_seq"]
        self.run = snapshot["run"]
        self.queue = list(snapshot["queue"])
        self.agent = snapshot.get("agent_state") or {}
        self.offers = snapshot.get("agent_offers") or {}
        self.open = {one["approval_id"]: one for one in snapshot["open_approvals"]}
        self.live = ""
        self._accepted.clear()
        self._drain()

    def leave(self) -> None:
        """Until the next ``join``, live records wait, because records before them may be missing. Those that waited
        before may belong to another history, and the server sends them again."""
        self.joined = False
        self._early.clear()

    def apply_update(self, type: str, data: Json) -> None:
        """Applies an update that is not in the history, if it concerns the conversation."""
        match type:
            case "queue_changed":
                self.queue = list(data["queue"])
            case "agent_state":
                self.agent = data
            case "agent_offers":
                self.offers = data

    def enqueue(self, prompt: Json) -> None:
        """Adds the user's own prompt to the queue, unless the server has reported it first."""
        if all(one["run_id"] != prompt["run_id"] for one in self.queue):
            self.queue = [*self.queue, prompt]

    def apply(self, record: Record) -> None:
        """Applies a live record. A repeated record changes nothing; an early record waits for the records before it."""
        if record.seq > self.cursor:
            self._early[record.seq] = record
            if self.joined:
                self._drain()

    def apply_partial(self, line: Json) -> None:
        """Applies a message that is not in the history: partial text."""
        if line.get("type") != "stream_event" or line.get("parent_tool_use_id"):
            return
        match line.get("event"):
            case {"type": "content_block_start", "content_block": {"type": kind, **block}}:
                self.live = str(block.get("text", "")) if kind == "text" else ""
                self.thinking = kind == "thinking"
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
                self.live += text

    def prepend(self, records: Iterable[Record], *, has_more: bool = True) -> None:
        """Adds older records, in order, the last of them directly before ``first``. ``has_more``: whether the server has
        records before them."""
        self._prepend(records)
        if not has_more:
            self.begins = self.first

    def _prepend(self, records: Iterable[Record]) -> None:
        older = [record for record in records if record.seq < self.first]
        if not older:
            return
        behind, self.items = self.items, []
        for record in older:
            self._note_begin(record)
        for record in older:
            self._show(record, behind)
        if behind and behind[0].kind == "finished":  # the run ended on the page that was loaded first
            self._drop_repeated(behind[0].data)
        if any(item.kind == "finished" for item in behind):
            self._mark_stopped()
        self.items += behind
        self.first = older[0].seq
        if len(self.items) > MOST_ITEMS:
            cut = self.items[MOST_ITEMS].seq  # a record's items are released together
            self._release([item for item in self.items if item.seq < cut])
            self.last = cut - 1

    def jump(self, last: int) -> None:
        """Releases everything in memory, so that the records that ``prepend`` adds next end with the record
        ``last``."""
        self._release_all()
        self.first, self.last = last + 1, last

    def append(self, records: Iterable[Record]) -> None:
        """Adds records after ``last``, if the end was released."""
        newer = list(records)
        for record in newer:
            self._note_begin(record)
        for record in newer:
            if record.seq == self.last + 1:
                self._show(record)
                self.last = record.seq
        self._shorten()

    def _drain(self) -> None:
        self._early = {seq: record for seq, record in self._early.items() if seq > self.cursor}
        while record := self._early.pop(self.cursor + 1, None):
            shown = self.at_end
            self.cursor = record.seq
            self._note_begin(record)
            self._follow(record)
            if shown:
                self._show(record)
                self.last = record.seq
        self._shorten()

    def _shorten(self) -> None:
        if len(self.items) > MOST_ITEMS:
            self.first = self.items[-MOST_ITEMS * 3 // 4].seq
            self._release([item for item in self.items if item.seq >= self.first])

    def _release_all(self) -> None:
        self._release([])
        self._results.clear()

    def _release(self, items: list[Item]) -> None:
        self.items = items
        kept = {item.key for item in items}
        self._tools = {id: item for id, item in self._tools.items() if item.key in kept}
        self._questions = {id: item for id, item in self._questions.items() if item.key in kept}

    def _follow(self, record: Record) -> None:
        """Applies a record to the state, apart from what the snapshot already contains."""
        message = record.message if isinstance(record.message, dict) else {}
        ended = record.direction == "claude" and message.get("type") in ("assistant", "result")
        if ended and not message.get("parent_tool_use_id"):
            self.live, self.thinking = "", False
        if record.seq <= self._snapshot:
            return
        if record.direction == "client" and self._waits(record):
            id = message["run_id"]
            self._accepted[id] = {"run_id": id, "position": 0, "prompt": _prompt_in(message)}
        if record.direction != "server":
            return
        data = message.get("message", {})
        match message.get("subtype"):
            case "permission_request":
                self.open[data["approval_id"]] = data
            case "permission_resolved" | "permission_withdrawn":
                self.open.pop(data["approval_id"], None)
                self.answers[data["approval_id"]] = data
            case "run_started":
                self.run = {"run_id": data["run_id"], "started_at": datetime.now(UTC).isoformat()}
                self._dequeue(data["run_id"])
            case "run_finished":
                if self.run is None or self.run["run_id"] == data["run_id"]:
                    self.run = None
                self._dequeue(data["run_id"])
                self.live = ""

    def _dequeue(self, run_id: str) -> None:
        self.queue = [one for one in self.queue if one["run_id"] != run_id]
        self._accepted.pop(run_id, None)

    # A prompt is shown where its run begins, because the answers to the prompts before it come first.

    def _note_begin(self, record: Record) -> None:
        message = record.message if isinstance(record.message, dict) else {}
        data = message.get("message")
        if record.direction != "server" or not isinstance(data, dict) or not isinstance(data.get("run_id"), str):
            return
        match message.get("subtype"):
            case "prompt_edited":
                self._edits[data["run_id"]] = record
            case "run_started":
                self._begun[data["run_id"]] = record.seq
            case "run_finished":
                self._begun.setdefault(data["run_id"], NEVER if data.get("removed_by") else record.seq)

    def _waits(self, record: Record) -> bool:
        """Whether the record is a prompt that is shown when its run begins, and not earlier."""
        run = _run_of(record)
        if run is None or run in self._begun:
            return False
        return record.seq > self._snapshot or any(one["run_id"] == run for one in self.waiting)

    def _show_prompt(self, record: Record, behind: list[Item]) -> None:
        """Shows a prompt. ``behind``: the items after those that are being added. As long as it is not known where its
        run begins, a prompt that does not wait is shown at its own record."""
        run = _run_of(record)
        begun = None if run is None else self._begun.get(run)
        if run is not None and (begun is None or begun > record.seq):
            self._prompts[run] = record
        if begun is None or begun <= record.seq:
            if not self._waits(record):
                self._add_prompt(record, record.seq)
        elif self.first <= begun <= self.last and all(item.data.get("run") != run for item in behind):
            self.items, before = [], self.items
            self._add_prompt(record, begun)
            at = next((at for at, item in enumerate(behind) if item.seq >= begun), len(behind))
            behind[at:at], self.items = self.items, before

    def _show_prompt_of(self, run: str, seq: int) -> None:
        """Shows the prompt of a run that begins with the record ``seq``, or ends with it without having begun."""
        prompt = self._prompts.get(run)
        if prompt is not None and prompt.seq < seq and self._begun.get(run) == seq:
            self.items = [item for item in self.items if item.data.get("record") != prompt.seq]
            self._add_prompt(prompt, seq)
            del self._prompts[run]

    def _with_prompt(self, finished: Json) -> dict[str, Any]:
        """The data of a run's end. If its prompt was removed from the queue, ``prompt`` is added."""
        if not finished.get("removed_by"):
            return dict(finished)
        prompt, edit = self._prompts.pop(finished["run_id"], None), self._edits.get(finished["run_id"])
        known = edit or prompt
        return {**finished, "prompt": _prompt_in(known.message) if known is not None else ""}

    def _add_prompt(self, record: Record, seq: int) -> None:
        """Adds a prompt, with its latest edit if it was edited in the queue. ``seq``: the record at which it is
        shown."""
        run = _run_of(record)
        sent = self._edits.get(run or "", record)
        client = _client_of(record.message) if isinstance(record.message, dict) else {"by": None}
        shown = record._replace(seq=seq, truncated=sent.truncated)
        self._add(shown, "prompt", {**client, "text": _prompt_in(sent.message), "run": run, "record": record.seq})

    # The items of a record.

    def _drop_repeated(self, finished: Json) -> None:
        """Drops the last item if the end of the run repeats it: the agent's error, or the note that it was stopped."""
        last, error = self.items[-1] if self.items else None, finished.get("error")
        if last is None or last.nested:
            return
        if last.kind == "text" and isinstance(error, str):
            said = last.data["text"].strip().rstrip(".!")
            # The server's error may have a cause before the agent's own words, and advice after them.
            is_inside = re.search(rf": {re.escape(said)}([.!]|$)", error) is not None
            is_repeated = bool(said) and (said == error.strip().rstrip(".!") or is_inside)
        else:
            is_stop = finished.get("outcome") == "interrupted" and last.kind == "aside"
            is_repeated = is_stop and last.data["text"].lstrip().startswith("[Request interrupted by user")
        if is_repeated:
            self.items.pop()

    def _add(self, record: Record, kind: Kind, data: dict[str, Any], *, nested: bool = False) -> Item:
        item = Item(next(self._keys), record.seq, record.timestamp, kind, data, record.truncated, nested)
        self.items.append(item)
        return item

    def _show(self, record: Record, behind: list[Item] | None = None) -> None:
        message = record.message if isinstance(record.message, dict) else {}
        if record.direction == "client":
            self._show_prompt(record, [] if behind is None else behind)
        elif record.direction == "server":
            self._show_event(record, message)
        elif message.get("type") in ("assistant", "user"):
            self._show_blocks(record, message)
        elif message.get("type") == "system":
            self._show_report(record, message)
        elif message.get("type") not in ("system", "result") and message.get("preview"):
            self._add(record, "text", {"text": str(message["preview"])})

    def _show_blocks(self, record: Record, message: Json) -> None:
        inner = message.get("message")
        content = inner.get("content") if isinstance(inner, dict) else None
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        nested = bool(message.get("parent_tool_use_id"))
        for block in blocks if isinstance(blocks, list) else ():
            match block:
                case {"type": "text", "text": str(text)} if text:
                    kind: Kind = "aside" if message["type"] == "user" else "text"
                    is_summary = bool(message.get("isCompactSummary"))
                    self._add(record, kind, {"text": text, "summary": is_summary}, nested=nested)
                case {"type": "tool_use", "id": str(id), "name": str(name)}:
                    given = block.get("input")
                    data: dict[str, Any] = {"name": name, "input": given if isinstance(given, dict) else {}}
                    known = self._tools.get(id)
                    if known is not None and known.data["result"] is None:  # this block completes the call
                        known.data |= data
                        known.version += 1
                        continue
                    waits = self._is_waiting(id, data["input"])
                    data |= {"result": self._results.pop(id, None), "waiting": waits}
                    self._tools[id] = self._add(record, "tool", data, nested=nested)
                case {"type": "tool_result", "tool_use_id": str(id)}:
                    text, error = result_text(block.get("content")), bool(block.get("is_error"))
                    result = Result(text, error, record.truncated, error and _is_denied(message, id))
                    tool = self._tools.get(id)
                    if tool is None:
                        self._results[id] = result
                    else:
                        tool.data["result"] = result
                        tool.data["rejected"] = result.error and self._is_rejected(id, tool)
                        tool.version += 1

    def _is_rejected(self, id: str, tool: Item) -> bool:
        """Whether a person denied exactly this call. False if its approval request is not in memory."""
        for question in reversed(self._questions.values()):
            if _is_about(question.data["request"], id, tool.data["input"]):
                return (question.data["answer"] or {}).get("decision") == "deny"
        return False

    def _is_waiting(self, id: str, given: Any) -> bool:
        """Whether the call ``id`` with the input ``given`` waits for the decision on an approval request."""
        return any(
            question.data["answer"] is None and _is_about(question.data["request"], id, given)
            for question in self._questions.values()
        )

    def _mark_waiting(self, request: Json) -> None:
        """Marks the call that the approval request is about, if it waits for the decision."""
        for id, tool in reversed(self._tools.items()):
            if tool.data["result"] is None and _is_about(request, id, tool.data["input"]):
                tool.data["waiting"] = self._is_waiting(id, tool.data["input"])
                tool.version += 1
                return

    def _mark_stopped(self) -> None:
        """Marks the calls of runs that ended before the calls did."""
        for tool in self.items:
            if tool.kind == "tool" and tool.data["result"] is None and not tool.data.get("stopped"):
                tool.data["stopped"] = True
                tool.version += 1

    def _show_report(self, record: Record, message: Json) -> None:
        """Shows what the agent reports about itself, if it belongs in the history: compactions, and how background
        tasks ended. The end of a task that the agent waits for is the result of its call."""
        match message.get("subtype"):
            case "compact_boundary":
                self._add(record, "notice", {"text": f"Conversation compacted{_sizes(message)}"})
            case "task_notification":
                tool, text = self._tools.get(str(message.get("tool_use_id"))), message.get("summary")
                if isinstance(text, str) and text and (tool is None or tool.data["result"] is not None):
                    self._add(record, "aside", {"text": text})  # the agent's words, not the client's

    def _show_event(self, record: Record, message: Json) -> None:
        data = message.get("message", {})
        match message.get("subtype"):
            case "permission_request":
                answer = self.answers.get(data["approval_id"])
                self._questions[data["approval_id"]] = self._add(
                    record, "question", {"request": data, "answer": answer}
                )
                self._mark_waiting(data)
            case "permission_resolved" | "permission_withdrawn":
                self.answers[data["approval_id"]] = data
                question = self._questions.get(data["approval_id"])
                if question is not None:
                    question.data["answer"] = data
                    question.version += 1
                    self._mark_waiting(question.data["request"])
            case "run_started":
                if self.run is not None and self.run["run_id"] == data["run_id"]:
                    self.run = {"started_at": record.timestamp, **self.run}
                self._show_prompt_of(data["run_id"], record.seq)
            case "run_finished":
                self.cost += data.get("cost_usd") or 0
                self._show_prompt_of(data["run_id"], record.seq)
                self._drop_repeated(data)
                self._mark_stopped()
                self._add(record, "finished", self._with_prompt(data))
            case "run_reverted":
                files = counted(len(data.get("files") or ()), "file")
                self._add(record, "notice", {**_client_of(data), "text": f"undid the changes to {files}"})
            case "review_decided" if data.get("by"):
                shown = ("files", "paths", "diff", "diff_truncated")
                more = {name: data[name] for name in shown if name in data}
                self._add(record, "notice", {**_client_of(data), **more, "text": decided_words(data)})
            case "review_interrupted":
                self._add(record, "notice", {**_client_of(data), "text": interrupted_words(data)})
            case "session_reset":
                self._add(record, "notice", {"text": "New session"})
            case "session_changed" if words := _chosen_session(data):
                self._add(record, "notice", {"text": words})


def truncation(item: Item) -> Json | None:
    """Describes the complete record of an item that is a preview, or whose result is one; None for any other item."""
    result = item.data.get("result") if item.kind == "tool" else None
    return item.truncated or (result.truncated if result is not None else None)


def _is_about(request: Json, id: str, given: Any) -> bool:
    """Whether an approval request is about the call ``id`` with the input ``given``."""
    asked = request.get("input")
    if request.get("form") == "acp" and isinstance(asked, dict):
        return bool(asked.get("toolCallId") == id)
    return bool(asked == given)


def _is_denied(message: Json, id: str) -> bool:
    """Whether Claude Code reports that this call was not allowed to run: by a person, a rule, a hook or auto mode."""
    metadata = message.get("tool_result_meta")
    about = (
        [one for one in metadata if isinstance(one, dict) and one.get("id") == id] if isinstance(metadata, list) else []
    )
    return any(isinstance(one.get("non_execution_kind"), str) for one in about)


def _chosen_session(changed: Json) -> str:
    """Describes the session that a client has chosen to fork or to resume; empty for any other change."""
    title = changed.get("title")
    named = f"“{title}”" if title else "an earlier session"
    if changed.get("fork_from"):
        return f"Forked from {named}"
    return f"Resumed {named}" if changed.get("session_id") and changed.get("agent") else ""


def _run_of(record: Record) -> str | None:
    """The id of the run that begins with this prompt; None for a record without a prompt, or if the prompt was added to
    the current run."""
    message = record.message if record.direction == "client" and isinstance(record.message, dict) else {}
    run = message.get("run_id")
    return run if isinstance(run, str) and not message.get("steer") else None


def _client_of(data: Mapping[str, Any]) -> Json:
    """The client that did something; None for what is not known."""
    return {"by": data.get("by"), "client_id": data.get("client_id")}


def _prompt_in(message: Any) -> str:
    """The text in the record of a prompt or of its edit."""
    inner = message.get("message") if isinstance(message, dict) else None
    return str(inner.get("prompt", "")) if isinstance(inner, dict) else ""


def result_text(content: Any) -> str:
    """The text in a tool's result, which may be a string or a list of content blocks."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(_part_text(part) for part in parts)


def _part_text(part: Any) -> str:
    kind = part.get("type", UNKNOWN) if isinstance(part, dict) else UNKNOWN
    return str(part.get("text", "")) if kind == "text" else f"[{kind}]"


def record_of(message: Json) -> Record | None:
    """The record of the history that a message from the server contains; None if the message is not in the history."""
    seq, data = message.get("seq"), message["data"]
    if seq is None:
        return None
    timestamp = data.get("timestamp") or data.get("created_at") or datetime.now(UTC).isoformat()
    match message["type"]:
        case "agent_message":
            return Record(seq, timestamp, data["direction"], data["messages"][0], data.get("truncated"))
        case "permission_request":
            return _event(seq, timestamp, "permission_request", data)
        case "update":
            return _event(seq, timestamp, data["update_type"], data["data"])
    return None


def _sizes(message: Json) -> str:
    """The sizes of a conversation before and after it was compacted, if they are known."""
    given = message.get("compact_metadata")
    before, after = (
        _thousands(given.get(name)) if isinstance(given, dict) else "" for name in ("pre_tokens", "post_tokens")
    )
    if before and after:
        return f" ({before} to {after} tokens)"
    return f" (from {before} tokens)" if before else ""


def _thousands(tokens: object) -> str:
    if not isinstance(tokens, int):
        return ""
    return str(tokens) if tokens < 1000 else f"{round(tokens / 1000)}k"


def _event(seq: int, timestamp: str, subtype: str, data: Json) -> Record:
    message = {"type": "system", "subtype": subtype, "message": data}
    return Record(seq, timestamp, "server", message, data.get("truncated"))


def record_in(line: Json) -> Record:
    """A record from a page of history."""
    return Record(line["seq"], line["timestamp"], line["direction"], line["message"], line.get("truncated"))
