"""Describes the meaning of tool calls, in terms that all agents share. Pure.

An agent that asks for decisions has a module ``agents/NAME/tools.py``, in which ``TOOLS`` implements ``Tools``. The
server words requests, marks risks, and applies scopes and the owner's limits based only on the values of ``ToolCall``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import Form, Proposal
from drawbridge.core.json_text import UNDECODABLE

Kind: TypeAlias = Literal[
    "edit",
    "create",
    "overwrite",
    "notebook",
    "command",
    "plan",
    "question",
    "fetch",
    "search",
    "read",
    "delete",
    "move",
    "tool",
]
"""The subject of an approval request; "tool" for anything else."""

Act: TypeAlias = Literal[
    "read",
    "edit",
    "write",
    "command",
    "search",
    "find",
    "fetch",
    "web",
    "agent",
    "todo",
    "question",
    "plan",
    "output",
    "stop",
    "skill",
]
"""What a tool does, for the words with which clients describe its calls in a conversation."""


class Rule(Struct, frozen=True):
    """A rule that an agent suggests remembering. ``text``: the rule in the form of ``Options.allowed_tools``.

    ``kind`` and ``value``: what it covers: the "call" that ``value`` describes, commands with a "prefix", all
    "commands", pages from a "site", or a whole "tool".
    """

    text: str
    kind: Literal["call", "prefix", "commands", "site", "tool"]
    value: str = ""


class _Grant(Struct, frozen=True, kw_only=True, tag=True):
    """A change that a decision with ``remember`` would make. ``suggestion``: the index of the suggestion that it comes
    from. ``where``: what it applies to: "session", "project", "shared" (the project, for everyone who works in it),
    "everywhere", or the agent's own word for something else, in quotation marks, so that it can't be mistaken for one
    of these; empty if the agent does not specify it. ``saved_in``: the file in which the agent saves it; empty if it is
    not saved, or the file is not known."""

    suggestion: int
    where: str = "session"
    saved_in: str = ""


class Rules(_Grant, frozen=True, kw_only=True, tag=True):
    """A grant that adds ``rules`` (at least one), which allow or deny calls, or make the agent ask about them."""

    effect: Literal["allow", "deny", "ask"]
    rules: tuple[Rule, ...]


class Directories(_Grant, frozen=True, kw_only=True, tag=True):
    """A grant that lets the agent use more directories. ``are_valid``: false if one of ``paths`` is not a path, but
    describes what the agent sent in its place.
    """

    paths: tuple[str, ...]
    are_valid: bool = True


class Mode(_Grant, frozen=True, kw_only=True, tag=True):
    """A grant that switches to another permission mode."""

    mode: str


class Option(_Grant, frozen=True, kw_only=True, tag=True):
    """One of the answers that the agent offers, without reporting what it would change. ``name``: empty if the agent
    gives none. ``lasts``: whether the answer allows more than this call."""

    name: str = ""
    lasts: bool = False


class Other(_Grant, frozen=True, kw_only=True, tag=True):
    """Anything else, with its JSON in ``text``. ``widens``: false if it certainly allows the agent nothing more than
    before."""

    text: str
    widens: bool = True


Grant: TypeAlias = Rules | Directories | Mode | Option | Other
"""A change that a decision with ``remember`` would make. The fields that all have in common are those of ``_Grant``."""


class ToolCall(Struct, frozen=True, kw_only=True):
    """The tool call that a question is about. The default of each field is the value that grants the least, for a call
    about which nothing else is known. Fields are named by their place in the question's input, with a dot before a
    nested name.
    """

    kind: Kind = "tool"
    name: str = ""
    """The tool's name as users see it; empty if the agent reports only what kind of tool it is."""
    paths: tuple[str, ...] = ()
    """The files that the call is about."""
    arguments: str = ""
    """The field that contains the tool's arguments; empty if the input consists of them."""
    command: str = ""
    """The field that contains the command that the call runs: a text or a list of arguments; empty if it runs none."""
    directory: str = ""
    """The absolute path of the directory in which the command starts; empty for the session's directory."""
    is_only_command: bool = False
    """Whether the call only runs this command, and nothing else in the input changes what it does."""
    searches_web: bool = False
    questions: int = 1
    """The number of questions that the agent asks the user (for the kind "question")."""
    answers: str = ""
    """The field of the decision's input that contains the user's answers; empty if it contains none."""
    texts: tuple[str, ...] = ()
    """The fields that contain the text that the call writes to a file, but not which file."""
    editable: tuple[str, ...] = ()
    """The fields that clients offer for editing."""
    grants: tuple[Grant, ...] = ()
    """Everything that a decision with ``remember`` would change."""


class Tools(Protocol):
    """The meaning of one agent's tool calls. The methods are pure. An agent that does not accept an edited input needs
    only ``call``."""

    @property
    def acts(self) -> Mapping[str, Act]:
        """Maps a tool to what it does. Clients show the calls of any other tool with the tool's name."""
        return {}

    @property
    def tasks(self) -> Mapping[str, str]:
        """Maps a kind of background task, as the agent reports it, to its name for users."""
        return {}

    def call(self, name: str, given: Mapping[str, Any], suggestions: Raw, form: Form) -> ToolCall:
        """Describes a call to the tool ``name`` with the input ``given``. The parameters are as in ``base.Question``;
        ``given`` is empty if the input is not an object, or can't be decoded."""
        ...

    def changed_text(self, name: str, given: Mapping[str, Any], old_text: str) -> str | None:
        """The text into which the call changes a file that contains ``old_text``; None if that can't be predicted."""
        return None

    def with_text(self, name: str, given: Mapping[str, Any], old_text: str, text: str) -> dict[str, Any] | None:
        """The input with which the tool changes ``old_text`` to ``text``; None if the tool can't do that."""
        return None

    def shown_fields(self, name: str, given: Mapping[str, Any], proposal: Proposal) -> tuple[str, ...]:
        """The fields of the input that the diff of ``proposal`` shows in full, so that clients do not have to show them
        again. A field that may differ from the diff, or that changes anything else, must not be among them."""
        return ()


class UnknownTools(Tools):
    """The tools of an agent about which nothing is known."""

    def call(self, name: str, given: Mapping[str, Any], suggestions: Raw, form: Form) -> ToolCall:
        return ToolCall(name=shown_name(name), grants=unknown(suggestions))


def shown_name(name: str) -> str:
    """A tool's name as users see it: "create_issue (github)" for the ``mcp__github__create_issue`` of an MCP server."""
    parts = name.split("__", 2)
    return f"{parts[2]} ({parts[1]})" if len(parts) == 3 and parts[0] == "mcp" and parts[2] else name


def command_field(given: Mapping[str, Any]) -> str:
    """The field that contains a command, by its usual name; empty if the arguments contain no command."""
    return "command" if isinstance(given.get("command"), str | list) else ""


def command_directory(given: Mapping[str, Any]) -> str:
    """The directory that the arguments name for their command, if it is an absolute path; otherwise empty."""
    directory = given.get("directory")
    return directory if isinstance(directory, str) and directory.startswith("/") else ""


def text_fields(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The first 50 fields that contain text."""
    return tuple(name for name, value in given.items() if isinstance(value, str))[:50]


def decoded(suggestions: Raw) -> list[dict[str, Any]]:
    """Suggestions as JSON objects; empty if they have another form."""
    try:
        return msgspec.json.decode(suggestions, type=list[dict[str, Any]])
    except UNDECODABLE:
        return []


def unknown(suggestions: Raw) -> tuple[Other, ...]:
    """The grants for suggestions with an unknown meaning."""
    return tuple(other(number, one) for number, one in enumerate(decoded(suggestions)))


def other(number: int, suggestion: object, *, widens: bool = True) -> Other:
    return Other(suggestion=number, text=as_json(suggestion), widens=widens)


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
