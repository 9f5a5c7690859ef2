"""Directories suggested for a new project: recent ones and git work trees below the roots, except those in projects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drawbridge.server.sessions.directories import allowed_directories
from drawbridge.server.sessions.directories.allowed_directories import AllowedDirectories, repositories, suggested
from tests.server.auth.rig import code_of
from tests.server.core_rig import Client
from tests.server.core_rig import serving as core_serving
from tests.server.processes import serving
from tests.server.terminal_sessions.socket_rig import Session, socket_rig


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "home"
    for name in ("a/.git", "work/b/.git", "work/b/inner/.git", "work/deep/er/.git", ".hidden/c/.git", "empty"):
        (root / name).mkdir(parents=True)
    (root / "linked").mkdir()
    (root / "linked" / ".git").write_text("gitdir: ../a/.git/worktrees/linked\n")  # as in a linked work tree
    (root / "link").symlink_to(root / "a")
    monkeypatch.setenv("HOME", str(root))
    return root


def found(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in repositories([root])[0]]


def test_repositories_are_found_two_levels_down(root: Path) -> None:
    assert found(root) == ["a", "linked", "work/b"]
    assert repositories([root])[1] is False


def test_the_search_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed_directories, "MOST_SEARCHED", 2)
    assert repositories([root])[1] is True
    monkeypatch.undo()
    monkeypatch.setattr(allowed_directories, "SEARCH_SECONDS", -1.0)
    assert repositories([root]) == ([], True)


def test_unreadable_directories_are_skipped(root: Path) -> None:
    assert repositories([root / "nothing", root / "linked" / ".git", root])[0] == repositories([root])[0]


def test_recent_directories_are_first_and_listed_once(root: Path, tmp_path: Path) -> None:
    used = [(root / "empty", "2026-01-01"), (root / "work" / "b", "2026-01-03"), (root / "empty", "2026-01-02")]
    made = suggested(AllowedDirectories([root], tmp_path / "data"), [], used, lambda path: True)
    assert made.recent == [root / "work" / "b", root / "empty"]
    assert made.repositories == [root / "a", root / "linked"]
    assert made.home == root


def test_only_free_and_allowed_directories_are_suggested(root: Path, tmp_path: Path) -> None:
    """Projects, directories inside or around a project, missing directories, directories outside of the roots, and
    directories that the client may not see are left out.
    """
    used = [(root / "gone", "1"), (tmp_path, "1"), (root / ".hidden" / "c", "1"), (root / "a" / ".git", "1")]
    hidden = root / "linked"
    made = suggested(AllowedDirectories([root], tmp_path / "data"), [root / "a"], used, lambda path: path != hidden)
    assert (made.recent, made.repositories) == ([], [root / "work" / "b"])


def test_the_home_directory_is_not_searched_unless_it_is_allowed(root: Path, tmp_path: Path) -> None:
    made = suggested(AllowedDirectories([root / "work"], tmp_path / "data"), [], [], lambda path: True)
    assert (made.recent, made.repositories) == ([], [root / "work" / name for name in ("b", "deep/er")])
    assert made.home is None


async def test_a_deleted_project_counts_as_recent(tmp_path: Path) -> None:
    async with core_serving(tmp_path) as server:
        project = await server.project(Client())
        await server.does(Client(), "project_delete", project)
        answer = await server.does(Client(), "place_list")
    assert answer["data"]["places"] == [{"path": str(server.root / "one"), "source": "recent"}]


async def test_the_directory_of_a_terminal_session_counts_as_recent(tmp_path: Path) -> None:
    async with socket_rig(tmp_path) as rig:
        directory = rig.folder / "poems"
        directory.mkdir()
        await Session(rig, directory).reports("SessionStart", source="startup")
        places = (await rig.does("place_list"))["data"]["places"]
    assert {"path": str(directory), "source": "recent"} in places


async def test_a_directory_an_agent_worked_in_counts_as_recent(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("poems", "blog"):
        (home / name).mkdir(parents=True)
    claude, gemini = home / ".claude" / "projects" / "-poems", home / ".gemini" / "tmp" / "blog"
    claude.mkdir(parents=True)
    (claude / "11111111-1111-4111-8111-111111111111.jsonl").write_text(f'{{"type":"user","cwd":"{home}/poems"}}\n')
    (gemini / "chats").mkdir(parents=True)
    (gemini / ".project_root").write_text(f"{home}/blog\n")
    (gemini / "chats" / "session-2026-01-01T10-00-11111111.jsonl").write_text("{}\n")
    os.utime(gemini / "chats" / "session-2026-01-01T10-00-11111111.jsonl", (1, 1))
    async with (
        serving(tmp_path / "data", "--no-tls", HOME=str(home), CLAUDE_CONFIG_DIR=str(home / ".claude")) as server,
        server.client() as client,
    ):
        places = (await client.ask("place_list"))["data"]["places"]
    assert places == [{"path": str(home / name), "source": "recent"} for name in ("poems", "blog")]


async def test_a_client_can_use_a_tilde_for_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / "home" / "code" / "blog").mkdir(parents=True)
    home = {"HOME": str(tmp_path / "home")}
    async with (
        serving(tmp_path / "data", "--no-tls", **home) as server,
        server.client() as client,
    ):
        for path, directories in (("~", ["code"]), ("~/code", ["blog"])):
            answer = (await client.ask("dir_list", {"path": path}))["data"]
            assert answer["directories"] == directories
            assert answer["path"] == f"{tmp_path}/home{path[1:]}"
        for path in ("~/..", "~root", "~/nothing"):
            assert code_of(await client.ask("dir_list", {"path": path})) == "INVALID_PATH"
        assert (await client.ask("place_list"))["data"]["home"] == str(tmp_path / "home")
