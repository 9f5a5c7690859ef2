"""Runs a real Neovim with the plugin in a terminal, set up as a user would set it up: with an ``init.lua`` in the
test's home directory.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drawbridge.protocols.msgpack_rpc import Connection, Response
from tests.programs import WITHOUT_PYTHON
from tests.waiting import PATIENCE

from .tmux import Pane, Tmux, wait_until

ROOT = Path(__file__).resolve().parents[2]

INIT = """
vim.opt.runtimepath:prepend([[{root}]])
vim.o.autoread = true
-- Counts the events that the tests wait for.
_G.seen = { opened = 0, closed = 0, connected = 0 }
for event, name in pairs({ Opened = 'opened', Closed = 'closed' }) do
  vim.api.nvim_create_autocmd('User', { pattern = 'DrawbridgeDiff' .. event, callback = function()
    _G.seen[name] = _G.seen[name] + 1
  end })
end
vim.api.nvim_create_autocmd('User', { pattern = 'DrawbridgeConnected', callback = function()
  _G.seen.connected = _G.seen.connected + 1
end })
require('drawbridge').setup({options})
"""

LAYOUT = """
local windows = {}
for _, tab in ipairs(vim.api.nvim_list_tabpages()) do
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(tab)) do
    local name = vim.api.nvim_buf_get_name(vim.api.nvim_win_get_buf(window))
    local config = vim.api.nvim_win_get_config(window)
    if config.relative == '' or config.focusable then -- not a notice
      table.insert(windows, { window, vim.fn.fnamemodify(name, ':t'), vim.api.nvim_win_get_cursor(window) })
    end
  end
end
return { current = vim.api.nvim_get_current_win(), windows = windows }
"""


LINES = """
for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
  if vim.api.nvim_buf_get_name(buffer) == ... then
    return vim.api.nvim_buf_get_lines(buffer, 0, -1, true)
  end
end
"""


IS_SHOWN = """
return #vim.tbl_filter(function(proposal) return proposal.shown end, require('drawbridge.review').pending()) > 0
"""
TAKES_KEYS = "return not (package.loaded['drawbridge'] and require('drawbridge').status().ignores_keys)"
"""A Lua chunk that returns whether the view accepts keys: a view that has just opened ignores them for a moment."""


class Neovim:
    """One running Neovim. Keys go to its terminal, and queries use its socket."""

    _numbers = itertools.count(1)

    def __init__(self, pane: Pane, address: Path) -> None:
        self.pane = pane
        self._address = address

    @classmethod
    def start(
        cls, tmux: Tmux, program: Path, *files: Path, cwd: Path, environment: Mapping[str, str], options: str = "{}"
    ) -> Neovim:
        """Starts Neovim with ``files`` open. ``options``, the source of a Lua table, is passed to ``setup``."""
        config = Path(os.environ["XDG_CONFIG_HOME"]) / "nvim"
        config.mkdir(parents=True, exist_ok=True)
        (config / "init.lua").write_text(INIT.replace("{root}", str(ROOT)).replace("{options}", options))
        address = Path(os.environ["XDG_RUNTIME_DIR"]) / f"nvim-{next(cls._numbers)}"
        command = [str(program), "-n", "-i", "NONE", *WITHOUT_PYTHON, "--listen", str(address), *map(str, files)]
        neovim = cls(tmux.start("nvim", command, cwd=cwd, environment=environment), address)
        neovim.wait_for("return vim.v.vim_did_enter == 1", what="did not start")
        return neovim

    def lua(self, code: str, *arguments: object) -> Any:
        """Runs the Lua chunk ``code`` and returns its result. ``arguments`` are available to it as ``...``."""
        return self._call("nvim_exec_lua", code, list(arguments))

    def _call(self, method: str, *arguments: object) -> Any:
        rpc = Connection()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(self._address))
            connection.sendall(rpc.request(method, list(arguments))[1])
            while data := connection.recv(65_536):
                for event in rpc.receive(data):
                    assert isinstance(event, Response)
                    assert event.error is None, event.error
                    return event.result
        raise ConnectionError("Neovim closed its socket")

    def wait_for(self, condition: str, *, what: str, timeout: float = PATIENCE) -> None:
        """Waits until the Lua chunk ``condition`` returns a true value. ``timeout`` is in seconds."""

        def met() -> bool | None:
            try:
                return True if self.lua(condition) else None
            except (FileNotFoundError, ConnectionError):
                return None

        try:
            wait_until(met, timeout=timeout)
        except TimeoutError:
            raise AssertionError(f"Neovim {what} in {timeout} s; {self._situation()}") from None

    def _situation(self) -> str:
        """Returns Neovim's mode, what it has shown so far, and its screen, for the message of a failed test."""
        try:
            mode = self._call("nvim_get_mode")
            # While Neovim waits for a key, it does not answer other requests.
            seen = None if mode["blocking"] else self.lua("return vim.inspect(seen)")
        except OSError as error:
            return f"it does not answer: {error}\n{self.pane.framed}"
        return f"mode {mode}, seen {seen}\n{self.pane.framed}"

    def wait_for_proposal(self, number: int = 1) -> None:
        """Waits until the ``number``-th proposal of this session is shown and accepts keys."""
        self.wait_for(f"return seen.opened == {number}", what=f"showed no proposal {number}")
        self.wait_for(IS_SHOWN, what=f"did not accept keys for proposal {number}")

    def wait_until_closed(self, number: int = 1) -> None:
        """Waits until ``number`` views of proposals have closed."""
        self.wait_for(f"return seen.closed == {number}", what=f"did not close view {number}")

    def wait_for_agents(self, number: int = 1, *, timeout: float = PATIENCE) -> None:
        """Waits until exactly ``number`` agents are connected. ``timeout`` is in seconds."""
        condition = f"return #((require('drawbridge.link').state() or {{}}).agents or {{}}) == {number}"
        self.wait_for(condition, what=f"did not get {number} agents", timeout=timeout)

    def command(self, words: str) -> None:
        """Types an Ex command as a user would, and returns once it has run."""
        self.wait_for(TAKES_KEYS, what="did not accept keys")
        self.pane.press("Escape")
        self.pane.type(f":{words}")
        self._wait_for_command_line(open=True)
        self.pane.press("Enter")
        self._wait_for_command_line(open=False)

    def _wait_for_command_line(self, *, open: bool) -> None:
        def met() -> bool | None:
            try:
                return self._call("nvim_get_mode")["mode"].startswith("c") is open or None
            except (FileNotFoundError, ConnectionError):
                return True  # the command has ended Neovim

        wait_until(met)

    def save(self) -> None:
        """Types ``:w`` and returns once the file is saved."""
        self.command("w")
        self.wait_for("return not vim.bo.modified", what="did not save")

    @property
    def layout(self) -> dict[str, Any]:
        """Every window except notices, with its file name and cursor, and the window that has the focus."""
        layout: dict[str, Any] = self.lua(LAYOUT)
        return layout

    def buffer(self, file: Path) -> list[str] | None:
        """The lines of an open file as they are in Neovim now, or None if no buffer has that name."""
        lines: list[str] | None = self.lua(LINES, str(file))
        return lines

    def modified(self, file: Path) -> bool:
        """Whether an open file has unsaved changes."""
        return bool(self.lua("return vim.fn.getbufinfo(...)[1].changed", str(file)))

    def wait_for_buffer(self, file: Path, lines: list[str]) -> None:
        """Waits until an open file has exactly these lines and no unsaved changes."""
        try:
            wait_until(lambda: True if self.buffer(file) == lines and not self.modified(file) else None)
        except TimeoutError:
            modified = " with unsaved changes" if self.modified(file) else ""
            raise AssertionError(f"{file.name} in Neovim is {self.buffer(file)}{modified}, not {lines}") from None
