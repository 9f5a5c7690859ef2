"""Gemini CLI's discovery file: its location and content, who may read it, when it is removed, and what is never
touched."""

from __future__ import annotations

import json
import os
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from drawbridge.core.errors import NotPrivate
from drawbridge.ide.discovery import GeminiFile, folders_with_separator, gemini_directory, sweep
from tests.ide.processes import bridge

PORT = 41_923


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "gemini" / "ide"


@pytest.fixture
def file(directory: Path) -> GeminiFile:
    return GeminiFile(str(directory), PORT, "the-token")


def link_of(folder: str) -> str:
    return f"workspace-{sha256(folder.encode()).hexdigest()[:8]}-latest.json"


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({}, "/tmp"),
        ({"TEMP": "/c"}, "/c"),
        ({"TEMP": "/c", "TMP": "/b"}, "/b"),
        ({"TEMP": "/c", "TMP": "/b", "TMPDIR": "/a"}, "/a"),
        ({"TEMP": "/c", "TMPDIR": ""}, "/c"),
        ({"TMPDIR": "/a/"}, "/a"),
        ({"TMPDIR": "/a//"}, "/a/"),
        ({"TMPDIR": "/"}, "/"),
        ({"TMPDIR": "/not/there"}, "/not/there"),
    ],
)
def test_the_file_is_in_nodejs_temporary_directory(environ: dict[str, str], root: str) -> None:
    assert gemini_directory(environ) == os.path.join(root, "gemini", "ide")


def test_the_file_contains_what_the_cli_needs_and_the_pid(directory: Path, file: GeminiFile) -> None:
    file.write(4711, "Neovim", ["/home/ada/project", "/home/ada/größe"])
    assert file.path == str(directory / f"gemini-ide-server-4711-{PORT}.json")
    assert json.loads(Path(file.path).read_bytes()) == {
        "port": PORT,
        "workspacePath": "/home/ada/project:/home/ada/größe",
        "authToken": "the-token",
        "ideInfo": {"name": "neovim", "displayName": "Neovim"},
        "drawbridgePid": os.getpid(),
    }


def test_only_the_user_can_read_the_file(directory: Path, file: GeminiFile) -> None:
    file.write(1, "Neovim", ["/"])
    assert stat.S_IMODE(os.stat(file.path).st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert sorted(os.listdir(directory)) == [f"gemini-ide-server-1-{PORT}.json", link_of("/")]


def test_a_folder_with_a_colon_in_its_name_is_left_out(file: GeminiFile) -> None:
    folders = ["/a", "/b:c", "/d"]
    assert folders_with_separator(folders) == ["/b:c"]
    file.write(1, "Neovim", folders)
    assert json.loads(Path(file.path).read_bytes())["workspacePath"] == "/a:/d"


def test_the_file_is_renamed_when_the_editors_pid_changes(directory: Path, file: GeminiFile) -> None:
    file.write(4711, "Neovim", ["/a"])
    file.write(4712, "Neovim", ["/b"])
    assert sorted(os.listdir(directory)) == [f"gemini-ide-server-4712-{PORT}.json", link_of("/b")]
    assert json.loads(Path(file.path).read_bytes())["workspacePath"] == "/b"


def test_a_removed_file_is_not_written_again(directory: Path, file: GeminiFile) -> None:
    file.remove()
    file.write(1, "Neovim", ["/a"])
    assert not directory.exists()
    file = GeminiFile(str(directory), PORT, "the-token")
    file.write(1, "Neovim", ["/a"])
    file.remove()
    file.write(1, "Neovim", ["/a"])
    assert os.listdir(directory) == []


# the link that is named after the workspace


def test_the_first_folders_link_points_to_the_file(directory: Path, file: GeminiFile) -> None:
    file.write(1, "Neovim", ["/a", "/b"])
    assert os.readlink(directory / link_of("/a")) == file.path
    assert not (directory / link_of("/b")).exists()


def test_the_newest_bridge_of_a_folder_keeps_the_link(directory: Path, file: GeminiFile) -> None:
    file.write(1, "Neovim", ["/a"])
    later = GeminiFile(str(directory), PORT + 1, "another")
    later.write(1, "Neovim", ["/a"])
    file.remove()
    assert os.readlink(directory / link_of("/a")) == later.path
    later.remove()
    assert os.listdir(directory) == []


@pytest.mark.parametrize("content", ["", "{}", '{"port": 1}', "no JSON"])
def test_a_foreign_file_instead_of_the_link_stays(directory: Path, file: GeminiFile, content: str) -> None:
    directory.mkdir(parents=True)
    foreign = directory / link_of("/a")
    foreign.write_text(content)
    file.write(1, "Neovim", ["/a"])
    file.remove()
    assert foreign.read_text() == content
    assert os.listdir(directory) == [foreign.name]


def test_without_symbolic_links_a_copy_replaces_the_link(
    directory: Path, file: GeminiFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "symlink", _no_links)
    file.write(1, "Neovim", ["/a"])
    plain = directory / link_of("/a")
    assert plain.read_bytes() == Path(file.path).read_bytes()
    assert stat.S_IMODE(plain.stat().st_mode) == 0o600
    file.write(1, "Neovim", ["/b"])
    assert not plain.exists()
    file.remove()
    assert os.listdir(directory) == []


# the sweep


def left_by_a_killed_bridge(directory: Path, monkeypatch: pytest.MonkeyPatch, *, plain: bool = False) -> None:
    """Creates all the files that a killed bridge leaves behind. Its process has ended, and its port is closed."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 2**22 + 1)  # above the largest that Linux assigns
        if plain:
            patch.setattr(os, "symlink", _no_links)
        GeminiFile(str(directory), 1, "t").write(4711, "Neovim", ["/a"])


def _no_links(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("plain", [False, True])
def test_the_files_of_a_killed_bridge_are_removed(
    directory: Path, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    left_by_a_killed_bridge(directory, monkeypatch, plain=plain)
    assert len(os.listdir(directory)) == 2
    assert len(sweep(str(directory))) == 2
    assert os.listdir(directory) == []


def test_the_link_of_a_running_bridge_is_kept(
    directory: Path, file: GeminiFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by_a_killed_bridge(directory, monkeypatch)
    file.write(4712, "Neovim", ["/a"])
    assert sweep(str(directory)) == [str(directory / "gemini-ide-server-4711-1.json")]
    assert (directory / link_of("/a")).exists()


def test_other_companions_files_are_never_touched(directory: Path) -> None:
    directory.mkdir(parents=True)
    content = {"port": 1, "workspacePath": "/a", "authToken": "t", "ideInfo": {"name": "vscode", "displayName": "V"}}
    for name in ("gemini-ide-server-4711-1.json", "gemini-ide-server-4711.json", "qwen-code-ide-server-4711-1.json"):
        (directory / name).write_text(json.dumps(content))
    assert sweep(str(directory)) == []
    assert len(os.listdir(directory)) == 3


# a real bridge


def test_an_unusable_directory_is_reported_with_the_reason(directory: Path, file: GeminiFile) -> None:
    directory.parent.write_text("a file")
    with pytest.raises(NotPrivate, match=r"gemini/ide can't be made a private directory: not a directory"):
        file.write(1, "Neovim", ["/"])
    assert file.path == ""


async def test_the_discovery_file_exists_only_while_the_bridge_runs(tmp_path: Path) -> None:
    """The ready line of the bridge contains the path of the file."""
    async with bridge("--folder", tmp_path) as running:
        file = Path(running.ready["discovery_file"])
        assert file == Path(gemini_directory()) / f"gemini-ide-server-{running.process.pid}-{running.port}.json"
        content = json.loads(file.read_bytes())
        assert content["workspacePath"] == str(tmp_path)
        assert content["ideInfo"] == {"name": "terminal", "displayName": "Terminal"}
        assert (content["port"], content["authToken"]) == (running.port, running.token)
        await running.end()
        assert os.listdir(file.parent) == []


async def test_without_gemini_no_discovery_file_is_written(tmp_path: Path) -> None:
    async with bridge("--folder", tmp_path, "--agent", "claude") as running:
        assert "discovery_file" not in running.ready
        assert not Path(gemini_directory()).exists()


async def test_without_claude_no_lock_file_is_written(tmp_path: Path, home: Path) -> None:
    async with bridge("--folder", tmp_path, "--agent", "gemini") as running:
        assert "lock_file" not in running.ready
        assert Path(running.ready["discovery_file"]).exists()
        assert not (home / ".claude" / "ide").exists()
