"""The approval requests of one session. Each is resolved or withdrawn once, recorded, and reported on every surface."""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from drawbridge.agents import registry
from drawbridge.agents.base import Decision, Question
from drawbridge.agents.tool_calls import ToolCall
from drawbridge.core.errors import DrawbridgeError, HistoryNotWritten, UnusableFile
from drawbridge.editors.files import from_uri
from drawbridge.server.approvals.editors import Decide, Editors
from drawbridge.server.approvals.paths import escaped, normal, real
from drawbridge.server.approvals.pending import Asker, PendingApproval, Surface, Verdict
from drawbridge.server.approvals.words import words
from drawbridge.server.events import (
    SHOWN_TEXT,
    ApprovalRequested,
    ApprovalResolved,
    OpenApproval,
    PermissionWithdrawn,
    Stored,
)
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.answers import Answer, updated
from drawbridge.server.protocol.client_errors import ClientError, not_written
from drawbridge.server.protocol.frames import ROOM
from drawbridge.server.updates import permission_request, permission_resolved

logger = logging.getLogger("drawbridge.server")

LONGEST_NAME: Final = 200
"""The maximum length of a tool's name in lists, in characters."""

REMEMBERED: Final = 200
"""The maximum number of closed approval requests that are remembered, to answer decisions that arrive too late."""


class Approvals:
    """The approval requests of one session. Iterating yields the open ones, oldest first. Each has at least one asker
    through which the agent sent it.

    ``root``: the project's directory. ``append`` records a decision, and raises ``DrawbridgeError`` if that fails.
    ``publish`` then reports it to clients. ``record`` does both for other events, and only logs a failure (all as
    in ``SessionStore``). ``verdicts``: how the latest requests ended according to the history, including requests of
    earlier server processes. ``decide``: what ``editors`` call with the user's decision.
    """

    def __init__(
        self,
        project_id: str,
        root: str,
        append: Callable[[ApprovalResolved, str], Stored],
        publish: Callable[[Stored], int | None],
        record: Callable[[ApprovalRequested | PermissionWithdrawn], int | None],
        verdicts: Mapping[str, Verdict],
        editors: Editors,
        decide: Decide,
    ) -> None:
        self._project_id = project_id
        self._root = root
        self._append = append
        self._publish = publish
        self._record = record
        self._before = verdicts
        self._editors = editors
        self._decide = decide
        self._open: dict[str, PendingApproval] = {}
        self._askers: dict[str, list[Asker]] = {}
        self._closed: OrderedDict[str, Verdict] = OrderedDict()

    def __iter__(self) -> Iterator[PendingApproval]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def find(self, approval_id: str) -> PendingApproval | None:
        """The open approval request with this id; None if it is not open."""
        return self._open.get(approval_id)

    def get(self, approval_id: str) -> PendingApproval:
        """The open approval request with this id. Raises ``ClientError``, with the decision if there is one already."""
        approval = self._open.get(approval_id)
        if approval is None:
            raise self._too_late(approval_id)
        return approval

    def askers(self, approval: PendingApproval) -> Sequence[Asker]:
        """The askers of an open approval request; empty for any other request."""
        return self._askers.get(approval.id, ())

    def request(self, approval: PendingApproval, agent: str, asker: Asker, *, offered: bool = True) -> None:
        """Opens an approval request for which the agent waits through ``asker``. ``agent``: the agent's name. ``offered``:
        whether editors also show the request, if it proposes a change to a file. The editor in which the agent itself
        shows the change is left out. If the disk did not respond (see ``look_at``), no links are followed.
        """
        approval.interpret(registry.tools(agent))
        if not approval.is_described:
            found = words(approval.request, approval.call, agent, self._root, normal)
            approval.described(shown_fields=approval.shown_fields(), **msgspec.structs.asdict(found))
        self._open[approval.id] = approval
        self._askers[approval.id] = [asker]
        approval.recorded(self._record(approval.request))
        if offered:
            self._editors.offer(approval, agent, self._decide, asker.pid)

    def restore(self, approval: PendingApproval, agent: str, asker: Asker, *, offered: bool) -> None:
        """Restores an approval request from before a restart, without recording it again. If it was resolved or
        withdrawn, only its outcome is remembered.
        """
        approval.interpret(registry.tools(agent))
        if not approval.is_open:
            self._remember(approval)
            return
        self._open[approval.id] = approval
        self._askers[approval.id] = [asker]
        if offered:
            self._editors.offer(approval, agent, self._decide, asker.pid)

    def add(self, approval: PendingApproval, asker: Asker) -> None:
        """Adds an asker through which the agent sent the same approval request. Does nothing if the request is not
        open."""
        if approval.id in self._askers:
            self._askers[approval.id].append(asker)

    def replace(self, approval: PendingApproval, asker: Asker) -> bool:
        """Replaces the first asker of an approval request that the agent sent again. Returns whether the request
        is still open."""
        if approval.id not in self._askers:
            return False
        self._askers[approval.id][0] = asker
        return True

    def remove(self, approval: PendingApproval, asker: Asker) -> None:
        """Removes an asker through which the agent can no longer be reached. The request must have another one."""
        self._askers[approval.id].remove(asker)

    def release(self) -> None:
        """Forgets all approval requests, because the session is being closed. Open ones stay open in the history."""
        self._open.clear()
        self._askers.clear()
        self._closed.clear()

    def decide(
        self, approval: PendingApproval, decision: Decision, by: Surface, at: Asker | None = None
    ) -> tuple[Answer[messages.PermissionResolved], Asker]:
        """Accepts the first decision. It is recorded, the agent receives it through the first asker, and then it is
        published, and the editors and the other askers close the request. ``at``: the asker that delivers the decision
        itself, instead of the first one. Returns the reply for the client, and the asker that delivers the decision.

        Raises ``ClientError`` for a later decision, for one that does not fit the request, and for one that can't be
        written, since an agent must not receive a decision that is not in the history. In the last two cases the
        request stays open.
        """
        self._check(approval, decision)
        word: Literal["allow", "deny"] = "allow" if decision.allow else "deny"
        resolved = ApprovalResolved(
            approval_id=approval.id,
            by=by.name,
            decision=word,
            message=decision.message,
            updated_input=decision.updated_input,
            remember=decision.remember,
            client_id=by.id,
            **_edited(approval, decision),
        )
        try:
            stored = self._append(resolved, by.id)
        except DrawbridgeError as error:
            logger.error("%s: the decision on %s could not be written: %s", self._project_id, approval.id, error)
            refused = not_written(error)
            text = f"{refused.text} The agent did not receive the answer, and the request stays open."
            raise ClientError(refused.code, text, retryable=isinstance(error, HistoryNotWritten)) from None
        approval.decide(by.name, decision)
        askers = self._close(approval, by.id)
        asking = at or askers[0]
        try:
            if at is None:
                asking.decided(approval, decision, by.name)
        finally:  # the decision is in the history, so clients see it even if the agent can't be reached
            seq = self._publish(stored)
            self._editors.close(approval)
        for asker in askers:
            if asker is not asking:
                asker.closed()
        answer = updated("permission_resolved", permission_resolved(resolved), self._project_id, seq)
        return answer, asking

    def withdraw(self, approval: PendingApproval, reason: str) -> bool:
        """Withdraws the request. Returns whether it was still open."""
        if not approval.withdraw(reason):
            return False
        askers = self._close(approval)
        self._record(PermissionWithdrawn(approval.id, reason))
        self._editors.close(approval)
        for asker in askers:
            asker.closed()
        return True

    def waiting(self) -> tuple[OpenApproval, ...]:
        """The open requests, for lists."""
        return tuple(
            OpenApproval(one.id, one.request.tool_name[:LONGEST_NAME], one.created_at, one.request.summary)
            for one in self
        )

    def shown(self, room: int) -> list[messages.PermissionRequest]:
        """The open requests for a snapshot: at most ``room`` bytes in total, as previews if necessary."""
        each = room // max(len(self), 1) - ROOM
        return [permission_request(self._project_id, one.request, one.created_at, one.seq, each) for one in self]

    def _check(self, approval: PendingApproval, decision: Decision) -> None:
        """Raises ``ClientError`` if the request is no longer open, or the decision does not fit it."""
        if approval.id not in self._open:
            raise self._too_late(approval.id)
        if decision.updated_input is not None and not approval.request.changeable:
            text = "This agent does not accept edited input. The request stays open: allow it unchanged, or deny it."
            raise ClientError("NOT_SUPPORTED", text, field="data.updated_input")
        if decision.allow and approval.call.kind == "question" and not _has_answers(approval.call, decision):
            text = "The answers to the questions are missing. The request stays open: send the input with answers, or deny it."
            raise ClientError("VALIDATION_FAILED", text, field="data.updated_input")

    def _too_late(self, approval_id: str) -> ClientError:
        verdict = self._closed.get(approval_id) or self._before.get(approval_id)
        if verdict is None:
            return ClientError(
                "APPROVAL_NOT_FOUND", "This project has no approval request with that ID.", field="data.approval_id"
            )
        if verdict.decision is None:
            reason = {"reason": verdict.reason}
            why = f" ({verdict.reason})" if verdict.reason else ""
            return ClientError("APPROVAL_RESOLVED", f"The approval request was withdrawn{why}.", details=reason)
        given = {"by": verdict.by, "decision": verdict.decision}
        if verdict.client_id is not None:
            given["client_id"] = verdict.client_id
        return ClientError("APPROVAL_RESOLVED", f"{verdict.by} has already answered.", details=given)

    def _close(self, approval: PendingApproval, client_id: str | None = None) -> list[Asker]:
        """Removes the request from the open requests, and remembers how it ended. Returns its askers."""
        del self._open[approval.id]
        self._remember(approval, client_id)
        return self._askers.pop(approval.id)

    def _remember(self, approval: PendingApproval, client_id: str | None = None) -> None:
        self._closed[approval.id] = approval.verdict(client_id)
        if len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)


def look_at(question: Question, agent: str, root: str) -> ApprovalRequested:
    """The approval request for the question, with what depends on the disk: the targets of links, and the risks of
    paths that lead out of the project. ``agent``: the agent's name. ``root``: the project's directory. Blocking, for as
    long as the disk does not respond."""
    approval = PendingApproval.new(question, "", "")
    approval.interpret(registry.tools(agent))
    request, path = approval.request, question.proposal.path if question.proposal is not None else None
    found = words(request, approval.call, agent, root, real)
    approval.described(
        link_targets=link_targets(request.given, root, path, request.blocked_path),
        shown_fields=approval.shown_fields(),
        **msgspec.structs.asdict(found),
    )
    return approval.request


def _has_answers(call: ToolCall, decision: Decision) -> bool:
    """Whether the decision on an agent's questions contains answers. Without them, the agent ignores the approval."""
    answers = None if decision.updated_input is None else decision.updated_input.get(call.answers)
    return isinstance(answers, dict) and bool(answers)


def _edited(approval: PendingApproval, decision: Decision) -> dict[str, Any]:
    """The fields of a record about an edit of the input: they show that the agent may do something other than what it
    asked for, and contain the file's new text, if that has at most ``SHOWN_TEXT`` characters. Empty if the request was
    denied or allowed unchanged."""
    request, instead = approval.request, decision.updated_input
    if not decision.allow or instead is None:
        return {}
    if request.proposal is None:
        same = _encode(instead) == _encode(request.given)
        return {} if same else {"edited": True}
    text = approval.text_after(decision)
    if text == request.proposal.new_text:
        return {}
    return {"edited": True, "new_text": text if text is not None and len(text) <= SHOWN_TEXT else None}


def _encode(value: Any) -> bytes:
    """Encodes a value so that only equal JSON values have equal encodings (in Python, ``1 == True``)."""
    return msgspec.json.encode(value, order="deterministic")


MOST: Final = 50
"""The maximum number of texts in one request that are checked for links although their fields' names do not show that
they are paths."""

_LONGEST_PATH: Final = 4_096
"""The maximum length of a text that may be a path, in characters."""

_PATHS: Final = ("path", "file", "dir", "target", "source", "destination", "cwd")
"""The words that identify the fields with paths: the name of such a field contains one of them, in upper or lower
case."""

_TEXTS: Final = frozenset(
    [
        "command",
        "description",
        "title",
        "toolCallId",
        "kind",
        "status",
        "sessionUpdate",
        "type",
        "content",
        "text",
        "plan",
        "prompt",
        "pattern",
        "query",
        "url",
        "old_string",
        "new_string",
        "new_source",
        "oldText",
        "newText",
    ]
)
"""The fields of a tool's input with a text that is not a path."""

_DEPTH: Final = 32
"""The number of levels of a tool's input that are searched for paths: more than any tool uses, but few enough for
recursion.
"""


def link_targets(given: Mapping[str, Any] | None, root: str, *named: str | None) -> dict[str, str]:
    """Maps each path that leads through a symbolic link, as written in the request, to its target. No file is opened.

    ``given``: the tool's input, in which any text may be a path; ``root``: the project's directory, to which relative
    paths refer; ``named``: other paths in the request, such as its proposal's.
    """
    found: dict[str, str] = {}
    paths: dict[str, None] = dict.fromkeys(filter(None, named))
    others: dict[str, None] = {}
    for name, text in _texts(given or {}, _DEPTH):
        (paths if any(word in name.lower() for word in _PATHS) else others)[text] = None
    home = real(root)
    for text in [*list(paths)[: 10 * MOST], *list(others)[:MOST]]:
        for given_path in dict.fromkeys((_resolved(text), text)):  # an agent may treat "~" as an ordinary name
            path = os.path.join(home, given_path)
            end = real(path)
            if end != normal(path):
                found[text] = escaped(end)
                break
    return found


def _texts(value: object, depth: int, name: str = "") -> Iterator[tuple[str, str]]:
    """The texts in a JSON value that may be paths, and the names of their fields."""
    if isinstance(value, str):
        if 0 < len(value) <= _LONGEST_PATH and "\n" not in value and name not in _TEXTS:
            yield name, value
    elif depth and isinstance(value, dict):
        for field, one in value.items():
            yield from _texts(one, depth - 1, field)
    elif depth and isinstance(value, list):
        for one in value[: 10 * MOST]:
            yield from _texts(one, depth - 1, name)


def _resolved(text: str) -> str:
    """The path that a ``file:`` URI, or a path with a leading ``~`` or ``~user``, stands for. Other text is returned
    unchanged."""
    try:
        return os.path.expanduser(text) if text.startswith("~") else from_uri(text)
    except (UnusableFile, ValueError):  # another scheme or machine, or a name that can't be encoded
        return text
