"""An agent's ``session/request_permission`` and the answers to it. Pure."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec import Raw, Struct

from drawbridge.agents.acp.messages import Params, read_as
from drawbridge.agents.base import LEAVING_PLAN, Decision, Proposal, Question, Unread
from drawbridge.agents.output import readable
from drawbridge.agents.proposals import TEXT_LIMIT, Reader
from drawbridge.core.errors import UnusableFile

CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}

NARROW: Final = ("proceed_always_tool", "proceed_always")
"""The ids of the ``allow_always`` options of Gemini CLI (0.61.0) that cover only this session and tool. They are
preferred if a question offers several ``allow_always`` options."""

LONGEST_NAME: Final = 200


class _Option(Struct):
    optionId: str  # noqa: N815 - the protocol's own name
    kind: Any = None


class _ToolCall(Struct):
    kind: Any = None
    content: Raw = Raw(b"null")


class _Content(Struct):
    type: Any = None
    path: Any = None
    oldText: Any = None  # noqa: N815
    newText: Any = None  # noqa: N815


def question(id: str, params: Params, read: Reader) -> Question | Unread | None:
    """The question in a permission request, with the id ``id``. Its ``input`` is the tool call and its ``suggestions``
    are the options, as in ``params``. None if the request is not valid or offers no options. ``read``: for the file
    that the question is about, if any."""
    call = read_as(_ToolCall, params.toolCall)
    options = read_as(list[_Option], params.options)
    if call is None or not options:
        return None
    if call.kind == "switch_mode":
        call.kind = LEAVING_PLAN
    # The title is not used as the name, because the agent writes it, and clients would show it as the heading.
    name = readable(call.kind)[:LONGEST_NAME] if isinstance(call.kind, str) else ""
    asked = Question(id, name or "other", params.toolCall, params.options, changeable=False, form="acp")
    diff = _diff(call)
    return asked if diff is None else Unread(asked, partial(_proposal, diff, read))


def outcome(options: Raw, decision: Decision) -> dict[str, Any]:
    """The answer to a question with these ``options``. It never grants more than the decision does: an "allow" without
    ``remember`` never selects an "always" option. ``CANCELLED`` if no option fits."""
    offered = read_as(list[_Option], options) or []
    kinds = ("allow_once",) if decision.allow else ("reject_once", "reject_always")
    if decision.remember:
        kinds = ("allow_always", "allow_once") if decision.allow else ("reject_always", "reject_once")
    for kind in kinds:
        fitting = [option.optionId for option in offered if option.kind == kind]
        if fitting:
            narrow = next((id for id in NARROW if id in fitting), fitting[0])
            return {"outcome": {"outcome": "selected", "optionId": narrow}}
    return CANCELLED


def _diff(call: _ToolCall) -> Proposal | None:
    """The diff in the call, which may contain only the lines around the change. None if the call does not contain
    exactly one diff, or if that is not valid."""
    contents = read_as(list[_Content], call.content) or []
    diffs = [content for content in contents if content.type == "diff"]
    if len(diffs) != 1:
        return None
    path, old, new = diffs[0].path, diffs[0].oldText or "", diffs[0].newText
    if not (isinstance(path, str) and path.startswith("/") and isinstance(old, str) and isinstance(new, str)):
        return None
    return Proposal(path, old, new)


def _proposal(diff: Proposal, read: Reader) -> Proposal | None:
    """The change to the whole file. None if the result can't be predicted or is larger than ``TEXT_LIMIT``."""
    path, old, new = diff.path, diff.old_text, diff.new_text
    try:
        there = read(path) or ""
    except UnusableFile:
        return None
    if there != old:  # some agents send only the lines around the change
        if not old or there.count(old) != 1:
            return None
        new = there.replace(old, new)
    return Proposal(path, there, new) if len(new) <= TEXT_LIMIT else None
