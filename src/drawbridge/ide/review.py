"""A proposal's way: read what is there, merge it with unsaved work, show it, wait, and see what the agent made of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from drawbridge.approval import Approval
from drawbridge.editors import files, hunks, text
from drawbridge.editors.port import Accepted, Decided, Decision, Editor, Proposal, Rejected, Withdrawn
from drawbridge.errors import DrawbridgeError, Refused, UnusableFile

FOLLOW_SECONDS: Final = 30.0
"""How long the agent's write of an accepted text is waited for; the real CLI takes well under one second."""

FOLLOW_STEPS: Final = (0.02, 0.02, 0.05, 0.1, 0.25)
"""Seconds between looks at the file; the last one repeats."""

SETTLED_SECONDS: Final = 0.2
"""A file that has changed into something else than the accepted text, and then not for so long, is what the agent wrote."""

OPEN_LIMIT: Final = 50
"""Proposals that one agent may have open at once; the real CLI opens one at a time."""

Kind: TypeAlias = Literal["change", "code"]

logger = logging.getLogger("drawbridge.review")


class Draft(Struct, frozen=True):
    """What a person is asked: the text as they have it, the text that would be written, and the difference."""

    old_text: str
    new_text: str
    hunks: tuple[hunks.Hunk, ...]
    note: str | None


def draft(disk: str | None, unsaved: str | None, new_text: str) -> Draft:
    """``disk``: the file (None: there is none); ``unsaved``: the editor's text where it differs from the file.

    The agent made its proposal from the file. Unsaved work is kept: both changes are merged, and where they touch the
    same lines ``Refused`` is raised, since no answer to such a diff would keep both.
    """
    base = disk or ""
    if unsaved is None or unsaved == base:
        old_lines, new_lines = text.split(base)[0], text.split(new_text)[0]
        return Draft(base, new_text, hunks.diff(old_lines, new_lines), None)
    base_lines, base_form = text.split(base)
    our_lines, our_form = text.split(unsaved)
    their_lines, their_form = text.split(new_text)
    merged = hunks.merge(base_lines, our_lines, their_lines)
    if isinstance(merged, hunks.Overlap):
        raise Refused(
            f"The proposal changes lines that hold unsaved work in the editor (line {merged.start + 1} of the saved "
            "file). Nothing was changed. Save or undo that work first, or decide in the agent's own dialog."
        )
    form = text.Format(
        eol=their_form.eol if their_form.eol != base_form.eol else our_form.eol,
        bom=their_form.bom if their_form.bom != base_form.bom else our_form.bom,
        final_newline=(
            their_form.final_newline if their_form.final_newline != base_form.final_newline else our_form.final_newline
        ),
    )
    return Draft(
        unsaved, text.join(merged, form), hunks.diff(our_lines, merged), "Your unsaved changes are part of this text."
    )


def check_text(new_text: str) -> None:
    """Raises ``UnusableFile`` for a proposal that no editor can show and no file should hold."""
    if "\0" in new_text:
        raise UnusableFile(
            "The proposed text holds NUL characters: it is binary and can't be shown. Nothing was opened."
        )
    try:
        size = len(new_text.encode())
    except UnicodeEncodeError:
        raise UnusableFile("The proposed text is not valid Unicode. Nothing was opened.") from None
    if size > files.FILE_LIMIT:
        raise UnusableFile(
            f"The proposed text has {size:,} bytes; up to {files.FILE_LIMIT:,} are shown. Nothing was opened."
        )


class _Review(Struct, eq=False):
    """``shown``: the editor has heard of it. ``before``: the file's signature when it was decided."""

    approval: Approval[Decision]
    path: str
    decision: asyncio.Future[Decision]
    shown: bool = False
    before: tuple[int, ...] | None = None


class Reviews:
    """All proposals of one bridge. A proposal belongs to an ``owner`` (a connection) and is known by its title there."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._open: dict[tuple[Hashable, Hashable], _Review] = {}
        self._by_id: dict[str, _Review] = {}
        self._numbers = itertools.count(1)
        self._background: set[asyncio.Task[None]] = set()

    async def review(self, owner: Hashable, agent: str, path: str, new_text: str, title: str) -> Decision:
        """Propose ``new_text`` for ``path``; returns when decided. Cancelled: the view is closed, nobody is told.

        Raises ``UnusableFile`` or ``Refused`` before anything is shown, and the editor's errors when it can't be shown.
        """
        check_text(new_text)
        with self._opened((owner, title), path) as review:
            disk = await asyncio.to_thread(files.read_text, path)
            unsaved = await self._editor.unsaved_text(path)
            drafted = await asyncio.to_thread(draft, disk, unsaved, new_text)
            await self._show(review, agent, title, drafted)
            return await review.decision

    async def review_code(self, owner: Hashable, agent: str, code: str) -> Accepted | None:
        """Ask whether ``code`` may be run; the person may change it first."""
        check_text(code)
        with self._opened((owner, object()), "") as review:
            drafted = Draft("", code, hunks.diff([], text.split(code)[0]), None)
            await self._show(review, agent, "Run this code?", drafted, kind="code")
            decision = await review.decision
        return decision if isinstance(decision, Accepted) else None

    def decided(self, event: Decided) -> None:
        """The person decided in the editor."""
        review = self._by_id.get(event.proposal_id)
        if review is not None and review.approval.answer(self._editor.name, event.decision):
            self._settle(review, event.decision)

    async def close(self, owner: Hashable, title: str) -> None:
        """The agent takes its proposal back: decided elsewhere."""
        self._withdraw((owner, title), "decided in the agent's own dialog")

    async def close_all(self, owner: Hashable) -> int:
        """The same for all of an owner's proposals; their number."""
        keys = [key for key in self._open if key[0] == owner]
        for key in keys:
            self._withdraw(key, "the agent closed all its proposals")
        return len(keys)

    async def stop(self) -> None:
        """End what still runs in the background."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    @contextlib.contextmanager
    def _opened(self, key: tuple[Hashable, Hashable], path: str) -> Iterator[_Review]:
        """From the question to its answer. It is known before the first wait, so that a close that follows finds it."""
        self._withdraw(key, "the agent replaced it")
        if sum(owner == key[0] for owner, _ in self._open) >= OPEN_LIMIT:
            raise Refused(
                f"{OPEN_LIMIT} proposals of this agent are open already. Nothing was opened; decide some first."
            )
        review = _Review(Approval(str(next(self._numbers))), path, asyncio.get_running_loop().create_future())
        self._open[key] = self._by_id[review.approval.id] = review
        try:
            yield review
        except BaseException:
            # Cancelled (the agent went, or does not want the answer any more) or not shown at all.
            self._take_back(review, "the agent went")
            raise
        finally:
            self._by_id.pop(review.approval.id, None)
            if self._open.get(key) is review:
                del self._open[key]

    async def _show(self, review: _Review, agent: str, title: str, drafted: Draft, *, kind: Kind = "change") -> None:
        if review.decision.done():
            return  # taken back while it was prepared
        review.shown = True
        await self._editor.show(
            Proposal(
                id=review.approval.id,
                agent=agent,
                title=title,
                path=review.path,
                old_text=drafted.old_text,
                new_text=drafted.new_text,
                hunks=drafted.hunks,
                note=drafted.note,
                kind=kind,
            )
        )

    def _withdraw(self, key: tuple[Hashable, Hashable], reason: str) -> None:
        review = self._open.pop(key, None)
        if review is not None and self._take_back(review, reason):
            self._settle(review, Withdrawn(reason))

    def _take_back(self, review: _Review, reason: str) -> bool:
        """False: it was decided already."""
        taken = review.approval.withdraw(reason)
        if taken and review.shown:
            self._spawn(self._editor.withdraw, review.approval.id)
        return taken

    def _settle(self, review: _Review, decision: Decision) -> None:
        review.before = _signature(review.path)
        if not review.decision.done():
            review.decision.set_result(decision)
        if review.path and not isinstance(decision, Rejected):
            self._spawn(self._follow, review, decision)

    async def _follow(self, review: _Review, decision: Decision) -> None:
        """See the agent write the file, then let the editor show it."""
        accepted = decision.text if isinstance(decision, Accepted) else None
        written = await _wait_for_write(review.path, review.before, accepted)
        if written is None:
            return
        if written == accepted:
            review.approval.confirm()
            await self._editor.written(review.path, written, review.approval.id)
        else:
            review.approval.overrule()
            await self._editor.written(review.path, written, "")

    def _spawn(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        task = asyncio.get_running_loop().create_task(_logged(work, *arguments))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _logged(work: Callable[..., Awaitable[None]], *arguments: object) -> None:
    try:
        await work(*arguments)
    except DrawbridgeError as error:
        logger.warning("%s: %s", error.code, error)


async def _wait_for_write(path: str, before: tuple[int, ...] | None, expected: str | None) -> str | None:
    """The file's text once it has changed: ``expected`` at once, another when it stays. None: nothing was written in time."""
    clock = asyncio.get_running_loop().time
    deadline, seen, seen_at = clock() + FOLLOW_SECONDS, before, 0.0
    for step in itertools.count():
        await asyncio.sleep(FOLLOW_STEPS[min(step, len(FOLLOW_STEPS) - 1)])
        if clock() > deadline:
            break
        signature = _signature(path)
        if signature == before:
            continue
        if signature != seen:
            seen, seen_at = signature, clock()
        written = await asyncio.to_thread(_read_if_text, path)
        if written is not None and (written == expected or clock() - seen_at >= SETTLED_SECONDS):
            return written
    return None


def _read_if_text(path: str) -> str | None:
    """None also for what is no text, as a file may be for a moment while it is written."""
    try:
        return files.read_text(path)
    except UnusableFile:
        return None


def _signature(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
