"""A tool call in words: what is done to what. The web UI uses the same words. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from drawbridge.tui.wording import shown_path

Acts: TypeAlias = Mapping[str, str]
"""Maps a tool to what it does, as the server describes it (``AgentWords.tools`` of the protocol)."""

State: TypeAlias = Literal["running", "waiting", "done", "failed", "rejected", "stopped"]
"""The state of a call. ``waiting``: for the decision on an approval request. ``stopped``: its run ended first."""

OTHER: Final = "other"
LONGEST: Final = 200
"""The maximum length of what a call acts on, in characters."""

VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "read": ("Reading", "Read"),
    "edit": ("Editing", "Edited"),
    "write": ("Writing", "Wrote"),
    "command": ("Running", "Ran"),
    "search": ("Searching for", "Searched for"),
    "find": ("Looking for", "Looked for"),
    "fetch": ("Fetching", "Fetched"),
    "web": ("Searching the web for", "Searched the web for"),
    "agent": ("Running agent", "Ran agent"),
    "todo": ("Updating the to-do list", "Updated the to-do list"),
    "question": ("Asking", "Asked"),
    "plan": ("Presenting the plan", "Presented the plan"),
    "output": ("Reading output of", "Read output of"),
    "stop": ("Stopping", "Stopped"),
    "skill": ("Using skill", "Used skill"),
    OTHER: ("Using", "Used"),
}
"""The verbs for a call that is running, and for one that is over."""

WANTED: Final[Mapping[str, str]] = {
    "read": "Read",
    "edit": "Edit",
    "write": "Write",
    "command": "Run",
    "search": "Search for",
    "find": "Look for",
    "fetch": "Fetch",
    "web": "Search the web for",
    "agent": "Run agent",
    "todo": "Update the to-do list",
    "output": "Read output of",
    "stop": "Stop",
    "skill": "Use skill",
    OTHER: "Use",
}
"""The verbs for a call that waits for approval, or was not allowed to run."""

_MCP: Final = re.compile(r"mcp__(.+?)__(.+)")
_PATCHED: Final = re.compile(r"\*\*\* (?:Add|Update|Delete) File: (.+)")
_FILES: Final = ("read", "edit", "write")


def act(name: str, acts: Acts) -> str:
    """What the tool ``name`` does; ``OTHER`` if the server does not describe the tool, or uses an unknown word."""
    found = acts.get(name, OTHER)
    return found if found in VERBS else OTHER


def verb(name: str, state: State, acts: Acts) -> str:
    kind = act(name, acts)
    running, over = VERBS[kind]
    if state in ("waiting", "rejected"):
        return WANTED.get(kind, running if state == "waiting" else over)
    return running if state == "running" else over


def subject(name: str, given: Mapping[str, Any], root: str, acts: Acts) -> str:
    """What a call with the input ``given`` acts on; empty if the verb is enough. Not harmless. ``root``: the
    project's directory, to which paths are relative."""
    kind = act(name, acts)
    words = _subject(kind, given, root)
    if words is None:
        tool = _MCP.fullmatch(name)
        value = next((value for value in given.values() if isinstance(value, str) and value), None)
        words = (f"{tool[2]} ({tool[1]})" if tool else name) + (f": {_short(value)}" if value is not None else "")
    return _short(words)


def _subject(kind: str, given: Mapping[str, Any], root: str) -> str | None:
    """The subject of a call of a known kind; None for any other call."""
    match kind:
        case "search":
            pattern, where = _short(_text(given, "pattern")), _text(given, "path", "glob")
            return f"{pattern} in {shown_path(where, root)}" if pattern and where else pattern or "text"
        case "find":
            return _text(given, "pattern") or shown_path(_text(given, "path"), root) or "files"
        case "command":
            return _text(given, "command") or "a command"
        case "fetch":
            return _text(given, "url") or "a page"
        case "web":
            return f"“{query}”" if (query := _text(given, "query")) else "pages"
        case "agent":
            return _text(given, "description", "subagent_type", "prompt")
        case "question":
            asked = given.get("questions")
            first = asked[0] if isinstance(asked, list) and asked and isinstance(asked[0], Mapping) else {}
            return _text(first, "question") or "a question"
        case "output" | "stop":
            return _text(given, "bash_id", "shell_id", "task_id") or "a background task"
        case "skill":
            return _text(given, "skill", "command", "name")
        case "todo" | "plan":
            return ""
    return _file(kind, given, root)


def _file(kind: str, given: Mapping[str, Any], root: str) -> str | None:
    """The file that a call reads or changes; None for a call of another kind without a file."""
    if path := _text(given, "file_path", "notebook_path"):
        return shown_path(path, root) + (_lines(given) if kind == "read" else "")
    if kind == "edit" and "patch" in given:
        files = (found[1].strip() for line in _text(given, "patch").split("\n") if (found := _PATCHED.match(line)))
        return ", ".join(shown_path(path, root) for path in dict.fromkeys(files)) or "files"
    return "a file" if kind in _FILES else None


def _lines(given: Mapping[str, Any]) -> str:
    """The lines that a call reads, such as ":5–9"; empty if it reads all of them."""
    offset, limit = given.get("offset"), given.get("limit")
    if type(offset) is not int:
        return ""
    return f":{offset}–{offset + limit - 1}" if type(limit) is int else f":{offset}"


def _text(given: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that contains text; empty if none does."""
    return next((found for name in names if isinstance(found := given.get(name), str) and found), "")


def _short(words: str) -> str:
    return words.strip().partition("\n")[0][:LONGEST]
