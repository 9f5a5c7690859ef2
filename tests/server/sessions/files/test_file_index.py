"""The list of a project's files: the state of each file in git, how the list is searched, how long a search takes, and
how old the list may be.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.agents.base import Confinement
from drawbridge.agents.memory import MemoryWatch
from drawbridge.core.privacy import Privacy
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.replies import FileEntries
from drawbridge.server.sessions.files import file_index
from drawbridge.server.sessions.files.file_index import FileIndex, FileIndexes, listed, matching, parsed
from drawbridge.server.sessions.files.files import Project
from tests import programs
from tests.waiting import until

PRIVACY = Privacy()


def git(folder: Path, *words: str) -> None:
    command = [str(programs.git()), "-c", "user.name=Ada", "-c", "user.email=ada@example", *words]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "src" / "inner").mkdir(parents=True)
    for name in ("a.txt", "src/bridge.py", "src/inner/deep.py", "gone.txt", "src/gone.py"):
        (folder / name).write_text("one\n")
    (folder / ".gitignore").write_text("build/\n*.log\n")
    return folder


@pytest.fixture
def repository(folder: Path) -> Path:
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


@pytest.fixture
async def indexes() -> AsyncIterator[FileIndexes]:
    made = FileIndexes(Confinement(), MemoryWatch(None))
    yield made
    await made.close()


def project_of(folder: Path) -> Project:
    return Project(folder, folder.parent / "data", PRIVACY)


def statuses(found: FileEntries) -> dict[str, str | None]:
    return {entry.path: entry.status for entry in found.entries}


def names(found: FileEntries) -> list[str]:
    return [entry.path for entry in found.entries]


# with git


async def test_a_directory_shows_what_has_changed(repository: Path, indexes: FileIndexes) -> None:
    (repository / "src" / "bridge.py").write_text("two\n")
    (repository / "new.txt").write_text("")
    (repository / "added.txt").write_text("")
    git(repository, "add", "added.txt")
    (repository / "gone.txt").unlink()
    (repository / "build").mkdir()
    (repository / "build" / "out").write_text("")
    (repository / "x.log").write_text("")
    found = await listed(project_of(repository), "", indexes)
    assert found.git
    assert statuses(found) == {
        "build": None,
        "src": "M",
        ".gitignore": None,
        "a.txt": None,
        "added.txt": "A",
        "gone.txt": "D",
        "new.txt": "?",
        "x.log": None,
    }
    assert [entry.path for entry in found.entries if entry.ignored] == ["build", "x.log"]


async def test_a_subdirectory_shows_its_own_files(repository: Path, indexes: FileIndexes) -> None:
    (repository / "src" / "gone.py").unlink()
    found = await listed(project_of(repository), "src", indexes)
    assert statuses(found) == {"src/inner": None, "src/bridge.py": None, "src/gone.py": "D"}


@pytest.mark.parametrize("staged", [False, True])
async def test_a_deleted_directory_is_listed(repository: Path, indexes: FileIndexes, staged: bool) -> None:
    shutil.rmtree(repository / "src" / "inner")
    if staged:
        git(repository, "add", ".")
    project = project_of(repository)
    assert statuses(await listed(project, "src", indexes))["src/inner"] == "D"
    assert names(await listed(project, "", indexes)).count("src") == 1
    found = await listed(project, "src/inner", indexes)
    assert statuses(found) == {"src/inner/deep.py": "D"}
    with pytest.raises(ClientError, match="no such"):
        await listed(project, "src/other", indexes)


async def test_a_project_in_a_subdirectory_lists_only_its_own_files(repository: Path, indexes: FileIndexes) -> None:
    """Paths are relative to the project, and nothing outside it is listed."""
    (repository / "src" / "bridge.py").write_text("two\n")
    (repository / "a.txt").write_text("two\n")
    project = project_of(repository / "src")
    assert statuses(await listed(project, "", indexes)) == {"inner": None, "bridge.py": "M", "gone.py": None}
    assert names(await matching(project, "", "", 50, indexes))[0] == "bridge.py"
    assert names(await matching(project, "", "a.txt", 50, indexes)) == []


async def test_files_of_a_repository_without_a_commit_are_listed(folder: Path, indexes: FileIndexes) -> None:
    git(folder, "init", "-q")
    git(folder, "add", "a.txt")
    found = statuses(await listed(project_of(folder), "", indexes))
    assert (found["a.txt"], found["gone.txt"]) == ("A", "?")


async def test_a_search_leaves_out_what_git_ignores(repository: Path, indexes: FileIndexes) -> None:
    (repository / "build").mkdir()
    (repository / "build" / "bridge.o").write_text("")
    (repository / "bridge.log").write_text("")
    (repository / "bridge.md").write_text("")
    assert names(await matching(project_of(repository), "", "bridge", 50, indexes)) == ["bridge.md", "src/bridge.py"]


async def test_a_search_leaves_out_private_files(repository: Path, indexes: FileIndexes) -> None:
    (repository / ".env").write_text("")
    (repository / "secrets.toml").write_text("")
    (repository / "link").symlink_to(".env")
    (repository / "over").symlink_to(repository.parent)
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-q", "-m", "two")
    (repository / ".env").write_text("changed")
    project = project_of(repository)
    found = set(names(await matching(project, "", "", 50, indexes)))
    assert {"a.txt", "src/bridge.py"} < found
    assert not found & {".env", "secrets.toml", "link", "over"}
    assert ".env" not in statuses(await listed(project, "", indexes))


async def test_the_users_index_is_not_changed(repository: Path, indexes: FileIndexes) -> None:
    index = repository / ".git" / "index"
    os.utime(repository / "a.txt")  # git would now refresh its index
    before = index.read_bytes(), index.stat().st_mtime_ns
    await listed(project_of(repository), "", indexes)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


async def test_no_program_of_the_repository_runs(repository: Path, indexes: FileIndexes, tmp_path: Path) -> None:
    """The agent could have written the repository's configuration."""
    run = tmp_path / "run"
    run.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    run.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(run))
    git(repository, "config", "filter.x.clean", str(run))
    (repository / ".gitattributes").write_text("* filter=x\n")
    os.utime(repository / "a.txt", (1, 1))
    assert (await listed(project_of(repository), "", indexes)).git
    assert not (tmp_path / "ran").exists()


async def test_a_failing_git_is_replaced_by_a_walk(
    repository: Path, indexes: FileIndexes, caplog: pytest.LogCaptureFixture
) -> None:
    (repository / ".git" / "index").write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING, "drawbridge.server"):
        found = await matching(project_of(repository), "", "bridge", 50, indexes)
    assert (names(found), found.git) == (["src/bridge.py"], False)
    assert "git can't list the files of this project" in caplog.text


async def test_a_slow_git_is_replaced_by_a_walk(
    repository: Path, indexes: FileIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git waits, because its index is a pipe that nobody writes to."""
    monkeypatch.setattr(file_index, "GIT_SECONDS", 0.3)
    (repository / ".git" / "index").unlink()
    os.mkfifo(repository / ".git" / "index")
    assert names(await matching(project_of(repository), "", "bridge", 50, indexes)) == ["src/bridge.py"]


# without git


async def test_without_git_the_directories_are_walked(folder: Path, indexes: FileIndexes) -> None:
    for name in ("node_modules/x", ".cache/x", "src/__pycache__/x"):
        (folder / name).mkdir(parents=True)
        (folder / name / "bridge.js").write_text("")
    (folder / "loop").symlink_to(folder)
    (folder / ".env").write_text("")
    found = await matching(project_of(folder), "", "", 50, indexes)
    assert not found.git
    assert set(names(found)) == {
        "src", "src/inner", ".gitignore", "a.txt", "gone.txt", "loop", "src/bridge.py", "src/gone.py", "src/inner/deep.py",
    }  # fmt: skip
    assert not any(entry.ignored for entry in (await listed(project_of(folder), "", indexes)).entries)


async def test_the_servers_own_data_is_not_walked(folder: Path, indexes: FileIndexes) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "token").write_text("secret")
    found = await matching(Project(folder, folder / "data", PRIVACY), "", "", 50, indexes)
    assert not found.git
    assert [name for name in names(found) if "data" in name] == []


async def test_the_servers_own_data_is_not_listed_by_git(repository: Path, indexes: FileIndexes) -> None:
    (repository / "data").mkdir()
    (repository / "data" / "token").write_text("secret")
    found = await matching(Project(repository, repository / "data", PRIVACY), "", "", 50, indexes)
    assert found.git
    assert [name for name in names(found) if "data" in name] == []


async def test_the_number_of_listed_changes_is_limited(
    repository: Path, indexes: FileIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "src/bridge.py", "src/inner/deep.py"):
        (repository / name).write_text("two\n")
    monkeypatch.setattr(file_index, "MOST_FILES", 2)
    index = await indexes.of(project_of(repository))
    assert list(index.changed.values()).count("M") - len({path for path in index.changed if "." not in path}) == 2
    assert not index.complete


async def test_a_list_without_all_changes_is_not_complete(
    repository: Path, indexes: FileIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed files are changes, but are not in the list of files."""
    git(repository, "rm", "-rq", ".")
    monkeypatch.setattr(file_index, "MOST_FILES", 2)
    assert not (await indexes.of(project_of(repository))).complete


async def test_the_number_of_walked_files_is_limited(
    folder: Path, indexes: FileIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_index, "MOST_WALKED", 3)
    found = await matching(project_of(folder), "", "", 50, indexes)
    assert found.more
    assert len(found.entries) <= 3


# how often a list is built


async def test_a_list_is_built_once_for_many_requests(
    repository: Path, indexes: FileIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0
    really = FileIndexes._by_git

    async def counted(*given: Any) -> Any:
        nonlocal made
        made += 1
        return await really(*given)

    monkeypatch.setattr(FileIndexes, "_by_git", counted)
    project = project_of(repository)
    await asyncio.gather(*(matching(project, "", query, 50, indexes) for query in ("b", "br", "bri")))
    await matching(project, "", "brid", 50, indexes)
    assert made == 1


async def test_an_old_list_is_used_while_a_new_one_is_built(
    repository: Path, indexes: FileIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_index, "FRESH_SECONDS", 0.0)
    project = project_of(repository)
    await matching(project, "", "later", 50, indexes)
    (repository / "later.txt").write_text("")
    assert names(await matching(project, "", "later", 50, indexes)) == []

    await until(lambda: next(iter(indexes._lists.values())).making is None)
    assert names(await matching(project, "", "later", 50, indexes)) == ["later.txt"]


async def test_a_very_old_list_is_not_used(
    repository: Path, indexes: FileIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_index, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(file_index, "KEPT_SECONDS", 0.0)
    project = project_of(repository)
    await matching(project, "", "later", 50, indexes)
    (repository / "later.txt").write_text("")
    assert names(await matching(project, "", "later", 50, indexes)) == ["later.txt"]


async def test_a_canceled_request_does_not_stop_building_the_list(repository: Path, indexes: FileIndexes) -> None:
    project = project_of(repository)
    first = asyncio.create_task(indexes.of(project))
    await asyncio.sleep(0)
    second = asyncio.create_task(indexes.of(project))
    await asyncio.sleep(0)
    first.cancel()
    assert "a.txt" in (await second).files


async def test_the_number_of_kept_lists_is_limited(
    tmp_path: Path, indexes: FileIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_index, "LISTS_KEPT", 2)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        await indexes.of(project_of(tmp_path / str(number)))
    assert [project.root.name for project in indexes._lists] == ["2", "3"]


# the search


def index(*files: str) -> FileIndex:
    return FileIndex(frozenset(files), frozenset(), {}, git=True, complete=True)


def test_the_best_match_comes_first() -> None:
    found = index(
        "lib/my_bridge.py", "bridge/readme.md", "src/bridge.py", "bridge", "b/r/i/d/g/e", "abridged.txt", "x.py"
    )
    assert found.matching("bridge", 10) == [
        "bridge",
        "src/bridge.py",
        "bridge/readme.md",
        "abridged.txt",
        "lib/my_bridge.py",
        "b/r/i/d/g/e",
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SB", "src/bridge.py"),
        ("src/br", "src/bridge.py"),
        ("s b p", "src/bridge.py"),
        ("ÜN", "ünï.md"),
        ("[.*", "[.*"),
    ],
)
def test_a_file_is_found_by_some_of_its_letters_in_order(query: str, expected: str) -> None:
    assert index("src/bridge.py", "ünï.md", "[.*", "other").matching(query, 10)[:1] == [expected]


def test_without_a_query_changed_files_come_first() -> None:
    found = FileIndex(frozenset({"a", "b", "c/d"}), frozenset({"c"}), {"c/d": "M", "c": "M"}, git=True, complete=True)
    assert found.matching("", 3) == ["c", "c/d", "a"]


@given(query=st.text(max_size=20), path=st.text(min_size=1, max_size=40))
def test_a_match_has_all_letters_in_order(query: str, path: str) -> None:
    wanted = iter(path.casefold())
    expected = all(letter in wanted for letter in "".join(query.casefold().split()))
    assert bool(index(path).matching(query, 1)) is expected


def test_a_long_query_in_many_files_is_fast() -> None:
    found = index(*("a" * 200 + f"/{number}" for number in range(20_000)))
    begun = time.process_time()
    found.matching("a" * 100 + "b" * 100, 50)
    assert time.process_time() - begun < 2


def test_the_output_of_git_is_parsed() -> None:
    of_file = "N... 100644 100644 100644 1111111 2222222"
    changes = [f"1 .M {of_file} a b.txt", f"1 .D {of_file} gone", f"1 A. {of_file} new", "? odd\nname", "? nested/", ""]
    changes[3:3] = [f"2 R. {of_file} R100 renamed", "before", f"u UU {of_file[:11]} 100644 {of_file[12:]} 3333333 both"]
    assert list(parsed("\0".join(changes))) == [
        ("a b.txt", "M"),
        ("gone", "D"),
        ("new", "A"),
        ("renamed", "M"),
        ("both", "M"),
        ("odd\nname", "?"),
        ("nested/", "?"),
    ]
