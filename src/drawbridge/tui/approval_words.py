"""The texts around the content of an approval request: its title, the labels of its buttons, and a notice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from textual.content import Content

from drawbridge.text.counts import size
from drawbridge.tui import answers, wording
from drawbridge.tui.call_parts import Part
from drawbridge.tui.difference import Difference

Mode: TypeAlias = Literal["read", "edit", "reject"]

LONGEST_LABEL: Final = 120
"""The maximum length of the label of ``always``, in characters. Longer text is shown in the request instead, where it
can be scrolled."""

WAYS = ("accept", "edit", "reject", "undo", "back")
"""The possible buttons, in order. ``more`` and ``always`` have their own lines."""


class ApprovalState(NamedTuple):
    """The state of a request on this terminal. ``edited``: the user changed the text. ``settled``: another client's
    answer, or the withdrawal; None before that. ``unseen``: the number of lines that have not been on the screen yet;
    ``hasty``: the user tried to accept anyway. ``next_question``: another question from the agent follows this one.
    ``told_above``: what ``remember`` would change is shown in the request, since the ``always`` button has no room for
    it or was not completely visible.
    """

    mode: Mode = "read"
    busy: bool = False
    edited: bool = False
    settled: Mapping[str, Any] | None = None
    may_answer: bool = True
    may_remember: bool = True
    unseen: int = 0
    next_question: bool = False
    hasty: bool = False
    told_above: bool = False


def title(request: answers.Request, agent: str, root: str, found: Difference | None, waiting: int) -> Content:
    """The title of a request. ``waiting``: the number of open requests."""
    # Requests that an older version of the server stored have no title.
    heading = request.get("title") or {"text": f"{agent} wants to use {request['tool_name']}"}
    parts: list[tuple[str, str]] = [(wording.one_line(heading["text"]), "bold")]
    if path := heading.get("path"):
        parts.append((f" {wording.one_line(path)}", "$accent"))
        links = request.get("link_targets") or {}
        if end := links.get(path) or links.get(f"{root}/{path}"):
            parts.append((f" → {wording.one_line(end)}", "$no"))
    if found is not None:
        parts += [(f"  +{found.added}", "$yes"), (f" −{found.removed}", "$no")]
    sender = (request.get("asked_by") or {}).get("agent_type") or ("a subagent" if request.get("asked_by") else "")
    if sender:
        parts.append((f"  asked by {wording.one_line(str(sender))}", "$soft"))
    if waiting > 1:
        parts.append((f"  1 of {waiting}", "$soft"))
    return Content.assemble(*parts)


def names_proposal(request: answers.Request, root: str) -> bool:
    """Whether the title contains the path of the proposal. It may contain none, or only a part of a very long one."""
    heading = request.get("title") or {}
    return bool(heading.get("path") == wording.shown_path(str(request["proposal"]["path"]), root))


def ways(request: answers.Request, state: ApprovalState) -> dict[str, Content]:
    """The labels of the visible buttons, by name."""
    if not state.may_answer:
        return {}
    if state.settled is not None:
        return {"back": _label("Esc", "Close")}
    if state.busy:
        return {"accept": Content("Sending…")}
    if answers.questions(request):
        answer = _label("^s", "Next" if state.next_question else "Submit")
        more = {"more": _label("PgDn", _lines(state.unseen))} if state.unseen else {}
        return {"accept": answer, "reject": Content("Skip"), **more}
    if state.mode == "edit":
        return {"accept": _label("^s", "Accept edited version"), "back": _label("Esc", "Back")}
    if state.mode == "reject":
        words = "Keep planning" if is_plan(request) else "Reject"
        return {"reject": _label("Enter", words), "back": _label("Esc", "Back")}
    return _ways_of_reading(request, state)


def _ways_of_reading(request: answers.Request, state: ApprovalState) -> dict[str, Content]:
    plan = is_plan(request)
    approve = "Approve, ask before edits" if state.may_remember and answers.only_accepts_edits(request) else "Approve"
    accept = "Accept edited version" if state.edited else approve if plan else "Accept"
    found = {"accept": _label("a", accept)}
    if not answers.why_not_edited(request, may_run=state.may_remember):
        found["edit"] = _label("e", "Edit")
    found["reject"] = _label("r", "Keep planning" if plan else "Reject")
    if state.edited:
        found["undo"] = Content("Discard my edits")
    if request.get("truncated"):
        found["more"] = _label("Space", f"Show all ({size(request['truncated']['bytes'])})")
    elif state.unseen:
        found["more"] = _label("Space", _lines(state.unseen))
    if offers_always(request, state):
        found["always"] = _label("w", "Always (see above)" if state.told_above else always_words(request))
    return found


def is_plan(request: answers.Request) -> bool:
    return bool(request.get("kind") == "plan")


def reason_hint(request: answers.Request, agent: str) -> str:
    """The placeholder of the field for the reason of a rejection. ``agent``: the agent's display name."""
    if is_plan(request):
        return "What should change in the plan? (optional)"
    return wording.one_line(f"Tell {wording.inside(agent)} what to do instead (optional)")


def offers_always(request: answers.Request, state: ApprovalState) -> bool:
    return bool(state.may_answer and state.may_remember and not state.edited and always_words(request))


def always_words(request: answers.Request) -> str:
    """Everything that ``remember`` would change, in words; empty if it would change nothing."""
    always = request.get("always") or ()
    if is_plan(request) and answers.only_accepts_edits(request):
        return "Approve and accept edits"
    texts = [f"{one['text']} ({one['saved_in']})" if one.get("saved_in") else str(one["text"]) for one in always]
    return wording.one_line(" · ".join(texts))


def why_not_accepted(request: answers.Request, state: ApprovalState) -> str:
    """The reason why the request can't be accepted yet, because not all of it has been on the screen. Empty if it can
    be accepted."""
    if request.get("truncated"):
        return "Only part of this is shown: Space shows all of it. You can accept it once you have seen it."
    if not state.unseen:
        return ""
    if answers.questions(request):
        return "There is more to see: PgDn shows it. You can answer once you have seen the question and your choice."
    if state.mode == "edit":
        return "You have not seen all of this request: Esc returns to it. You can accept it once you have."
    return "There is more to see: Space shows it. You can accept once you have seen all of it."


def notice(request: answers.Request, state: ApprovalState, found: Difference | None) -> str:
    if state.settled is not None:
        first = wording.first_words(state.settled, request)
        return f"{first} What you entered wasn’t used. It’s kept here until you close this."
    if not state.may_answer:
        return "View only. Answer on another device."
    if state.hasty and (why_not := why_not_accepted(request, state)):
        return why_not
    if request.get("truncated"):
        return "This request is too large for one message, so only part of it is shown."
    if state.mode != "read":
        return ""
    if found is None or not found.notes:
        return ""
    words = "; ".join(found.notes)
    return f"{words[0].upper()}{words[1:]}."


def circumstances(request: answers.Request) -> list[Part]:
    """The reason why the agent asks, and the risks. This may be long, so it is shown with the call, where it can be
    scrolled."""
    reason, path = request.get("reason"), request.get("blocked_path")
    found = [Part("words", wording.one_line(reason))] if reason else []
    found += [Part("field", wording.one_line(path), "Path")] if path else []
    return found + risks(request)


def risks(request: answers.Request) -> list[Part]:
    """The risky parts of the input: one part for each kind of risk."""
    marked: dict[str, list[str]] = {}
    for one in request.get("risks") or ():
        pieces = marked.setdefault(str(one["text"]), [])
        piece = answers.piece(request, one)
        if piece and piece not in pieces:
            pieces.append(piece)
    return [Part("warning", f"{text}: {', '.join(pieces)}" if pieces else text) for text, pieces in marked.items()]


def _lines(count: int) -> str:
    return f"{count} more line{'' if count == 1 else 's'}"


def _label(key: str, words: str) -> Content:
    return Content.assemble((key, "bold"), f" {words}")
