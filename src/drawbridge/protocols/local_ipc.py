"""What is said at the agent server's private socket: one JSON object a line, its kind in ``type``. Pure.

Two kinds of programs of this user come there. The hook of a plain ``claude`` says one line and goes or, with a question,
waits for one line. A bridge stays: it tells of the changes that its own agents propose in its editor, and shows there what
other agents propose. Where the connection ends without a word the server has ended: what is open is said again to the next.

A change is decided once: where both sides can, the bridge asks before it obeys its editor.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

LINE_BYTES: Final = 64 * 1024 * 1024
"""Of one line, at most: a proposal with both its texts."""


NOTHING: Final = Raw(b"null")

# What the server is told.


class Hook(Struct, tag="hook", frozen=True):
    """The hook of an agent was called. ``payload`` is what the agent gave it; ``pid`` is the agent's process.

    ``question``: identifies the question, however often it is sent. Empty: it is sent once. ``background``: the agent's
    daemon hosts the session (``claude --bg``), no terminal of a person's own.
    """

    pid: int
    payload: Raw
    question: str = ""
    background: bool = False


class Bridge(Struct, tag="bridge", frozen=True):
    """A bridge's first line, and again at each change. ``pids``: those agents that are connected to it, as far as known.

    ``terminals``: the processes that its editor has started in terminals whose agent takes prompts.
    """

    editor: str
    folders: tuple[str, ...]
    pids: tuple[int, ...] = ()
    terminals: tuple[int, ...] = ()


class Proposed(Struct, tag="proposed", frozen=True):
    """An agent of this bridge proposes a change, and the editor shows it. ``session``: one agent's, by any name.

    ``new_text`` is what would be written; ``agent_text`` what the agent itself proposed, where that is another text.
    ``question`` as a hook's; ``id`` is of this connection.
    """

    id: str
    agent: str
    session: str
    path: str
    old_text: str
    new_text: str
    pid: int | None = None
    agent_text: str | None = None
    question: str = ""


class Decided(Struct, tag="decided", frozen=True):
    """The person has decided it in the editor (``text`` None: rejected): may it be so? ``Ruling`` answers."""

    id: str
    text: str | None


class Gone(Struct, tag="gone", frozen=True):
    """It is shown no more. ``settled``: the agent has closed it, since it was decided in its own dialog."""

    id: str
    settled: bool = False


class Answered(Struct, tag="answered", frozen=True):
    """What was offered was decided in the editor: exactly ``text`` is to be written, or nothing (None)."""

    id: str
    text: str | None


class Declined(Struct, tag="declined", frozen=True):
    """What was offered can't be shown in this editor, or is not shown any more."""

    id: str


class Typed(Struct, tag="typed", frozen=True):
    """The prompt stands in the agent's terminal, and Enter was pressed."""

    id: str


class Untyped(Struct, tag="untyped", frozen=True):
    """It was not sent. ``reason``: sentences for people."""

    id: str
    reason: str


FromPeer: TypeAlias = Hook | Bridge | Proposed | Decided | Gone | Answered | Declined | Typed | Untyped


# What it says.


class Verdict(Struct, frozen=True):
    """To a hook: the answer to its question, in the agent's own words; without, the question is settled at the desk."""

    decision: Raw = NOTHING


class Offer(Struct, tag="offer", frozen=True):
    """To a bridge: show this change, whichever agent proposes it."""

    id: str
    agent: str
    path: str
    new_text: str


class Withdraw(Struct, tag="withdraw", frozen=True):
    """What was offered is decided elsewhere. ``written``: the agent may write the file now."""

    id: str
    written: bool = False


class Answer(Struct, tag="answer", frozen=True):
    """A client has decided what the bridge's own agent proposed: the agent is to be told so, and the view to be closed."""

    id: str
    by: str
    text: str | None


class Ruling(Struct, tag="ruling", frozen=True):
    """Whether the editor's decision counts; if not, another one came first."""

    id: str
    won: bool


class Prompt(Struct, tag="prompt", frozen=True):
    """To a bridge: send this to the agent in the terminal of the process ``pid``. ``Typed`` or ``Untyped`` answers."""

    id: str
    pid: int
    text: str


ToBridge: TypeAlias = Offer | Withdraw | Answer | Ruling | Prompt

_from_peer: Final = msgspec.json.Decoder(FromPeer)
_to_bridge: Final = msgspec.json.Decoder(ToBridge)
_encode: Final = msgspec.json.Encoder().encode


def line(said: FromPeer | ToBridge | Verdict) -> bytes:
    return _encode(said) + b"\n"


def told_server(line: bytes) -> FromPeer:
    """Raises ``ValueError`` for what is no such line."""
    try:
        said: FromPeer = _from_peer.decode(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return said


def told_bridge(line: bytes) -> ToBridge:
    """The same."""
    try:
        said: ToBridge = _to_bridge.decode(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return said
