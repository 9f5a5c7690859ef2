"""The user's answer to an approval request, in the form that the server accepts. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from drawbridge.core.terminal_text import harmless
from drawbridge.text import BOM, join, split

Request = Mapping[str, Any]
"""The data of a ``permission_request`` message."""


LONGEST_PIECE: Final = 100
"""The maximum length of a marked part of the input as it is shown, in characters. A longer part is cut."""

UNSHOWABLE: Final = "The text contains characters that a terminal can't show: edit it in the web UI."


def field(request: Request) -> str | None:
    """The only field with a text that can be edited, such as a command or a plan. None if no field or several fields
    have one, or for a proposal, where the file itself is edited."""
    given = request["input"]
    editable: Sequence[str] = request.get("editable") or ()
    if request.get("proposal") or len(editable) != 1 or not isinstance(given, Mapping):
        return None
    return str(editable[0]) if isinstance(given.get(editable[0]), str) else None


def why_not_edited(request: Request, *, may_run: bool = True) -> str:
    """The reason why the text can't be edited here; empty if it can. ``may_run``: whether the device may start runs,
    which is required to change a command or a plan."""
    if request.get("changeable") is False:
        return "This agent does not accept edits: accept the request unchanged, or reject it with a reason."
    if field(request) is not None and not may_run:
        return "This device can't change this input: accept the request unchanged, or reject it with a reason."
    if field(request) is None and (not request.get("proposal") or _edited(request, "") is None):
        return "This request can't be edited: accept it unchanged, or reject it with a reason."
    if request.get("truncated"):
        return "Only part of this request is shown. Show all of it first (Space)."
    if not is_plain(draft(request)):
        return UNSHOWABLE
    return ""


def draft(request: Request) -> str:
    """The text to edit. The text of a file has no byte-order mark here, and "\\n" as its only line ending."""
    name = field(request)
    if name is not None:
        return str(request["input"][name])
    lines, form = split(request["proposal"]["new_text"])
    return join(lines, form._replace(eol="\n", bom=False))


def edited_text(request: Request, text: str) -> str:
    """The whole file for ``text`` (an edited draft), with the file's line endings and byte-order mark."""
    form = split(request["proposal"]["new_text"])[1]
    return (BOM if form.bom else "") + text.replace("\n", form.eol)


def is_plain(text: str) -> bool:
    """Whether a terminal's text field shows the text completely and does not change it."""
    return all(harmless(line) == line for line in text.replace("\t", " ").split("\n"))


def edited_input(request: Request, text: str) -> dict[str, Any]:
    """The tool's input with ``text`` (an edited draft) as the edited field or as the whole file.

    A call that replaces strings gets the whole file as its old and its new string, so that exactly what the user saw is
    written.
    """
    found = _edited(request, text)
    assert found is not None, "asked for a tool whose text can't be edited"
    return found


def _edited(request: Request, text: str) -> dict[str, Any] | None:
    given, proposal = request["input"], request.get("proposal")
    name = field(request)
    if name is not None:
        return {**given, name: text}
    if proposal is None or not isinstance(given, dict):
        return None
    whole = edited_text(request, text)
    # The strings of an edit use "\n", whatever line endings the file has. The agent preserves the file's line endings.
    # `replace_all` stays as it was given: it makes no difference if the old string is the whole file, and the `approve`
    # scope does not allow a change to it.
    change = {
        "old_string": proposal["old_text"].replace("\r\n", "\n"),
        "new_string": whole.replace("\r\n", "\n"),
    }
    match tuple(request.get("editable") or ()):
        case ("content",):
            return {**given, "content": whole}
        case ("old_string", "new_string"):
            return {**given, **change}
        case ("edits",):
            return {**given, "edits": [change]}
    return None


def only_accepts_edits(request: Request) -> bool:
    """Whether the only effect of ``remember`` is to switch to the mode that accepts edits."""
    suggestions = request.get("suggestions")
    modes = [one.get("mode") for one in suggestions if isinstance(one, dict)] if isinstance(suggestions, list) else []
    return len(request.get("always") or ()) == 1 and modes == ["acceptEdits"]


def piece(request: Request, risk: Mapping[str, Any]) -> str:
    """The text that a risk marks (its positions are in UTF-16 code units), cut to ``LONGEST_PIECE``; empty if the risk
    concerns a whole field, or is not in a single field."""
    value: Any = request["input"]
    for name in str(risk.get("field", "")).split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, str):
        return ""
    start, end = 2 * int(risk.get("start", 0)), 2 * int(risk.get("end", 0))
    marked = value.encode("utf-16-le", "surrogatepass")[start:end].decode("utf-16-le", "replace")
    return marked if len(marked) <= LONGEST_PIECE else f"{marked[:LONGEST_PIECE]}…"


def questions(request: Request) -> list[dict[str, Any]]:
    """The questions that the agent asks the user. Empty for any other request, and for a preview, which may lack some of
    the questions. Also empty if a question has no text: the form can't show such a question, but the answer, which
    repeats the whole input, would contain it."""
    given = request["input"]
    asked = given.get("questions") if isinstance(given, dict) else None
    if request.get("kind") != "question" or request.get("truncated") or not isinstance(asked, list):
        return []
    have_text = all(isinstance(one, dict) and isinstance(one.get("question"), str) for one in asked)
    return asked if have_text else []


def answered_input(request: Request, answers: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The tool's input with the user's answers. ``answers``: pairs of a question and the chosen text."""
    return {**request["input"], "answers": dict(answers)}
