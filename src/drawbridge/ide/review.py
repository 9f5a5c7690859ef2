"""A proposal's way: read what is there, merge it with unsaved work, show it, wait, and see what the agent made of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from typing import Any, Final, Literal, Protocol, TypeAlias
from weakref import WeakValueDictionary

from msgspec import Struct

from drawbridge import text
from drawbridge.core.approval import Approval
from drawbridge.core.errors import DrawbridgeError, Refused, UnusableFile
from drawbridge.editors import files
from drawbridge.editors.port import Accepted, Decided, Decision, Editor, Proposal, Rejected, Withdrawn
from drawbridge.ide.draft import Draft, check_text, draft
from drawbridge.text import hunks

FOLLOW_SECONDS: Final = 30.0
"""How long the agent's write of an accepted text is waited for; the real CLI takes well under one second."""

FOLLOW_STEPS: Final = (0.02, 0.02, 0.05, 0.1, 0.25)
"""Seconds between looks at the file; the last one repeats."""

WRITE_SECONDS: Final = 2.0
"""How long a second proposal for a file waits for the first one's text to be written."""

SETTLED_SECONDS: Final = 0.2
"""A file that has changed into something else than the accepted text, and then not for so long, is what the agent wrote."""

UNSHOWABLE: Final = "{agent}'s change of {file} can't be shown. Answer in its terminal."

OPEN_LIMIT: Final = 50
"""Proposals that one agent may have open at once; the real CLI opens one at a time."""

Kind: TypeAlias = Literal["change", "code"]

logger = logging.getLogger("drawbridge.review")


class Arbiter(Protocol):
    """Who else may decide what is shown here: the agent server's clients. See ``reviewer``."""

    def knows(self, id: str) -> bool: ...

    def proposed(self, id: str, owner: Hashable, agent: str, path: str, drafted: Draft, new_text: str) -> None: ...

    async def may_decide(self, id: str, text: str | None) -> bool: ...

    def gone(self, id: str, *, settled: bool) -> None: ...


class _Review(Struct, eq=False):
    """``shown``: the editor has heard of it. ``before``: the file's signature when it was decided.

    ``follower``: waits for the agent to write the file.
    """

    approval: Approval[Decision]
    path: str
    decision: asyncio.Future[Decision]
    follower: asyncio.Task[None] | None = None
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
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.arbiter: Arbiter | None = None
        self._asked: set[str] = set()

    def was_asked(self, path: str) -> bool:
        """Whether the next write of ``path`` was proposed; one proposal covers one write."""
        asked = path in self._asked
        self._asked.discard(path)
        return asked

    async def review(
        self, owner: Hashable, agent: str, path: str, new_text: str, title: str, *, key: str | None = None
    ) -> Decision:
        """Propose ``new_text`` for ``path``; returns when decided. Cancelled: the view is closed, nobody is told.

        ``key``: what the proposal is known by, where that is not its title. Raises ``UnusableFile`` or ``Refused`` before
        anything is shown, and the editor's errors when it can't be shown.
        """
        self._asked.add(path)
        try:
            return await self._review((owner, key or title), agent, path, new_text, title)
        except (Refused, UnusableFile) as error:
            # The agent's own dialog decides now, and does not show why.
            reason = getattr(error, "notice", "") or UNSHOWABLE
            notice = f"No diff: {reason.format(agent=agent, file=os.path.basename(path))}"
            self._spawn(self._editor.tell, notice, "warn")
            raise

    async def _review(
        self, key: tuple[Hashable, Hashable], agent: str, path: str, new_text: str, title: str
    ) -> Decision:
        check_text(new_text)
        with self._opened(key, path) as review:
            seen = await asyncio.to_thread(files.read_text, path)
            async with self._turn(review):
                now = await asyncio.to_thread(files.read_text, path)
                unsaved = await self._editor.unsaved_text(path)
                drafted = await asyncio.to_thread(draft, seen or "", now or "", unsaved, new_text)
                await self._show(review, agent, title, drafted)
                if self.arbiter is not None and not review.decision.done():
                    self.arbiter.proposed(review.approval.id, key[0], agent, path, drafted, new_text)
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
        if self.arbiter is not None and self.arbiter.knows(event.proposal_id):
            self._spawn(self._decide_if_first, self.arbiter, event)
        else:
            self._decide(event.proposal_id, self._editor.name, event.decision)

    async def _decide_if_first(self, arbiter: Arbiter, event: Decided) -> None:
        text = event.decision.text if isinstance(event.decision, Accepted) else None
        if await arbiter.may_decide(event.proposal_id, text):
            self._decide(event.proposal_id, self._editor.name, event.decision)
        else:
            await self._editor.tell("Somebody has answered this elsewhere already; that counts.", "warn")

    def _decide(self, id: str, by: str, decision: Accepted | Rejected) -> bool:
        review = self._by_id.get(id)
        if review is None or not review.approval.decide(by, decision):
            return False
        self._settle(review, decision, follow=isinstance(decision, Accepted))
        return True

    def answered(self, id: str, by: str, decision: Accepted | Rejected) -> None:
        """It was decided elsewhere: its view is closed, and the agent hears of it as if it had been decided here."""
        if self._decide(id, by, decision):
            self._spawn(self._editor.withdraw, id)

    def take_off(self, owner: Hashable, key: str, *, written: bool) -> None:
        """A proposal is decided elsewhere. ``written``: its agent may write the file now."""
        self._withdraw((owner, key), "decided elsewhere", follow=written)

    async def close(self, owner: Hashable, title: str) -> None:
        """The agent takes its proposal back: decided elsewhere."""
        self._withdraw((owner, title), "decided in the agent's own dialog", follow=True)

    async def take_back(self, owner: Hashable, title: str) -> str | None:
        """Close a proposal and get its text as the person has made it; None where none is shown."""
        review = self._open.get((owner, title))
        if review is None:
            return None
        made = await self._editor.proposed_text(review.approval.id) if review.shown else None
        if self._open.get((owner, title)) is review:  # not one that has replaced it meanwhile
            self._withdraw((owner, title), "decided in the agent's own dialog", follow=True)
        return made

    async def decide(self, owner: Hashable, title: str, *, accept: bool) -> bool:
        """Decide a proposal as the person would, with the text as it is in the view; False where none is shown."""
        review = self._open.get((owner, title))
        made = await self._editor.proposed_text(review.approval.id) if review is not None and review.shown else None
        if review is None or made is None:
            return False
        decision = Accepted(made) if accept else Rejected()
        if not review.approval.decide("the agent", decision):
            return False
        self._spawn(self._editor.withdraw, review.approval.id)
        self._settle(review, decision, follow=accept)
        return True

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

    @contextlib.asynccontextmanager
    async def _turn(self, review: _Review) -> AsyncIterator[None]:
        """One proposal at a time for a file, whichever agents they come from: the next one is shown when this one is
        decided and written, so that nobody decides on a text that is about to change.
        """
        turn = self._turns.setdefault(review.path, asyncio.Lock())
        coming = asyncio.ensure_future(turn.acquire())
        waited_for: set[asyncio.Future[Any]] = {coming, review.decision}
        try:
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            if not coming.done():
                coming.cancel()  # taken back before its turn came
            elif review.follower is None:
                turn.release()
            else:
                self._spawn(self._end_turn, review.follower, turn)

    async def _end_turn(self, follower: asyncio.Task[None], turn: asyncio.Lock) -> None:
        try:
            await asyncio.wait([follower], timeout=WRITE_SECONDS)
        finally:
            turn.release()

    @contextlib.contextmanager
    def _opened(self, key: tuple[Hashable, Hashable], path: str) -> Iterator[_Review]:
        """From the question to its answer. It is known before the first wait, so that a close that follows finds it."""
        self._withdraw(key, "the agent replaced it")
        if sum(owner == key[0] for owner, _ in self._open) >= OPEN_LIMIT:
            raise Refused(
                f"{OPEN_LIMIT} proposals of this agent are open already. Nothing was opened; decide some first.",
                "{agent} has too many proposals open. Answer this one in its terminal.",
            )
        decision = asyncio.get_running_loop().create_future()
        review = _Review(Approval(str(next(self._numbers))), path, decision)
        self._open[key] = self._by_id[review.approval.id] = review
        try:
            yield review
        except BaseException:
            # Cancelled (the agent went, or does not want the answer any more) or not shown at all.
            self._take_back(review, "the agent went")
            raise
        finally:
            self._by_id.pop(review.approval.id, None)
            if self.arbiter is not None:
                self.arbiter.gone(
                    review.approval.id, settled=review.decision.done() and not review.decision.cancelled()
                )
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

    def _withdraw(self, key: tuple[Hashable, Hashable], reason: str, *, follow: bool = False) -> None:
        review = self._open.pop(key, None)
        if review is not None and self._take_back(review, reason):
            self._settle(review, Withdrawn(reason), follow=follow)

    def _take_back(self, review: _Review, reason: str) -> bool:
        """False: it was decided already."""
        taken = review.approval.withdraw(reason)
        if taken and review.shown:
            self._spawn(self._editor.withdraw, review.approval.id)
        return taken

    def _settle(self, review: _Review, decision: Decision, *, follow: bool) -> None:
        """``follow``: the agent may write the file now."""
        review.before = signature(review.path)
        if not review.decision.done():
            review.decision.set_result(decision)
        if review.path and follow:
            review.follower = self._spawn(self._follow, review, decision)
        else:
            self._answered_for(review)

    def _answered_for(self, review: _Review) -> None:
        """No write comes of this proposal any more, so the next write of its file is unasked."""
        if not any(other.path == review.path for other in self._open.values() if other is not review):
            self._asked.discard(review.path)

    async def _follow(self, review: _Review, decision: Decision) -> None:
        """See the agent write the file, then let the editor show it."""
        accepted = decision.text if isinstance(decision, Accepted) else None
        written = await _wait_for_write(review.path, review.before, accepted)
        self._answered_for(review)
        if written is None:
            return
        if accepted is not None and _same_lines(written, accepted):
            review.approval.confirm()
            await self._editor.written(review.path, written, review.approval.id)
        else:
            review.approval.overrule()
            await self._editor.written(review.path, written, "")

    def _spawn(self, work: Callable[..., Awaitable[None]], *arguments: object) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(_logged(work, *arguments))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


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
        now = signature(path)
        if now == before:
            continue
        if now != seen:
            seen, seen_at = now, clock()
        written = await asyncio.to_thread(_read_if_text, path)
        if written is None:
            continue
        if (expected is not None and _same_lines(written, expected)) or clock() - seen_at >= SETTLED_SECONDS:
            return written
    return None


def _same_lines(written: str, accepted: str) -> bool:
    """The CLI proposes an Edit with LF and writes what was accepted with the line ends that the file had (2.1.329)."""
    return written.replace("\r\n", "\n") == accepted.replace("\r\n", "\n")


def _read_if_text(path: str) -> str | None:
    """None also for what is no text, as a file may be for a moment while it is written."""
    try:
        return files.read_text(path)
    except UnusableFile:
        return None


def signature(path: str) -> tuple[int, ...] | None:
    """A value that changes with each write of a file; None if the file can't be examined."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # the latter: a NUL in the path
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
