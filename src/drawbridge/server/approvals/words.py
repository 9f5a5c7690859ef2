"""The words of an approval request: what the agent wants, what deserves a second look, and what "always" would mean.
Pure.

The server chooses them once, so that all clients use the same words. Paths keep the characters that the agent wrote:
clients make misleading characters visible.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from drawbridge.agents import catalog
from drawbridge.server.approvals import risks
from drawbridge.server.approvals.risks import Resolve
from drawbridge.server.events import Always, ApprovalRequested, Kind, Risk, Title
from drawbridge.text.counts import counted

LONGEST_PATH: Final = 4_096
"""The maximum length of a path in a title, in characters. It is as large as Linux's ``PATH_MAX``, because clients show
the path nowhere else."""

LONGEST_NAME: Final = 200
"""The maximum length of a tool's name in a title, in characters."""

MOST_RISKS: Final = 20

KINDS: Final[Mapping[str, Kind]] = {
    "Edit": "edit",
    "MultiEdit": "edit",
    "Write": "overwrite",
    "NotebookEdit": "notebook",
    "Bash": "command",
    "Monitor": "command",
    "apply_patch": "edit",
    "ExitPlanMode": "plan",
    "AskUserQuestion": "question",
    "WebFetch": "fetch",
    "WebSearch": "search",
    "Grep": "search",
    "Glob": "search",
    "Read": "read",
}
"""The kind of an approval request, by the name of Claude Code's tool; ``apply_patch`` is Codex's."""

PATCHED: Final[Mapping[str, Kind]] = {"add": "create", "update": "edit", "move_to": "edit", "delete": "delete"}
"""The fields of the input of ``apply_patch`` that contain paths, one per line → the kind of a request in which only this
field contains paths."""

ACP_KINDS: Final[Mapping[str, Kind]] = {
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "search": "search",
    "execute": "command",
    "fetch": "fetch",
    "read": "read",
    "ExitPlanMode": "plan",
}
"""The kind of an approval request, by the kind that the Agent Client Protocol gives the tool call; a request to leave
plan mode is called ``ExitPlanMode``."""

VERBS: Final[Mapping[str, str]] = {
    "edit": "wants to edit",
    "create": "wants to create",
    "overwrite": "wants to overwrite",
    "notebook": "wants to edit the notebook",
    "command": "wants to run a command",
    "fetch": "wants to fetch a web page",
    "search": "wants to search",
    "read": "wants to read",
    "delete": "wants to delete",
    "move": "wants to move",
}

SUMMARIES: Final[Mapping[str, str]] = {
    "edit": "Edit a file",
    "create": "Create a file",
    "overwrite": "Write a file",
    "notebook": "Edit a notebook",
    "command": "Run a command",
    "plan": "Approve a plan",
    "question": "Answer a question",
    "fetch": "Fetch a web page",
    "search": "Search",
    "read": "Read a file",
    "delete": "Delete a file",
    "move": "Move a file",
}

EDITABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "Edit": ("old_string", "new_string"),
    "MultiEdit": ("edits",),
    "Write": ("content",),
    "NotebookEdit": ("new_source",),
    "Bash": ("command",),
    "ExitPlanMode": ("plan",),
    "AskUserQuestion": ("answers",),
    "WebFetch": ("url", "prompt"),
    "WebSearch": ("query",),
}
"""The fields of a tool's input that clients let the user change. For other tools, these are the first 50 text
fields."""

SAVED_IN: Final[Mapping[str, tuple[str, str]]] = {
    "session": ("for this session", ""),
    "localSettings": ("in this project", ".claude/settings.local.json"),
    "projectSettings": ("in this project, for everyone who works in it", ".claude/settings.json"),
    "userSettings": ("in all projects", "~/.claude/settings.json"),
}
"""Where Claude Code (2.1.329) saves a suggestion, by its ``destination``: the words for the user, and the file (empty
for the session)."""

BEHAVIORS: Final[Mapping[str, str]] = {"allow": "Always allow", "deny": "Always reject", "ask": "Always ask about"}


class Words(Struct, frozen=True):
    """The fields of ``PermissionRequest`` with the same names."""

    kind: Kind
    title: Title
    risks: tuple[Risk, ...]
    always: tuple[Always, ...]
    editable: tuple[str, ...]
    summary: str


def words(request: ApprovalRequested, agent: str, root: str, resolve: Resolve) -> Words:
    """The words of an approval request. ``agent``: the agent's name. ``root``: the project's directory."""
    given = request.given or {}
    is_acp = request.form == "acp"
    paths = _paths(request, given)
    kind = _kind(request, given, is_acp=is_acp)
    return Words(
        kind,
        _title(request, given, kind, catalog.label(agent), [_shown(path, root) for path in paths]),
        tuple(_risks(given, kind, paths, root, resolve, is_acp=is_acp))[:MOST_RISKS],
        _always(request.suggestions, resolve(root), resolve),
        _editable(request.tool_name, given) if request.changeable else (),
        SUMMARIES.get(kind) or f"Use {_used(request)}",
    )


def is_question(request: ApprovalRequested) -> bool:
    """Whether the agent asks the user questions, instead of asking for approval of a call. Requests that earlier
    versions stored have no kind, so it is determined here."""
    return (request.kind or _kind(request, {}, is_acp=request.form == "acp")) == "question"


def _kind(request: ApprovalRequested, given: Mapping[str, Any], *, is_acp: bool) -> Kind:
    if request.tool_name == "apply_patch" and not is_acp:
        kinds = {kind for name, kind in PATCHED.items() if given.get(name)}
        return kinds.pop() if len(kinds) == 1 else "edit"
    kind = (ACP_KINDS if is_acp else KINDS).get(request.tool_name, "tool")
    if kind in ("edit", "overwrite") and request.proposal is not None and not request.proposal.old_text:
        return "create"
    return kind


def _title(request: ApprovalRequested, given: Mapping[str, Any], kind: Kind, agent: str, paths: list[str]) -> Title:
    match kind:
        case "plan":
            return Title(f"{agent}’s plan")
        case "question":
            questions = given.get("questions")
            count = len(questions) if isinstance(questions, list) else 1
            return Title(f"{agent} has {count} questions" if count > 1 else f"{agent} has a question")
        case "tool":
            return Title(f"{agent} wants to use {_used(request)}", paths[0] if len(paths) == 1 else None)
        case "search" if request.tool_name == "WebSearch":
            return Title(f"{agent} wants to search the web")
        case "command" | "fetch" | "search":
            return Title(f"{agent} {VERBS[kind]}")
        case "overwrite" if request.proposal is None:  # it is not known whether the file exists
            return Title(f"{agent} wants to write", paths[0] if paths else None)
    if len(paths) > 1:
        return Title(f"{agent} {VERBS[kind]} {counted(len(paths), 'file')}")
    return Title(f"{agent} {VERBS[kind]}" if paths else f"{agent} {VERBS[kind]} a file", paths[0] if paths else None)


def _used(request: ApprovalRequested) -> str:
    """The call's tool, as users see it. In the Agent Client Protocol, "other" is a kind of tool, not a tool's name."""
    return "a tool" if request.form == "acp" and request.tool_name == "other" else _tool(request.tool_name)


def _tool(name: str) -> str:
    """A tool's name as users see it: "create_issue (github)" for the ``mcp__github__create_issue`` of an MCP server."""
    parts = name[:LONGEST_NAME].split("__", 2)
    return f"{parts[2]} ({parts[1]})" if len(parts) == 3 and parts[0] == "mcp" and parts[2] else name[:LONGEST_NAME]


def _paths(request: ApprovalRequested, given: Mapping[str, Any]) -> list[str]:
    """The files that a call names, each once."""
    found = [request.proposal.path] if request.proposal else []
    found += [given[name] for name in ("file_path", "notebook_path") if isinstance(given.get(name), str)]
    for name in PATCHED if request.tool_name == "apply_patch" else ():
        paths = given.get(name)
        found += paths.split("\n") if isinstance(paths, str) else []
    for name in ("content", "locations"):
        parts = given.get(name)
        if request.form == "acp" and isinstance(parts, list) and not found:
            found += [part["path"] for part in parts if isinstance(part, dict) and isinstance(part.get("path"), str)]
    return list(dict.fromkeys(filter(None, found)))


def _shown(path: str, root: str) -> str:
    """The path relative to the project, or the unchanged path of a file outside it; cut after ``LONGEST_PATH``
    characters."""
    shown = path.removeprefix(root.rstrip("/") + "/")
    return shown if len(shown) <= LONGEST_PATH else f"{shown[:LONGEST_PATH]}…"


def _risks(
    given: Mapping[str, Any], kind: Kind, paths: list[str], root: str, resolve: Resolve, *, is_acp: bool
) -> Iterator[Risk]:
    raw = given.get("rawInput")
    fields, prefix = (raw if isinstance(raw, dict) else {}, "rawInput.") if is_acp else (given, "")
    for name, value in [*given.items(), *((prefix + name, value) for name, value in fields.items() if prefix)]:
        plain = name.removeprefix(prefix).lower()
        if plain.startswith("dangerous") and value:
            words = risks.TEXTS["no_sandbox"] if "sandbox" in plain else f"Dangerous: {name.removeprefix(prefix)[:100]}"
            yield Risk("no_sandbox", words, name)
    runs = kind == "command" or (kind == "tool" and isinstance(fields.get("command"), str | list))
    if runs:
        yield from _risks_of_command(given, fields, prefix, root, resolve)
    if kind in ("edit", "create", "overwrite", "notebook", "delete", "move"):
        named = {value: name for name, value in given.items() if isinstance(value, str)}
        for path in paths:
            if path.startswith("/"):
                yield from risks.in_path(path, root, resolve, named.get(path, ""))
    if kind in ("fetch", "search", "tool"):
        for name, value in fields.items():
            if isinstance(value, str) and not (runs and name == "command"):
                yield from risks.in_text(value, prefix + name)


def _risks_of_command(
    given: Mapping[str, Any], fields: Mapping[str, Any], prefix: str, root: str, resolve: Resolve
) -> Iterator[Risk]:
    given_directory = fields.get("directory")
    directory = given_directory if isinstance(given_directory, str) and given_directory.startswith("/") else ""
    match fields.get("command"):
        case str(command):
            yield from risks.in_command(command, root, resolve, f"{prefix}command", directory)
        case [*parts]:  # a list of arguments is not a single text in which parts can be marked
            command = " ".join(part for part in parts if isinstance(part, str))
            for risk in risks.in_command(command, root, resolve, ""):
                yield Risk(risk.code, risk.text, f"{prefix}command")
        case _ if isinstance(given.get("title"), str):
            yield from risks.in_command(given["title"], root, resolve, "title")


def _editable(tool: str, given: Mapping[str, Any]) -> tuple[str, ...]:
    if tool == "NotebookEdit" and given.get("edit_mode") == "delete":
        return ()  # the new source is ignored
    if tool in EDITABLE:
        return EDITABLE[tool]
    return tuple(name for name, value in given.items() if isinstance(value, str))[:50]


def _always(suggestions: msgspec.Raw, root: str, resolve: Resolve) -> tuple[Always, ...]:
    """What a decision with ``remember`` would change, in words: Claude Code's suggestions, or the name of an ACP
    option. A suggestion that only adds directories in ``root`` is left out because it changes nothing: the agent can
    use these directories anyway, and would ask again.
    """
    try:
        offered = msgspec.json.decode(suggestions, type=list[dict[str, Any]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    numbered = list(enumerate(offered))
    options = [(number, one) for number, one in numbered if "optionId" in one]
    if options:
        return _of_options(options)
    # As in the agent's driver, a mode counts only if nothing else is suggested: it covers far more than this call.
    narrow = [(number, one) for number, one in numbered if one.get("type") != "setMode"] or numbered
    new = [(number, one) for number, one in narrow if not _is_known_directory(one, root, resolve)]
    return tuple(Always(text, number, saved_in=file) for number, one in new for text, file in [_suggestion(one)])


def _is_known_directory(suggestion: Mapping[str, Any], root: str, resolve: Resolve) -> bool:
    match suggestion:
        case {"type": "addDirectories", "directories": [*paths]} if all(isinstance(path, str) for path in paths):
            found = [resolve(posixpath.join(root, path)) for path in paths]
            return all(path == root or path.startswith(f"{root}/") for path in found)
    return False


def _of_options(options: list[tuple[int, dict[str, Any]]]) -> tuple[Always, ...]:
    always = [(number, one) for number, one in options if one.get("kind") == "allow_always"]
    if len(always) != 1:  # if there are several, the agent's driver chooses one
        return ()
    [(number, one)] = always
    name = one.get("name")
    return (Always(name if isinstance(name, str) and name else "Always allow", number),)


def _suggestion(one: Mapping[str, Any]) -> tuple[str, str]:
    """A suggestion in words, and the file in which it is saved; empty if it is not saved in a file, or the file is not
    known."""
    destination = one.get("destination", "session")
    where, file = (
        SAVED_IN.get(destination, (f"({_json(destination)})", "")) if isinstance(destination, str) else ("", "")
    )
    match one:
        case {"type": "setMode", "mode": "acceptEdits"}:
            return f"Accept all edits {where}", file
        case {"type": "setMode", "mode": str(mode)}:
            return f"Switch to “{mode}” mode {where}", file
        case {"type": "addRules", "rules": [*rules], "behavior": str(behavior)} if behavior in BEHAVIORS and rules:
            return f"{BEHAVIORS[behavior]} {_joined([_rule(rule) for rule in rules])} {where}", file
        case {"type": "addDirectories", "directories": [*directories]} if directories:
            named = _joined([f"`{path}`" if isinstance(path, str) else _json(path) for path in directories])
            return f"Always allow access to {named} {where}", file
    return f"Always apply {_json(one)}", file


def _rule(rule: object) -> str:
    match rule:
        case {"toolName": "Bash", "ruleContent": str(content)} if content:
            prefix = content.removesuffix("*").rstrip(" :") if content.endswith((":*", " *")) else None
            return f"`{prefix} …`" if prefix else f"`{content}`"
        case {"toolName": "WebFetch", "ruleContent": str(content)} if content.startswith("domain:"):
            return f"web pages from `{content.removeprefix('domain:')}`"
        case {"toolName": str(name), "ruleContent": str(content)} if content:
            return f"`{name}({content})`"
        case {"toolName": str(name)}:
            return "every command" if name == "Bash" else _tool(name)
    return _json(rule)


def _joined(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
