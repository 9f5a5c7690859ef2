"""The messages on the agent server's private socket: one JSON object on each line, with its kind in ``type`` (except in
messages to hooks). Does no I/O.

Two kinds of programs connect to this socket, both running as the server's own user. The hook of an agent in a terminal
sends one line, and then disconnects or waits for an answer (see ``Hook``). A bridge stays connected: it reports the
changes that its own agents propose in its editor, and shows there what other agents propose. A connection that closes
without an answer means that the server has ended (unless the hook waits for a checkpoint). Hooks and bridges then send
open questions and proposals again to the next server.

A bridge also shows the review of a directory in its editor, where the user decides on hunks and comments on lines, if
both sides know these messages: ``Bridge.reviews`` and ``Welcome`` report that, because neither side accepts messages of
unknown types. The VS Code extension, which is not a bridge, connects like one, but only for reviews.

A change is decided on only once. If both the editor and clients can decide, the bridge asks the server before it
applies the editor's decision.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from drawbridge.protocols import jsonrpc

LINE_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of one line, in bytes. A proposal with both its texts has to fit."""


NOTHING: Final = Raw(b"null")

# To the server.


class Hook(Struct, tag="hook", frozen=True):
    """An agent called its hook. ``payload``: the hook's input, without parts that the server does not need.
    ``pid``: the agent's process; ``agent``: the agent's name; empty if the hook is from an earlier version.

    ``question``: an id that stays the same when the question is sent again; empty if the hook does not ask for a
    decision. Before a tool that may write, the hook waits up to 1 s for the server to close the connection. If that may
    take longer, the server sends a ``HookAnswer`` first, and the hook then waits up to 6 s more. ``background``: the
    agent's daemon runs the session (``claude --bg``), outside the user's terminals. ``config``: the agent's directory
    for its own files, if its environment names one. ``takes``: the hook waits up to 1 s for text to pass to the agent,
    and sends an empty line when it has received the text.
    """

    pid: int
    payload: Raw
    question: str = ""
    background: bool = False
    agent: str = ""
    takes: bool = False
    config: str = ""


class Bridge(Struct, tag="bridge", frozen=True):
    """A bridge's first line, sent again after each change. ``pids``: the known processes of the connected agents.

    ``terminals``: the process that was started in each of the editor's terminals in which an agent accepts prompts.
    ``reviews``: the bridge knows ``Welcome``, ``ReviewAnswer``, ``ReviewList`` and ``ReviewChanged``. ``offers``: it
    shows what other agents propose.
    """

    editor: str
    folders: tuple[str, ...]
    pids: tuple[int, ...] = ()
    terminals: tuple[int, ...] = ()
    reviews: bool = False
    offers: bool = True


class Proposed(Struct, tag="proposed", frozen=True):
    """An agent of this bridge proposes a change, and the editor shows it. ``session``: an opaque id of the agent.

    ``new_text`` is what would be written; ``agent_text`` is what the agent itself proposed, if that is different.
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
    """The user decided on a proposal in the editor. ``text``: the text to write; None if the proposal was
    rejected. Answered by ``DecisionAck``."""

    id: str
    text: str | None


class ProposalClosed(Struct, tag="gone", frozen=True):
    """The editor no longer shows the proposal. ``settled``: it was decided or withdrawn; False if the agent no longer
    waits because its call was canceled or failed."""

    id: str
    settled: bool = False


class OfferAnswered(Struct, tag="answered", frozen=True):
    """The user decided on an offer in the editor: exactly ``text`` will be written, or nothing (None)."""

    id: str
    text: str | None


class OfferDeclined(Struct, tag="declined", frozen=True):
    """The editor can't show an offer, or no longer shows it."""

    id: str


class PromptSent(Struct, tag="typed", frozen=True):
    """The prompt was typed into the agent's terminal and sent with Enter."""

    id: str


class PromptFailed(Struct, tag="untyped", frozen=True):
    """The prompt was not sent. ``reason``: sentences for the user."""

    id: str
    reason: str


class ReviewRequest(Struct, tag="review_get", frozen=True):
    """Requests the review of the session ``project``. If that is empty, requests a review in the directories that
    contain the file ``path``, beginning with the innermost one, and then in the editor's directory ``folder``. Either
    of the two may be empty. The answer is the first review with files or, if none has files, the first one. Answered by
    ``ReviewAnswer``.
    """

    id: str
    project: str = ""
    folder: str = ""
    path: str = ""


class ReviewListRequest(Struct, tag="review_list", frozen=True):
    """Requests the reviews that concern the editor's folders. Answered by ``ReviewList``."""

    id: str


class ReviewDecision(Struct, tag="review_decide", frozen=True, kw_only=True):
    """The user decided on a hunk, or on a whole file or ``all`` files as they are in this ``version`` of the
    review. Answered by ``ReviewAnswer``."""

    id: str
    project: str
    decision: Literal["keep", "undo"]
    hunk: str | None = None
    file: str | None = None
    all: bool = False
    version: str = ""


class ReviewComment(Struct, tag="review_comment", frozen=True, kw_only=True):
    """The user wrote a draft on the lines ``line`` to ``end_line`` (from 1) of a file, removed the draft ``comment``, or
    resolved (``resolved`` true) or reopened (false) a ``comment`` that was sent. ``quote``: these lines as they were
    shown; ``suggestion``: the text that the user suggests instead of them, in whole lines. ``suggestion`` and ``resolved``
    are sent only to a server that has set ``suggests`` in its ``Welcome``. Answered by ``ReviewAnswer``.
    """

    id: str
    project: str
    path: str = ""
    line: int = 1
    end_line: int = 1
    quote: str = ""
    text: str = ""
    comment: str | None = None
    suggestion: str | None = None
    resolved: bool | None = None


class ReviewSubmission(Struct, tag="review_submit", frozen=True, kw_only=True):
    """The user sends all drafts to the agent. ``drafts``: the version of the drafts that the user has seen; ``text``:
    the beginning of the prompt. Answered by ``ReviewAnswer``."""

    id: str
    project: str
    drafts: str
    text: str = ""


class ReviewSeen(Struct, tag="review_seen", frozen=True, kw_only=True):
    """The user has seen these ``hunks`` of a review, in an editor that does not store that itself. ``review``: the ids
    of all hunks that are in the review now. ``notice``: the editor is about to show the review's notice. Sent only to a
    server that has set ``remembers`` in its ``Welcome``. Answered by ``ReviewRemembered``."""

    id: str
    project: str
    hunks: tuple[str, ...] = ()
    review: tuple[str, ...] = ()
    notice: bool = False


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
    | ReviewRequest
    | ReviewListRequest
    | ReviewDecision
    | ReviewComment
    | ReviewSubmission
    | ReviewSeen
)
ReviewLine: TypeAlias = ReviewRequest | ReviewDecision | ReviewComment | ReviewSubmission


# From the server.


class HookAnswer(Struct, frozen=True):
    """To a hook: the decision on its question, in the agent's own format. Null if the user decides in the terminal, if no
    text waits for the agent, or if the checkpoint is not complete yet."""

    decision: Raw = NOTHING


class HookContext(Struct, frozen=True):
    """To a hook that has set ``takes`` in its first line: the text to pass to the agent. If no text waits for the
    agent, the hook receives a ``HookAnswer`` instead."""

    context: str


class Offer(Struct, tag="offer", frozen=True):
    """To a bridge: show this change, which an agent proposes."""

    id: str
    agent: str
    path: str
    new_text: str


class Withdraw(Struct, tag="withdraw", frozen=True):
    """The decision on an offer was made elsewhere, or is no longer needed. ``written``: the agent may write the file
    now."""

    id: str
    written: bool = False


class ClientDecision(Struct, tag="answer", frozen=True):
    """A client decided on a proposal from one of the bridge's own agents. The bridge answers the agent and closes the
    view. ``by``: the client's name. ``text``: the text to write; None if the proposal was rejected."""

    id: str
    by: str
    text: str | None


class DecisionAck(Struct, tag="ruling", frozen=True):
    """The answer to an ``EditorDecision``. ``won``: the editor's decision counts. Otherwise, another decision came
    first, or the server does not know the proposal."""

    id: str
    won: bool


class Prompt(Struct, tag="prompt", frozen=True):
    """To a bridge: send this to the agent in the terminal of the process ``pid``.

    Answered by ``PromptSent`` or ``PromptFailed``.
    """

    id: str
    pid: int
    text: str


class Welcome(Struct, tag="welcome", frozen=True):
    """The answer to a bridge's first report if that has ``reviews`` set: the server supports reviews in editors.
    ``remembers``: it knows ``ReviewSeen``. ``suggests``: it knows the ``suggestion`` and ``resolved`` of
    ``ReviewComment``."""

    remembers: bool = False
    suggests: bool = False


class ReviewAnswer(Struct, tag="review", frozen=True, kw_only=True):
    """The review of the session ``project`` in ``directory``: ``review`` is a ``Review`` of the client protocol.

    If the request failed, or the review could not be read afterwards, ``code``, ``text`` and ``details`` are the
    reason, as in an error of the client protocol. In that case, ``project`` and ``review`` are empty, and so is
    ``directory`` unless the session is known. ``done``: whether only the review could not be read, after a comment was
    changed or the drafts were sent. ``notice``: a sentence about the result of a decision that was interrupted because
    the server was killed; only in the first answer to a ``ReviewRequest`` after the restart, so it is shown once.
    """

    id: str
    project: str = ""
    directory: str = ""
    review: Raw = NOTHING
    code: str = ""
    text: str = ""
    details: Raw = NOTHING
    done: bool = False
    notice: str = ""


class ReviewList(Struct, tag="reviews", frozen=True):
    """The sessions with a directory that is one of the editor's folders, is inside one, or contains one. Only one of
    the sessions that share a review is listed."""

    id: str
    projects: tuple[str, ...]


class ReviewRemembered(Struct, tag="review_remembered", frozen=True):
    """The answer to ``ReviewSeen``. ``hunks``: the ids of all hunks of the review that the user has seen, in any program
    on this machine. ``notice``: the notice was requested, and the user has not seen it before."""

    id: str
    hunks: tuple[str, ...] = ()
    notice: bool = False


class ReviewChanged(Struct, tag="review_changed", frozen=True):
    """The review of ``project`` has changed: either its undecided changes, or its comments. ``by``: the name of the
    user who decided; empty if nobody did. ``directory``: the project's directory, with symbolic links resolved."""

    project: str
    by: str = ""
    directory: str = ""


ToBridge: TypeAlias = (
    Offer
    | Withdraw
    | ClientDecision
    | DecisionAck
    | Prompt
    | Welcome
    | ReviewAnswer
    | ReviewList
    | ReviewRemembered
    | ReviewChanged
)

_from_peer: Final = msgspec.json.Decoder(FromPeer)
_to_bridge: Final = msgspec.json.Decoder(ToBridge)


def encode(message: FromPeer | ToBridge | HookAnswer | HookContext) -> bytes:
    """The message as a line, with its line feed. A byte that is not UTF-8, as in an editor's text, becomes U+FFFD."""
    return jsonrpc.encode(message) + b"\n"


def decode_from_peer(line: bytes) -> FromPeer:
    """Decodes a line from a hook or a bridge. Raises ``ValueError`` for anything else."""
    try:
        message: FromPeer = _from_peer.decode(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return message


def decode_from_server(line: bytes) -> ToBridge:
    """Decodes a line that the server sent to a bridge. Raises ``ValueError`` for anything else."""
    try:
        message: ToBridge = _to_bridge.decode(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return message
