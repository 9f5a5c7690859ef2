"""The comments on a directory's review, which all its terminal sessions share. They are stored in a file in the
server's folder for the directory.

When a client adds, changes or removes a comment, that is also recorded in the history of the session for which it was
requested, but the file is authoritative.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import remove_quietly, write_private
from drawbridge.server.events import ReviewCommented, Submission
from drawbridge.server.protocol.client_errors import no_project
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import Handover
from drawbridge.server.reviews import remembered
from drawbridge.server.reviews.remembered import RememberedComment
from drawbridge.server.sessions.metadata import TERMINAL_PREFIX
from drawbridge.server.sessions.session import SessionStore
from drawbridge.transport import private_socket

logger = logging.getLogger("drawbridge.server")

NAME: Final = "comments.json"


WAITING: Final = ".waiting"
"""The suffix of a file that exists while comments wait for a session. The session's hooks look for it
(``guard.report``)."""

WAKE: Final = b"wake"
"""The content of that file if the agent is idle and does not need to wait for the user's next prompt. An agent that can
watch the file then starts to work. If the file is empty, the agent gets the comments when it stops."""

Release: TypeAlias = Literal["unsure", "ended", "refused"]


class LeftComments(Struct, frozen=True):
    """Comments that are left with the session ``session``, as the prompt ``text`` from the client ``by``,
    ``client_id``.

    ``state``: as in ``replies.Handover``. ``run``: the run that begins with them, once a hook has received them;
    ``turn``: the agent's own id for that run.
    """

    session: str
    text: str
    by: str
    review: Submission
    request_id: str | None = None
    state: Literal["waiting", "given"] | Release = "waiting"
    run: str = ""
    turn: str = ""
    client_id: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the agent may still receive them."""
        return self.state in ("waiting", "given")


class _File(Struct):
    """The contents of the file. ``changes``: the number of changes so far, which distinguishes a new comment from a
    removed one with the same id. ``left``: the comments that were last left with a session."""

    changes: int = 0
    comments: dict[str, RememberedComment] = {}
    left: LeftComments | None = None


class SharedComments:
    """The comments on one directory's review. ``path``: the file that contains them. ``stores``: the sessions' stores,
    by session id."""

    def __init__(self, path: Path, stores: Mapping[str, SessionStore]) -> None:
        self._path = path
        self._stores = stores
        self._file: _File | None = None

    @property
    def known(self) -> Mapping[str, RememberedComment]:
        """The comments by id. Raises OSError if the file can't be read now."""
        return self.load().comments

    @property
    def left(self) -> LeftComments | None:
        """The comments that were last left with a session, until they have arrived or been withdrawn; otherwise None.
        Also None until the file is loaded."""
        return None if self._file is None else self._file.left

    @property
    def handover(self) -> Handover | None:
        """``left`` as clients receive it; None if ``left`` is None, or once all its comments have been sent or
        removed."""
        left = self.left
        if left is None or not self._unsent(left.review):
            return None
        return Handover(project_id=left.session, by=left.by, prompt=left.text, state=left.state)

    def _unsent(self, review: Submission) -> list[str]:
        """The ids of the comments in ``review`` that still exist and have not been sent to an agent."""
        known = self.known
        return [id for id in review.comments if id in known and known[id].comment.state in ("draft", "waiting")]

    def put(
        self,
        left: LeftComments,
        state: Literal["draft", "waiting"] | None = None,
        by: str = "",
        *,
        wakes: bool = False,
    ) -> None:
        """Stores what is left with a session. ``state``: the new state of its comments, set by ``by``; None leaves
        their state as it is. ``wakes``: whether the session's agent is idle and is to be woken. Raises ``NotPrivate``
        or OSError without changing the comments."""
        if left.state == "waiting":
            write_private(_mark(left.session), WAKE if wakes else b"")  # only once: each change may wake the agent
        self._put(left, left, state, by)
        if left.state != "waiting":
            self.unmark(left.session)

    def withdraw(self, by: str) -> None:
        """Turns what is left with a session back into drafts. Raises ``NotPrivate`` or OSError."""
        left = self.left
        if left is not None:
            self._put(None, left, "draft", by)
            self.unmark(left.session)

    def _put(
        self, left: LeftComments | None, about: LeftComments, state: Literal["draft", "waiting"] | None, by: str
    ) -> None:
        file = msgspec.structs.replace(self._copy(), left=left)
        changed = self._unsent(about.review) if state is not None else []
        for id in changed:
            file.comments[id] = file.comments[id].now(state=state)
        self._store(file)
        self._announce(changed, by)

    def unmark(self, session: str) -> None:
        """Removes the file with the suffix ``WAITING`` for a session, if it exists."""
        remove_quietly(_mark(session))

    def load(self) -> _File:
        """Returns the contents of the file, which is read only once. A damaged file counts as empty and is renamed, so
        that the next change does not replace it. Blocking. Raises OSError."""
        if self._file is None:
            try:
                self._file = msgspec.json.decode(self._path.read_bytes(), type=_File)
            except FileNotFoundError:
                self._file = _File()
            except UNDECODABLE as error:
                aside = self._path.with_suffix(f".damaged-{time.time_ns()}")
                os.replace(self._path, aside)
                logger.error("the comments in %s can't be read (%s); they were moved to %s", self._path, error, aside)
                self._file = _File()
        return self._file

    def write(self, event: ReviewCommented, session: str, sender: Subscriber) -> int | None:
        own = self._stores.get(session)
        if own is None:  # the session was removed from the list
            raise no_project()
        own.check_there()
        file = self._copy()
        remembered.change(file.comments, event.comment_id, event.comment, file.changes)
        self._store(file)
        recorded = own.record(event, sender)
        for store in self._stores.values():
            if store is not own:
                store.announce(event)
        return recorded

    def send(self, review: Submission, run_id: str, by: str) -> None:
        """Marks these comments as sent, unless they already are. The agent has started on the prompt that contains
        them. A failure is only logged, because the agent has them.
        """
        try:
            file = self._copy()
        except OSError as error:
            logger.error("comments that were sent with the run %s are still drafts: %s", run_id, error)
            return
        drafts = self._unsent(review)
        if not drafts:
            return
        if file.left is not None and file.left.review == review:
            file = msgspec.structs.replace(file, left=None)
        remembered.send(file.comments, drafts, run_id, begun=True)
        try:
            self._store(file)
        except DrawbridgeError as error:
            logger.error("comments that were sent with the run %s will be drafts after a restart: %s", run_id, error)
            self._file = file
        self._announce(drafts, by)

    def _announce(self, ids: Iterable[str], by: str) -> None:
        for id in ids:
            for store in self._stores.values():
                store.announce(ReviewCommented(comment_id=id, by=by, comment=self.known[id].comment))

    def _copy(self) -> _File:
        """A copy of the file's contents for the next change, with the next number of changes. Raises OSError."""
        file = self.load()
        return _File(file.changes + 1, dict(file.comments), file.left)

    def _store(self, file: _File) -> None:
        """Writes the file. Raises ``NotPrivate`` without changing anything."""
        write_private(str(self._path), msgspec.json.encode(file), synced=True)
        self._file = file


def _mark(session: str) -> str:
    """The path of the file that this session's hooks look for (see ``WAITING``)."""
    return os.path.join(private_socket.directory(), f"{session.removeprefix(TERMINAL_PREFIX)}{WAITING}")
