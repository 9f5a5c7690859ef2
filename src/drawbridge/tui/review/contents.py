"""What a review contains: the server's latest version of it, the user's texts for it, and the requests for both."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from drawbridge.text import review_words
from drawbridge.text.counts import counted
from drawbridge.text.review_words import File
from drawbridge.tui.client import Client
from drawbridge.tui.connection import Message, RequestError
from drawbridge.tui.review import parts as review_parts
from drawbridge.tui.review.commenting import Commenting
from drawbridge.tui.review.commit_dialog import Committing
from drawbridge.tui.review.parts import Part
from drawbridge.tui.review.push_dialog import Pushing
from drawbridge.tui.review.reviews import Draft
from drawbridge.tui.visiting import Visiting

GONE: Final = frozenset({"INVALID_PATH", "PROJECT_NOT_FOUND"})
"""The codes of errors after which there are no undecided changes left, because the project or its directory no
longer exists, or the directory is no longer allowed."""


class Change(NamedTuple):
    """The changes that a new version of the review makes to what is shown. ``note``: a note from the server about the
    directory; ``words``: a message that somebody else has changed the review. Both may be empty. ``parts``: whether the
    parts to show, or which of them are new, have changed."""

    note: str
    words: str
    parts: bool


class Events(NamedTuple):
    """The functions that ``ReviewContents`` calls. None of them may block. ``run`` runs a request in the background. It
    gets a function, because a coroutine would be left over if the app ends before it begins. ``arrived`` is called with
    the number of a request and its review, or with None if nothing is left to review. ``comments_changed`` and
    ``texts_changed`` are called after a change to the comments or to the texts of files, ``redraw`` after any other
    change."""

    run: Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
    arrived: Callable[[int, Message | None], None]
    comments_changed: Callable[[], None]
    texts_changed: Callable[[], None]
    redraw: Callable[[], None]


class ReviewContents:
    """The review of a project. A review is taken only if it was requested after the one that is shown."""

    def __init__(self, client: Client, project: str, events: Events) -> None:
        self._client = client
        self._project = project
        self._events = events
        self.files: Sequence[File] = ()
        self.every: Sequence[Part] = ()
        """All parts of the review, including those that are hidden because they are not new."""
        self.parts: Sequence[Part] = ()
        """The parts that are shown."""
        self.more = 0
        """The number of files that were not sent, because they do not fit into the message."""
        self.missing = ""
        """A sentence that says that changes of the latest run may be missing, and why; empty if all of them are
        there."""
        self.version: str | None = None
        """The version of the review that is shown; None if no review is shown."""
        self.problem = ""
        """Why the review could not be loaded; empty if nothing went wrong."""
        self.texts: dict[str, str] = {}
        """Maps the path of a file to its current text, if that was requested."""
        self.commenting = Commenting(client, project, events.comments_changed, self.load)
        self.committing = Committing(client, project, events.redraw, self.load)
        self.pushing = Pushing(client, project, events.redraw, self.load)
        self.visiting = Visiting(client, project)
        self._is_loading = False
        self._is_stale = False
        self._has_ended = False
        self._asked = 0
        self._shown = 0
        self._news: list[Mapping[str, Any]] = []
        self._connection = client.reviews.connections
        self._requested: dict[str, object] = {}
        self._state = ""
        """The project's state when ``refresh`` was last called."""

    @property
    def drafts(self) -> dict[str, Draft]:
        return self._client.reviews.drafts[self._project]

    @property
    def may_decide(self) -> bool:
        """Whether this device may decide on changes."""
        return self._client.may("review_decide")

    @property
    def why_not_written(self) -> str:
        """The reason why files can't be changed now; empty if they can."""
        project = self._client.projects.all.get(self._project) or {}
        return review_words.WORKING if project.get("state") == "EXECUTING" else ""

    @property
    def more_words(self) -> str:
        """The text below the last change if something is missing from the review; otherwise empty."""
        more = f"{counted(self.more, 'more file')} will follow. Decide on these changes first." if self.more else ""
        return " ".join(filter(None, (more, self.missing)))

    # Loading the review.

    def refresh(self) -> None:
        """Loads the review if it may have changed."""
        reviews = self._client.reviews
        changes, project = reviews.changes(self._project), self._client.projects.all.get(self._project)
        state, self._state = self._state, str((project or {}).get("state"))
        # Another person may have sent the drafts, which is not reported separately.
        is_other = state != self._state and bool(self.commenting.drafts)
        if reviews.is_stale(self._project) or is_other or reviews.connections != self._connection:
            self._connection = reviews.connections
            self._news += changes
            self.load()

    def end(self) -> None:
        """Ends the visit. Requests that continue do not load the review any more."""
        self._has_ended = True
        self.visiting.end()

    def load(self) -> None:
        """Requests the review as it is now. Calls during a request lead to only one more request. After ``end``, the
        review is requested where it is shown next."""
        if self._has_ended:
            self._client.reviews.mark_stale(self._project)
            self._client.on_change()
            return
        self._is_stale = True
        if not self._is_loading:
            self._is_loading = True
            self._events.run(self._load)

    async def _load(self) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                number = self.begin_request()
                try:
                    found = await self._client.review(self._project)
                except RequestError as error:
                    self.problem = str(error)
                    if error.code in GONE:
                        self._events.arrived(number, None)
                else:
                    self.problem = ""
                    self._events.arrived(number, found)
        finally:
            self._is_loading = False
        self._events.redraw()

    def begin_request(self) -> int:
        """The number of a request that is sent now."""
        self._asked += 1
        return self._asked

    def is_latest(self, number: int) -> bool:
        """Whether no request was sent after this one."""
        return self._asked == number

    def close(self, number: int) -> bool:
        """Removes the review, except what the user wrote. Returns False if a later one was taken."""
        if number <= self._shown:
            return False
        self._shown = number
        self.files, self.every, self.more, self.missing, self.version = (), (), 0, "", None
        self.committing.update({})
        self.pushing.update({})
        self.commenting.update({})
        return True

    def take(self, number: int, found: Message, *, is_mine: bool) -> Change | None:
        """Takes a review; returns None if a later one was taken. ``is_mine``: whether it is the reply to the user's own
        decision."""
        if number <= self._shown:
            return None
        self._shown = number
        news, self._news = self._news, []
        is_first = self.version is None
        note = str(found["notice"]) if is_first and found.get("notice") and self.visiting.saw_notice() else ""
        missing, self.missing = self.missing, str(found.get("missing") or "")
        if self.missing != missing:
            note = " ".join(filter(None, (self.missing, note)))
        self.committing.update(found)
        self.pushing.update(found)
        has_comments = self.commenting.update(found)
        # The version stays the same if only the comments that a hunk answers have changed.
        if found["version"] == self.version and not has_comments and found["files"] == self.files:
            return Change(note, "", self.visiting.update(self.every))
        files: Sequence[File] = found["files"]
        before = [part.key for part in self.every if not part.is_gone]
        parts = review_parts.parts(files)
        now = {part.key for part in parts}
        self.files, self.more, self.version = files, found["more"], found["version"]
        self.every = self._with_gone_parts(parts, now)
        is_others = not is_mine and not is_first and not now.issuperset(before)
        return Change(note, self._who(news) if is_others else "", True)

    def _who(self, news: Sequence[Mapping[str, Any]]) -> str:
        """A message that the review has changed. If only one client has changed it, the message names that client."""
        names = {self._client.called(change) if change.get("by") else "" for change in news}
        [name] = names if len(names) == 1 else [""]
        return f"{name} made decisions in this review." if name else "The review has changed."

    # The parts.

    def keep_written(self) -> None:
        """Updates the parts after one of the user's texts was changed or removed."""
        there = [part for part in self.every if not part.is_gone]
        self.every = self._with_gone_parts(there, {part.key for part in there})

    def keep_draft(self, part: Part, text: str) -> None:
        """Keeps the user's edit of a part, unless the text is the part's own."""
        if part.hunk is not None and text == review_parts.field_text(part.hunk):
            self.drafts.pop(part.key, None)
        elif part.hunk is not None:
            self.drafts[part.key] = Draft(part.path, text)

    def choose_parts(self, editing: str | None) -> set[str]:
        """Chooses the parts to show: all of them or, if the user wants to see only what is new, the new ones. Returns
        the keys of the hidden ones. ``editing``: the key of the part that is being edited."""
        self.commenting.update_parts(self.every)
        self.visiting.update(self.every)
        written = {editing, *self.drafts, *(one.part for one in self.commenting.writings)}
        self.parts = self.visiting.shown(written)
        return {part.key for part in self.every}.difference(part.key for part in self.parts)

    def _with_gone_parts(self, parts: Sequence[Part], now: set[str]) -> list[Part]:
        """``parts`` with the user's texts for hunks that no longer need a decision, each after the parts of its
        file. ``now``: the keys of ``parts``."""
        found = list(parts)
        gone = {key: (draft.path, draft.text) for key, draft in self.drafts.items() if key not in now}
        for one in self.commenting.writings:
            if one.part not in now and one.comment_id is None and one.is_complete:
                gone.setdefault(one.part, (one.path, ""))
        for key, (path, text) in gone.items():
            file = {"path": path, "hunks": (), "added": 0, "removed": 0, "change": "changed"}
            places = [at for at, part in enumerate(found, 1) if part.path == path]
            found.insert(places[-1] if places else len(found), Part(key, file, None, text))
        return found

    # The files.

    def bring_texts(self, paths: Iterable[str]) -> None:
        """Requests the files with these paths, for the lines around their hunks."""
        shown = set(paths)
        for file in self.files:
            path = str(file["path"])
            key = tuple((hunk["id"], hunk["new_start"]) for hunk in file["hunks"] if hunk["kind"] == "lines")
            if path in shown and key and self._requested.get(path) != key and self._client.may("file_read"):
                self._requested[path] = key
                self._events.run(partial(self._bring_text, path))

    async def _bring_text(self, path: str) -> None:
        try:
            text = await self._client.file_text(self._project, path)
        except RequestError:
            return  # a private or large file, with hunks that are shown without the lines around them
        if text is not None:
            self.texts[path] = text
            self._events.texts_changed()
