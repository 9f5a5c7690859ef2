"""The notifications for Gemini CLI, as its own schema defines them. Does no I/O.

The real CLI closes the connection permanently after a single notification that does not match, for example one with a
null (0.61.0).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from drawbridge.protocols import jsonrpc

FILES_LIMIT: Final = 10
SELECTION_LIMIT: Final = 16_384
"""The maximum length of the selected text, in UTF-16 code units. The real CLI also cuts there, even inside a character.
"""


class _Notice(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    pass


class Cursor(_Notice, frozen=True):
    """A position in a file. Both fields are counted from 1, ``character`` in UTF-16 code units."""

    line: Annotated[int, Meta(ge=1)]
    character: Annotated[int, Meta(ge=1)]


class OpenFile(_Notice, frozen=True):
    """An open file. ``timestamp``: the time at which the user last switched to it, in milliseconds since 1970."""

    path: Annotated[str, Meta(min_length=1)]
    timestamp: Annotated[int, Meta(ge=0)]
    is_active: bool = False
    cursor: Cursor | UnsetType = UNSET
    selected_text: Annotated[str, Meta(min_length=1, max_length=SELECTION_LIMIT)] | UnsetType = UNSET


class WorkspaceState(_Notice, frozen=True):
    """The open files, latest first. ``isTrusted`` is left out, because it would override the user's choice in the
    CLI."""

    open_files: Annotated[tuple[OpenFile, ...], Meta(max_length=FILES_LIMIT)]


class ContextUpdate(_Notice, frozen=True):
    workspace_state: WorkspaceState


class DiffAccepted(_Notice, frozen=True):
    """The user accepted a proposal. ``file_path``, here and in ``DiffRejected``, is spelled exactly as in openDiff,
    because the CLI uses it as a key.
    """

    file_path: str
    content: str


class DiffRejected(_Notice, frozen=True):
    file_path: str


DiffDecision: TypeAlias = DiffAccepted | DiffRejected
Notice: TypeAlias = ContextUpdate | DiffDecision
N = TypeVar("N")


class _Message(Struct, Generic[N], forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    method: str
    params: N


_METHODS: Final[dict[type[Notice], str]] = {
    ContextUpdate: "ide/contextUpdate",
    DiffAccepted: "ide/diffAccepted",
    DiffRejected: "ide/diffRejected",
}
_CHECKS: Final[dict[type[Notice], msgspec.json.Decoder[Any]]] = {
    ContextUpdate: msgspec.json.Decoder(_Message[ContextUpdate]),
    DiffAccepted: msgspec.json.Decoder(_Message[DiffAccepted]),
    DiffRejected: msgspec.json.Decoder(_Message[DiffRejected]),
}


def encode(notice: Notice) -> bytes:
    """The message as bytes. Raises ``msgspec.ValidationError`` if the notice does not match the CLI's schema."""
    data = jsonrpc.notification(_METHODS[type(notice)], notice)
    _CHECKS[type(notice)].decode(data)
    return data


def cut(text: str) -> str:
    """The beginning of the selected text: at most ``SELECTION_LIMIT`` UTF-16 code units, cut between characters."""
    text = text[:SELECTION_LIMIT]
    units = text.encode("utf-16-le", "surrogatepass")[: 2 * SELECTION_LIMIT]
    if len(units) == 2 * SELECTION_LIMIT and 0xD8 <= units[-1] < 0xDC:
        units = units[:-2]
    return units.decode("utf-16-le", "surrogatepass")
