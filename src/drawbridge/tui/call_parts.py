"""A tool call as the parts that the user reads, in order. Only fields that a diff shows or that mean nothing to the
user are left out. Does no I/O."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

ACP_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "kind": frozenset(
        {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
    ),
    "status": frozenset({"pending", "in_progress", "completed", "failed"}),
    "sessionUpdate": frozenset({"tool_call", "tool_call_update"}),
}
"""Maps fields of an ACP tool call to the protocol's own values, which do not have to be shown. Any other value is
shown.
"""

ACP_ID: Final = re.compile(r"[\w.:/-]{1,100}", re.ASCII)
"""Matches a ``toolCallId`` that does not need to be shown."""

DRAWN_BY_DIFF: Final = (
    *("path", "file_path", "filePath", "abs_path", "absolute_path"),
    *("content", "old_string", "new_string", "oldString", "newString", "oldText", "newText"),
)
"""Fields of an ACP tool call's ``rawInput`` that are not repeated if a diff shows their text."""

Kind: TypeAlias = Literal["words", "warning", "command", "json", "markdown", "diff", "field", "danger"]


WRITTEN: Final[frozenset[Kind]] = frozenset({"diff", "markdown"})
"""The kinds of parts that show what is written to a file, or a plan."""


class Part(NamedTuple):
    """A part of a tool call. ``name``: the name of a field, or the path of a diff. ``old``: the old text of a diff."""

    kind: Kind
    text: str
    name: str = ""
    old: str = ""


def of_request(request: Mapping[str, Any], given: Any) -> list[Part]:
    """The parts of an approval request. ``given``: its input, with the user's edits. The proposal is not one of the
    parts."""
    links, kind, proposal = request.get("link_targets"), request.get("kind"), request.get("proposal")
    found = [
        Part("warning", f"{path} leads through a symbolic link to {end}.")
        for path, end in (links.items() if isinstance(links, Mapping) else ())
    ]
    if request.get("form") == "acp" and isinstance(given, Mapping):
        found += sorted(_of_acp(kind, given, proposal), key=is_said)
    elif proposal is not None and isinstance(given, Mapping):
        found += sorted(_fields(given, request.get("shown_fields") or ()), key=is_said)
    else:
        found += parts(kind, given)
    return found


def parts(kind: str | None, given: Any) -> list[Part]:
    """The parts of a tool call, next to which no proposal is shown. ``kind``: what an approval request is about
    (``PermissionRequest.kind`` of the protocol), or what the tool of another call does (``AgentWords.tools``)."""
    if not isinstance(given, Mapping):
        return [Part("json", _json(given))]
    return sorted(_of_tool(kind, given), key=is_said)


def is_said(part: Part) -> bool:
    """Whether a part is the agent's own description of its call. Such parts come last, because they may be long."""
    return part.kind == "words" or (part.kind == "field" and part.name == "description")


def _of_tool(kind: str | None, given: Mapping[str, Any]) -> Iterator[Part]:
    match kind, given:
        case "plan", {"plan": str(plan)}:
            yield Part("markdown", plan)
            yield from _fields(given, {"plan"})
        case "edit" | "create", {"file_path": str(path), "old_string": str(old), "new_string": str(new)}:
            yield from _fields(given, {"file_path", "old_string", "new_string"})
            yield Part("diff", new, path, old)
        case "write" | "overwrite" | "create", {"file_path": str(path), "content": str(new)}:
            yield from _fields(given, {"file_path", "content"})
            yield Part("diff", new, path)
        case _, {"command": str(command)}:
            yield Part("command", command)
            yield from _fields(given, {"command"})
        case _:
            yield from _fields(given, ())


def _of_acp(kind: str | None, call: Mapping[str, Any], proposal: Mapping[str, Any] | None) -> Iterator[Part]:
    """The parts of an ACP tool call. What runs or is written comes first."""
    raw = call.get("rawInput")
    fields = raw if isinstance(raw, Mapping) else {}
    diffs = [*_diffs(call)]
    shown = {text for diff in diffs for text in diff}
    if proposal is not None:
        shown |= {text for text in proposal.values() if isinstance(text, str)}
    title, content, command = call.get("title"), call.get("content"), _command(fields.get("command"))
    listed = content if isinstance(content, list) else []
    of_content = [part for one in listed for part in _content_of_acp(kind, one, proposal)]
    if command:
        yield Part("command", command)
        shown.add(command)
    yield from (part for part in of_content if part.kind in WRITTEN)
    if isinstance(title, str) and title not in shown:
        yield Part("words" if command or kind != "command" else "command", title)
    drawn = {name for name in DRAWN_BY_DIFF if isinstance(fields.get(name), str) and fields[name] in shown}
    yield from _fields(fields, drawn | ({"command"} if command else set()))
    yield from _fields(call, _shown_of_acp(call))
    yield from (part for part in of_content if part.kind not in WRITTEN)


def _command(given: Any) -> str:
    """``given``, a command or a list of its arguments, as a shell's command line; empty if it is neither."""
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        return shlex.join(given)
    return given if isinstance(given, str) else ""


def _shown_of_acp(call: Mapping[str, Any]) -> set[str]:
    """The fields of an ACP tool call that are shown as separate parts, or mean nothing to the user."""
    found = {name for name, words in ACP_WORDS.items() if isinstance(call.get(name), str) and call[name] in words}
    id = call.get("toolCallId")
    if isinstance(id, str) and ACP_ID.fullmatch(id):
        found.add("toolCallId")
    kinds: Mapping[str, type] = {"title": str, "rawInput": dict, "content": list}
    return found | {name for name, kind in kinds.items() if isinstance(call.get(name), kind)}


def _content_of_acp(kind: str | None, part: Any, proposal: Mapping[str, Any] | None) -> Iterator[Part]:
    """The parts for one element of an ACP tool call's ``content``, including fields that its type does not define."""
    match part:
        case {"type": "content", "content": {"type": "text", "text": str(text), **of_text}, **rest}:
            yield Part("markdown" if kind == "plan" else "words", text)
            more = {**rest, "content": of_text} if of_text else rest
        case {"type": "diff", "path": str(path), "newText": str(new), **rest}:
            if proposal is None:
                yield Part("diff", new, path, _old(part))
            more = {name: value for name, value in rest.items() if name != "oldText" or not isinstance(value, str)}
            if more.get("oldText", "") is None:
                del more["oldText"]
        case _:
            yield Part("json", _json(part))
            return
    if more:
        yield Part("json", _json(more))


def _diffs(call: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    content = call.get("content")
    for one in content if isinstance(content, list) else ():
        match one:
            case {"type": "diff", "path": str(path), "newText": str(new)}:
                yield path, _old(one), new


def _old(diff: Mapping[str, Any]) -> str:
    old = diff.get("oldText")
    return old if isinstance(old, str) else ""


def _fields(given: Mapping[str, Any], without: Any) -> Iterator[Part]:
    for name, value in given.items():
        if name not in without:
            danger = name.lower().startswith("dangerous") and bool(value)
            yield Part("danger" if danger else "field", value if isinstance(value, str) else _json(value), name)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2 if isinstance(value, dict | list) and value else None, ensure_ascii=False)
