"""The texts around an approval's change: its title, the ways to answer it, a notice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from textual.content import Content

from drawbridge.tui import answers, wording
from drawbridge.tui.call_parts import PLAN, Part, acp_paths
from drawbridge.tui.difference import Difference

Mode: TypeAlias = Literal["read", "edit", "reject"]

WAYS = ("accept", "edit", "reject", "undo", "back")
"""The possible buttons, in order; ``more`` and ``always`` have lines of their own."""


class ApprovalState(NamedTuple):
    """The state of an approval on this terminal. ``edited``: the person changed the text. ``settled``: another client's answer.
    ``unseen``: lines that have not been on the screen yet; ``hasty``: the person tried to accept them all the same.
    """

    mode: Mode = "read"
    busy: bool = False
    edited: bool = False
    settled: Mapping[str, Any] | None = None
    may_answer: bool = True
    may_remember: bool = True
    unseen: int = 0
    hasty: bool = False


def title(request: answers.Request, agent: str, root: str, found: Difference | None, waiting: int) -> Content:
    """``waiting``: the number of open approvals."""
    tool = str(request["tool_name"])
    words = wording.TITLES.get(tool, f"wants to use {wording.one_line(tool)}")
    named = f"{wording.one_line(agent)}'s plan" if tool == PLAN else f"{wording.one_line(agent)} {words}"
    parts: list[tuple[str, str]] = [(named, "bold")]
    proposal, given = request.get("proposal"), request["input"]
    path = proposal["path"] if proposal else given.get("file_path") if isinstance(given, dict) else None
    paths = [str(path)] if path else acp_paths(given)
    if len(paths) == 1:
        parts.append((f" {wording.one_line(wording.shown_path(paths[0], root))}", "$accent"))
        links = request.get("link_targets")
        if isinstance(links, Mapping) and paths[0] in links:
            parts.append((f" → {wording.one_line(links[paths[0]])}", "$no"))
    elif paths:
        parts.append((f" {len(paths)} files", "$accent"))
    if found is not None:
        parts += [(f"  +{found.added}", "$yes"), (f" −{found.removed}", "$no")]
    asker = (request.get("asked_by") or {}).get("agent_type") or ("a subagent" if request.get("asked_by") else "")
    if asker:
        parts.append((f"  asked by {wording.one_line(str(asker))}", "$soft"))
    if waiting > 1:
        parts.append((f"  1 of {waiting}", "$soft"))
    return Content.assemble(*parts)


def ways(request: answers.Request, state: ApprovalState) -> dict[str, Content]:
    """The labels of the visible buttons, by name."""
    if not state.may_answer:
        return {}
    if state.settled is not None:
        return {"back": _label("Esc", "Close")}
    if state.busy:
        return {"accept": Content("Sending…")}
    if answers.questions(request):
        return {"accept": _label("^s", "Answer"), "reject": Content("Do not answer")}
    if state.mode == "edit":
        return {"accept": _label("^s", "Accept with my edits"), "back": _label("Esc", "Back")}
    if state.mode == "reject":
        return {"reject": _label("Enter", "Reject"), "back": _label("Esc", "Back")}
    return _ways_of_reading(request, state)


def _ways_of_reading(request: answers.Request, state: ApprovalState) -> dict[str, Content]:
    plan = request["tool_name"] == PLAN
    accept = "Accept with my edits" if state.edited else "Approve the plan" if plan else "Accept"
    found = {"accept": _label("a", accept)}
    if not answers.why_not_edited(request):
        found["edit"] = _label("e", "Edit")
    found["reject"] = _label("r", "Keep planning" if plan else "Reject")
    if state.edited:
        found["undo"] = Content("Without my edits")
    if request.get("truncated"):
        found["more"] = _label("Space", f"Show all ({wording.size(request['truncated']['bytes'])})")
    elif state.unseen:
        found["more"] = _label("Space", f"{state.unseen} more line{'' if state.unseen == 1 else 's'}")
    always = wording.always_words(request.get("suggestions"))
    if always and state.may_remember and not state.edited:
        found["always"] = _label("w", f"Always: {always}")
    return found


def why_not_accepted(request: answers.Request, state: ApprovalState) -> str:
    """Why Accept does not work yet: not all of the approval was on the screen. Empty if it works."""
    if request.get("truncated"):
        return "This is only a part: Space shows all of it. Accept works once you have seen it."
    if not state.unseen:
        return ""
    if state.mode == "edit":
        return "You have not seen all of this change: Esc shows it. Accept works once you have."
    return "There is more below: Space shows it. Accept works once you have seen all of it."


def notice(request: answers.Request, state: ApprovalState, found: Difference | None) -> str:
    if state.settled is not None:
        first = wording.first_words(state.settled)
        return f"{first} What you had written was not used; it stays here until you close this."
    if not state.may_answer:
        return "This device has read-only access."
    if state.hasty and (why_not := why_not_accepted(request, state)):
        return why_not
    if request.get("truncated"):
        return "This is too large for one message: only a part of it is shown."
    if state.mode != "read":
        return ""
    if found is None or not found.notes:
        return ""
    words = "; ".join(found.notes)
    return f"{words[0].upper()}{words[1:]}."


def circumstances(request: answers.Request) -> list[Part]:
    """The reason for the question. It may be long, so it is shown in the same field as the call."""
    reason, path = request.get("reason"), request.get("blocked_path")
    found = [Part("words", wording.one_line(reason))] if reason else []
    return found + ([Part("field", wording.one_line(path), "Path")] if path else [])


def _label(key: str, words: str) -> Content:
    return Content.assemble((key, "bold"), f" {words}")
