"""Handles a proposal from start to finish: reads the file, merges the proposal with unsaved work, shows the result,
waits for the decision, and waits for the agent's write.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import AsyncIterator, Hashable, Iterator
from typing import Any, Final, Literal, Protocol, TypeAlias
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from drawbridge.core.approval import Approval
from drawbridge.core.errors import Refused, UnusableFile
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.core.terminal_text import harmless
from drawbridge.editors import files
from drawbridge.editors.port import Accepted, Decided, Decision, Editor, Proposal, Rejected, Withdrawn
from drawbridge.ide.accepted_files import AcceptedFiles, after_write
from drawbridge.ide.draft import Draft, check_text, draft, drafted

FOLLOW_SECONDS: Final = 30.0
"""The maximum number of seconds to wait until the agent has written the file. The real CLI takes well under one
second."""

FOLLOW_STEPS: Final = (0.02, 0.02, 0.05, 0.1, 0.25)
"""Seconds between checks of the file. The last interval is repeated."""

WRITE_SECONDS: Final = 2.0
"""The maximum number of seconds that a second proposal for a file waits for the first one's text to be written."""

SETTLED_SECONDS: Final = 0.2
"""Seconds without a change after which text that differs from the accepted text is considered to be what the agent
wrote."""

UNSHOWABLE: Final = "{agent}'s change to {file} can't be shown. Answer {where}."

IN_ITS_TERMINAL: Final = "in the agent's terminal"
"""Where the user answers an agent whose proposal can't be shown."""

TARGET_LIMIT: Final = 300
"""The maximum number of characters of a link's target in a note, which is drawn above the change or on top of it."""

NOT_PASSED_ON: Final = (
    "Your decision may not have reached the agent. The editor's bridge failed; its log has the reason. "
    f"Answer {IN_ITS_TERMINAL}."
)

IN_ITS_DIALOG: Final = "decided in the agent's own dialog"

OPEN_LIMIT: Final = 50
"""The maximum number of proposals that one agent may have open at the same time. The real CLI opens one at a time."""

Kind: TypeAlias = Literal["change", "code"]

logger = logging.getLogger("drawbridge.review")


class Arbiter(Protocol):
    """The other party that may decide on the shown proposals: the agent server's clients. See ``server_link``."""

    def knows(self, id: str) -> bool: ...

    def proposed(self, id: str, owner: Hashable, agent: str, path: str, drafted: Draft, new_text: str) -> None: ...

    async def may_decide(self, id: str, text: str | None) -> bool: ...

    def gone(self, id: str, *, settled: bool) -> None: ...


class _Review(Struct, eq=False):
    """A proposal and what is known about it. ``shown``: whether the proposal was sent to the editor. ``old_text``: the
    user's text that it was made for. ``before``: the file's signature when the proposal was decided or withdrawn.
    ``written``: a future that is done once the agent has written the file, or the bridge has stopped waiting for that;
    None if it does not wait.
    """

    approval: Approval[Decision]
    path: str
    decision: asyncio.Future[Decision]
    written: asyncio.Future[None] | None = None
    shown: bool = False
    old_text: str = ""
    before: tuple[int, ...] | None = None


class Reviews:
    """All proposals of one bridge. A proposal belongs to an ``owner`` (a connection), which identifies it by its title
    or another key."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._open: dict[tuple[Hashable, Hashable], _Review] = {}
        self._by_id: dict[str, _Review] = {}
        self._numbers = itertools.count(1)
        self._tasks = BackgroundTasks(logger)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._arbiter: Arbiter | None = None
        self.accepted = AcceptedFiles()
        self._asked: set[str] = set()

    def use_arbiter(self, arbiter: Arbiter) -> None:
        """Lets ``arbiter`` decide which answer to a proposal was the first. It is not a parameter of the constructor,
        because it needs these reviews itself."""
        self._arbiter = arbiter

    def was_asked(self, path: str) -> bool:
        """Returns whether the next write of ``path`` was proposed, and forgets this, because one proposal covers one
        write.
        """
        asked = path in self._asked
        self._asked.discard(path)
        return asked

    async def review(
        self,
        owner: Hashable,
        agent: str,
        path: str,
        new_text: str,
        title: str,
        *,
        key: str | None = None,
        where: str = IN_ITS_TERMINAL,
    ) -> Decision:
        """Proposes ``new_text`` for ``path`` and returns the decision. If the call is canceled, the view is closed
        without an answer.

        ``key``: identifies the proposal instead of its title. ``where``: where the user can answer otherwise. Raises
        ``UnusableFile`` or ``Refused`` before anything is shown, and the editor's errors if it can't be shown.
        """
        self._asked.add(path)
        try:
            return await self._review((owner, key or title), agent, path, new_text, title)
        except (Refused, UnusableFile) as error:
            # The user now answers elsewhere, for example in the agent's own dialog, which does not show the reason.
            reason = getattr(error, "notice", "") or UNSHOWABLE
            notice = f"No diff: {reason.format(agent=agent, file=os.path.basename(path), where=where)}"
            self._notify(notice)
            raise

    async def _review(
        self, key: tuple[Hashable, Hashable], agent: str, path: str, new_text: str, title: str
    ) -> Decision:
        check_text(new_text)
        with self._opened(key, path) as review:
            as_read = await asyncio.to_thread(signature, path)
            seen = await asyncio.to_thread(_read, path)
            async with self._turn(review):
                is_same = await asyncio.to_thread(signature, path) == as_read
                now = seen if is_same else await asyncio.to_thread(_read, path)
                await self._propose(review, key[0], agent, title, seen, now, new_text)
                del seen, now  # frees the memory, because a person may take hours to decide
                return await review.decision

    async def _propose(
        self, review: _Review, owner: Hashable, agent: str, title: str, seen: str, now: str, new_text: str
    ) -> None:
        unsaved = await self._editor.unsaved_text(review.path)
        change = await asyncio.to_thread(draft, seen, now, unsaved, new_text)
        if linked := await asyncio.to_thread(_link_note, review.path):
            change = replace(change, note=f"{linked} {change.note}" if change.note else linked)
        review.old_text = change.old_text
        await self._show(review, agent, title, change)
        if self._arbiter is not None and not review.decision.done():
            self._arbiter.proposed(review.approval.id, owner, agent, review.path, change, new_text)

    async def review_code(self, owner: Hashable, agent: str, code: str) -> Accepted | None:
        """Asks whether ``code`` may be run. The user may edit it first. Returns None if it may not be run. Raises
        ``UnusableFile`` or ``Refused`` before anything is shown, and the editor's errors if it can't be shown."""
        check_text(code)
        with self._opened((owner, object()), "") as review:
            await self._show(review, agent, "Run this code?", drafted("", code, None), kind="code")
            decision = await review.decision
        return decision if isinstance(decision, Accepted) else None

    # Open → answered.

    def decided(self, event: Decided) -> None:
        """Handles a decision that the user made in the editor."""
        if self._arbiter is not None and self._arbiter.knows(event.proposal_id):
            self._tasks.start(
                self._ask_arbiter(self._arbiter, event),
                "asking the agent server about a decision",
                lambda _: self._notify(NOT_PASSED_ON),
            )
        else:
            self._answer(event.proposal_id, self._editor.name, event.decision)

    async def _ask_arbiter(self, arbiter: Arbiter, event: Decided) -> None:
        text = event.decision.text if isinstance(event.decision, Accepted) else None
        if await arbiter.may_decide(event.proposal_id, text):
            self._answer(event.proposal_id, self._editor.name, event.decision)
        else:
            await self._editor.notify("The proposal was already answered elsewhere; that answer counts.", "warn")

    def answer(self, id: str, by: str, decision: Accepted | Rejected) -> bool:
        """Records a decision that ``by`` made on another surface, and closes the editor's view. Returns False if it was
        too late.
        """
        review = self._answer(id, by, decision)
        if review is not None:
            self._close_view(review)
        return review is not None

    def _answer(self, id: str, by: str, decision: Accepted | Rejected) -> _Review | None:
        review = self._by_id.get(id)
        # The call was canceled because the agent has disconnected, so nothing could be passed to it.
        if review is None or review.decision.cancelled() or not review.approval.decide(by, decision):
            return None
        self._resolve(review, decision, follow=isinstance(decision, Accepted))
        return review

    async def answer_as_shown(self, owner: Hashable, title: str, *, accept: bool) -> bool:
        """Decides on a proposal for the user, as the agent requests, with the text in the view. Returns False if no
        proposal is shown, or if it was too late.
        """
        review = self._open.get((owner, title))
        made = await self._editor.proposed_text(review.approval.id) if review is not None and review.shown else None
        if review is None or made is None:
            return False
        return self.answer(review.approval.id, "the agent", Accepted(made) if accept else Rejected())

    # Open → withdrawn.

    def withdraw(self, owner: Hashable, key: Hashable, reason: str, *, written: bool = True) -> None:
        """Withdraws a proposal that no longer needs an answer. An unknown ``key`` has no effect. ``written``: whether
        the agent may write the file now.
        """
        review = self._open.pop((owner, key), None)
        if review is not None and self._withdraw(review, reason):
            self._resolve(review, Withdrawn(reason), follow=written)

    async def withdraw_with_text(self, owner: Hashable, title: str) -> str | None:
        """Withdraws a proposal and returns its text with the user's edits; None if it is not shown."""
        review = self._open.get((owner, title))
        if review is None:
            return None
        made = await self._editor.proposed_text(review.approval.id) if review.shown else None
        if self._open.get((owner, title)) is review:  # a newer proposal with the same key stays open
            self.withdraw(owner, title, IN_ITS_DIALOG)
        return made

    def withdraw_all(self, owner: Hashable) -> int:
        """Withdraws all proposals of an owner and returns their number."""
        keys = [key for proposer, key in self._open if proposer == owner]
        for key in keys:
            self.withdraw(owner, key, "the agent closed all its proposals", written=False)
        return len(keys)

    def _withdraw(self, review: _Review, reason: str) -> bool:
        """Withdraws a proposal and closes its view. Returns False if a decision on it was already made."""
        withdrawn = review.approval.withdraw(reason)
        if withdrawn:
            self._close_view(review)
        return withdrawn

    def _close_view(self, review: _Review) -> None:
        if review.shown:
            self._tasks.start(self._editor.withdraw(review.approval.id), "closing the view of a proposal")

    def _notify(self, notice: str) -> None:
        self._tasks.start(self._editor.notify(notice, "warn"), "a notice in the editor")

    async def stop(self) -> None:
        """Ends the background tasks."""
        await self._tasks.close()

    @contextlib.asynccontextmanager
    async def _turn(self, review: _Review) -> AsyncIterator[None]:
        """Waits until no other proposal for the file is shown, regardless of the agent, or until this one is withdrawn.
        The next one is shown once this one is decided and the agent has written the file or has taken too long, so that
        nobody decides on text that is about to change.
        """
        turn = self._turns.setdefault(review.path, asyncio.Lock())
        coming: asyncio.Task[Any] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                coming = group.create_task(turn.acquire())
                waited_for: set[asyncio.Future[Any]] = {coming, review.decision}
                await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
                coming.cancel()  # has no effect once the proposal's turn has come
            yield
        finally:
            if coming is None or coming.cancelled():
                pass  # the proposal was withdrawn before its turn came
            elif review.written is None:
                turn.release()
            else:
                self._tasks.start(self._end_turn(review.written, turn), "releasing the file for the next proposal")

    async def _end_turn(self, written: asyncio.Future[None], turn: asyncio.Lock) -> None:
        try:
            await asyncio.wait([written], timeout=WRITE_SECONDS)
        finally:
            turn.release()

    @contextlib.contextmanager
    def _opened(self, key: tuple[Hashable, Hashable], path: str) -> Iterator[_Review]:
        """Registers a proposal for as long as it is open. It replaces an open one with the same key. Registers it
        before the first wait, so that the agent can already withdraw it. Raises ``Refused`` if the agent has too many
        open proposals.
        """
        self.withdraw(*key, "the agent replaced it", written=False)
        if sum(owner == key[0] for owner, _ in self._open) >= OPEN_LIMIT:
            raise Refused(
                f"{OPEN_LIMIT} proposals from this agent are already open. Decide on some of them first.",
                "{agent} has too many proposals open. Answer this one {where}.",
            )
        decision = asyncio.get_running_loop().create_future()
        review = _Review(Approval(str(next(self._numbers))), path, decision)
        self._open[key] = self._by_id[review.approval.id] = review
        try:
            yield review
        except BaseException:
            # It was canceled (the agent disconnected, or no longer wants the answer) or never shown.
            self._withdraw(review, "the agent is no longer waiting for the answer")
            raise
        finally:
            self._by_id.pop(review.approval.id, None)
            if self._arbiter is not None:
                self._arbiter.gone(
                    review.approval.id, settled=review.decision.done() and not review.decision.cancelled()
                )
            if self._open.get(key) is review:
                del self._open[key]

    async def _show(self, review: _Review, agent: str, title: str, change: Draft, *, kind: Kind = "change") -> None:
        if review.decision.done():
            return  # the proposal was withdrawn while it was being prepared
        review.shown = True
        await self._editor.show(
            Proposal(
                id=review.approval.id,
                agent=agent,
                title=title,
                path=review.path,
                old_text=change.old_text,
                new_text=change.new_text,
                hunks=change.hunks,
                note=change.note,
                kind=kind,
                lines=change.lines,
            )
        )

    def _resolve(self, review: _Review, decision: Decision, *, follow: bool) -> None:
        """Passes the decision to the waiting call. ``follow``: whether the agent may write the file now."""
        review.before = signature(review.path)
        if not review.decision.done():
            review.decision.set_result(decision)
        if review.path and follow:
            review.written = asyncio.get_running_loop().create_future()
            self._tasks.start(self._follow(review, decision, review.written), "waiting for the agent's write")
        else:
            self._answered_for(review)

    def _answered_for(self, review: _Review) -> None:
        """Records that the agent will no longer write this proposal. A later write of its file counts as not proposed,
        unless another proposal for the file is open."""
        if not any(other.path == review.path for other in self._open.values() if other is not review):
            self._asked.discard(review.path)

    # Answered → confirmed or overruled.

    async def _follow(self, review: _Review, decision: Decision, followed: asyncio.Future[None]) -> None:
        """Waits until the agent has written the file, then makes the editor show it."""
        try:
            await self._follow_write(review, decision)
        finally:
            followed.set_result(None)

    async def _follow_write(self, review: _Review, decision: Decision) -> None:
        accepted = decision.text if isinstance(decision, Accepted) else None
        written = await _wait_for_write(review.path, review.before, accepted)
        self._answered_for(review)
        if written is None:
            return
        is_as_accepted = accepted is not None and _same_lines(written, accepted)
        if is_as_accepted:
            review.approval.confirm()
        else:
            review.approval.overrule()
        if accepted is not None:
            # This is done before the editor shows the text, because the user may undo what is shown.
            await self._remember(review, written)
        await self._editor.written(review.path, written, review.approval.id if is_as_accepted else "")

    async def _remember(self, review: _Review, written: str) -> None:
        """Remembers what the agent has written, so that the user can still undo it."""
        path = await asyncio.to_thread(os.path.realpath, review.path)
        before = None if review.before is None and not review.old_text else review.old_text
        while True:
            known = self.accepted.find(path)
            file = await asyncio.to_thread(after_write, known, path, before, written)
            if self.accepted.find(path) is known:  # otherwise, the user has decided on a change to the file since
                break
        self.accepted.wrote(file)


async def _wait_for_write(path: str, before: tuple[int, ...] | None, expected: str | None) -> str | None:
    """Waits for the file to change and returns its new text: immediately if its lines are those of ``expected``,
    otherwise once the file is stable. ``expected``: the accepted text; None if no text was accepted. Returns None if no
    text was written in time.
    """
    clock = asyncio.get_running_loop().time
    deadline, seen, seen_at = clock() + FOLLOW_SECONDS, before, 0.0
    for step in itertools.count():
        await asyncio.sleep(FOLLOW_STEPS[min(step, len(FOLLOW_STEPS) - 1)])
        if clock() > deadline:
            break
        now = await asyncio.to_thread(signature, path)
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
    """Whether the texts are equal except for their line endings. The CLI proposes an Edit with LF, but keeps the file's
    line endings when it writes the accepted text (2.1.329).
    """
    return written.replace("\r\n", "\n") == accepted.replace("\r\n", "\n")


def _link_note(path: str) -> str | None:
    """The note for a path that leads through a symbolic link, where the agent writes a different file from the one that
    it names; None for any other path. Blocking."""
    target = os.path.realpath(path)
    if target == "/" + os.path.normpath(path).lstrip("/"):  # POSIX keeps two slashes at the start
        return None
    shown = harmless(target)
    if len(shown) > TARGET_LIMIT:
        half = TARGET_LIMIT // 2
        shown = f"{shown[:half]}…{shown[-half:]}"
    return f"The path leads through a symbolic link to {shown}."


def _read(path: str) -> str:
    """The file's text; "" if it does not exist. Blocking. Raises ``UnusableFile``."""
    return files.read_text(path) or ""


def _read_if_text(path: str) -> str | None:
    """The file's text; None if it does not exist or is not text, as may be the case while it is being written."""
    try:
        return files.read_text(path)
    except UnusableFile:
        return None


def signature(path: str) -> tuple[int, ...] | None:
    """A value that changes with each write of a file; None if the file can't be examined. Blocking."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # ValueError: the path contains a NUL
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
