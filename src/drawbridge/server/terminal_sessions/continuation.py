"""Determines from its history what continues in a terminal session after a restart: the active run and the open
approval requests. Also reads how the latest closed requests ended.

If the agent kept running while the server was down, its hook or bridge still waits for the answer. It reconnects and
reports the same question.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import Decision
from drawbridge.agents.terminal import Call
from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.events import ApprovalRequested, ApprovalResolved, PermissionWithdrawn, Recorded, RunFinished
from drawbridge.server.sessions.recorded_state import RecordedState
from drawbridge.server.store.lines import timestamp
from drawbridge.server.store.log import History, Record
from drawbridge.server.store.records import NOT_OURS, read
from drawbridge.server.terminal_sessions.processes import Processes
from drawbridge.server.terminal_sessions.questions import is_main_of

PAGE: Final = 200
"""The number of records that are read at a time. A decision that has not reached the agent is assumed to be among the
last ``PAGE`` records."""

PAGE_BYTES: Final = 8 * 1024 * 1024


LOOK_BACK: Final = 2_000
"""The number of records at the end of a history that are searched for the start of a run."""


class RestoredRequests(Struct):
    """The approval requests and calls that were read from a history. ``approvals``: the open and the latest closed
    approval requests that a hook or bridge may report again, oldest first. ``calls``: the latest tool calls without a
    result."""

    approvals: list[PendingApproval]
    calls: list[Call]


class _Block(Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""


class _Message(Struct):
    content: str | list[_Block] = ""


class _Line(Struct):
    """A line in the form in which all agents' lines are stored."""

    message: _Message = msgspec.field(default_factory=_Message)


class _OfAgent(Struct):
    message: _Line


def restored_requests(history: History, waiting: Collection[str]) -> RestoredRequests:
    """Reads approval requests, and tool calls without a result, from the end of the history. ``waiting``: the ids of
    the requests that are open according to the history. Raises ``HistoryUnreadable``."""
    questions: dict[str, PendingApproval] = {}
    calls: dict[str, Call] = {}
    for record in _tail(history, waiting):
        try:
            if record.direction == "server":
                _read_request(questions, record)
            elif record.direction == "claude":
                _read_calls(calls, record)
        except NOT_OURS:
            continue
    return RestoredRequests(
        [approval for approval in questions.values() if approval.request.known_as], list(calls.values())
    )


class Continuation(Struct):
    """The part of a session that continues after a restart. ``run``: the active run, if any. ``works``: the PID of the
    process that works on it, if it is known. ``is_open``: whether a process may still have the conversation open."""

    restored: RestoredRequests
    run: str | None
    works: int | None
    is_open: bool


def continuation(
    history: History, recorded: RecordedState, processes: Processes, works: int | None, *, ended: bool
) -> Continuation:
    """Determines what continues after a restart: the turn and the approval requests, if their agent is alive. If no
    process is known, only the agent's next report shows that it is alive. ``works`` and ``ended``: as in ``Facts``.
    Raises ``HistoryUnreadable``."""
    is_open = not ended and (processes.latest.pid is None or bool(processes.alive))
    found = restored_requests(history, recorded.approvals) if is_open else RestoredRequests([], [])
    works = processes.only if works is None else works  # earlier versions did not store it
    active = next(reversed(recorded.unfinished), None)
    has_left = not processes.is_alive(works) if works is not None else bool(processes.exited)
    waits = any(one.is_open and one.request.run_id == active for one in found.approvals)
    if is_open and not has_left and (processes.latest.pid is not None or waits):
        return Continuation(found, active, works, is_open)
    if has_left:
        left = [one for one in found.approvals if not is_main_of(one, active)]
        return Continuation(RestoredRequests(left, found.calls), None, None, is_open)
    return Continuation(found, None, works, is_open)


def age_of_run(history: History, run_id: str) -> float:
    """Seconds since the run began; 0 if its start is not among the last records of the history (see ``LOOK_BACK``).
    Raises ``HistoryUnreadable``."""
    wanted = run_id.encode()
    before, left = history.last_seq + 1, LOOK_BACK
    while left > 0:
        page = history.read(before_seq=before, limit=PAGE, max_bytes=PAGE_BYTES)
        for record in reversed(page.records):
            if record.direction == "server" and b'"run_started"' in record.line and wanted in record.line:
                return max(0.0, (datetime.now(UTC) - record.time).total_seconds())
        if not page.records or not page.has_more:
            break
        before, left = page.records[0].seq, left - len(page.records)
    return 0.0


def finished_runs(history: History) -> list[str]:
    """The ids of the runs that ended within the last ``PAGE`` records, oldest first. Raises ``HistoryUnreadable``."""
    found = []
    for record in history.read(before_seq=history.last_seq + 1, limit=PAGE, max_bytes=PAGE_BYTES).records:
        if record.direction == "server" and b'"run_finished"' in record.line:
            with contextlib.suppress(*NOT_OURS):
                event = read(record.line).event
                if isinstance(event, RunFinished):
                    found.append(event.run_id)
    return found


def _tail(history: History, waiting: Collection[str]) -> list[Record]:
    """The records in the last pages of the history, oldest first. The pages include every approval request that is in
    ``waiting``, or that was resolved or withdrawn in the last page, and one more page precedes them."""
    tail: list[Record] = []
    missing, before, more = set(waiting), history.last_seq + 1, True
    while more:
        page = history.read(before_seq=before, limit=PAGE, max_bytes=PAGE_BYTES)
        more = page.has_more and bool(missing or not tail)
        for record in reversed(page.records):
            match _event(record):
                case ApprovalRequested(approval_id=approval_id):
                    missing.discard(approval_id)
                case ApprovalResolved(approval_id=approval_id) | PermissionWithdrawn(approval_id=approval_id) if (
                    not tail
                ):
                    missing.add(approval_id)
        tail[:0] = page.records
        before = tail[0].seq if tail else 0
    return tail


def _event(record: Record) -> Recorded | None:
    """The server's event in a record; None for any other record, and for one that can't be read."""
    if record.direction == "server":
        with contextlib.suppress(*NOT_OURS):
            return read(record.line).event
    return None


def _read_request(questions: dict[str, PendingApproval], record: Record) -> None:
    match _event(record):
        case ApprovalRequested() as request:
            questions[request.approval_id] = PendingApproval(request, "", timestamp(record), record.seq)
        case ApprovalResolved() as resolved:
            if approval := questions.get(resolved.approval_id):
                allows = resolved.decision == "allow"
                decision = Decision(allows, resolved.message, resolved.updated_input, resolved.remember)
                approval.decide(resolved.by, decision)
        case PermissionWithdrawn(approval_id, reason):
            if (approval := questions.get(approval_id)) and not approval.withdraw(reason):
                approval.overrule()


def _read_calls(calls: dict[str, Call], record: Record) -> None:
    content = msgspec.json.decode(record.line, type=_OfAgent).message.message.content
    for block in content if isinstance(content, list) else []:
        if block.type == "tool_use":
            calls[block.id] = Call(block.id, block.name, block.input)
        elif block.type == "tool_result":
            calls.pop(block.tool_use_id, None)
