"""``drawbridge info``: all editors, sockets, bridges and servers, as JSON and as text."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import cli_reference
from drawbridge.core import launcher
from drawbridge.ide.discovery import gemini_directory
from drawbridge.info import bridges, editors, guards
from drawbridge.info.report import Report
from drawbridge.info.screen import columns
from drawbridge.transport import running
from tests import programs
from tests.core.test_launcher import started
from tests.ide.processes import bridge, run
from tests.nvim.rig import Person, headless
from tests.rigs.tmux import Tmux
from tests.server.processes import serving

COMMAND = [sys.executable, "-P", "-m", "drawbridge", "info"]


@pytest.fixture(autouse=True)
def sockets(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory in which editors are looked for, so that a test does not find others on this machine."""
    place = os.environ["XDG_RUNTIME_DIR"]
    monkeypatch.setenv("DRAWBRIDGE_SOCKET_DIR", place)
    monkeypatch.setenv("DRAWBRIDGE_HOOK_SOCKET_DIR", place)
    monkeypatch.setenv("DRAWBRIDGE_HOOK_DEADLINE", "3000")  # other tests run at the same time
    return Path(place)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    made.mkdir()
    return made


@pytest.fixture(params=programs.each_nvim())
def nvim(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    program: Path = request.param
    monkeypatch.setenv("DRAWBRIDGE_NVIM_PROGRAM", str(program))
    return program


async def report(*arguments: str | Path, code: int = 0, **variables: str) -> dict[str, Any]:
    ended, output, errors = await run("info", "--json", *arguments, **variables)
    assert (ended, errors) == (code, "")
    reported: dict[str, Any] = json.loads(output)
    return reported


async def screen(*arguments: str | Path, code: int = 0, **variables: str) -> str:
    """The output of ``drawbridge info`` when it is redirected, so that no line is cut. ``code`` is the expected exit
    code.
    """
    ended, output, errors = await run("info", *arguments, **variables)
    assert (ended, errors) == (code, "")
    assert "\x1b" not in output
    return output


def section(text: str, title: str) -> list[str]:
    """The lines of the section with this title."""
    return text.partition(f"\n{title}\n")[2].partition("\n\n")[0].splitlines()


def dead(path: Path | str) -> str:
    """Creates a socket on which nothing listens, like one that a killed editor leaves behind. Returns its path."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return str(path)


def gone_pid() -> int:
    """The process ID of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


@contextlib.contextmanager
def mute(path: Path | str) -> Iterator[socket.socket]:
    """A socket that accepts connections but never answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        yield listener


@contextlib.asynccontextmanager
async def vscode(path: str, answer: Any) -> AsyncIterator[None]:
    """A fake VS Code extension, which answers each request with ``answer`` or, if it is a function, with its result."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            question = json.loads(line)
            result = answer(question["params"]) if callable(answer) else answer
            writer.write(json.dumps({"id": question["id"], "result": result}).encode() + b"\n")
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield


async def edits(person: Person, path: Path, text: str = "") -> None:
    """Opens a file in Neovim, and inserts ``text`` at its beginning."""
    await person.edits(path)
    if text:
        await person.lua("vim.api.nvim_buf_set_text(0, 0, 0, 0, 0, { ... })", text)


# Editors


async def test_each_neovim_is_listed_with_its_open_files(nvim: Path, folder: Path) -> None:
    for name in ("kept.txt", "typed in.txt", "current.txt"):
        (folder / name).write_text("one\n")
    async with started(cwd=folder) as neovim:
        await edits(neovim.person, folder / "kept.txt")
        await edits(neovim.person, folder / "typed in.txt", "more")
        await edits(neovim.person, folder / "current.txt")
        output = await report(folder)
        shown = section(await screen(folder), "Editors")
    version = ".".join(map(str, programs.nvim_version(nvim)))
    assert output["editors"] == [
        {
            "name": f"Neovim {version}",
            "kind": "neovim",
            "pid": neovim.process.pid,
            "here": True,
            "sockets": [neovim.path],
            "folders": [str(folder)],
            "files": [
                {"name": str(folder / "current.txt"), "modified": False, "current": True},
                {"name": str(folder / "typed in.txt"), "modified": True, "current": False},
                {"name": str(folder / "kept.txt"), "modified": False, "current": False},
            ],
            "agents": [],
        }
    ]
    assert output["sockets"] == [{"path": neovim.path, "kind": "neovim", "state": "live", "here": True, "problem": ""}]
    assert re.fullmatch(rf"  ● Neovim {version} +{re.escape(str(folder))} +pid {neovim.process.pid}", shown[0])
    assert [" ".join(line.split()) for line in shown[1:]] == [
        "▸ current.txt current",
        "typed in.txt unsaved",
        "kept.txt",
    ]


async def test_any_neovim_is_listed_and_those_elsewhere_are_last(
    nvim: Path, folder: Path, tmp_path: Path, sockets: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/unsaved.txt").write_text("")
    (tmp_path / "other/quiet.txt").write_text("")
    async with started(cwd=tmp_path / "other") as elsewhere, headless(nvim, cwd=folder) as person:
        await edits(elsewhere.person, tmp_path / "other/unsaved.txt", "x")
        await edits(elsewhere.person, tmp_path / "other/quiet.txt")
        own = await person.lua(
            "return vim.fn.serverstart(...)", f"{sockets}/nvim.{await person.lua('return vim.fn.getpid()')}.0"
        )
        output = await report(folder)
        shown = section(await screen(folder), "Editors")
        by_variable = await report(folder, DRAWBRIDGE_HOOK_SOCKET_DIR=str(tmp_path), NVIM=person.address, code=3)
    assert [(editor["here"], editor["folders"]) for editor in output["editors"]] == [
        (True, [str(folder)]),
        (False, [str(tmp_path / "other")]),
    ]
    assert output["editors"][0]["sockets"] == [own]
    assert [entry["path"] for entry in output["sockets"]] == [own, elsewhere.path]
    assert shown[1].endswith(f"pid {elsewhere.process.pid}, elsewhere")
    assert [line.split()[0] for line in shown[2:]] == [str(tmp_path / "other/unsaved.txt"), "·"]
    assert [entry["path"] for entry in by_variable["sockets"]] == [person.address]


async def test_two_sockets_of_one_editor_are_listed_as_one_editor(folder: Path, sockets: Path) -> None:
    async with headless(programs.nvim(), cwd=folder) as person:
        for number in range(2):
            await person.lua("return vim.fn.serverstart(...)", f"{sockets}/nvim.1.{number}")
        output = await report(folder)
    assert [editor["sockets"] for editor in output["editors"]] == [[f"{sockets}/nvim.1.0", f"{sockets}/nvim.1.1"]]


async def test_vs_code_is_shown_with_the_states_of_its_files(folder: Path) -> None:
    a, b = str(folder / "a.py"), str(folder / "b.py")

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        state = {a: (False, True), b: (True, False)}
        return {
            "editor": "VS Code 1.139.1", "pid": 4711, "folders": [str(folder)], "open": [a, b], "connected": [812],
            "unsaved": [{"name": b, "modified": True, "current": False, "visible": True, "lines": 3}],
            "files": [
                {"name": path, "modified": state[path][0], "current": state[path][1], "visible": True, "lines": 3}
                for path in params["paths"]
            ],
        }  # fmt: skip

    async with vscode(f"{launcher.socket_prefix(str(folder))}vscode-4711.sock", answer):
        output = await report(folder)
        shown = section(await screen(folder), "Editors")
    assert [file["name"] for file in output["editors"][0]["files"]] == [a, b]
    assert output["editors"][0]["agents"] == [812]
    assert output["sockets"][0]["kind"] == "vscode"
    assert [" ".join(line.split()) for line in shown] == [
        f"● VS Code 1.139.1 {folder} pid 4711",
        "▸ a.py current",
        "b.py unsaved",
        "· connected agents: pid 812",
    ]


async def test_unsaved_files_are_found_in_neovim_and_vs_code(nvim: Path, folder: Path) -> None:
    """The server asks for them before it writes files."""
    in_neovim, in_vscode, saved = (str(folder / name) for name in ("a.txt", "b.txt", "c.txt"))

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": path, "modified": path == in_vscode, "current": False} for path in params["paths"]]
        return {"editor": "VS Code 1.139.1", "pid": 4711, "folders": [str(folder)], "files": files}

    async with (
        started(cwd=folder) as neovim,
        vscode(f"{launcher.socket_prefix(str(folder))}vscode-4711.sock", answer),
    ):
        await edits(neovim.person, Path(in_neovim), "more")
        await edits(neovim.person, Path(saved))
        found = await asyncio.to_thread(editors.unsaved, [in_neovim, in_vscode, saved])
    assert found == {in_neovim: "Neovim", in_vscode: "VS Code"}


# Sockets


async def test_an_editor_that_does_not_answer_is_shown_as_silent(folder: Path) -> None:
    path = f"{launcher.socket_prefix(str(folder))}{os.getpid()}.sock"
    with mute(path):
        output = await report(folder, DRAWBRIDGE_HOOK_DEADLINE="50")
        shown = section(await screen(folder, DRAWBRIDGE_HOOK_DEADLINE="50"), "Editors")
    assert [(entry["state"], entry["problem"]) for entry in output["sockets"]] == [("silent", "did not answer in time")]
    assert output["editors"] == []
    assert [" ".join(line.split()) for line in shown] == [
        f"✗ silent {path} did not answer in time: unsaved changes unknown"
    ]


async def test_the_wait_for_a_silent_editor_happens_once(folder: Path) -> None:
    """The report asks the editors twice. Waiting again for a silent one would double the time that the report takes."""
    prefix = launcher.socket_prefix(str(folder))
    answer = {"editor": "VS Code", "pid": os.getpid(), "folders": [str(folder)], "open": [str(folder / "a.txt")]}
    answer["files"] = [{"name": str(folder / "a.txt"), "modified": False, "current": True}]
    async with vscode(f"{prefix}vscode-{os.getpid()}.sock", answer):
        with mute(f"{prefix}{os.getpid()}.sock") as silent:
            output = await report(folder, DRAWBRIDGE_HOOK_DEADLINE="500")
            requests = 0
            with contextlib.suppress(BlockingIOError):
                while True:
                    connection, _ = silent.accept()
                    with connection:
                        requests += bool(connection.recv(1))
    assert requests == 1
    assert [entry["state"] for entry in output["sockets"]] == ["silent", "live"]
    [editor] = output["editors"]
    assert editor["files"] == [{"name": str(folder / "a.txt"), "modified": False, "current": True}]


async def test_a_neovim_waiting_at_a_prompt_is_shown_with_the_reason(nvim: Path, folder: Path) -> None:
    async with started(cwd=folder) as neovim:
        await neovim.person.call("nvim_ui_attach", 80, 24, {})
        await neovim.person.call("nvim_input", ":echo 1 | echo 2<CR>")
        mode: dict[str, Any] = {}
        while not mode.get("blocking"):
            mode = await neovim.person.call("nvim_get_mode")
        output = await report(folder)
    assert [(entry["state"], entry["problem"]) for entry in output["sockets"]] == [("silent", "is waiting at a prompt")]


@pytest.mark.parametrize("nonsense", [None, 1, [], {"editor": 1, "pid": "x"}, {"files": 3}])
async def test_an_editor_that_answers_nonsense_is_shown_as_silent(folder: Path, nonsense: Any) -> None:
    async with vscode(f"{launcher.socket_prefix(str(folder))}vscode-1.sock", nonsense):
        output = await report(folder)
    assert [(entry["state"], entry["problem"]) for entry in output["sockets"]] == [("silent", "sent an invalid answer")]


async def test_only_sockets_of_ended_editors_are_removed(folder: Path, sockets: Path) -> None:
    prefix = launcher.socket_prefix(str(folder))
    left = [
        dead(f"{prefix}{gone_pid()}.sock"),
        dead(f"{prefix}vscode-{gone_pid()}.sock"),
        dead(sockets / f"nvim.{gone_pid()}.0"),
    ]
    starting = dead(f"{prefix}{os.getpid()}.sock")  # between bind and listen, a live socket looks the same
    before = await report(folder)
    assert {entry["path"]: entry["state"] for entry in before["sockets"]} == dict.fromkeys([*left, starting], "stale")
    assert before["swept"] == []
    assert all(map(os.path.exists, left))
    swept = await report(folder, "--sweep")
    assert sorted(swept["swept"]) == sorted(left)
    assert [entry["path"] for entry in swept["sockets"]] == [starting]
    assert os.listdir(sockets) == [os.path.basename(starting)]


async def test_a_file_with_the_name_of_a_socket_is_left_alone(folder: Path) -> None:
    path = Path(f"{launcher.socket_prefix(str(folder))}4711.sock")
    path.write_text("a trap")
    output = await report(folder, "--sweep")
    assert [(entry["state"], entry["problem"]) for entry in output["sockets"]] == [("not ours", "is not a socket")]
    assert path.read_text() == "a trap"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
async def test_another_users_socket_is_left_alone(folder: Path) -> None:
    path = f"{launcher.socket_prefix(str(folder))}4711.sock"
    with mute(path):
        os.lchown(path, 65_534, -1)
        output = await report(folder, "--sweep")
    assert [(entry["state"], entry["problem"]) for entry in output["sockets"]] == [
        ("not ours", "belongs to another user")
    ]
    assert os.path.exists(path)


async def test_an_editor_outside_the_guards_directories_is_a_problem(
    folder: Path, tmp_path: Path, sockets: Path
) -> None:
    """The report shows the setting that makes the guard find the editor."""
    with mute(f"{launcher.socket_prefix(str(folder))}4711.sock"):
        output = await report(folder, code=3, DRAWBRIDGE_HOOK_SOCKET_DIR=str(tmp_path))
        shown = await screen(folder, code=3, DRAWBRIDGE_HOOK_SOCKET_DIR=str(tmp_path))
    assert f"The guard does not look in {sockets}" in output["problems"][0]
    assert f'Add "{sockets}" to socket_dir' in " ".join(shown.split())


async def test_the_expected_socket_names_are_reported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    output = await report(tmp_path / "link")
    prefix = launcher.socket_prefix(str(folder))
    assert output["directory"] == str(folder)
    assert output["expected"] == {"neovim": f"{prefix}<pid>.sock", "vscode": f"{prefix}vscode-<pid>.sock"}


# Bridges


async def test_a_bridge_is_listed_with_its_files_but_not_its_token(folder: Path) -> None:
    async with bridge("--folder", folder) as running:
        ended, output, _ = await run("info", "--json", folder)
        shown = section(await screen(folder), "IDE bridges")
    assert ended == 0
    assert running.token not in output
    assert json.loads(output)["bridges"] == [
        {
            "port": running.port,
            "state": "live",
            "ours": True,
            "ide": "Terminal",
            "pid": running.process.pid,
            "drawbridge_pid": running.process.pid,
            "folders": [str(folder)],
            "files": {"claude": running.ready["lock_file"], "gemini": running.ready["discovery_file"]},
        }
    ]
    assert " ".join(shown[0].split()) == f"● {running.port} Terminal {folder} claude, gemini"


def lock_file(port: int, **content: Any) -> Path:
    directory = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "ide"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{port}.lock").write_text(json.dumps(content))
    return directory / f"{port}.lock"


async def test_only_files_of_our_dead_bridges_are_stale_and_removed(folder: Path) -> None:
    pid = gone_pid()
    ours = lock_file(1, pid=pid, workspaceFolders=[str(folder)], ideName="Neovim", drawbridgePid=pid, authToken="t")
    other = lock_file(2, pid=pid, workspaceFolders=["/x"], ideName="WebStorm")
    broken = other.with_name("3.lock")
    broken.write_bytes(b"\xff")
    output = await report(folder)
    assert [(found["port"], found["state"], found["ours"], found["ide"]) for found in output["bridges"]] == [
        (1, "stale", True, "Neovim"),
        (2, "stale", False, "WebStorm"),
        (3, "unreadable", False, ""),
    ]
    swept = await report(folder, "--sweep")
    assert swept["swept"] == [str(ours)]
    assert [found["port"] for found in swept["bridges"]] == [2, 3]
    assert (ours.exists(), other.exists(), broken.exists()) == (False, True, True)


async def test_sweeping_is_suggested_only_if_it_removes_all_files(folder: Path) -> None:
    pid = gone_pid()
    lock_file(1, pid=pid, workspaceFolders=[str(folder)], ideName="Neovim", drawbridgePid=pid, authToken="t")
    assert "`--sweep` removes it" in "".join(section(await screen(folder), "IDE bridges"))
    unreadable = Path(gemini_directory()) / f"gemini-ide-server-{pid}-1.json"
    unreadable.parent.mkdir(parents=True)
    unreadable.write_text("[")
    assert "--sweep" not in "".join(section(await screen(folder), "IDE bridges"))


async def test_an_ended_bridge_is_stale_even_if_its_port_is_in_use(folder: Path) -> None:
    """A bridge with another HOME may leave such a file, because all bridges of a user share Gemini CLI's directory."""
    directory = Path(gemini_directory())
    directory.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        left = directory / f"gemini-ide-server-{gone_pid()}-{port}.json"
        left.write_text(json.dumps({"port": port, "workspacePath": str(folder), "drawbridgePid": gone_pid()}))
        [found] = (await report(folder))["bridges"]
        assert (found["state"], found["ours"]) == ("stale", True)
        [line] = section(await screen(folder), "IDE bridges")
        assert "stale, gemini" in line


# Agent servers


async def test_a_running_server_with_any_data_directory_is_shown(folder: Path, tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as server:
        (found,) = (await report(folder))["servers"]
        assert found == {
            "pid": server.ready["pid"],
            "url": server.url,
            "pages": [server.url.replace("ws", "http", 1).removesuffix("ws")],
            "data_dir": str(server.data),
            "state": "live",
        }
        line = section(await screen(folder), "Agent servers")[0]
        assert "●" in line
        assert f"pid {server.ready['pid']}" in line
        assert found["pages"][0] in line
    assert (await report(folder))["servers"] == []


async def test_a_server_that_does_not_answer_is_shown_as_silent(folder: Path, tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as server:
        os.kill(server.ready["pid"], signal.SIGSTOP)
        try:
            (found,) = (await report(folder))["servers"]
        finally:
            os.kill(server.ready["pid"], signal.SIGCONT)
        assert found["state"] == "silent"


async def test_a_killed_server_is_not_shown(folder: Path, tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as server:
        await server.end(signal.SIGKILL)
        assert (await report(folder))["servers"] == []


# The screen


async def test_an_empty_report_shows_what_to_run(folder: Path) -> None:
    shown = await screen(folder)
    assert shown.startswith(f"Drawbridge  {folder}\n\nEditors\n  ○ none")
    for title, hint in {
        "Editors": "drawbridge nvim",
        "Guard": "drawbridge setup claude",
        "Agent servers": "serve` starts one",
    }.items():
        assert hint in section(shown, title)[0]
    assert "To fix" not in shown


async def test_control_characters_in_names_are_escaped(folder: Path) -> None:
    name = "a\x1b]0;owned\x07\n\u202eb"
    snapshot = {"editor": f"VS {name}", "pid": 1, "folders": [f"/{name}"], "open": [], "unsaved": []}
    async with vscode(f"{launcher.socket_prefix(str(folder))}vscode-1.sock", snapshot):
        shown = await screen(folder)
    lock_file(2, pid=1, workspaceFolders=[f"/{name}"], ideName=name)
    shown += await screen(folder)
    assert r"VS a\x1b]0;owned\x07\x0a\u202eb" in shown
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", shown)


async def test_a_terminal_without_unicode_gets_ascii(folder: Path) -> None:
    shown = await screen(folder, PYTHONIOENCODING="ascii")
    assert shown.isascii()
    assert "o none" in section(shown, "Editors")[0]


@pytest.mark.parametrize("colorless", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_output_fits_80_columns_and_respects_no_color(folder: Path, colorless: bool) -> None:
    deep = folder / ("directory-with-quite-a-name/" * 4) / "ein-日本語のファイル.txt"
    lock_file(2, pid=1, workspaceFolders=[str(deep)] * 3, ideName="An IDE of some renown")
    short_name = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    }  # so that the command is shown as `drawbridge`, wherever the checkout is
    environment = dict(os.environ) | short_name | ({"NO_COLOR": "1"} if colorless else {})
    with Tmux.server(columns=80, rows=50) as tmux, mute(f"{launcher.socket_prefix(str(folder))}4711.sock"):
        shell = ["sh", "-c", '"$@"; echo "ended: $?"; read line', "sh"]
        pane = tmux.start("info", [*shell, *COMMAND, str(folder)], cwd=folder, environment=environment)
        plain = pane.wait_for("ended: 0").splitlines()
        painted = tmux.run("capture-pane", "-e", "-p", "-t", pane.id)
    assert plain[0].startswith("Drawbridge  ")
    assert "An IDE of some renown" in "\n".join(plain)
    assert any("4711.sock" in line for line in plain)
    assert all(columns(line) <= 80 for line in plain)
    assert [line for line in plain if line.startswith("    ") and "·" not in line and "▸" not in line] == []
    assert ("\x1b[1;31m" in painted or "\x1b[1m\x1b[31m" in painted) is not colorless


# Invalid arguments, and the documentation


async def test_invalid_arguments_are_reported(tmp_path: Path) -> None:
    ended, output, errors = await run("info", tmp_path / "missing")
    assert (ended, output) == (2, "")
    assert errors == f"drawbridge info: {tmp_path / 'missing'} is not a directory. Name one that exists.\n"
    ended, output, errors = await run("info", tmp_path, DRAWBRIDGE_HOOK_DEADLINE="soon")
    assert (ended, output) == (2, "")
    assert "DRAWBRIDGE_HOOK_DEADLINE must be a whole number" in errors


def test_every_key_of_the_json_is_described() -> None:
    page = cli_reference.PAGE.read_text().partition("## drawbridge info")[2].partition("\n## ")[0]
    described = {
        key
        for keys in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page, re.MULTILINE)
        for key in re.findall(r"\w+", keys)
    }
    types = [
        Report,
        editors.Editor,
        editors.OpenFile,
        editors.Socket,
        bridges.Bridge,
        guards.Guard,
        guards.Permissions,
        running.Server,
    ]
    keys = {field.name for kind in types for field in dataclasses.fields(kind)} | {"neovim", "vscode"}
    assert described == keys
