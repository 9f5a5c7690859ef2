"""The comments of one review: those on the server, those that the user is writing, and the requests about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drawbridge.text import review_words
from drawbridge.text.review_words import Comment, Hunk
from drawbridge.tui.client import Client
from drawbridge.tui.connection import Message, RequestError
from drawbridge.tui.review import comments as review_comments
from drawbridge.tui.review.comments import Place, Remarks, Writing
from drawbridge.tui.review.parts import Part

REREAD = frozenset({"HUNK_GONE", "COMMENT_GONE"})
"""The codes of errors that mean that the review has changed since the user saw it. It is then requested again."""


class Commenting:
    """The comments of one review. ``changed``: called after every change. ``load``: requests the review as it is now.
    Neither may block."""

    def __init__(
        self, client: Client, project: str, changed: Callable[[], None], load: Callable[[], None]
    ) -> None:  # fmt: skip
        self._client = client
        self._project = project
        self._changed = changed
        self._load = load
        self.all: Sequence[Comment] = ()
        self.version = ""
        """The version of the drafts in ``all``."""
        self.handover = ""
        """The state of the comments that were last left for the agent of a terminal session; empty if none were left,
        or if the agent has received them."""
        self._is_handover_elsewhere = False
        self.problem = ""
        """The reason why the comments could not be withdrawn; empty if nothing went wrong."""
        self.unsent = ""
        """The prompt that the server could not pass to an agent in a terminal, for the user to paste there; usually
        empty."""
        self.parts: Sequence[Part] = ()
        self.busy: set[str] = set()
        """The ids of comments with a request that is not answered yet."""
        self.notes: dict[str, str] = {}
        """A message about a comment, such as why the last request about it was refused, by the comment's id."""

    # Permissions of this device.

    @property
    def may_write(self) -> bool:
        return self._client.features is not None and self._client.may("review_comment")

    @property
    def may_send(self) -> bool:
        return self.may_write and self._client.may("review_submit")

    @property
    def steers(self) -> bool:
        """Whether comments can be added to the active run."""
        return self._client.steers(self._project)

    @property
    def is_working(self) -> bool:
        return (self._client.projects.all.get(self._project) or {}).get("state") == "EXECUTING"

    @property
    def handover_words(self) -> str:
        """The state of the comments that were left for an agent, in words; empty if none were left."""
        return review_words.handover_words(self.handover, is_elsewhere=self._is_handover_elsewhere)

    @property
    def may_withdraw(self) -> bool:
        return self.handover == "waiting" and self._client.may("review_withdraw")

    def may_change(self, comment: Comment) -> bool:
        """Whether this client may change a draft."""
        return self.may_write and (comment["by"] == self._client.name or self._client.scope == "admin")

    # The server's comments.

    @property
    def writings(self) -> list[Writing]:
        return self._client.reviews.writings[self._project]

    @property
    def drafts(self) -> list[Comment]:
        return [one for one in self.all if review_words.is_draft(one)]

    @property
    def sorted(self) -> list[Comment]:
        """All comments, by file and line."""
        return sorted(self.all, key=lambda one: (one["path"], one["line"]))

    def update(self, review: Message) -> bool:
        """Stores the comments of a review that the server sent. Returns whether they have changed."""
        found = review.get("comments", []), review.get("drafts", "")
        given = review.get("handover") or {}
        handover = str(given.get("state", "")), given.get("project_id") not in (None, self._project)
        before = self.all, self.version, self.handover, self._is_handover_elsewhere
        if found[1] != self.version:
            self.unsent = ""  # ``unsent`` is no longer the prompt that would be sent
        self.all, self.version = found
        self.handover, self._is_handover_elsewhere = handover
        return (*found, *handover) != before

    def update_parts(self, parts: Sequence[Part]) -> None:
        """Stores the parts of the review that is shown, because comments are shown at them."""
        self.parts = parts

    def remarks(self) -> dict[str, Remarks]:
        """The comments and unsaved texts, by the keys of the parts at which they are shown."""
        return review_comments.arranged(self.all, self.writings, self.parts, self._client.name)

    def part_of(self, comment: Comment) -> Part | None:
        return review_comments.part_of(comment, self.parts)

    def card(self, comment: Comment) -> review_comments.Card:
        """The card of a comment in full, with a copy of its lines."""
        answering = review_comments.answers(self.parts).get(comment["comment_id"], ())
        return review_comments.card(comment, answering, self._client.name, apart=True, is_open=True)

    # Writing.

    def draft_of(self, one: Writing) -> Comment | None:
        """The draft that ``one`` changes; None if the comment is new, or if the draft was sent or removed in the
        meantime.
        """
        return next((draft for draft in self.drafts if draft["comment_id"] == one.comment_id), None)

    def is_unsaved(self, one: Writing) -> bool:
        return one.is_unsaved(self.draft_of(one))

    @property
    def unsaved(self) -> Writing | None:
        return next((one for one in self.writings if self.is_unsaved(one)), None)

    def begin(self, part: Part, place: Place, quote: str) -> Writing:
        one = review_comments.begun(part, place, quote)
        self.writings.append(one)
        return one

    def at(self, key: str | None) -> Writing | None:
        """The unsaved text that was begun at the part with this ``key``, or that changes a draft which is shown there.
        None if nothing was begun there, or if ``key`` is None."""
        for one in self.writings:
            draft = self.draft_of(one)
            shown = self.part_of(draft) if draft is not None else None
            if key is not None and key in (one.part, shown.key if shown is not None else None) and self.is_unsaved(one):
                return one
        return None

    def edit(self, draft: Comment) -> Writing:
        """Begins to change a draft, or continues a change that was begun."""
        known = next((one for one in self.writings if one.comment_id == draft["comment_id"]), None)
        if known is None:
            known = review_comments.changing(draft, self.part_of(draft))
            self.writings.append(known)
        return known

    def report(self, comment: Comment, words: str) -> None:
        """Shows a message about a comment."""
        self.notes[comment["comment_id"]] = words
        self._changed()

    def discard(self, one: Writing) -> None:
        if one in self.writings:
            self.writings.remove(one)
        self._changed()

    def hunk_of(self, one: Writing) -> Hunk | None:
        return next((part.hunk for part in self.parts if part.key == one.part), None)

    def place_of(self, one: Writing) -> Place:
        return one.place(self.hunk_of(one))

    async def save(self, one: Writing) -> None:
        """Stores ``one`` as a draft on the server and removes it from ``writings``. If that fails, its ``note``
        contains the reason."""
        if one.is_busy or not one.is_complete:
            return
        wish = one.wish(self.place_of(one), self.draft_of(one))
        one.is_busy, one.note = True, ""
        self._changed()
        try:
            await self._client.comment(self._project, wish, one.request_id(wish))
        except RequestError as error:
            one.note = review_words.NOT_AS_SHOWN if error.code == "HUNK_GONE" else str(error)
            if error.code in REREAD:
                self._load()
        else:
            if one in self.writings:
                self.writings.remove(one)
            self._load()
        finally:
            one.is_busy = False
            self._changed()

    # Comments that the server stored.

    async def remove(self, comment: Comment) -> None:
        await self._change(comment["comment_id"], {"remove": True})

    async def resolve(self, comment: Comment) -> None:
        """Resolves a comment that was sent, or reopens it."""
        await self._change(comment["comment_id"], {"resolved": review_words.state_of(comment) == "sent"})

    async def _change(self, id: str, wish: Message) -> None:
        if id in self.busy:
            return
        self.busy.add(id)
        self.notes.pop(id, None)
        self._changed()
        try:
            await self._client.comment(self._project, {"comment_id": id, **wish})
        except RequestError as error:
            self.notes[id] = str(error)
        finally:
            self.busy.discard(id)
            self._load()
            self._changed()

    async def send(self, version: str, count: int, *, steer: bool = False) -> str:
        """Sends all drafts, unless they have changed since ``version``. ``count``: their number; ``steer``: adds them
        to the active run. Returns a message for the user about the result."""
        self.unsent = ""
        try:
            accepted = await self._client.submit_comments(self._project, version, steer=steer)
        except RequestError as error:
            self.unsent = str(error.details.get("prompt") or "")
            return f"{error} {review_words.COPY}" if self.unsent else str(error)
        finally:
            self._load()
        waiting = bool(accepted.get("waiting"))
        return review_words.sent_words(count, int(accepted["position"]), waiting=waiting, steered=steer)

    async def withdraw(self) -> None:
        """Turns comments that wait for an agent back into drafts. If that fails, ``problem`` contains the reason."""
        self.problem = ""
        try:
            await self._client.withdraw_comments(self._project)
        except RequestError as error:
            self.problem = str(error)
        finally:
            self._load()
            self._changed()
