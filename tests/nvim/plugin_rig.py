"""A real Neovim with a screen of 80 x 24 cells, controlled through pipes, for tests of what the plugin shows the user.

The rig attaches as the user interface, so Neovim shows "Press ENTER" as it would in a terminal.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drawbridge.protocols.msgpack_rpc import Connection, Response
from tests.programs import WITHOUT_PYTHON
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
FAKE_BRIDGE = Path(__file__).with_name("fake_bridge.py")


class Neovim:
    """A running Neovim, called through its stdin and stdout."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._wire = Connection()
        self._selector = selectors.DefaultSelector()
        self._selector.register(process.stdout, selectors.EVENT_READ)

    def call(self, method: str, *params: object) -> Any:
        """Calls an API function and returns its result. Raises ``NeovimError`` if the call fails, or ``TimeoutError``
        if there is no answer within ``PATIENCE`` seconds."""
        id, data = self._wire.request(method, params)
        self._stdin.write(data)
        self._stdin.flush()
        end = time.monotonic() + PATIENCE
        while self._selector.select(max(0, end - time.monotonic())):
            for event in self._wire.receive(os.read(self._stdout.fileno(), 65_536)):
                if isinstance(event, Response) and event.id == id:
                    if event.error is not None:
                        raise NeovimError(event.error[1])
                    return event.result
        raise TimeoutError(f"{method} had no answer in {PATIENCE} s")

    def lua(self, code: str, *arguments: object) -> Any:
        """Returns what the Lua chunk returns. ``arguments`` are its ``...``."""
        return self.call("nvim_exec_lua", code, arguments)

    def command(self, words: str) -> None:
        """Types an Ex command as a user does, so that its output appears on the screen."""
        self.keys(f"<Esc>:{words.replace('<', '<lt>')}<CR>")

    def keys(self, keys: str) -> None:
        self.call("nvim_input", keys)

    def setup(self, options: str = "{}") -> bool:
        return bool(self.lua(f"return require('drawbridge').setup({options})"))

    def status(self) -> dict[str, Any]:
        return dict(self.lua("return require('drawbridge').status()"))

    @property
    def is_stuck(self) -> bool:
        """Whether Neovim waits for a key, at "Press ENTER" or at an unanswered question."""
        mode = self.call("nvim_get_mode")
        return bool(mode["blocking"]) or mode["mode"].startswith("r")

    @property
    def messages(self) -> list[str]:
        """The output of `:messages`."""
        return str(self.lua("return vim.api.nvim_exec('messages', true)")).splitlines()

    @property
    def log(self) -> list[str]:
        return list(self.lua("return require('drawbridge.log').lines()"))

    def wait(self, condition: str, *arguments: object, why: str = "") -> Any:
        """Waits until the Lua chunk ``condition`` returns a truthy value, and returns it."""
        return wait_until(lambda: self.lua(condition, *arguments), why or condition)

    def shows_message(self, text: str) -> str:
        """Waits for a message that contains ``text``, and returns it. Fails if Neovim waits for a key."""

        def found() -> str | None:
            assert not self.is_stuck, f"Neovim waits for ENTER instead of saying {text!r}"
            return next((line for line in self.messages if text in line), None)

        try:
            return str(wait_until(found, f"saying {text!r}"))
        except TimeoutError:
            raise AssertionError(f"nothing says {text!r}: {self.messages}") from None

    def close(self) -> None:
        """Quits Neovim with `:qa!`, as a user does."""
        self.keys("<C-Bslash><C-N>:qa!<CR>")
        self._process.wait(PATIENCE)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def let_go(self) -> None:
        self.kill()
        self._selector.close()
        self._stdin.close()
        self._stdout.close()


class NeovimError(Exception):
    """An API call failed. The message is Neovim's own."""


@contextmanager
def neovim(
    program: Path, *files: Path, init: str = "", cwd: Path | None = None, environment: dict[str, str] | None = None
) -> Iterator[Neovim]:
    """A Neovim whose configuration consists of the plugin and ``init`` (Lua)."""
    set_up = Path(os.environ["TMPDIR"]) / "init.lua"
    set_up.write_text(f"vim.opt.runtimepath:prepend([[{ROOT}]])\n{init}\n")
    command = [program, "--embed", "-n", "-i", "NONE", *WITHOUT_PYTHON, "-u", set_up, "--", *files]
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )
    editor = Neovim(process)
    try:
        editor.call("nvim_ui_attach", 80, 24, {"rgb": True, "ext_linegrid": True})
        editor.wait("return vim.v.vim_did_enter == 1")
        yield editor
        if editor.is_alive:
            editor.close()
    finally:
        editor.let_go()


def bridge_options(*arguments: str, more: str = "") -> str:
    """Options (Lua) that make the plugin run the fake bridge. ``more`` is added to the same table."""
    words = ", ".join(f"[[{word}]]" for word in (sys.executable, str(FAKE_BRIDGE), *arguments))
    return f"{{ command = {{ {words} }}, {more} }}"


def starts() -> list[dict[str, Any]]:
    """How each fake bridge of this test was started, in order: argv, environment (``DRAWBRIDGE_…``), pid, cwd."""
    record = Path(os.environ["TMPDIR"]) / "bridges.jsonl"
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def is_alive(pid: int) -> bool:
    """Whether the process is running. A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Calls ``condition`` until it returns a truthy value, and returns that value. Raises ``TimeoutError`` with
    ``what``."""
    end = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"after {patience} s still not: {what}")
        time.sleep(0.02)
    return found
