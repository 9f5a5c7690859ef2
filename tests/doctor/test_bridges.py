"""Real bridges that work, hang or do not match their files, and files without a bridge."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from drawbridge.doctor import bridges
from drawbridge.ide.discovery import gemini_directory, lock_directory
from tests.doctor.conftest import Doctor
from tests.ide.processes import bridge
from tests.info.test_info import gone_pid


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def lock_file(port: int, **changed: Any) -> Path:
    """Writes a lock file as a bridge in this process would, except for the fields in ``changed``. Returns its path."""
    place = Path(lock_directory())
    place.mkdir(parents=True, exist_ok=True)
    content = {
        "pid": os.getpid(),
        "drawbridgePid": os.getpid(),
        "workspaceFolders": [os.getcwd()],
        "ideName": "Neovim",
        "transport": "ws",
        "authToken": "secret-token",
    }
    path = place / f"{port}.lock"
    path.write_text(json.dumps(content | changed))
    return path


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        port: int = made.getsockname()[1]
    return port


def test_a_missing_bridge_is_reported_as_a_note(doctor: Doctor) -> None:
    assert doctor().one("bridge-none")["severity"] == "note"


async def test_a_running_bridge_works_for_both_agents(doctor: Doctor, project: Path) -> None:
    async with bridge("--folder", project) as running:
        output = doctor()
        assert running.token not in output.output
    assert "accepts connections from Claude Code and Gemini CLI." in output.one("bridge-works")["title"]
    assert [id for id in output.wrong if id.startswith("bridge")] == []


async def test_doctor_does_not_replace_the_only_client(doctor: Doctor, project: Path) -> None:
    async with bridge("--folder", project, "--single-client") as running, running.dial() as claude:
        assert "bridge-works" in doctor().ids()
        await (await claude.ping())


def test_the_file_of_a_dead_bridge_is_reported(doctor: Doctor) -> None:
    gone = gone_pid()
    path = lock_file(closed_port(), pid=gone, drawbridgePid=gone)
    output = doctor()
    assert output.one("bridge-dead")["title"] == f"{path} names process {gone}, which has ended."
    assert output.one("bridge-dead")["todo"].endswith("doctor --fix` removes it.")
    assert output.code == 3


def test_files_that_a_fix_would_leave_are_to_be_removed_by_hand(doctor: Doctor) -> None:
    """``--fix`` leaves a file that can't be read, because it may be another program's."""
    gone = gone_pid()
    lock = lock_file(port := closed_port(), pid=gone, drawbridgePid=gone)
    unreadable = Path(gemini_directory()) / f"gemini-ide-server-{gone}-{port}.json"
    unreadable.parent.mkdir(parents=True)
    unreadable.write_text("[")
    assert doctor().one("bridge-dead")["todo"] == f"`rm {lock} {unreadable}` removes them."


def test_a_dead_bridge_whose_port_was_taken_gets_no_token(doctor: Doctor, listener: socket.socket) -> None:
    path = lock_file(listener.getsockname()[1], drawbridgePid=gone_pid())
    assert doctor().one("bridge-dead")["todo"] == f"`rm {path}` removes it."
    listener.settimeout(0)
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            break
        with connection:
            assert connection.recv(1) == b""


def test_a_file_of_another_dead_program_is_reported_as_a_note(doctor: Doctor) -> None:
    path = lock_file(closed_port(), pid=gone_pid(), drawbridgePid=None)
    output = doctor()
    assert str(path) in output.one("bridge-foreign-dead")["title"]
    assert output.code == 0


def test_a_port_that_refuses_is_reported(doctor: Doctor) -> None:
    port = closed_port()
    lock_file(port)
    title = f"Neovim's bridge on port {port} refuses connections, although its process is running."
    assert doctor().one("bridge-refused")["title"] == title


def test_a_bridge_that_does_not_answer_is_reported(
    doctor: Doctor, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridges, "SECONDS", 0.3)
    lock_file(listener.getsockname()[1])
    assert "does not answer Claude Code in time" in doctor().one("bridge-silent")["title"]


def test_a_bridge_that_sends_single_bytes_is_reported(
    doctor: Doctor, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridges, "SECONDS", 0.5)
    lock_file(listener.getsockname()[1])
    over = threading.Event()

    def dribble() -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            connections = []
            listener.settimeout(0.05)
            while not over.wait(0.05):
                with contextlib.suppress(TimeoutError):
                    connections.append(opened.enter_context(listener.accept()[0]))
                for connection in connections:
                    with contextlib.suppress(OSError):
                        connection.send(b"H")

    peer = threading.Thread(target=dribble)
    peer.start()
    try:
        assert doctor().wrong == ["bridge-silent"]
    finally:
        over.set()
        peer.join()


async def test_a_stopped_bridge_is_reported_for_both_agents(
    doctor: Doctor, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridges, "SECONDS", 0.3)
    async with bridge("--folder", project) as running:
        running.process.send_signal(signal.SIGSTOP)
        try:
            output = doctor()
        finally:
            running.process.send_signal(signal.SIGCONT)
    agents = [one["title"] for one in output.findings if one["id"] == "bridge-silent"]
    assert ["Claude Code" in title for title in sorted(agents)] == [True, False]


async def test_a_wrong_token_is_reported_for_each_agent(doctor: Doctor, project: Path, home: Path) -> None:
    """The bridge's own files are in another directory, since it would overwrite those with the wrong token."""
    elsewhere = home / "elsewhere"
    async with bridge("--folder", project, CLAUDE_CONFIG_DIR=str(elsewhere), TMPDIR=str(elsewhere)) as running:
        lock = lock_file(running.port, drawbridgePid=running.process.pid)
        other = Path(gemini_directory()) / f"gemini-ide-server-{os.getpid()}-{running.port}.json"
        other.parent.mkdir(parents=True)
        other.write_text(lock.read_text())
        output = doctor()
    titles = [one["title"] for one in output.findings if one["id"] == "bridge-token"]
    name = f"Neovim's bridge on port {running.port}"
    assert titles == [f"{name} refuses the token in {file}." for file in (lock, other)]
    assert "secret-token" not in output.output


async def test_a_port_of_another_program_is_reported(doctor: Doctor, project: Path) -> None:
    """A bridge that serves only Gemini CLI refuses Claude Code."""
    async with bridge("--folder", project, "--agent", "gemini") as running:
        lock_file(running.port, drawbridgePid=running.process.pid, authToken=running.token)
        output = doctor()
    assert "does not give Claude Code a valid answer" in output.one("bridge-invalid")["title"]


def test_a_file_that_is_not_valid_is_reported(doctor: Doctor) -> None:
    path = lock_file(closed_port())
    path.write_text("{")
    assert doctor().one("bridge-unreadable")["title"] == f"{path} can't be read as JSON."


async def test_a_directory_in_no_workspace_is_reported_as_a_note(doctor: Doctor, project: Path, home: Path) -> None:
    other = home / "other"
    other.mkdir()
    async with bridge("--folder", other):
        titles = [one["title"] for one in doctor().findings if one["id"] == "bridge-outside"]
    where = f"serves {project}. Folders with a bridge: {other}."
    assert titles == [f"No bridge for {name} {where}" for name in ("Claude Code", "Gemini CLI")]


def test_a_bridge_without_folders_is_reported_as_a_note(doctor: Doctor, listener: socket.socket) -> None:
    lock_file(listener.getsockname()[1], drawbridgePid=None, workspaceFolders=[])
    outside = doctor().one("bridge-outside")
    assert (outside["title"], outside["todo"]) == ("No bridge for Claude Code serves a folder.", "Start Neovim here.")


async def test_two_bridges_for_one_directory_are_reported(doctor: Doctor, project: Path) -> None:
    async with bridge("--folder", project), bridge("--folder", project):
        output = doctor()
    titles = [one["title"] for one in output.findings if one["id"] == "bridge-ambiguous"]
    assert [title.split(" serve ")[0] for title in titles] == [
        "Several bridges for Claude Code",
        "Several bridges for Gemini CLI",
    ]


async def test_a_bridge_with_another_config_directory_is_reported(doctor: Doctor, project: Path, home: Path) -> None:
    elsewhere = home / "elsewhere"
    async with bridge("--folder", project, "--agent", "claude", CLAUDE_CONFIG_DIR=str(elsewhere)) as running:
        output = doctor()
        assert psutil.pid_exists(running.process.pid)
    assert str(elsewhere / "ide") in output.one("bridge-other-config")["title"]


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"HTTPS_PROXY": "http://proxy:3128"}, False),
        ({"http_proxy": "http://proxy:3128"}, True),
        ({"ALL_PROXY": "socks5://proxy"}, True),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "localhost,127.0.0.1"}, False),
        ({"http_proxy": "http://proxy:3128", "NO_PROXY": "*"}, False),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "*.example"}, True),
    ],
)
def test_a_proxy_that_applies_to_this_machine_is_reported(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], named: bool
) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ("proxy" in doctor().ids()) == named
