"""A person who uses an editor, for the suite that tests every editor against the port: what they do, what they see, and
what is reported.

A rig is one running editor with a connected bridge. Each kind has a list of what its editor can do (``abilities``); for
an editor without an ability, the suite checks what the port requires instead.
"""

from __future__ import annotations

import asyncio
import os
import pty
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from drawbridge.editors.folder.folder import Folder
from drawbridge.editors.port import (
    Accepted,
    Decided,
    Diagnostic,
    Editor,
    EditorEvent,
    Position,
    Proposal,
    Range,
    Rejected,
)
from drawbridge.text import split, utf16_length
from drawbridge.text.hunks import diff
from tests import programs
from tests.editors.memory import MemoryEditor
from tests.nvim.rig import Workstation, workstation
from tests.waiting import PATIENCE, until

BUFFERS = "buffers"  # files can be opened, changed and saved, text can be selected, and there are diagnostics
LEAVES = "leaves"  # the editor can end while the bridge runs
HANGS = "hangs"  # the editor can be made to stop responding


class Rig:
    """Lines and characters are counted from 0, and ``end`` is exclusive. ``accept``, ``reject``, ``close_view``, ``select``
    and
    ``leave`` return once the action has been reported."""

    editor: Editor

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[EditorEvent] = []

    @property
    def decisions(self) -> list[tuple[str, Accepted | Rejected]]:
        return [(event.proposal_id, event.decision) for event in self.events if isinstance(event, Decided)]

    async def accept(self, proposal_id: str) -> None:
        raise NotImplementedError

    async def reject(self, proposal_id: str) -> None:
        raise NotImplementedError

    async def close_view(self, proposal_id: str) -> None:
        """Closes the view without an explicit decision."""
        raise NotImplementedError

    async def edit(self, proposal_id: str, text: str) -> None:
        """Changes the proposed text without a decision. Its line endings stay the same."""
        raise NotImplementedError

    async def is_asked(self) -> bool:
        """Whether any proposal waits for the user."""
        raise NotImplementedError

    async def until_asked(self, asked: bool = True) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE
        while await self.is_asked() != asked:
            assert asyncio.get_running_loop().time() < end, f"is_asked is still {not asked}"
            await asyncio.sleep(0.002)

    async def reported(self, more_than: int) -> None:
        await until(lambda: len(self.events) > more_than, "a report")

    # With BUFFERS.

    async def open(self, path: Path) -> None:
        raise NotImplementedError

    async def type(self, path: Path, text: str) -> None:
        """Replaces an open file's text without saving it. The file keeps its line endings."""
        raise NotImplementedError

    async def text_of(self, path: Path) -> str:
        """The text of an open file as the user sees it, where every line ends with a line feed."""
        raise NotImplementedError

    async def select(self, path: Path, start: tuple[int, int], end: tuple[int, int]) -> None:
        raise NotImplementedError

    async def mention(self, path: Path, lines: tuple[int, int] | None) -> None:
        raise NotImplementedError

    async def change_folder(self, folder: Path) -> None:
        raise NotImplementedError

    async def diagnose(self, path: Path, problem: Diagnostic) -> None:
        raise NotImplementedError

    # With LEAVES and HANGS.

    async def leave(self) -> None:
        raise NotImplementedError

    async def hang(self) -> None:
        raise NotImplementedError

    async def recover(self) -> None:
        raise NotImplementedError


def proposal(path: Path | str, old: str, new: str, *, id: str = "1", **fields: Any) -> Proposal:
    hunks = diff(split(old)[0], split(new)[0])
    fields = {"agent": "Claude Code", "title": f"change {id}", **fields}
    return Proposal(id=id, path=str(path), old_text=old, new_text=new, hunks=hunks, **fields)


class MemoryRig(Rig):
    editor: MemoryEditor

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.editor = MemoryEditor([str(folder)])

    async def accept(self, proposal_id: str) -> None:
        self.editor.decide(proposal_id, Accepted(self.editor.shown[proposal_id].new_text))

    async def reject(self, proposal_id: str) -> None:
        self.editor.decide(proposal_id, Rejected())

    async def close_view(self, proposal_id: str) -> None:
        self.editor.decide(proposal_id, Rejected())

    async def edit(self, proposal_id: str, text: str) -> None:
        self.editor.edit(proposal_id, text)

    async def is_asked(self) -> bool:
        return bool(self.editor.shown)

    async def open(self, path: Path) -> None:
        self.editor.open(str(path))

    async def type(self, path: Path, text: str) -> None:
        self.editor.type(str(path), text)

    async def text_of(self, path: Path) -> str:
        return "".join(line + "\n" for line in split(self.editor.buffers[str(path)].text)[0])

    async def select(self, path: Path, start: tuple[int, int], end: tuple[int, int]) -> None:
        lines = split(self.editor.buffers[str(path)].text)[0]
        places = (Position(line, utf16_length(lines[line][:column])) for line, column in (start, end))
        self.editor.select(str(path), Range(*places))

    async def mention(self, path: Path, lines: tuple[int, int] | None) -> None:
        self.editor.mention(str(path), lines)

    async def change_folder(self, folder: Path) -> None:
        self.editor.change_folders(str(folder))

    async def diagnose(self, path: Path, problem: Diagnostic) -> None:
        self.editor.problems[str(path)] = [problem]

    async def leave(self) -> None:
        self.editor.leave()

    async def hang(self) -> None:
        self.editor.hung = True

    async def recover(self) -> None:
        self.editor.hung = False


class Terminal:
    """A pseudo-terminal: ``screen`` is what a program has written to it, and the program can read what is typed."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        self.input = os.fdopen(theirs, "r", encoding="utf-8")
        self.output = os.fdopen(os.dup(theirs), "w", encoding="utf-8")
        self._seen = b""
        asyncio.get_running_loop().add_reader(self._ours, self._see)

    @property
    def screen(self) -> str:
        return self._seen.decode("utf-8", "replace").replace("\r\n", "\n")

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        termios.tcsetwinsize(self._ours, (lines, columns))

    async def shows(self, text: str) -> None:
        await until(lambda: text in self.screen, f"{text!r} on a screen with {self.screen!r}")

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        self.input.close()
        self.output.close()
        os.close(self._ours)

    def _see(self) -> None:
        self._seen += os.read(self._ours, 65_536)


class FolderRig(Rig):
    """Answers the open question, whatever ``proposal_id`` is: questions are asked one after another."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        super().__init__(folder)
        self.editor = Folder(str(folder), input=terminal.input, output=terminal.output)
        self.terminal = terminal

    async def accept(self, proposal_id: str) -> None:
        await self._answer("y\n")

    async def reject(self, proposal_id: str) -> None:
        await self._answer("n\n")

    async def close_view(self, proposal_id: str) -> None:
        await self._answer("\x04")  # Ctrl-D

    async def edit(self, proposal_id: str, text: str) -> None:
        edited = Path(os.environ["TMPDIR"], "edited")
        await asyncio.to_thread(edited.write_bytes, text.encode())
        os.environ["EDITOR"] = f"cp '{edited}'"  # replaces the proposed text with it
        await self._until_asked()
        drawn = self.terminal.screen.count("[e]dit:")
        self.terminal.type("e\n")
        await until(lambda: self.terminal.screen.count("[e]dit:") > drawn, "the question after the edit")

    async def is_asked(self) -> bool:
        return self._question_is_open()

    async def _answer(self, keys: str) -> None:
        await self._until_asked()
        events, outcomes = len(self.events), self._outcomes()
        self.terminal.type(keys)
        await self.reported(events)
        # The report may arrive before the screen is updated, and the answered question would still look open.
        await until(lambda: self._outcomes() > outcomes, "the outcome on the screen")

    def _outcomes(self) -> int:
        return self.terminal.screen.count("Accepted.") + self.terminal.screen.count("Rejected.")

    async def _until_asked(self) -> None:
        await until(self._question_is_open, "a question")

    def _question_is_open(self) -> bool:
        return self.terminal.screen.rpartition("\n")[2].removesuffix("\x1b[0m").endswith("[e]dit: ")


class NeovimRig(Rig):
    """A person's own connection to a real Neovim."""

    def __init__(self, at: Workstation) -> None:
        super().__init__(at.folder)
        self._at = at
        self.editor = at.editor
        self.events = at.events

    async def accept(self, proposal_id: str) -> None:
        await self._shown(proposal_id)
        await self._decide("accept")

    async def reject(self, proposal_id: str) -> None:
        await self._shown(proposal_id)
        await self._decide("reject")

    async def close_view(self, proposal_id: str) -> None:
        await self._shown(proposal_id)
        before = len(self.events)
        await self._at.person.types(":q<CR>")
        await self.reported(before)

    async def edit(self, proposal_id: str, text: str) -> None:
        await self._shown(proposal_id)
        await self._at.person.call("nvim_buf_set_lines", 0, 0, -1, False, split(text)[0])

    async def is_asked(self) -> bool:
        return bool(await self._at.person.lua("return #require('drawbridge.review').pending() > 0"))

    async def open(self, path: Path) -> None:
        await self._at.person.edits(path)

    async def type(self, path: Path, text: str) -> None:
        number = await self._at.person.call("nvim_call_function", "bufnr", [str(path)])
        await self._at.person.call("nvim_buf_set_lines", number, 0, -1, False, split(text)[0])

    async def text_of(self, path: Path) -> str:
        number = await self._at.person.call("nvim_call_function", "bufnr", [str(path)])
        lines = await self._at.person.call("nvim_buf_get_lines", number, 0, -1, False)
        return "".join(line + "\n" for line in lines)

    async def select(self, path: Path, start: tuple[int, int], end: tuple[int, int]) -> None:
        await self.open(path)
        lines = (await self.text_of(path)).split("\n")
        before = len(self.events)
        last = end if start == end else (end[0], end[1] - 1)
        await self._put_cursor(lines, start)
        if start != end:
            await self._at.person.types("v")
            await self._put_cursor(lines, last)
        await self.reported(before)

    async def mention(self, path: Path, lines: tuple[int, int] | None) -> None:
        await self.open(path)
        span = "" if lines is None else f"{lines[0] + 1}, {lines[1] + 1}"
        await self._at.person.lua(f"require('drawbridge').send({span})")

    async def change_folder(self, folder: Path) -> None:
        await self._at.person.lua("vim.cmd('cd ' .. vim.fn.fnameescape(...))", str(folder))

    async def diagnose(self, path: Path, problem: Diagnostic) -> None:
        number = await self._at.person.call("nvim_call_function", "bufnr", [str(path)])
        severity = ["Error", "Warning", "Info", "Hint"].index(problem.severity) + 1
        start, end = problem.range.start, problem.range.end
        await self._at.person.lua(
            "local n, d = ... vim.diagnostic.set(vim.api.nvim_create_namespace('a linter'), n, { d })",
            number,
            {
                "lnum": start.line,
                "col": start.character,
                "end_lnum": end.line,
                "end_col": end.character,
                "severity": severity,
                "message": problem.message,
                "source": problem.source,
                "code": problem.code,
            },
        )

    async def leave(self) -> None:
        before = len(self.events)
        await self._at.person.call("nvim_input", "<C-Bslash><C-N>:qa!<CR>")
        await self.reported(before)

    async def _shown(self, proposal_id: str) -> None:
        await self._at.person.until(
            "for _, p in ipairs(require('drawbridge.review').pending()) do if p.id == ... then return p.shown end end",
            proposal_id,
        )

    async def _decide(self, verb: str) -> None:
        before = len(self.events)
        await self._at.person.lua(f"require('drawbridge').{verb}()")
        await self.reported(before)

    async def _put_cursor(self, lines: list[str], place: tuple[int, int]) -> None:
        line, column = place
        await self._at.person.call("nvim_win_set_cursor", 0, [line + 1, len(lines[line][:column].encode())])


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[Rig]:
    rig = MemoryRig(folder)
    await rig.editor.start(rig.events.append)
    yield rig
    await rig.editor.close()


@asynccontextmanager
async def folder_in_a_terminal(folder: Path) -> AsyncIterator[FolderRig]:
    terminal = Terminal()
    rig = FolderRig(folder, terminal)
    await rig.editor.start(rig.events.append)
    try:
        yield rig
    finally:
        await rig.editor.close()
        terminal.close()


def neovim(program: Path) -> Callable[[Path], AbstractAsyncContextManager[Rig]]:
    @asynccontextmanager
    async def start(folder: Path) -> AsyncIterator[Rig]:
        async with workstation(program, folder) as at:
            yield NeovimRig(at)

    return start


class Kind(NamedTuple):
    start: Callable[[Path], AbstractAsyncContextManager[Rig]]
    abilities: frozenset[str]


def _kinds() -> list[Any]:
    kinds = [
        pytest.param(Kind(memory, frozenset({BUFFERS, LEAVES, HANGS})), id="memory"),
        pytest.param(Kind(folder_in_a_terminal, frozenset()), id="folder"),
    ]
    for found in programs.each_nvim():
        kind = Kind(neovim(*found.values), frozenset({BUFFERS, LEAVES}))
        kinds.append(pytest.param(kind, id=found.id, marks=found.marks))
    return kinds


KINDS = _kinds()


def having(ability: str) -> pytest.MarkDecorator:
    """Runs the test with each kind of editor that has this ability."""
    kinds = [kind for kind in KINDS if ability in kind.values[0].abilities]
    return pytest.mark.parametrize("editor_rig", kinds, indirect=True)


def lacking(ability: str) -> pytest.MarkDecorator:
    kinds = [kind for kind in KINDS if ability not in kind.values[0].abilities]
    return pytest.mark.parametrize("editor_rig", kinds, indirect=True)
