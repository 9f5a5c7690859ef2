"""A real Neovim, a user who works in it, and the guard's requests to it, sent as the guard sends them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from drawbridge.guard import ask, find
from tests.nvim import rig as nvim_rig
from tests.nvim.rig import Person, headless
from tests.waiting import PATIENCE

T = TypeVar("T")

DEADLINE = int(PATIENCE * 1000)
"""Milliseconds that Neovim has to answer. The guard's own deadlines are far shorter, and are not tested here."""


QUICK = ("--cmd", "let g:loaded_python3_provider = 0")
"""Without this, Neovim would run every Python on ``PATH`` when it opens a Python file, to find one that supports it."""

WORKED_OFF = "<F12> <Cmd>let g:typed += 1<CR>"
"""A mapping that counts. It shows that Neovim has processed keys, since a request may overtake keys sent before it."""


class Workstation:
    """The Neovim that the user works in. ``asks`` sends what an agent's hook would send."""

    def __init__(self, person: Person, folder: Path, program: Path) -> None:
        self.person = person
        self.folder = folder
        self.program = program
        self._typed = 0

    def file(self, name: str, content: str | bytes = "one\ntwo\nthree\n") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    async def opened(self, name: str, content: str | bytes = "one\ntwo\nthree\n") -> Path:
        """Creates a file and opens it as the user's current buffer. Returns its path."""
        path = self.file(name, content)
        await self.person.edits(path)
        return path

    async def asks(self, method: str, **params: Any) -> Any:
        """Returns Neovim's answer to one request from the guard."""
        (answer,) = await self.asks_unsure(method, **params)
        assert answer.problem == "", answer.problem
        return answer.result

    async def asks_unsure(self, method: str, *, milliseconds: int = DEADLINE, **params: Any) -> list[ask.Answer]:
        """Like ``asks``, but Neovim may fail to answer. Returns all answers, with their problems."""
        given = {name: str(value) if isinstance(value, Path) else value for name, value in params.items()}
        return await asyncio.to_thread(ask.ask, [(self.person.address, find.NEOVIM)], method, given, milliseconds)

    async def state_of(self, path: Path | str) -> Any:
        """Returns the state of one file in this Neovim, or None if it is not open."""
        return (await self.asks("snapshot", paths=[str(path)]))["files"][0]

    async def text(self, name: str | Path = "%") -> list[str]:
        """Returns the lines of a buffer, by default the current one."""
        return list(await self.person.lua("return vim.fn.getbufline(vim.fn.bufnr(...), 1, '$')", str(name)))

    async def modified(self, name: str | Path = "%") -> bool:
        return bool(await self.person.lua("return vim.fn.getbufvar(vim.fn.bufnr(...), '&modified') == 1", str(name)))

    async def ex(self, command: str) -> None:
        """Runs an Ex command, as the user would."""
        await self.person.lua("vim.cmd(...)", command)

    async def keys(self, keys: str) -> None:
        """Types keys that leave no command unfinished, and returns once Neovim has processed them, in any mode."""
        if not self._typed:
            await self.person.lua("vim.cmd(...)", f"noremap {WORKED_OFF}|noremap! {WORKED_OFF}|let g:typed = 0")
        self._typed += 1
        await self.person.types(keys + "<F12>")
        await self.person.until("return vim.g.typed == ...", self._typed)

    async def mode(self) -> str:
        return str((await self.person.call("nvim_get_mode"))["mode"])

    async def waits_for_mode(self, mode: str) -> None:
        """Waits for a mode, even one in which Neovim answers no request except the one for its mode."""
        await eventually(self.mode, mode.__eq__, f"mode {mode}")


def reloaded(answer: Any) -> list[str]:
    """Returns the names of the files that ``refresh_buffer`` reloaded. Fails if it kept any."""
    assert answer["success"] is True
    assert answer["kept"] == []
    return [file["name"] for file in answer["reloaded"]]


def kept(answer: Any) -> list[str]:
    """Returns the names of the files that ``refresh_buffer`` did not reload although they changed on disk. Fails if it
    reloaded any.
    """
    assert answer["success"] is True
    assert answer["reloaded"] == []
    return [file["name"] for file in answer["kept"]]


async def eventually(
    read: Callable[[], Awaitable[T]], enough: Callable[[T], bool], what: str = "what was waited for"
) -> T:
    """Calls ``read`` until ``enough`` is true for its result. Returns that result. Fails after ``PATIENCE`` seconds."""
    end = time.monotonic() + PATIENCE
    while not enough(found := await read()):
        assert time.monotonic() < end, f"{what} did not happen within {PATIENCE:g} s"
        await asyncio.sleep(0.01)
    return found


@contextlib.asynccontextmanager
async def workstation(program: Path, folder: Path, *arguments: str) -> AsyncIterator[Workstation]:
    """Starts a Neovim without configuration, with ``folder`` as its current directory."""
    async with headless(program, *QUICK, *arguments, cwd=folder) as person:
        yield Workstation(person, folder, program)


@contextlib.asynccontextmanager
async def with_bridge(program: Path, folder: Path) -> AsyncIterator[tuple[Workstation, nvim_rig.Workstation]]:
    """Starts a Neovim with a connected bridge."""
    async with nvim_rig.workstation(program, folder, *QUICK) as bridge:
        yield Workstation(bridge.person, folder, program), bridge
