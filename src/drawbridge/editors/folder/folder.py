"""The folder editor, which a bridge uses instead of a real editor: a directory, and a terminal in which the user reads
proposals and decides on them.

Proposals are drawn as diffs, one after another. The user answers each with y, n or e. "e" opens the proposed text in
the user's own $VISUAL or $EDITOR, and the question is asked again for the edited text. A proposal that is longer than
the terminal is drawn page by page, and "y" accepts it only after the last page. The question appears half a second
after the page. Keys that were typed before the question never count as an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TextIO

import msgspec

from drawbridge import text
from drawbridge.core.errors import Refused, UnusableFile
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors import files
from drawbridge.editors.folder import edit as folder_edit
from drawbridge.editors.folder.input import Lines
from drawbridge.editors.folder.view import START, Canvas, Page, Place
from drawbridge.editors.port import (
    Accepted,
    BridgeState,
    BufferStatus,
    Decided,
    FileDiagnostics,
    Gone,
    Level,
    Listener,
    OpenedFile,
    OpenRequest,
    Overwritten,
    Proposal,
    Rejected,
    Review,
    Selection,
    Tab,
)
from drawbridge.text import hunks
from drawbridge.text.counts import counted

READING_SECONDS: Final = 0.5
"""Seconds for which a page is visible before it can be answered, because a key may have been meant for what was shown
before.
"""

UNATTENDED_LINES: Final = 1_000
"""The maximum number of lines of one proposal that are drawn if nobody is asked."""

QUESTIONS: Final = {
    "change": "Accept it? [y]es, [n]o, [e]dit: ",
    "code": "Run it? [y]es, [n]o, [e]dit: ",
}
MORE: Final = "{lines} not shown yet. [m]ore, [n]o, [e]dit: "

logger = logging.getLogger("drawbridge.folder")


class _Withdrawn(Exception):
    """The proposal that is being drawn, asked about or edited was withdrawn."""


class Folder:
    name = "Terminal"

    def __init__(
        self,
        directory: str,
        *,
        decide: Literal["accept", "reject"] | None = None,
        input: TextIO | None = None,
        output: TextIO | None = None,
    ) -> None:
        """``decide``: the answer to every proposal, so that nobody is asked. If None, the user is asked. ``input`` and
        ``output``: by default stdin and stderr.
        """
        self._directory = str(Path(directory).absolute())
        self._decide_all = decide
        self._lines = Lines(input or sys.stdin)
        self._canvas = Canvas(output or sys.stderr)
        self._output = output or sys.stderr
        self._listener: Listener | None = None
        self._tasks = BackgroundTasks(logger)
        self._waiting: dict[str, Proposal] = {}
        self._more = asyncio.Event()
        self._asked: Proposal | None = None
        self._withdrawn = asyncio.Event()
        self._prompt = ""
        self._held: list[str] | None = None
        self._waiting_after = 0
        self._agents: tuple[str, ...] = ()
        self._port = 0

    @property
    def pid(self) -> int:
        return os.getpid()

    async def start(self, listener: Listener) -> None:
        self._listener = listener
        self._canvas.keep_order(True)
        self._tasks.start(self._ask_all(), "asking about proposals", self._failed)

    async def close(self) -> None:
        self._listener = None
        await self._tasks.close()
        if self._asked is not None:
            self._end_prompt()
            self._say("The bridge is stopping. Nobody has decided on the proposal.", "warn")
        self._canvas.keep_order(False)
        self._asked = None
        self._waiting.clear()

    async def announce(self, state: BridgeState) -> None:
        if state.port != self._port:
            self._port = state.port
            self._say(f"Agents in {self._directory} can connect (port {state.port}).", "dim")
        for agent in state.agents:
            if agent not in self._agents:
                self._say(f"{agent} is connected.", "dim")
        for agent in self._agents:
            if agent not in state.agents:
                self._say(f"{agent} disconnected.", "dim")
        self._agents = state.agents

    async def folders(self) -> tuple[str, ...]:
        return (self._directory,)

    async def selection(self) -> Selection | None:
        return None

    async def tabs(self) -> Sequence[Tab]:
        return []

    async def diagnostics(self, path: str | None) -> Sequence[FileDiagnostics]:
        return [] if path is None else [FileDiagnostics(path, ())]

    async def status(self, path: str) -> BufferStatus | None:
        return None

    async def unsaved_text(self, path: str) -> str | None:
        return None

    async def save(self, path: str) -> None:
        raise Refused(f"{path} is not open in an editor here.")

    async def open_file(self, request: OpenRequest) -> OpenedFile:
        """With ``focus``, prints which file the agent shows, and the line of ``start_text`` if it was found. Raises
        ``UnusableFile`` if the file does not exist or is not a text file."""
        content = await asyncio.to_thread(files.read_text, request.path)
        if content is None:
            raise UnusableFile(f"{request.path} does not exist.")
        at = content.find(request.start_text) if request.start_text else 0
        if request.focus:
            line = f":{content.count(chr(10), 0, at) + 1}" if request.start_text and at >= 0 else ""
            agent = self._agents[0] if len(self._agents) == 1 else "An agent"
            self._say(f"{agent} shows you {self._shown(request.path)}{line}")
        line_count = max(len(text.split(content)[0]), 1)
        return OpenedFile(request.path, files.language(request.path), line_count, at >= 0)

    async def show(self, proposal: Proposal) -> None:
        self._waiting[proposal.id] = proposal.without_lines()
        self._more.set()

    async def proposed_text(self, proposal_id: str) -> str | None:
        proposal = self._asked if self._asked and self._asked.id == proposal_id else self._waiting.get(proposal_id)
        return proposal.new_text if proposal else None

    async def withdraw(self, proposal_id: str) -> None:
        self._waiting.pop(proposal_id, None)
        if self._asked and proposal_id == self._asked.id:
            self._withdrawn.set()

    async def written(self, path: str, text: str, proposal_id: str) -> None:
        self._say(f"{self._shown(path)} was written.", "dim")

    async def overwritten(self, path: str) -> Overwritten | None:
        return None

    async def reload(self, directory: str) -> None:
        """Does nothing, because this editor has no open files."""

    async def type_prompt(self, terminal: int, text: str) -> None:
        raise Refused("No agent is running in a terminal here.")

    async def show_review(self, review: Review | None, *, is_wanted: bool) -> None:
        """Does nothing, because this editor never asks for a review."""

    async def suggested(self, window: int, *, is_added: bool) -> None:
        """Does nothing, because this editor has no windows."""

    async def copy(self, text: str) -> str:
        return ""

    async def notify(self, message: str, level: Level = "info") -> None:
        for line in message.split("\n"):
            self._say(line, level)

    def _failed(self, error: Exception) -> None:
        """Ends the bridge, because no proposal can be answered without the task that asks the user."""
        self._say("Drawbridge failed and is stopping. Its log has the reason.", "warn")
        if self._listener is not None:
            self._listener(Gone())

    async def _ask_all(self) -> None:
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            proposal = self._waiting.pop(next(iter(self._waiting)))
            self._asked = proposal
            self._withdrawn.clear()
            try:
                decision = await self._decide(proposal)
            except _Withdrawn:
                self._end_prompt()
                self._say("The proposal was withdrawn: it was decided elsewhere or is no longer needed.", "warn")
                decision = None
            self._asked = None
            if decision is not None and self._listener is not None:
                self._listener(Decided(proposal.id, decision))

    async def _decide(self, proposal: Proposal) -> Accepted | Rejected:
        if self._decide_all is not None:
            page = await self._draw(proposal, limit=UNATTENDED_LINES)
            if page.next is not None:
                self._say(f"  {counted(page.left, 'more line')} not shown.", "warn")
            return self._outcome(proposal if self._decide_all == "accept" else None)
        page = await self._draw_page(proposal)
        while True:
            is_whole = page.next is None
            more = MORE.format(lines=counted(page.left, "more line"))
            answer = await self._ask(QUESTIONS[proposal.kind] if is_whole else more)
            if answer in ("n", "no"):
                return self._outcome(None)
            if answer in ("e", "edit"):
                edited = await self._edit(proposal)
                if edited != proposal:
                    proposal = self._asked = edited
                    page = await self._draw_page(proposal)
            elif answer in ("y", "yes"):
                if is_whole:
                    return self._outcome(proposal)
                self._say("Not accepted: parts of it have not been shown.", "warn")
            elif answer in ("", "m", "more") and page.next is not None:
                page = await self._draw_page(proposal, page.next)

    def _outcome(self, accepted: Proposal | None) -> Accepted | Rejected:
        if accepted is None:
            self._say("Rejected.", "rejected")
            return Rejected()
        self._say("Accepted.", "accepted")
        return Accepted(accepted.new_text)

    async def _ask(self, question: str) -> str:
        """The user's answer, in lower case; "n", with a notice, if the input has ended. Raises ``_Withdrawn``."""
        self._lines.discard()
        self._prompt = self._canvas.paint(question, "question")
        self._canvas.write(self._prompt)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._lines.read())
            withdrawal = group.create_task(self._withdrawn.wait())
            await asyncio.wait({reading, withdrawal}, return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            withdrawal.cancel()
        if self._withdrawn.is_set():
            raise _Withdrawn
        answer = reading.result()
        if answer is None:
            self._end_prompt()
            self._say("The input has ended, so no answer can be read. The proposal is rejected.", "warn")
            return "n"
        self._prompt = ""
        if not self._lines.echoes:
            self._canvas.write(self._canvas.plain(answer) + "\n")
        return answer.strip().lower()

    async def _edit(self, proposal: Proposal) -> Proposal:
        """The proposal as the user has edited it; unchanged, with a notice, if the user's editor fails or the edited
        text can't be used. Raises ``_Withdrawn``."""
        problem = None
        with self._holding():
            try:
                changed = await folder_edit.edit(proposal.path, proposal.new_text, self._lines.descriptor, self._output)
            except Refused as error:
                problem, changed = str(error), proposal.new_text
            except UnusableFile as error:
                problem, changed = f"{error} The proposal is unchanged.", proposal.new_text
        if problem is not None:
            self._say(problem, "warn")
        if self._withdrawn.is_set():
            raise _Withdrawn
        found = await asyncio.to_thread(_difference, proposal.old_text, changed)
        return msgspec.structs.replace(proposal, new_text=changed, hunks=found)

    async def _draw_page(self, proposal: Proposal, start: Place = START) -> Page:
        """Draws what fits on the terminal, and waits until the page can be answered. If the input is not a terminal, a
        script answers, which needs no time to read, so the rest of the proposal is drawn without waiting. Raises
        ``_Withdrawn``.
        """
        if not self._lines.echoes:
            return await self._draw(proposal, start)
        page = await self._draw(proposal, start, self._canvas.page_lines() if self._canvas.is_terminal else None)
        with self._holding(), contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._withdrawn.wait(), READING_SECONDS)
        if self._withdrawn.is_set():
            raise _Withdrawn
        return page

    async def _draw(self, proposal: Proposal, start: Place = START, limit: int | None = None) -> Page:
        if start == START:
            self._waiting_after = len(self._waiting)
        shown_path, waiting = self._shown(proposal.path), self._waiting_after
        page = await asyncio.to_thread(self._canvas.page, proposal, shown_path, waiting, start, limit)
        if self._withdrawn.is_set():
            raise _Withdrawn
        self._canvas.write(page.text)
        return page

    @contextlib.contextmanager
    def _holding(self) -> Iterator[None]:
        """Delays notices until the end of the block."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            self._canvas.write("".join(held))

    def _shown(self, path: str) -> str:
        inside = self._directory.rstrip("/") + "/"
        return path.removeprefix(inside)

    def _end_prompt(self) -> None:
        if self._prompt:
            self._canvas.write("\n")
        self._prompt = ""

    def _say(self, line: str, style: str = "info") -> None:
        """Prints one line, above an open question. The line is delayed while the user's editor occupies the screen, and
        for ``READING_SECONDS`` after a page has been drawn."""
        drawn = self._canvas.plain(line, style) + "\n"
        if self._held is not None:
            self._held.append(drawn)
        elif self._prompt:
            self._canvas.write(self._canvas.line_start() + drawn + self._prompt)
        else:
            self._canvas.write(drawn)


def _difference(old_text: str, new_text: str) -> tuple[hunks.Hunk, ...]:
    return hunks.diff(text.split(old_text)[0], text.split(new_text)[0])
