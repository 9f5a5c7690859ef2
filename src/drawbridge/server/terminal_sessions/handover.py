"""Comments left with a terminal session. Its agent receives them when it stops, or with its next prompt. If it is idle
and can be woken, one of its hooks starts it with a prompt.

One of the agent's hooks hands them over, as context in its answer (measured on 2.1.329). They are stored as handed over
before the hook receives them, and the hook confirms that it received them. Without this confirmation, they wait for the
next hook. The agent's transcript confirms that they have arrived.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from drawbridge.agents.terminal import Context, HookEvent
from drawbridge.core.errors import DrawbridgeError
from drawbridge.server.events import PromptAccepted, Submission
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.terminal_sessions.prompt_text import letters
from drawbridge.server.terminal_sessions.prompts import above
from drawbridge.server.terminal_sessions.shared_comments import LeftComments, Release, SharedComments

logger = logging.getLogger("drawbridge.server")

LONGEST: Final = 9_000
"""The maximum number of characters that are handed over. Claude Code moves more than 10,000 to a file (2.1.329), and
the guard adds its own context."""

TOO_LONG: Final = (
    f"At most {LONGEST:,} characters of comments, including the lines that they quote, can wait for the agent. "
    "Remove some comments."
)

WAITS: Final = (
    "Other comments are waiting for an agent in this directory. Withdraw them, then send all comments together."
)

ON_THEIR_WAY: Final = "Other comments are on their way to an agent in this directory. Try again in a moment."

HANDS_OVER: Final = ("Stop", "UserPromptSubmit")


class Receiver(Protocol):
    """The part of ``TerminalSession`` that ``Handover`` uses. The class itself is in a higher layer."""

    id: str

    @property
    def forks(self) -> bool:
        """Whether the agent can fork its conversation."""
        ...

    @property
    def resting(self) -> bool:
        """Whether the agent waits for the next prompt."""
        ...

    def is_working_on(self, turn: str) -> bool:
        """Whether this is the agent's current turn."""
        ...

    def within_limits(self, mode: str | None) -> bool:
        """Whether a client could have started the agent in this mode. If not, returns False or raises ``ClientError``
        with the reason."""
        ...


class Handover:
    """The comments that are left with one session. ``comments``: all comments on the review of the session's directory.
    The comments that are left are stored in the same file."""

    def __init__(self, session: Receiver, comments: SharedComments) -> None:
        self._session = session
        self._comments = comments

    @property
    def _left(self) -> LeftComments | None:
        left = self._comments.left
        return left if left is not None and left.session == self._session.id else None

    def known(self, request_id: str | None, key: str) -> Answer[Accepted] | None:
        """The reply to a repeated request if the agent may still receive its comments; None for any other request.
        ``key``: the key of the submission."""
        left = self._left
        if left is None or request_id is None or (left.request_id, left.review.key) != (request_id, key):
            return None
        return self._accepted() if left.is_open else None

    def _accepted(self) -> Answer[Accepted]:
        return Answer(type="accepted", project_id=self._session.id, data=Accepted("", 0, waiting=True))

    def leave(
        self, prompt: str, review: Submission, sender: Subscriber, request_id: str | None, allowed: Callable[[], bool]
    ) -> Answer[Accepted]:
        """Leaves ``prompt``, which contains the comments in ``review``, with the session. Raises ``ClientError``,
        ``NotPrivate`` or OSError without changing anything."""
        if len(prompt) > LONGEST:
            raise ClientError("NOT_SUPPORTED", TOO_LONG)
        if not allowed():
            raise above(forks=self._session.forks)
        known = self._comments.left
        if known is not None and known.is_open:
            raise ClientError("PROCESS_ACTIVE", WAITS if known.state == "waiting" else ON_THEIR_WAY)
        left = LeftComments(self._session.id, prompt.strip(), sender.name, review, request_id, client_id=sender.id)
        self._comments.put(left, "waiting", sender.name, wakes=self._session.resting)
        return self._accepted()

    def load(self) -> None:
        """Reads the comments that were left with the session, unless they have already been read. Blocking. If that
        fails, the error is logged and nothing is handed over."""
        try:
            self._comments.load()
        except OSError as error:
            logger.error("%s: the comments that are waiting for its agent can't be read: %s", self._session.id, error)

    def prepare(self, event: HookEvent) -> bool:
        """Returns whether comments wait that this event's hook may hand over. If none wait, removes the mark that a killed
        server may have left."""
        left = self._left
        if left is None or left.state != "waiting":
            self._comments.unmark(self._session.id)
            return False
        return event.name == "Stop" or (event.name in HANDS_OVER and self._begins(event))

    def give(self, event: HookEvent) -> LeftComments | None:
        """Returns the comments that this event's hook must hand over, and stores them as given. Returns None if no
        comments are waiting now, if the agent must not get them, or if they can't be stored. If comments are returned,
        the caller must report to ``received`` whether the hook has received them. To be called only if ``prepare`` has
        returned true.
        """
        left = self._left
        if left is None or left.state != "waiting":
            return None
        if not self._is_allowed(event.permission_mode):
            self._release("refused")
            return None
        stops = event.name == "Stop"
        run = f"turn_{uuid.uuid4().hex[:16]}" if stops else event.turn
        given = msgspec.structs.replace(left, state="given", run=run, turn=event.turn)
        try:
            self._comments.put(given)
        except DrawbridgeError as error:
            logger.error("%s: its comments can't be handed over: %s", self._session.id, error)
            return None
        return given

    def _begins(self, event: HookEvent) -> bool:
        """Whether the event is a prompt that begins a turn: a user's, or the one that wakes the agent. A prompt that is
        typed while the agent is working may be delivered with a tool's result, in the middle of a run."""
        is_new = event.turn and not self._session.is_working_on(event.turn)
        return bool(is_new) and not event.follows and event.agent_id is None

    def _is_allowed(self, mode: str | None) -> bool:
        try:
            return self._session.within_limits(mode)
        except ClientError:
            return False

    def received(self, given: LeftComments, *, received: bool) -> bool:
        """Makes the comments ``given`` wait for the next hook, unless this one has ``received`` them. Returns
        ``received``."""
        if not received and self._left == given:
            try:
                self._comments.put(msgspec.structs.replace(given, state="waiting", run="", turn=""))
            except DrawbridgeError as error:
                logger.error("%s: its comments are still marked as handed over: %s", self._session.id, error)
        return received

    def confirmed(self, entry: Context) -> LeftComments | None:
        """The comments that have arrived according to this entry of the transcript; None if it contains none."""
        left = self._left
        if left is None or not left.run:
            return None
        return left if any(letters(text).startswith(letters(left.text)) for text in entry.texts) else None

    def record(self, left: LeftComments, entry: Context) -> PromptAccepted:
        """The comments as a prompt for the history. ``entry``: the entry of the transcript that contains them."""
        return PromptAccepted(
            left.run,
            left.text,
            left.by,
            left.request_id,
            uuid=entry.uuid,
            review=left.review,
            client_id=left.client_id,
        )

    def settle(self) -> None:
        """Turns comments that were given to a hook back into drafts, because they may not have arrived. To be called if
        they are not in the transcript, although it was read to its end and the agent has continued."""
        left = self._left
        if left is not None and left.state == "given":
            self._release("unsure")

    def end(self) -> None:
        """Turns the comments back into drafts, because the session has ended."""
        left = self._left
        if left is not None and left.is_open:
            self._release("ended" if left.state == "waiting" else "unsure")

    def _release(self, state: Release) -> None:
        """Turns the comments back into drafts. ``state``: the reason. A failure is logged."""
        left = self._left
        if left is None:
            return
        try:
            self._comments.put(msgspec.structs.replace(left, state=state), "draft")
        except DrawbridgeError as error:
            logger.error("%s: the comments were not turned back into drafts: %s", self._session.id, error)
