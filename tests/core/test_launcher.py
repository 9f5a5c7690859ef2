"""``drawbridge nvim``: the socket, Neovim's arguments and exit code, and which Neovim and plugin it uses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from drawbridge.core import launcher, plugin
from drawbridge.core.errors import NotPrivate, Refused
from drawbridge.editors.neovim import rpc as neovim_rpc
from tests import programs
from tests.nvim.rig import Person
from tests.rigs import neovim_rig
from tests.rigs.tmux import Tmux, wait_until
from tests.waiting import PATIENCE, until

COMMAND = [sys.executable, "-P", "-m", "drawbridge", "nvim"]
SETUP = "return package.loaded['drawbridge.config'] and require('drawbridge.config').get().command"

pytestmark = pytest.mark.usefixtures("sockets")


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets the directory for sockets and returns it."""
    place = os.environ["XDG_RUNTIME_DIR"]
    monkeypatch.setenv("DRAWBRIDGE_SOCKET_DIR", place)
    return Path(place)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Creates the directory that Neovim is started in."""
    made = tmp_path / "ws"
    made.mkdir()
    return made


@pytest.fixture(params=programs.each_nvim())
def nvim(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the launcher use each installed Neovim in turn, and returns its path."""
    program: Path = request.param
    monkeypatch.setenv("DRAWBRIDGE_NVIM_PROGRAM", str(program))
    return program


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAWBRIDGE_NVIM_PROGRAM", str(programs.nvim()))


class Started:
    """A Neovim that was started with ``drawbridge nvim --headless``."""

    def __init__(self, process: asyncio.subprocess.Process, path: str, person: Person) -> None:
        self.process = process
        self.path = path
        self.person = person


@contextlib.asynccontextmanager
async def started(*arguments: str | Path, cwd: Path, listens_at: str = "") -> AsyncIterator[Started]:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "--headless", "-n", "-i", "NONE", *map(str, arguments),
        cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    path = listens_at or launcher.socket_path(str(cwd), process.pid)
    try:
        await until(lambda: process.returncode is not None or listens(path), "Neovim's socket")
        person = Person(await neovim_rpc.connect(path), path)
        await person.until("return vim.v.vim_did_enter == 1")
        yield Started(process, path, person)
        person.leave()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def run(*arguments: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs ``drawbridge nvim`` until it exits."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def refused(code: int, *arguments: str, cwd: Path, **variables: str) -> str:
    """Runs ``drawbridge nvim``, which must exit with ``code``, and returns its error message."""
    ended = run(*arguments, cwd=cwd, **variables)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith("drawbridge nvim: ")
    assert ended.stderr.count("\n") == 1
    return ended.stderr


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


# The socket's name


def test_the_hash_is_standard_blake3() -> None:
    root = launcher.socket_path("/", 4711, {})
    assert blake3(b"hello").hexdigest() == "ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f"
    assert root == f"/tmp/{blake3(b'/').hexdigest()}-4711.sock"


@pytest.mark.parametrize(
    ("name", "hashed"), [("wörk", "wörk".encode()), (os.fsdecode(b"w\xffrk"), "w\N{REPLACEMENT CHARACTER}rk".encode())]
)
def test_a_name_that_is_not_ascii_is_hashed_as_utf8(name: str, hashed: bytes, folder: Path) -> None:
    expected = blake3(os.fsencode(folder.resolve()) + b"/" + hashed).hexdigest()
    assert Path(launcher.socket_path(f"{folder}/{name}", 1)).name == f"{expected}-1.sock"


async def test_the_socket_path_follows_the_specification(
    nvim: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRAWBRIDGE_SOCKET_DIR")
    digest = blake3(os.fsencode(folder.resolve())).hexdigest()
    async with started(cwd=folder) as neovim:
        assert neovim.path == f"/tmp/{digest}-{neovim.process.pid}.sock"
        assert await neovim.person.lua("return vim.v.servername") == neovim.path
        assert await neovim.person.lua("return vim.fn.getpid()") == neovim.process.pid
        neovim.process.send_signal(signal.SIGTERM)
        await neovim.process.wait()
    assert not os.path.exists(neovim.path)


@pytest.mark.usefixtures("newest")
async def test_a_linked_directory_is_hashed_by_its_real_path(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    async with started(cwd=link) as neovim:
        assert blake3(os.fsencode(folder.resolve())).hexdigest() in neovim.path


@pytest.mark.usefixtures("newest")
async def test_each_neovim_in_a_directory_has_its_own_socket(folder: Path, sockets: Path) -> None:
    async with started(cwd=folder) as one, started(cwd=folder) as other:
        names = {Path(one.path).name, Path(other.path).name}
        assert names == {path.name for path in sockets.iterdir() if path.suffix == ".sock"}
        assert len({name.partition("-")[0] for name in names}) == 1
        assert await one.person.lua("return vim.fn.getpid()") != await other.person.lua("return vim.fn.getpid()")


async def test_the_socket_is_private_and_the_umask_is_kept(nvim: Path, folder: Path) -> None:
    """Only the user may connect, and Neovim creates files with the umask that the user set."""
    before = os.umask(0)
    try:
        async with started(cwd=folder) as neovim:
            assert stat.S_IMODE(os.stat(neovim.path).st_mode) == 0o600
            await neovim.person.lua("vim.fn.writefile({ 'x' }, 'new.txt')")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "new.txt").stat().st_mode) == 0o666


# Arguments, output and exit code


async def test_arguments_reach_neovim_untouched(nvim: Path, folder: Path) -> None:
    given = ["--cmd", "let g:a = 'b c'", "-d", "one", "two", "+2", "--", "--listen", "-x y"]
    async with started(*given, cwd=folder) as neovim:
        assert (await neovim.person.lua("return vim.v.argv"))[-len(given) :] == given
        assert await neovim.person.lua("return vim.g.a") == "b c"
        assert await neovim.person.lua("return vim.fn.argv()") == ["one", "two", "--listen", "-x y"]
        assert await neovim.person.lua("return vim.wo.diff")
        assert await neovim.person.lua("return vim.v.servername") == neovim.path


def test_help_and_version_output_are_neovims(nvim: Path, folder: Path) -> None:
    own = subprocess.run([nvim, "--version"], capture_output=True, text=True, check=True).stdout
    assert run("--version", cwd=folder).stdout == own
    output = run("--help", cwd=folder).stdout
    assert output == subprocess.run([nvim, "--help"], capture_output=True, text=True, check=True).stdout


def test_neovims_exit_code_is_returned(nvim: Path, folder: Path) -> None:
    assert run("--headless", "-c", "cq 3", cwd=folder).returncode == 3
    assert run("--headless", "-c", "q", cwd=folder).returncode == 0
    assert subprocess.run([*COMMAND[:-1], "neovim", "--headless", "+cq 4"], check=False, cwd=folder).returncode == 4


async def test_a_listen_address_from_the_user_is_used_instead(nvim: Path, folder: Path, sockets: Path) -> None:
    mine = str(sockets / "mine.sock")
    async with started("--listen", mine, cwd=folder, listens_at=mine) as neovim:
        assert await neovim.person.lua("return vim.fn.serverlist()") == [mine]
        assert not os.path.exists(launcher.socket_path(str(folder), neovim.process.pid))


def test_neovim_starts_with_default_signal_handling(folder: Path, tmp_path: Path) -> None:
    """Python ignores two signals, and programs that Neovim starts would inherit that."""
    fake = script(
        tmp_path / "nvim", 'test "$1" = --version && echo "NVIM v0.9.5" || exec grep SigIgn /proc/self/status'
    )
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux tells which signals are ignored")
    ignored = int(run(cwd=folder, DRAWBRIDGE_NVIM_PROGRAM=str(fake)).stdout.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


def test_in_a_terminal_the_process_itself_is_neovim(nvim: Path, folder: Path) -> None:
    (folder / "notes.txt").write_text("first\n")
    with Tmux.server() as tmux:
        command = [*COMMAND, "--clean", "-n", "notes.txt"]
        pane = tmux.start("Neovim", command, cwd=folder, environment=dict(os.environ))
        pane.wait_for("first")
        path = Path(launcher.socket_path(str(folder), pane.pid))
        assert path.is_socket()
        pane.type(":cq 5")
        pane.press("Enter")
        assert pane.wait_for_exit() == 5
        assert not path.exists()


# Existing files at the socket's path


BIND_THEN_LAUNCH = """
import os, socket, sys
from drawbridge.core.launcher import launch, socket_path
socket.socket(socket.AF_UNIX).bind(socket_path(os.getcwd(), os.getpid()))
launch(sys.argv[1:])
"""


def test_a_dead_socket_is_replaced(nvim: Path, folder: Path) -> None:
    command = [sys.executable, "-P", "-c", BIND_THEN_LAUNCH, "--headless", "-c", "echo v:servername", "-c", "q"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=True)
    name = Path(ended.stderr.strip())
    assert name.name.startswith(blake3(os.fsencode(folder.resolve())).hexdigest())
    assert not name.exists()


def test_a_socket_in_use_is_never_removed(sockets: Path) -> None:
    path = sockets / "live.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(
            Refused, match=r"Neovim was not started: another program seems to be listening on .*live.sock."
        ):
            launcher.make_way(str(path))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


def test_another_users_file_is_never_removed(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sockets / "foreign.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(NotPrivate, match=r"Neovim was not started: .* belongs to another user."):
        launcher.make_way(str(path))
    assert path.is_socket()


def test_a_file_that_is_not_a_socket_is_never_removed(sockets: Path) -> None:
    file, link = sockets / "file", sockets / "link"
    file.write_text("mine")
    link.symlink_to(file)
    for path in (file, link):
        with pytest.raises(Refused, match="is not a socket"):
            launcher.make_way(str(path))
    assert (file.read_text(), link.is_symlink()) == ("mine", True)


@pytest.mark.usefixtures("newest")
def test_an_unusable_socket_directory_is_reported(folder: Path, tmp_path: Path) -> None:
    missing, long = tmp_path / "missing", tmp_path / ("x" * 60)
    long.mkdir()
    assert f"{missing} is not a directory" in refused(2, cwd=folder, DRAWBRIDGE_SOCKET_DIR=str(missing))
    output = refused(2, cwd=folder, DRAWBRIDGE_SOCKET_DIR=str(long))
    assert f"is longer than {launcher.LONGEST_PATH} bytes" in output
    assert "DRAWBRIDGE_SOCKET_DIR" in output


@pytest.mark.usefixtures("newest")
def test_a_removed_current_directory_is_reported(folder: Path) -> None:
    command = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(folder), *COMMAND]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Neovim was not started: the current directory was deleted." in ended.stderr


# Which Neovim is started


def test_a_missing_neovim_is_reported_with_a_remedy(folder: Path, tmp_path: Path) -> None:
    output = refused(3, cwd=folder, PATH=str(tmp_path))
    assert "Neovim was not found: nvim is not on PATH. Install Neovim 0.7.2 or newer" in output
    assert "DRAWBRIDGE_NVIM_PROGRAM" in output


@pytest.mark.parametrize("version", ["0.6.1", "0.7.1"])
def test_a_neovim_that_is_too_old_is_not_started(folder: Path, tmp_path: Path, version: str) -> None:
    old = script(tmp_path / "nvim", f': > "$0.$1"; echo NVIM v{version}')
    output = refused(3, cwd=folder, PATH=str(tmp_path))
    assert f"{old} can't be used: it is Neovim {version}, and 0.7.2 or newer is required." in output
    assert sorted(path.name for path in tmp_path.glob("nvim*")) == ["nvim", "nvim.--version"]


def test_a_newer_neovim_further_on_is_found(tmp_path: Path) -> None:
    for folder, version in (("first", "0.6.1"), ("second", "0.12.4")):
        (tmp_path / folder).mkdir()
        script(tmp_path / folder / "nvim", f"echo NVIM v{version}")
    path = f"{tmp_path / 'first'}:{tmp_path / 'second'}:/usr/bin:/bin"
    assert launcher.find_neovim({"PATH": path}) == str(tmp_path / "second" / "nvim")


def test_a_configured_program_must_be_neovim(folder: Path, tmp_path: Path) -> None:
    other = script(tmp_path / "other", "echo VIM - Vi IMproved 9.0")
    assert f"{other} does not print Neovim's version" in refused(2, cwd=folder, DRAWBRIDGE_NVIM_PROGRAM=str(other))
    assert "can't be run: no such file" in refused(2, cwd=folder, DRAWBRIDGE_NVIM_PROGRAM=str(tmp_path / "none"))
    assert "can't be run: permission denied" in refused(2, cwd=folder, DRAWBRIDGE_NVIM_PROGRAM=str(tmp_path))


def test_a_script_named_nvim_that_runs_drawbridge_is_skipped(nvim: Path, folder: Path, tmp_path: Path) -> None:
    places = [tmp_path / "alias", tmp_path / "real"]
    for place in places:
        place.mkdir()
    alias = script(places[0] / "nvim", f'exec {COMMAND[0]} -P -m drawbridge nvim "$@"')
    (places[1] / "nvim").symlink_to(nvim)
    path = ":".join([*map(str, places), os.environ["PATH"]])
    assert run("--headless", "-c", "cq 6", cwd=folder, DRAWBRIDGE_NVIM_PROGRAM="", PATH=path).returncode == 6
    output = refused(3, cwd=folder, DRAWBRIDGE_NVIM_PROGRAM="", PATH=f"{places[0]}")
    assert f"{alias} starts Drawbridge" in output


# The plugin


def configure(lua: str) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "nvim"
    config.mkdir(parents=True, exist_ok=True)
    (config / "init.lua").write_text(lua)


def own_copy(place: Path) -> Path:
    """Installs another copy of the plugin, which counts in ``vim.g.mine`` how often it is loaded. Returns ``place``."""
    (place / "lua/drawbridge").mkdir(parents=True)
    (place / "lua/drawbridge/init.lua").write_text("return {}")
    (place / "plugin").mkdir()
    guard = "if vim.g.loaded_drawbridge then return end vim.g.loaded_drawbridge = true"
    (place / "plugin/drawbridge.lua").write_text(f"{guard} vim.g.mine = (vim.g.mine or 0) + 1")
    return place


async def has_our_plugin(neovim: Started) -> bool:
    return bool(await neovim.person.lua("return vim.fn.exists(':DrawbridgeStatus') == 2"))


@pytest.mark.parametrize("arguments", [[], ["--clean"]])
async def test_the_plugin_is_loaded_and_a_script_gets_no_bridge(nvim: Path, folder: Path, arguments: list[str]) -> None:
    (folder / "drawbridge.lua").write_text("vim.g.foreign = 1")  # the current directory is on Lua's path
    async with started(*arguments, cwd=folder) as neovim:
        assert await has_our_plugin(neovim)
        assert await neovim.person.lua("return require('drawbridge.program').root()") == str(plugin.directory())
        assert await neovim.person.lua(SETUP) is None
        assert await neovim.person.lua("return vim.g.foreign") is None


async def test_a_start_without_plugins_does_not_load_the_plugin(nvim: Path, folder: Path) -> None:
    async with started("-u", "NONE", cwd=folder) as neovim:
        assert not await has_our_plugin(neovim)


@pytest.mark.parametrize("way", ["runtimepath", "start", "opt", "lazy"])
async def test_the_users_copy_of_the_plugin_takes_precedence(nvim: Path, folder: Path, home: Path, way: str) -> None:
    if way in ("start", "opt"):
        own_copy(home / ".local/share/nvim/site/pack/mine" / way / "drawbridge")
    else:
        own_copy(home / "mine")
        configure(
            f"vim.opt.runtimepath:prepend('{home}/mine')"
            if way == "runtimepath"
            else f"package.loaded.lazy = {{ plugins = function() return {{ {{}}, {{ dir = '{home}/mine' }} }} end }}"
        )
    async with started(cwd=folder) as neovim:
        assert await neovim.person.lua("return vim.g.mine") == (1 if way in ("runtimepath", "start") else None)
        assert not await has_our_plugin(neovim)
        if way == "opt":
            await neovim.person.lua("vim.cmd('packadd drawbridge')")
            assert await neovim.person.lua("return vim.g.mine") == 1


async def test_a_rewritten_runtime_path_keeps_the_plugin(nvim: Path, folder: Path) -> None:
    configure("vim.o.runtimepath = vim.env.VIMRUNTIME")
    async with started(cwd=folder) as neovim:
        assert await has_our_plugin(neovim)


@contextlib.contextmanager
def on_a_terminal(folder: Path) -> Iterator[neovim_rig.Neovim]:
    """Starts Neovim in a terminal as a user would, and quits it at the end."""
    with Tmux.server() as tmux:
        pane = tmux.start("Neovim", [*COMMAND, "-n"], cwd=folder, environment=dict(os.environ))
        neovim = neovim_rig.Neovim(pane, Path(launcher.socket_path(str(folder), pane.pid)))
        neovim.wait_for("return vim.v.vim_did_enter == 1", what="did not start")
        yield neovim
        neovim.command("qa")
        assert pane.wait_for_exit() == 0


def lock_files() -> list[Path]:
    return list(Path(os.environ["CLAUDE_CONFIG_DIR"]).rglob("*.lock"))


def test_in_a_terminal_the_bridge_starts_without_configuration(nvim: Path, folder: Path) -> None:
    with on_a_terminal(folder) as neovim:
        neovim.wait_for("return require('drawbridge').status().state == 'listening'", what="has no bridge")
        assert neovim.lua("return require('drawbridge').status().program") == [*COMMAND[:-1]]
        assert len(lock_files()) == 1
    wait_until(lambda: None if lock_files() else True)


def test_auto_start_false_keeps_the_bridge_from_starting(nvim: Path, folder: Path) -> None:
    root = plugin.directory()
    configure(f"vim.opt.runtimepath:prepend('{root}') require('drawbridge').setup{{ auto_start = false }}")
    with on_a_terminal(folder) as neovim:
        copies = neovim.lua("return vim.api.nvim_get_runtime_file('plugin/drawbridge.lua', true)")
        assert copies == [str(root / "plugin/drawbridge.lua")]
        assert neovim.lua("return require('drawbridge').status().state") == "stopped"
    assert lock_files() == []
