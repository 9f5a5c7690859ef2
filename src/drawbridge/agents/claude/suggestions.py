"""Interprets what Claude Code suggests remembering along with a decision (2.1.329). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from drawbridge.agents.base import LEAVING_PLAN
from drawbridge.agents.tool_calls import Directories, Grant, Mode, Other, Rule, Rules, as_json, decoded, shown_name
from drawbridge.core.json_text import UNDECODABLE

BASH, WEB_FETCH = "Bash", "WebFetch"

OF_PLAN: Final = b'[{"type":"setMode","mode":"acceptEdits","destination":"session"}]'
ASKING: Final = {"type": "setMode", "mode": "default", "destination": "session"}
"""The suggestion that sets the mode in which an accepted plan is carried out, unless the decision remembers
suggestions. Without this, the CLI (2.1.329) would return to the mode that was set before the plan, which may allow
edits without asking."""

PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "session": ("session", ""),
    "localSettings": ("project", ".claude/settings.local.json"),
    "projectSettings": ("shared", ".claude/settings.json"),
    "userSettings": ("everywhere", "~/.claude/settings.json"),
}
"""Maps the ``destination`` of a suggestion to ``Grant.where`` and ``Grant.saved_in``."""

KEYS: Final = frozenset(
    {
        *("addRules", "addDirectories", "setMode", "removeRules", "destination", "behavior", "toolName", "ruleContent"),
        *PLACES.keys() - {"session"},
    }
)
"""The words of this format that have no other meaning in the client protocol."""


def offered(tool_name: str, given: Raw) -> Raw:
    """The agent's suggestions, ``given``, limited to those that add rules or directories or set a mode. The CLI
    (2.1.329) makes no other suggestions, but its format allows them. For a plan, the CLI makes no suggestions, although
    it accepts a mode in the answer. In that case, ``OF_PLAN`` is returned.
    """
    if tool_name == LEAVING_PLAN and bytes(given).replace(b" ", b"") in (b"[]", b"null"):
        return Raw(OF_PLAN)
    try:
        each = msgspec.json.decode(given, type=list[Raw])
        known = [one for one in each if _adds(msgspec.json.decode(one))]
    except UNDECODABLE:
        return Raw(b"[]")
    return given if len(known) == len(each) else Raw(b"[" + b",".join(known) + b"]")


def remembered(suggestions: Raw) -> list[dict[str, Any]]:
    """The suggestions that a decision with ``remember`` accepts: those for rules and directories or, if none are
    suggested, those for a mode, which covers far more."""
    return [one for _, one in _remembered(suggestions)]


def grants(suggestions: Raw) -> tuple[Grant, ...]:
    """The changes that a decision with ``remember`` would make."""
    return tuple(_grant(number, one) for number, one in _remembered(suggestions))


def _remembered(suggestions: Raw) -> list[tuple[int, dict[str, Any]]]:
    numbered = list(enumerate(decoded(suggestions)))
    return [(number, one) for number, one in numbered if one.get("type") != "setMode"] or numbered


def _adds(suggestion: object) -> bool:
    """Whether a suggestion adds rules or directories, or sets a mode."""
    match suggestion:
        case {"type": "addRules", "behavior": "allow" | "deny" | "ask", "rules": list()}:
            return True
        case {"type": "addDirectories", "directories": list()}:
            return True
        case {"type": "setMode", "mode": str()}:
            return True
    return False


def _grant(number: int, one: dict[str, Any]) -> Grant:
    destination = one.get("destination", "session")
    where, saved_in = PLACES.get(destination, (as_json(destination), "")) if isinstance(destination, str) else ("", "")
    match one:
        case {"type": "setMode", "mode": str(mode)}:
            return Mode(suggestion=number, where=where, saved_in=saved_in, mode=mode)
        case {"type": "addRules", "behavior": "allow" | "deny" | "ask" as effect, "rules": [*rules]} if rules:
            each = tuple(_rule(rule) for rule in rules)
            return Rules(suggestion=number, where=where, saved_in=saved_in, effect=effect, rules=each)
        case {"type": "addDirectories", "directories": [*paths]}:
            valid = all(isinstance(path, str) for path in paths)
            texts = tuple(path if isinstance(path, str) else as_json(path) for path in paths)
            return Directories(suggestion=number, where=where, saved_in=saved_in, paths=texts, are_valid=valid)
        case (
            {"type": "addRules", "behavior": "allow", "rules": []}
            | {"type": "addRules", "behavior": "deny" | "ask"}
            | {"type": "removeRules", "behavior": "allow"}
        ):
            return Other(suggestion=number, where=where, saved_in=saved_in, text=as_json(one), widens=False)
    return Other(suggestion=number, where=where, saved_in=saved_in, text=as_json(one))


def _rule(rule: object) -> Rule:
    match rule:
        case {"toolName": str(name), "ruleContent": str(content)}:
            text = f"{name}({content})"
        case {"toolName": str(name)}:
            text, content = name, ""
        case _:
            return Rule(str(rule), "tool", as_json(rule))
    if not content:
        return Rule(text, "commands") if name == BASH else Rule(text, "tool", shown_name(name))
    if name == BASH:
        prefix = content.removesuffix("*").rstrip(" :") if content.endswith((":*", " *")) else ""
        return Rule(text, "prefix", prefix) if prefix else Rule(text, "call", content)
    if name == WEB_FETCH and content.startswith("domain:"):
        return Rule(text, "site", content.removeprefix("domain:"))
    return Rule(text, "call", f"{name}({content})")
