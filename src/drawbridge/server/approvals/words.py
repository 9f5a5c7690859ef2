"""The wording of an approval request: what the agent wants, what deserves a second look, and what "always" would mean.
Pure. The server chooses it once, so that all clients use the same words. Paths keep the characters that the agent
wrote, because clients make misleading characters visible.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from drawbridge.agents import catalog
from drawbridge.agents.tool_calls import Directories, Grant, Kind, Mode, Option, Other, Rule, Rules, ToolCall
from drawbridge.server.approvals import risks
from drawbridge.server.approvals.risks import Resolve
from drawbridge.server.events import Always, ApprovalRequested, Risk, Title
from drawbridge.text.counts import counted

LONGEST_PATH: Final = 4_096
"""The maximum length of a path in a title, in characters. It is as large as Linux's ``PATH_MAX``, because clients show
the path nowhere else."""

LONGEST_NAME: Final = 200
"""The maximum length of a tool's name in a title, in characters."""

MOST_RISKS: Final = 20

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

PLACES: Final[Mapping[str, str]] = {
    "session": "for this session",
    "project": "in this project",
    "shared": "in this project, for everyone who works in it",
    "everywhere": "in all projects",
    "": "",
}
"""Maps ``Grant.where`` to the wording for the user. The agent's own words are shown unchanged."""

EFFECTS: Final[Mapping[str, str]] = {"allow": "Always allow", "deny": "Always reject", "ask": "Always ask about"}


class Words(Struct, frozen=True):
    """The fields of ``PermissionRequest`` with the same names."""

    kind: Kind
    title: Title
    risks: tuple[Risk, ...]
    always: tuple[Always, ...]
    editable: tuple[str, ...]
    summary: str


def words(request: ApprovalRequested, call: ToolCall, agent: str, root: str, resolve: Resolve) -> Words:
    """The words of an approval request. ``call``: what it is about. ``agent``: the agent's name. ``root``: the project's
    directory."""
    given, kind = request.given or {}, _kind(request, call)
    proposed = () if request.proposal is None else (request.proposal.path,)
    paths = list(dict.fromkeys(filter(None, (*proposed, *call.paths))))
    return Words(
        kind,
        _title(request, call, kind, catalog.label(agent), [_shown(path, root) for path in paths]),
        tuple(_risks(given, call, kind, paths, root, resolve))[:MOST_RISKS],
        tuple(_always(call.grants, resolve(root), resolve)),
        call.editable if request.changeable else (),
        SUMMARIES.get(kind) or f"Use {_used(call)}",
    )


def _kind(request: ApprovalRequested, call: ToolCall) -> Kind:
    if call.kind in ("edit", "overwrite") and request.proposal is not None and not request.proposal.old_text:
        return "create"
    return call.kind


def _title(request: ApprovalRequested, call: ToolCall, kind: Kind, agent: str, paths: list[str]) -> Title:
    match kind:
        case "plan":
            return Title(f"{agent}’s plan")
        case "question":
            return Title(f"{agent} has {call.questions} questions" if call.questions > 1 else f"{agent} has a question")
        case "tool":
            return Title(f"{agent} wants to use {_used(call)}", paths[0] if len(paths) == 1 else None)
        case "search" if call.searches_web:
            return Title(f"{agent} wants to search the web")
        case "command" | "fetch" | "search":
            return Title(f"{agent} {VERBS[kind]}")
        case "overwrite" if request.proposal is None:  # it is not known whether the file already exists
            return Title(f"{agent} wants to write{'' if paths else ' a file'}", paths[0] if paths else None)
        case "notebook" if len(paths) != 1:
            return Title(f"{agent} wants to edit {counted(len(paths), 'file') if paths else 'a notebook'}")
    if len(paths) > 1:
        return Title(f"{agent} {VERBS[kind]} {counted(len(paths), 'file')}")
    return Title(f"{agent} {VERBS[kind]}" if paths else f"{agent} {VERBS[kind]} a file", paths[0] if paths else None)


def _used(call: ToolCall) -> str:
    """The call's tool, as users see it."""
    return call.name[:LONGEST_NAME] or "a tool"


def _shown(path: str, root: str) -> str:
    """The path relative to the project, or the unchanged path of a file outside it; cut after ``LONGEST_PATH``
    characters."""
    shown = path.removeprefix(root.rstrip("/") + "/")
    return shown if len(shown) <= LONGEST_PATH else f"{shown[:LONGEST_PATH]}…"


def _risks(
    given: Mapping[str, Any], call: ToolCall, kind: Kind, paths: list[str], root: str, resolve: Resolve
) -> Iterator[Risk]:
    nested = given.get(call.arguments) if call.arguments else given
    arguments = nested if isinstance(nested, dict) else {}
    prefix = f"{call.arguments}." if call.arguments else ""
    named = [(prefix + name, value) for name, value in arguments.items()]
    for name, value in [*given.items(), *(named if prefix else ())]:
        plain = name.removeprefix(prefix).lower()
        if plain.startswith("dangerous") and value:
            words = risks.TEXTS["no_sandbox"] if "sandbox" in plain else f"Dangerous: {name.removeprefix(prefix)[:100]}"
            yield Risk("no_sandbox", words, name)
        elif plain == "run_in_background" and value:
            yield Risk("background", risks.TEXTS["background"], name)
    if call.command:
        yield from _risks_of_command(dict(named).get(call.command, given.get(call.command)), call, root, resolve)
    if kind in ("edit", "create", "overwrite", "notebook", "delete", "move"):
        fields = {value: name for name, value in given.items() if isinstance(value, str)}
        for path in paths:
            if path.startswith("/"):
                yield from risks.in_path(path, root, resolve, fields.get(path, ""))
    if kind in ("fetch", "search", "tool"):
        for name, value in named:
            if isinstance(value, str) and name != call.command:
                yield from risks.in_text(value, name)


def _risks_of_command(command: object, call: ToolCall, root: str, resolve: Resolve) -> Iterator[Risk]:
    match command:
        case str():
            yield from risks.in_command(command, root, resolve, call.command, call.directory)
        case [*parts]:  # a list of arguments is not a single text in which parts can be marked
            command = " ".join(part for part in parts if isinstance(part, str))
            for risk in risks.in_command(command, root, resolve, ""):
                yield Risk(risk.code, risk.text, call.command)


def _always(grants: Sequence[Grant], root: str, resolve: Resolve) -> Iterator[Always]:
    """Describes what a decision with ``remember`` would change. A change that only adds directories in ``root`` is left
    out because it has no effect. The agent can use these directories anyway, and would ask again. Options that allow
    more than this call are left out if there are several, because the agent's driver chooses one."""
    lasting = [grant for grant in grants if isinstance(grant, Option) and grant.lasts]
    for grant in grants:
        match grant:
            case Option(name=name):
                if [grant] == lasting:
                    yield Always(name or "Always allow", grant.suggestion)
            case Directories(paths=paths, are_valid=True) if _are_known(paths, root, resolve):
                pass
            case _:
                yield Always(_change(grant), grant.suggestion, saved_in=grant.saved_in)


def _are_known(paths: Iterable[str], root: str, resolve: Resolve) -> bool:
    found = [resolve(posixpath.join(root, path)) for path in paths]
    return all(path == root or path.startswith(f"{root}/") for path in found)


def _change(grant: Rules | Directories | Mode | Other) -> str:
    where = PLACES.get(grant.where, f"({grant.where})")
    match grant:
        case Mode(mode="acceptEdits"):
            return f"Accept all edits {where}".rstrip()
        case Mode(mode=mode):
            return f"Switch to “{mode}” mode {where}".rstrip()
        case Rules(effect=effect, rules=rules):
            return f"{EFFECTS[effect]} {_joined([_rule(rule) for rule in rules])} {where}".rstrip()
        case Directories(paths=paths):
            return f"Always allow access to {_joined([f'`{path}`' for path in paths])} {where}".rstrip()
        case Other(text=text):
            return f"Always apply {text}"


def _rule(rule: Rule) -> str:
    match rule.kind:
        case "commands":
            return "every command"
        case "prefix":
            return f"`{rule.value} …`"
        case "site":
            return f"web pages from `{rule.value}`"
        case "call":
            return f"`{rule.value}`"
        case "tool":
            return rule.value


def _joined(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
