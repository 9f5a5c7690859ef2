"""Proposals in Neovim: chooses the view, transfers the text without blocking the editor, and reads the decision."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from drawbridge import text
from drawbridge.core.errors import UnusableFile
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.neovim import marks as neovim_marks
from drawbridge.editors.neovim.rpc import NeovimError, Session
from drawbridge.editors.port import Accepted, Decided, Proposal, Rejected
from drawbridge.text import hunks
from drawbridge.text.hunks import Hunk

CHUNK_LINES: Final = 10_000
CHUNK_CHARACTERS: Final = 512 * 1024
"""The maximum number of lines that one call sends or requests, and of characters that one call sends (unless one line
is longer). A call takes Neovim a few milliseconds. Between two calls, it reads keys."""

logger = logging.getLogger("drawbridge.neovim")


class _Shown(Struct, eq=False):
    """A proposal with a view that is open or being opened."""

    proposal: Proposal
    buffer: Any = None
    inline: bool = False
    marking: bool = False
    edited: bool = False

    def difference(self, lines: list[str]) -> tuple[list[str], tuple[Hunk, ...]]:
        """The lines of the proposal's ``old_text``, and the hunks that turn them into ``lines``. Blocking. They are not
        stored, because most proposals are decided without an edit."""
        old_lines = text.split(self.proposal.old_text).lines
        return old_lines, hunks.diff(old_lines, lines)


class NeovimReviews:
    def __init__(self, session: Session, ask: Callable[..., Awaitable[Any]]) -> None:
        """``ask(method, **params)`` calls a function of the Lua plugin and returns its result."""
        self._session = session
        self._ask = ask
        self._shown: dict[str, _Shown] = {}
        self._tasks = BackgroundTasks(logger)

    async def show(self, proposal: Proposal) -> None:
        """See ``Editor.show``. Raises ``UnusableFile`` for text that Neovim can't show, before anything is opened."""
        _check(proposal)
        shown = _Shown(proposal.without_lines())
        self._shown[proposal.id] = shown
        try:
            await self._open(shown, *(proposal.lines or (text.split(proposal.old_text), text.split(proposal.new_text))))
        except BaseException as error:
            withdrawn = self._shown.pop(proposal.id, None) is None
            if withdrawn and isinstance(error, NeovimError):
                return
            # A Neovim that was too busy to answer executes the call later. This closes the view right after that.
            self._session.notify_lua("withdraw", {"id": proposal.id})
            raise

    async def proposed_text(self, proposal_id: str) -> str | None:
        shown = self._shown.get(proposal_id)
        if shown is None:
            return None
        found = await self._ask("proposed", id=proposal_id)
        return _text(shown.proposal, found) if found else None

    async def withdraw(self, proposal_id: str) -> None:
        self._shown.pop(proposal_id, None)
        await self._ask("withdraw", id=proposal_id)

    def heard(self, event: str, payload: dict[str, Any]) -> Decided | None:
        """Handles a report from the Lua half about a view. Returns the decision if the report is one,
        otherwise None."""
        shown = self._shown.get(payload["id"])
        if shown is None:
            return None
        if event == "decided":
            del self._shown[shown.proposal.id]
            return Decided(shown.proposal.id, _decision(shown.proposal, payload))
        if event == "edited":
            shown.edited = True
            if not shown.marking:
                self._tasks.start(self._unless_closed(shown, self._mark_again), "marking the changes of a view")
        elif event == "put_back":
            put_back = partial(self._put_back, line=payload["line"], side=payload["side"])
            self._tasks.start(self._unless_closed(shown, put_back), "reverting a hunk")
        return None

    def cancel(self) -> None:
        """Forgets all views and cancels their tasks, because the connection to Neovim has ended."""
        self._shown.clear()
        self._tasks.cancel()

    async def close(self) -> None:
        """Cancels all tasks and waits until they have ended."""
        await self._tasks.close()

    async def _open(self, shown: _Shown, old: text.Split, new: text.Split) -> None:
        proposal = shown.proposal
        form = new.form
        view = await self._ask(
            "propose",
            id=proposal.id,
            agent=proposal.agent,
            title=proposal.title,
            path=proposal.path,
            kind=proposal.kind,
            note=proposal.note,
            changes=text.format_changes(old.form, form) if old.lines and new.lines else None,
            **_changed(proposal.hunks),
            first=proposal.hunks[0].new_start if proposal.hunks else 0,
            diff=neovim_marks.fits_diff_mode(proposal, old.lines, new.lines),
            dos=form.eol == "\r\n",
            bom=form.bom,
            final_newline=form.final_newline,
        )
        shown.buffer, shown.inline = view["proposed"], view["inline"]
        await self._fill(shown.buffer, new.lines)
        if "old" in view:
            await self._fill(view["old"], old.lines)
        portions = neovim_marks.portions(proposal.hunks, old.lines, new.lines) if shown.inline else iter(())
        # The first marks are set before the view opens. The others follow.
        await self._mark(shown, itertools.islice(portions, 1), clear=True)
        await self._ask("ready", id=proposal.id)
        await self._mark(shown, portions, clear=False)

    async def _fill(self, buffer: Any, lines: Sequence[str]) -> None:
        at = 0
        for chunk in _chunks(lines):
            await self._session.call("nvim_buf_set_lines", buffer, at, -1, False, chunk)
            at += len(chunk)

    async def _mark(
        self, shown: _Shown, portions: Iterable[list[dict[str, Any]]], *, clear: bool, tick: int | None = None
    ) -> None:
        """Shows hunks in the inline view; with ``tick``, only if the buffer still has that "changedtick"."""
        for marks in portions:
            await self._ask("mark", id=shown.proposal.id, tick=tick, clear=clear, hunks=marks)
            clear = False

    async def _unless_closed(self, shown: _Shown, work: Callable[[_Shown], Awaitable[None]]) -> None:
        """Does ``work``. Ignores its error if the view was closed in the meantime, because its buffer is gone."""
        try:
            await work(shown)
        except NeovimError:
            if self._shown.get(shown.proposal.id) is shown:
                raise

    async def _mark_again(self, shown: _Shown) -> None:
        """Updates the counts and the inline view's marks after edits. Edits in the meantime cause one more update."""
        shown.marking = True
        try:
            while shown.edited:
                shown.edited = False
                lines, tick = await self._current(shown)
                old_lines, found = await asyncio.to_thread(shown.difference, lines)
                await self._ask("count", id=shown.proposal.id, tick=tick, **_changed(found))
                if shown.inline:
                    await self._mark(shown, neovim_marks.portions(found, old_lines, lines), clear=True, tick=tick)
        finally:
            shown.marking = False

    async def _put_back(self, shown: _Shown, line: int, side: str) -> None:
        lines, tick = await self._current(shown)
        old_lines, found = await asyncio.to_thread(shown.difference, lines)
        hunk = neovim_marks.hunk_at(found, line, side)
        if hunk is None:
            await self._ask("tell", message="There is no change under the cursor.", level="info")
            return
        await self._ask(
            "put_back",
            id=shown.proposal.id,
            tick=tick,
            first=hunk.new_start,
            last=hunk.new_end,
            lines=old_lines[hunk.old_start : hunk.old_end],
        )

    async def _current(self, shown: _Shown) -> tuple[list[str], int]:
        """The lines of the proposed text as it is in the view, and the buffer's "changedtick"."""
        lines: list[str] = []
        first_tick: int | None = None
        while True:
            at = len(lines)
            found, error = await self._session.call(
                "nvim_call_atomic",
                [
                    ["nvim_buf_get_lines", [shown.buffer, at, at + CHUNK_LINES, False]],
                    ["nvim_buf_get_changedtick", [shown.buffer]],
                ],
            )
            if error is not None:  # only the results before the failed call are there
                raise NeovimError(str(error))
            chunk, tick = found
            if first_tick not in (None, tick):
                # The user has typed in the meantime, so start again.
                lines, first_tick = [], None
                continue
            lines, first_tick = lines + chunk, tick
            if len(chunk) < CHUNK_LINES:
                return ([] if lines == [""] else lines), tick


def _changed(found: Sequence[Hunk]) -> dict[str, Any]:
    """The numbers of added and removed lines, and their places. The places are, for each hunk, the first and last
    (exclusive) line of the new text, then of the old text. All are in one flat list, because Neovim reads many small
    lists slowly."""
    return {
        "added": sum(hunk.new_count for hunk in found),
        "removed": sum(hunk.old_count for hunk in found),
        "rows": [row for hunk in found for row in (hunk.new_start, hunk.new_end, hunk.old_start, hunk.old_end)],
    }


def _check(proposal: Proposal) -> None:
    for name, value in (("proposed", proposal.new_text), ("current", proposal.old_text)):
        if "\0" in value:
            raise UnusableFile(f"The {name} text contains NUL characters: it is binary and can't be shown.")
        if value.isascii():
            continue
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise UnusableFile(f"The {name} text is not valid Unicode.") from None


def _decision(proposal: Proposal, payload: dict[str, Any]) -> Accepted | Rejected:
    if not payload["accepted"]:
        return Rejected()
    return Accepted(_text(proposal, payload))


def _text(proposal: Proposal, payload: dict[str, Any]) -> str:
    """The text in the view; exactly the proposed text if nothing was edited."""
    if "text" not in payload:
        return proposal.new_text
    lines = [] if payload["empty"] else payload["text"].split("\n")
    form = text.Format("\r\n" if payload["dos"] else "\n", payload["bom"], payload["final_newline"])
    return text.join(lines, form)


def _chunks(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(lines), CHUNK_LINES):
        yield from _halved(lines[start : start + CHUNK_LINES])


def _halved(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    if len(lines) == 1 or sum(map(len, lines)) <= CHUNK_CHARACTERS:
        yield lines
    else:
        middle = len(lines) // 2
        yield from _halved(lines[:middle])
        yield from _halved(lines[middle:])
