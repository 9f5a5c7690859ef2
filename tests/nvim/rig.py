"""A real Neovim with its own socket, and a person who uses it through a second connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from drawbridge import text
from drawbridge.core.errors import EditorGone
from drawbridge.editors.neovim import rpc as neovim_rpc
from drawbridge.editors.neovim.neovim import Neovim
from drawbridge.editors.neovim.rpc import OnNotification, Session
from drawbridge.editors.port import Accepted, Decided, EditorEvent, Proposal, Rejected
from drawbridge.text import hunks
from tests.programs import WITHOUT_PYTHON
from tests.rigs.tmux import Pane, Tmux
from tests.waiting import PATIENCE

POLL = 0.01

SCREEN = "vim.o.columns, vim.o.lines = 100, 30"


class Person:
    """A person who uses a running Neovim."""

    def __init__(self, session: Session, address: str) -> None:
        self._session = session
        self._session.call_seconds = PATIENCE  # a busy machine may start Neovim more slowly than the product accepts
        self.address = address
        """The address that the bridge connects to."""
        self.process: asyncio.subprocess.Process | None = None
        """Neovim's process; None unless ``headless`` has started it."""

    def kill(self) -> None:
        """Ends Neovim as `kill -9` does; has no effect unless ``headless`` has started Neovim."""
        if self.process is not None:
            self.process.kill()

    async def call(self, method: str, *params: Any) -> Any:
        return await self._session.call(method, *params)

    async def lua(self, code: str, *arguments: Any) -> Any:
        """Returns what the Lua chunk returns. ``arguments`` are its ``...``."""
        return await self._session.call("nvim_exec_lua", code, list(arguments))

    async def types(self, keys: str) -> None:
        """Types keys as a person does. Neovim may process them after this returns."""
        await self._session.call("nvim_input", keys)

    async def edits(self, path: Path) -> None:
        """Opens a file, as `:edit` does."""
        await self.lua("vim.cmd('edit ' .. vim.fn.fnameescape(...))", str(path))

    async def until(self, condition: str, *arguments: Any, timeout: float = PATIENCE) -> Any:
        """Waits until the Lua chunk returns a truthy value, and returns it."""
        deadline = time.monotonic() + timeout
        while not (found := await self.lua(condition, *arguments)):
            if time.monotonic() > deadline:
                messages = await self.lua("return vim.fn.execute('messages')")
                raise AssertionError(f"this never became true: {condition}\nNeovim says: {messages}")
            await asyncio.sleep(POLL)
        return found

    async def lines(self) -> list[str]:
        """The lines of the current buffer."""
        return list(await self._session.call("nvim_buf_get_lines", 0, 0, -1, False))

    async def messages(self) -> str:
        return str(await self.lua("return vim.fn.execute('messages')")).strip()

    def receives(self, notified: OnNotification) -> None:
        """Calls ``notified`` with each notification that Neovim sends to this person."""
        self._session.listen(notified, lambda: None)

    def leave(self) -> None:
        self._session.close()


async def settled(condition: Callable[[], bool], why: str, *, timeout: float = PATIENCE) -> None:
    """Returns once ``condition`` returns true. Raises ``AssertionError`` after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"this never became true: {why}"
        await asyncio.sleep(POLL)


def home(folder: Path) -> dict[str, str]:
    """The environment for a program that must not use the developer's own files."""
    kinds = ("CONFIG", "DATA", "STATE", "CACHE", "RUNTIME")
    places = {f"XDG_{kind}_{'DIR' if kind == 'RUNTIME' else 'HOME'}": str(folder / kind.lower()) for kind in kinds}
    for place in places.values():
        Path(place).mkdir(mode=0o700, exist_ok=True)
    return {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **places}


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """A temporary directory with a shorter path than pytest's, because a socket's path must be shorter than 108
    bytes."""
    with tempfile.TemporaryDirectory(prefix="db-nvim-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


async def _meet(address: str) -> Person:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return Person(await neovim_rpc.connect(address), address)
        except EditorGone:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(POLL)


@contextlib.asynccontextmanager
async def headless(program: Path, *arguments: str, cwd: Path | None = None) -> AsyncIterator[Person]:
    """A Neovim without configuration and without a terminal. Its screen still has 100 x 30 cells."""
    with short_folder() as folder:
        address = str(folder / "nvim.sock")
        process = await asyncio.create_subprocess_exec(
            program, "--headless", "--clean", "-n", *WITHOUT_PYTHON, "--listen", address, *arguments,
            cwd=cwd, env=home(folder), stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            person = await _meet(address)
            person.process = process
            await person.lua(SCREEN)
            yield person
            person.leave()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def on_screen(
    program: Path,
    *arguments: str,
    cwd: Path,
    columns: int = 110,
    rows: int = 32,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[Person, Pane]]:
    """A Neovim on a terminal, for keys that only a terminal sends and for what is really on the screen."""
    with short_folder() as folder, Tmux.server(columns=columns, rows=rows) as tmux:
        address = str(folder / "nvim.sock")
        command = [str(program), "--clean", "-n", *WITHOUT_PYTHON, "--listen", address, *arguments]
        pane = tmux.start("Neovim", command, cwd=cwd, environment=home(folder) | dict(environment or {}))
        person = await _meet(address)
        await person.until("return vim.v.vim_did_enter == 1")
        yield person, pane
        person.leave()


def proposal(path: Path | str, old: str, new: str, *, id: str = "1", **fields: Any) -> Proposal:
    """A proposal as the bridge creates it."""
    return Proposal(
        id=id,
        agent=fields.pop("agent", "Claude Code"),
        title=fields.pop("title", f"✻ [Claude Code] {Path(path).name} (5e1139) ⧉"),
        path=str(path),
        old_text=old,
        new_text=new,
        hunks=hunks.diff(text.split(old)[0], text.split(new)[0]),
        **fields,
    )


class Workstation:
    """A Neovim with a connected bridge: ``person`` uses it, ``editor`` is the bridge's side, and ``events`` contains what
    Neovim has reported to the bridge."""

    def __init__(self, person: Person, editor: Neovim, folder: Path) -> None:
        self.person = person
        self.editor = editor
        self.folder = folder
        self.events: list[EditorEvent] = []

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
        return path

    async def opened(self, name: str, content: str | bytes) -> Path:
        """Creates a file, and opens it as the user does."""
        path = self.file(name, content)
        await self.person.edits(path)
        return path

    async def shows(self, proposed: Proposal) -> None:
        """Shows a proposal and waits until it is in front of the user."""
        await self.editor.show(proposed)
        await self.person.until(
            "for _, p in ipairs(require('drawbridge.review').pending()) do if p.id == ... then return p.shown end end",
            proposed.id,
        )

    async def options(self, lua: str) -> None:
        """Sets options of the plugin. The delays are short unless they are among these options."""
        await self.person.lua(
            "local options = vim.tbl_extend('force', { idle_ms = 0, debounce_ms = 5 }, ...) "
            "local wrong = require('drawbridge.config').apply(options) assert(#wrong == 0, vim.inspect(wrong))",
            await self.person.lua(f"return {lua or '{}'}") or {},
        )

    @property
    def decisions(self) -> list[tuple[str, Accepted | Rejected]]:
        return [(event.proposal_id, event.decision) for event in self.events if isinstance(event, Decided)]

    async def decided(self) -> Accepted | Rejected:
        """The only decision, once it has been made. All events are then removed, so that a test can wait for the next
        decision."""
        await settled(lambda: bool(self.decisions), "a decision")
        await self.quiet()
        assert len(self.decisions) == 1, self.decisions
        decision = self.decisions[0][1]
        self.events.clear()
        return decision

    async def quiet(self) -> None:
        """Returns when Neovim has done and reported everything that was pending, including debounced reports."""
        await self.person.lua("vim.wait(10)")  # by Neovim's clock, so that its timers that were due earlier have run
        for _ in range(2):
            await self.person.lua("return 1")
            await self.editor.folders()

    async def picture(self) -> dict[str, Any]:
        """What a view must restore: windows, buffers, cursor and focus. A flat dictionary, so that differences are
        readable."""
        return dict(_flat("", await self.person.lua(PICTURE)))


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flat(f"{name}.{key}", part)
    else:
        yield name, value


PICTURE = """
local picture = { tabs = {}, buffers = {}, window = vim.api.nvim_get_current_win() }
local function is_notice(window)
  local config = vim.api.nvim_win_get_config(window)
  return config.relative ~= '' and not config.focusable
end
for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
  local window = vim.fn.win_findbuf(buffer)[1]
  if not (window and is_notice(window)) then
    table.insert(picture.buffers, buffer)
  end
end
for _, tab in ipairs(vim.api.nvim_list_tabpages()) do
  local windows = {}
  for _, window in ipairs(vim.tbl_filter(function(one) return not is_notice(one) end, vim.api.nvim_tabpage_list_wins(tab))) do
    local options = {}
    for _, name in ipairs({ 'diff', 'scrollbind', 'cursorbind', 'foldmethod', 'foldlevel', 'foldenable', 'foldcolumn',
                            'wrap', 'number', 'statusline' }) do
      options[name] = vim.wo[window][name]
    end
    table.insert(windows, {
      id = window, buffer = vim.api.nvim_win_get_buf(window), options = options,
      view = vim.api.nvim_win_call(window, vim.fn.winsaveview),
      alternate = vim.api.nvim_win_call(window, function() return vim.fn.bufnr('#') end),
      size = { vim.api.nvim_win_get_width(window), vim.api.nvim_win_get_height(window) },
      bar = vim.fn.exists('+winbar') == 1 and vim.wo[window].winbar or '',
    })
  end
  table.insert(picture.tabs, windows)
end
picture.mode = vim.api.nvim_get_mode().mode
picture.last_window = vim.fn.winnr('#') ~= vim.fn.winnr() and vim.fn.winnr('#') or 0
return picture
"""


@contextlib.asynccontextmanager
async def workstation(program: Path, folder: Path, *arguments: str) -> AsyncIterator[Workstation]:
    """A Neovim in ``folder`` with a connected bridge. The plugin does not wait until the user stops typing."""
    async with headless(program, *arguments, cwd=folder) as person:
        editor = await Neovim.connect(person.address)
        made = Workstation(person, editor, folder)
        await editor.start(made.events.append)
        await made.options("{}")
        yield made
        await editor.close()
