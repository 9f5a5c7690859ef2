"""The messages on the agent server's private socket: one JSON object on each line, its kind in ``type``. Pure.

Two kinds of programs of the server's own user connect there. The hook of an agent in a terminal sends one line and disconnects
or, with a question, waits for one line. A bridge stays connected: it reports the changes that its own agents propose in its
editor, and shows there what other agents propose. A connection that closes without a message means that the server has
ended: hooks and bridges send open questions and proposals again to the next server.

A change is decided once: if editor and clients can both decide, the bridge asks the server before it applies the editor's
decision.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

LINE_BYTES: Final = 64 * 1024 * 1024
"""The limit of one line, in bytes: a proposal with both its texts."""


NOTHING: Final = Raw(b"null")

# To the server.


class Hook(Struct, tag="hook", frozen=True):
    """The hook of an agent was called. ``payload``: its input; ``pid``: the agent's process.

    ``question``: an id that stays the same when the question is sent again; empty if the hook does not wait for an answer.
    ``background``: the agent's daemon runs the session (``claude --bg``), outside of any terminal of the person.
    """

    pid: int
    payload: Raw
    question: str = ""
    background: bool = False


class Bridge(Struct, tag="bridge", frozen=True):
    """A bridge's first line, and again at each change. ``pids``: the connected agents whose process is known.

    ``terminals``: the processes that the editor has started in terminals, and whose agents take prompts.
    """

    editor: str
    folders: tuple[str, ...]
    pids: tuple[int, ...] = ()
    terminals: tuple[int, ...] = ()


class Proposed(Struct, tag="proposed", frozen=True):
    """An agent of this bridge proposes a change, and the editor shows it. ``session``: one agent's, by any name.

    ``new_text`` is what would be written; ``agent_text`` what the agent itself proposed, where that is another text.
    ``question`` as in ``Hook``; ``id`` is unique on this connection.
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


class EditorDecision(Struct, tag="decided", frozen=True):
    """The person has decided a proposal in the editor (``text`` None: rejected). ``DecisionAck`` answers."""

    id: str
    text: str | None


class ProposalClosed(Struct, tag="gone", frozen=True):
    """The editor does not show the proposal any more. ``settled``: it was decided in the agent's own dialog."""

    id: str
    settled: bool = False


class OfferAnswered(Struct, tag="answered", frozen=True):
    """An offer was decided in the editor: exactly ``text`` is to be written, or nothing (None)."""

    id: str
    text: str | None


class OfferDeclined(Struct, tag="declined", frozen=True):
    """The editor cannot show an offer, or does not show it any more."""

    id: str


class PromptSent(Struct, tag="typed", frozen=True):
    """The prompt was typed into the agent's terminal and sent with Enter."""

    id: str


class PromptFailed(Struct, tag="untyped", frozen=True):
    """The prompt was not sent. ``reason``: sentences for people."""

    id: str
    reason: str


FromPeer: TypeAlias = (
    Hook
    | Bridge
    | Proposed
    | EditorDecision
    | ProposalClosed
    | OfferAnswered
    | OfferDeclined
    | PromptSent
    | PromptFailed
)


# From the server.


class HookAnswer(Struct, frozen=True):
    """To a hook: the answer to its question, in the agent's own format; without one, the person decides in the terminal."""

    decision: Raw = NOTHING


class Offer(Struct, tag="offer", frozen=True):
    """To a bridge: show this change of any agent."""

    id: str
    agent: str
    path: str
    new_text: str


class Withdraw(Struct, tag="withdraw", frozen=True):
    """An offer was decided elsewhere. ``written``: the agent may write the file now."""

    id: str
    written: bool = False


class ClientDecision(Struct, tag="answer", frozen=True):
    """A client has decided a proposal of the bridge's own agent: the agent is to be answered, and the view closed."""

    id: str
    by: str
    text: str | None


class DecisionAck(Struct, tag="ruling", frozen=True):
    """``won``: the editor's decision counts; otherwise another one came first."""

    id: str
    won: bool


class Prompt(Struct, tag="prompt", frozen=True):
    """To a bridge: send this to the agent in the terminal of the process ``pid``.

    ``PromptSent`` or ``PromptFailed`` answers.
    """

    id: str
    pid: int
    text: str


ToBridge: TypeAlias = Offer | Withdraw | ClientDecision | DecisionAck | Prompt

_from_peer: Final = msgspec.json.Decoder(FromPeer)
_to_bridge: Final = msgspec.json.Decoder(ToBridge)
_encode: Final = msgspec.json.Encoder().encode


def encode(message: FromPeer | ToBridge | HookAnswer) -> bytes:
    """The message as a line, with its line feed."""
    return _encode(message) + b"\n"


def decode_from_peer(line: bytes) -> FromPeer:
    """What a hook or a bridge has sent. Raises ``ValueError`` for anything else."""
    try:
        message: FromPeer = _from_peer.decode(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return message


def decode_from_server(line: bytes) -> ToBridge:
    """What the server has sent to a bridge. Raises ``ValueError`` for anything else."""
    try:
        message: ToBridge = _to_bridge.decode(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return message
