"""The benchmark of the guard: the installed command as a whole process, alternating with the bare interpreter."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.guard.payloads import edit, edited
from tests.guard.processes import as_json

from drawbridge.settings.hook import HookSettings
from drawbridge.setup import installed

ROUNDS = 41
HUNG = 3
HASH = "0123456789abcdef" * 4
PATIENCE = 10.0

Row = Callable[[str, str, str], None]


def rows(binary: Path, row: Row) -> None:
    """Measures the guard without an editor, with one and eight running Neovims that have the file open without changes
    (before and after an edit), and with three that were stopped."""
    with tempfile.TemporaryDirectory(prefix="db-") as name, contextlib.ExitStack() as neovims:
        directory = Path(name)
        (directory / "s").mkdir()
        os.environ |= {"XDG_DATA_HOME": name, "XDG_STATE_HOME": name}
        file = directory / "a.py"
        file.write_text("one = 1\n")
        payload = directory / "payload"
        payload.write_bytes(as_json(edit(str(file))))
        ours = _installed(directory)
        row("guard: without an editor, against python -I -S -c pass", *_without(ours, directory))
        started = 0
        for number in (1, 8):
            while started < number:
                started += 1
                neovims.enter_context(_neovim(binary, directory, started, file))
            took = _beyond(ours, directory)
            row(f"guard: {number} live Neovim{'s' * (number > 1)}, on top of that", f"{took:.1f} ms", "<= 3 ms")
        payload.write_bytes(as_json(edited(str(file))))
        row(f"guard: after the edit, {number} live Neovims", f"{_beyond(ours, directory):.1f} ms", "")
        payload.write_bytes(as_json(edit(str(file))))
        neovims.pop_all().close()
        for number in range(HUNG):
            neovims.enter_context(_neovim(binary, directory, number, file, stopped=True))
        took = statistics.median(_timed(ours, directory) for _ in range(5)) * 1000
        row(f"guard: {HUNG} hung Neovims, whole process", f"{took:.0f} ms", "300 ms + start")


def _installed(directory: Path) -> list[str]:
    places = [directory / place for place in ("s", "1", "2", "3")]  # as many as there are by default
    return installed.install("claude", HookSettings(socket_dir=tuple(map(str, places))))


def _without(ours: list[str], directory: Path) -> tuple[str, str]:
    bare, whole = _turn_about(ours, directory)
    return f"{whole / bare:.2f} x ({whole * 1000:.1f} against {bare * 1000:.1f} ms)", "<= 1.25 x"


def _beyond(ours: list[str], directory: Path) -> float:
    """How much longer the guard takes than a bare interpreter, in milliseconds."""
    bare, whole = _turn_about(ours, directory)
    return (whole - bare) * 1000


def _turn_about(ours: list[str], directory: Path) -> tuple[float, float]:
    """The medians of the bare interpreter and the guard, in seconds. The guard's first run does not count, because it
    also sends Neovim the Lua code."""
    bare_words = [*ours[:3], "-c", "pass"]
    _timed(ours, directory)
    times = [(_timed(bare_words, directory), _timed(ours, directory)) for _ in range(ROUNDS)]
    return statistics.median(bare for bare, _ in times), statistics.median(whole for _, whole in times)


def _timed(words: list[str], directory: Path) -> float:
    opened = (os.POSIX_SPAWN_OPEN, 0, str(directory / "payload"), os.O_RDONLY, 0)
    closed = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    began = time.perf_counter()
    pid = os.posix_spawn(words[0], words, os.environ, file_actions=[opened, closed])
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - began
    assert status == 0, words
    return took


@contextlib.contextmanager
def _neovim(binary: Path, directory: Path, number: int, file: Path, *, stopped: bool = False) -> Iterator[None]:
    socket = directory / "s" / f"{HASH}-{number + 1}.sock"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NVIM")}
    command = [str(binary), "--clean", "-n", "--headless", "--listen", str(socket), str(file)]
    with subprocess.Popen(command, env=environment | {"HOME": str(directory)}, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE
        while not socket.exists():
            assert time.monotonic() < deadline, "Neovim does not listen"
            time.sleep(0.02)
        # Neovim listens before it has started completely.
        subprocess.run(
            [binary, "--server", socket, "--remote-expr", "1"], capture_output=True, timeout=PATIENCE, check=True
        )
        if stopped:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.kill()
            socket.unlink(missing_ok=True)
