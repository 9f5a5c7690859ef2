"""Sockets are opened and closed with the windows of a real VS Code and their folders. Invalid input does no harm."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import blake3
import pytest

from drawbridge.core import launcher
from drawbridge.guard import find

from .rig import Lines, VSCode, Window, wait_until
from .workstation import Workstation

pytestmark = pytest.mark.thorough

ADD_FOLDER = """
const { workspace, Uri } = vscode;
workspace.updateWorkspaceFolders(workspace.workspaceFolders.length, 0, { uri: Uri.file(argument) });
"""
DROP_FOLDER = "vscode.workspace.updateWorkspaceFolders(vscode.workspace.workspaceFolders.length - 1, 1)"


def name(folder: Path, window: Window) -> str:
    return f"{blake3.blake3(os.fsencode(folder)).hexdigest()}-vscode-{window.pid}.sock"


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_each_folder_has_a_private_socket_that_the_guard_finds(rig: Workstation, vscode: VSCode) -> None:
    sockets = rig.window.sockets()
    folders = [vscode.directory / "one", vscode.directory / "two"]
    assert {path.name for path in sockets} == {name(folder, rig.window) for folder in folders}
    environment = {launcher.DIRECTORY: str(vscode.sockets)}
    for folder in folders:
        assert f"{launcher.socket_prefix(str(folder), environment)}vscode-{rig.window.pid}.sock" in map(str, sockets)
    for path in sockets:
        status = path.lstat()
        assert stat.S_ISSOCK(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == 0o600
        assert status.st_uid == os.geteuid()
        assert find.pid_in(path.name) == rig.window.pid
    found = dict(find.sockets((str(vscode.sockets),), {}))
    assert {path: kind for path, kind in found.items() if path in map(str, sockets)} == dict.fromkeys(
        map(str, sockets), "vscode"
    )


@pytest.mark.slow
def test_closing_a_window_removes_only_its_own_socket(rig: Workstation, vscode: VSCode) -> None:
    folder = vscode.directory / "three"
    folder.mkdir()
    (vscode.directory / "link").symlink_to(folder)
    with contextlib.closing(vscode.window(vscode.directory / "link")) as window:
        assert [path.name for path in window.sockets()] == [name(folder, window)]
    wait_until(lambda: not window.sockets(), "the socket's end")
    wait_until(lambda: not is_alive(window.pid), "the extension host's end")
    assert len(rig.window.sockets()) == 2
    assert list(vscode.sockets.glob(".*")) == []


@pytest.mark.slow
def test_a_window_without_a_folder_has_a_socket_for_the_home(rig: Workstation, vscode: VSCode) -> None:
    path = rig.file("single.py")
    with contextlib.closing(vscode.window()) as window:
        assert [path.name for path in window.sockets()] == [name(vscode.home, window)]
        lonely = Workstation(window, vscode, rig.folder)
        lonely.opens(path)
        lonely.types("mine ")
        found = lonely.snapshot(path, want=["open"])
        assert found["files"][0] == {"name": str(path), "modified": True, "current": True, "visible": True, "lines": 3}
        assert found["folders"] == []
        assert rig.state(path) is None
        lonely.clear()


def test_a_folders_socket_is_opened_and_closed_with_it(rig: Workstation, vscode: VSCode) -> None:
    folder = vscode.directory / "four"
    folder.mkdir()
    before = rig.window.sockets()
    rig.window.run(ADD_FOLDER, str(folder))
    wait_until(lambda: len(rig.window.sockets()) == 3, "the folder's socket")
    (fresh,) = set(rig.window.sockets()) - set(before)
    assert fresh.name == name(folder, rig.window)
    rig.socket = fresh
    assert rig.snapshot(want=["open"])["folders"][-1] == str(folder)
    rig.window.run(DROP_FOLDER)
    wait_until(lambda: rig.window.sockets() == before, "the socket's end")


def test_a_restart_reopens_a_lost_socket(rig: Workstation) -> None:
    before = rig.window.sockets()
    before[0].unlink()
    rig.does("drawbridge.restart")
    wait_until(lambda: rig.window.sockets() == before, "the sockets")
    assert rig.ask("get_visual_selection") is None


def test_a_socket_that_cannot_be_opened_is_reported(rig: Workstation) -> None:
    lost = rig.socket
    lost.unlink()
    lost.write_text("somebody's")
    rig.does("drawbridge.restart")
    item = "#drawbridge\\.drawbridge\\.drawbridge\\.status"
    wait_until(lambda: "Drawbridge" in "".join(rig.window.sees(item)), "the warning")
    assert lost.read_text() == "somebody's"
    rig.socket = next(path for path in rig.window.sockets() if path != lost)
    assert rig.ask("get_visual_selection") is None
    lost.unlink()
    rig.does("drawbridge.restart")
    wait_until(lambda: "Drawbridge" not in "".join(rig.window.sees(item)), "the warning's end")
    wait_until(lost.is_socket, "the socket")


# invalid input

QUESTIONS: dict[str, list[Any]] = {
    "snapshot": [
        {"paths": "x"},
        {"paths": [1]},
        {"paths": ["relative"]},
        {"paths": ["/a\0b"]},
        {"paths": [], "want": "open"},
    ],
    "buffer_status": [{}, {"file_path": 7}, {"file_path": ""}, {"file_path": "relative.py"}],
    "refresh_buffer": [{"file_path": None}, {"file_path": "a"}, {"backups": 1}, {"backups": "relative"}],
    "send_message": [{}, {"message": 7}, {"message": " "}, {"message": "x", "file_path": "relative"}],
    "buffer_text": [{}, {"file_path": ["/a"]}],
    "save_buffer": [{}, {"file_path": {}}],
    "merge_buffer": [{}, {"file_path": "/a", "edits": []}, {"file_path": "/a", "version": "1", "edits": []}],
    "diagnostics": [{}, {"file_path": "relative"}],
}


NAMES = {"params", "paths", "want", "file_path", "backups", "message", "version", "edits"}


@pytest.mark.slow_for("buffer_status", "buffer_text", "diagnostics", "merge_buffer", "refresh_buffer", "send_message")
@pytest.mark.parametrize("method", QUESTIONS)
def test_invalid_parameters_are_reported_and_change_nothing(rig: Workstation, method: str) -> None:
    path = rig.opens(rig.file("a.py"))
    rig.types("mine ")
    questions: list[Any] = [*QUESTIONS[method], [], "x", None]
    for params in questions:
        with Lines(rig.socket) as lines:
            answer = lines.ask(id="7", method=method, params=params)
        assert (answer["id"], answer["error"]["code"]) == ("7", -32602), params
        assert answer["error"]["message"].partition(":")[0] in NAMES
    assert rig.document(path) == {"text": "mine one\ntwo\nthree\n", "dirty": True}
    assert path.read_text() == "one\ntwo\nthree\n"
    assert rig.notices() == []


@pytest.mark.slow
def test_invalid_lines_are_answered_and_the_connection_continues(rig: Workstation) -> None:
    with Lines(rig.socket) as lines:
        lines.send(b'nonsense\n\xff\xfe\n{"id": 4, "method": "explode"}\n{"id": 5, "method": "get_visual_selection"}\n')
        answers = [lines.receive() for _ in range(4)]
    assert [(answer["id"], answer.get("error", {}).get("code")) for answer in answers] == [
        (None, -32700),
        (None, -32700),
        (4, -32601),
        (5, None),
    ]


@pytest.mark.slow
def test_an_endless_line_ends_only_its_own_connection(rig: Workstation) -> None:
    with Lines(rig.socket) as patient, Lines(rig.socket) as lines:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(9):
                lines.send(b"x" * 1024 * 1024)
        with contextlib.suppress(ConnectionResetError):
            assert lines.socket.recv(1) == b""
        assert patient.ask(id=1, method="get_visual_selection") == {"id": 1, "result": None}


@pytest.mark.slow
def test_silent_or_lost_connections_do_not_delay_others(rig: Workstation) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(30)]
    try:
        for number, connected in enumerate(silent):
            connected.connect(str(rig.socket))
            if number % 2:
                connected.sendall(json.dumps({"id": 1, "method": "snapshot"}).encode() + b"\n{")
                connected.close()
        assert rig.ask("get_visual_selection") is None
    finally:
        for connected in silent:
            connected.close()
