"""Where the guard looks for editors, which sockets it ignores, and which it removes."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from drawbridge.guard import ask, find
from tests import programs
from tests.waiting import PATIENCE

from .conftest import HASH, Guard
from .payloads import KEPT, A, edit

GONE = 2**22 + 1
"""No process has this ID: Linux assigns none above 2**22."""


@pytest.fixture
def listen(home: Path) -> Iterator[Callable[[Path], str]]:
    """Returns a function that creates a socket and listens on it until the test ends. The function returns its path."""
    with ExitStack() as stack:

        def listen(path: Path) -> str:
            path.parent.mkdir(parents=True, exist_ok=True)
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(path))
            listening.listen()
            return str(path)

        yield listen


def dead(path: Path) -> Path:
    """Creates a socket on which no process listens, as an editor leaves it after ``kill -9``. Returns ``path``."""
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    return path


def found_in(*places: Path, **environ: str) -> dict[str, str]:
    names = {name.encode(): value.encode() for name, value in environ.items()}
    return dict(find.sockets(tuple(map(str, places)), names))


NAMES = {
    f"{HASH}-4711.sock": find.NEOVIM,
    f"{HASH}-vscode-4711.sock": find.VSCODE,
    "nvim.4711.0": find.NEOVIM,
    "nvim.person/AbCdEf/nvim.4711.0": find.NEOVIM,
    "nvim.first.last/AbCdEf/nvim.4711.12": find.NEOVIM,
    "nvimAbCdEf/0": find.NEOVIM,
}


@pytest.mark.parametrize(("name", "kind"), NAMES.items())
def test_every_form_of_socket_name_is_found(home: Path, listen: Callable[[Path], str], name: str, kind: str) -> None:
    place = home.parent / "tmp"
    path = listen(place / name)
    assert found_in(place) == {path: kind}


@pytest.mark.parametrize(
    "name",
    [
        f"{HASH}-4711",
        f"{HASH}-.sock",
        f"{HASH}-0.sock",
        f"{HASH}-47x.sock",
        f"{HASH}-٤٧.sock",
        f"{HASH}-vscode-.sock",
        f"{HASH}-emacs-4711.sock",
        f"{HASH[:-1]}-4711.sock",
        f"{HASH[:-1]}g-4711.sock",
        f"{HASH.upper()}-4711.sock",
        "nvim.4711",
        "nvim.person",
        "nvim.a.b",
        "nvim.4711.0.sock",
        "nvim.person/AbCdEf/other",
        "nvimAbCdEf/1",
        "nvimAbC/0",
        "sock",
    ],
)
def test_sockets_with_other_names_are_ignored(home: Path, listen: Callable[[Path], str], name: str) -> None:
    place = home.parent / "tmp"
    listen(place / name)
    assert found_in(place) == {}


def test_sockets_are_found_in_tmpdir_and_xdg_runtime_dir(home: Path, listen: Callable[[Path], str]) -> None:
    """Without these two variables, their directories are not searched."""
    here = [listen(home.parent / "tmp" / "nvim.1.0"), listen(home.parent / "run" / "nvim.1.0")]
    environ = {b"TMPDIR": os.environb[b"TMPDIR"] + b"/", b"XDG_RUNTIME_DIR": os.environb[b"XDG_RUNTIME_DIR"]}
    found = [path for path, _ in find.sockets(None, environ) if path.startswith(str(home.parent))]
    assert found == here
    assert not set(here) & set(dict(find.sockets(None, {})))


def test_a_directory_that_is_given_twice_is_searched_once(home: Path, listen: Callable[[Path], str]) -> None:
    place = os.environb[b"TMPDIR"]
    path = listen(home.parent / "tmp" / "nvim.1.0")
    environ = {b"TMPDIR": place + b"/", b"XDG_RUNTIME_DIR": place}
    assert [found for found, _ in find.sockets(None, environ) if found.endswith("/tmp/nvim.1.0")] == [path]


def test_the_neovim_that_runs_the_agent_is_found_at_any_path(home: Path, listen: Callable[[Path], str]) -> None:
    """``NVIM`` contains the path of its socket. Any value that is not the path of a socket is ignored."""
    path = listen(home / "elsewhere" / "any name")
    assert found_in(home.parent / "tmp", NVIM=path) == {path: find.NEOVIM}
    for no_path in ("127.0.0.1:6666", "any name", "", f"{path}x", str(home)):
        assert found_in(home.parent / "tmp", NVIM=no_path) == {}


def test_a_neovim_with_its_own_app_name_is_found(
    home: Path, listen: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``NVIM_APPNAME=my.vim``, the socket's name begins with "my.vim". Other programs' sockets are left alone."""
    monkeypatch.setenv("NVIM_APPNAME", "my.vim")
    monkeypatch.setenv("LOGNAME", "person")
    command = [str(programs.nvim(oldest=(0, 10))), "--headless", "-n", "-i", "NONE", "-u", "NONE"]
    run, tmp = home.parent / "run", home.parent / "tmp"
    stranger = listen(run / f"my.vim.{os.getpid()}.0")
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as neovim:
        try:
            path = str(run / f"my.vim.{neovim.pid}.0")
            end = time.monotonic() + PATIENCE
            while not find.is_own_socket(path, os.geteuid()):
                assert time.monotonic() < end, "it does not listen"
                time.sleep(0.02)
            elsewhere = listen(tmp / "my.vim.person" / "AbCdEf" / f"my.vim.{neovim.pid}.0")
            found = found_in(run, tmp, LOGNAME="person")
        finally:
            neovim.kill()
    assert set(found) == {path, elsewhere}
    assert stranger not in found


def test_a_socket_found_in_two_ways_is_listed_once(home: Path, listen: Callable[[Path], str]) -> None:
    path = listen(home.parent / "run" / "nvim.1.0")
    assert list(found_in(home.parent / "run", NVIM=path)) == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_guard_never_connects_to_another_users_socket(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT})
    os.chown(neovim.path, 12_345, 12_345)
    assert guard.run(edit(), unknown="deny") == {}
    assert neovim.asked == []
    os.chown(neovim.path, os.geteuid(), os.getegid())
    assert guard.denial(edit())


def test_files_that_are_not_sockets_are_ignored(guard: Guard, listen: Callable[[Path], str]) -> None:
    target = listen(guard.sockets / "other" / "socket")
    guard.socket().write_text("")
    guard.socket().mkdir()
    guard.socket().symlink_to(target)
    guard.socket().symlink_to(guard.sockets / "nowhere")
    os.mkfifo(guard.socket())
    before = sorted(guard.sockets.iterdir())
    assert found_in(guard.sockets) == {}
    assert guard.run(edit(), unknown="deny") == {}
    assert sorted(guard.sockets.iterdir()) == before


def test_unreadable_directories_are_skipped(home: Path, listen: Callable[[Path], str]) -> None:
    path = listen(home.parent / "run" / "nvim.1.0")
    file = home / "file"
    file.write_text("")
    assert found_in(home / "missing", file, Path("a\0b"), home.parent / "run") == {path: find.NEOVIM}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_directories_of_other_users_are_skipped(home: Path, listen: Callable[[Path], str]) -> None:
    """Each Neovim of each user has its own directory in /tmp."""
    place = home.parent / "tmp"
    for directory in (home.parent, place):
        directory.chmod(0o755)
    for name in ("nvim.other/AbCdEf/nvim.4711.0", "nvimAbCdEf/0"):
        listen(place / name)
    (place / "nvim.other").chmod(0o700)
    (place / "nvimAbCdEf").chmod(0o700)
    mine = listen(place / "nvim.4712.0")
    os.chown(mine, 12_345, 12_345)
    os.seteuid(12_345)
    try:
        found = found_in(place)
    finally:
        os.seteuid(0)
    assert found == {mine: find.NEOVIM}


def test_a_socket_among_thousands_of_files_is_found(home: Path, listen: Callable[[Path], str]) -> None:
    place = home.parent / "tmp"
    for number in range(3_000):
        (place / f"file-{number}").touch()
    path = listen(place / f"{HASH}-1.sock")
    assert found_in(place) == {path: find.NEOVIM}


@pytest.mark.parametrize("kind", ["", "vscode-"])
def test_the_socket_of_a_killed_editor_is_removed(guard: Guard, kind: str) -> None:
    left = dead(guard.sockets / f"{HASH}-{kind}{GONE}.sock")
    assert guard.run(edit(), unknown="deny") == {}
    assert not left.exists()
    assert guard.log == []


def test_sockets_of_running_or_other_programs_are_not_removed(guard: Guard) -> None:
    """A process that is alive may be about to listen, and sockets with other names belong to other programs."""
    kept = [
        dead(guard.sockets / name)
        for name in (
            f"{HASH}-{os.getpid()}.sock",
            f"{HASH}-1.sock",
            f"nvim.{GONE}.0",
            f"{'z' * 64}-{GONE}.sock",
            f"{HASH}-99999999999.sock",
            f"{HASH}-{2**31}.sock",
        )
    ]
    assert guard.run(edit(), unknown="deny") == {}
    assert [path.name for path in kept if not path.exists()] == []
    assert guard.log == []


def test_live_sockets_and_other_files_are_never_removed(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT})
    file = guard.socket()
    file.write_text("a person's")
    assert guard.denial(edit())
    assert stat.S_ISSOCK(neovim.path.stat().st_mode)
    assert file.read_text() == "a person's"


@pytest.mark.parametrize(
    ("name", "pid"),
    [
        (f"{HASH}-4711.sock", 4711),
        (f"{HASH}-vscode-4711.sock", 4711),
        (f"{HASH}-vscode-vscode-4711.sock", 0),
        (f"{HASH}--4711.sock", 0),
        (f"{HASH}- 4711.sock", 0),
        (f"{HASH}-4_711.sock", 0),
        (f"x{HASH}-4711.sock", 0),
        ("", 0),
    ],
)
def test_the_process_id_is_read_from_the_name(name: str, pid: int) -> None:
    assert find.pid_in(name) == pid


def test_a_socket_that_vanishes_is_ignored(guard: Guard) -> None:
    assert ask.ask([(str(guard.socket()), find.NEOVIM)], "snapshot", {"paths": []}, 100) == []
