"""Checkpoints in repositories with different layouts, formats and line endings. The tests use the real git."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from tests.server.checkpoints.rig import RUN, a_run, a_run_that_writes, everything, git, make_project


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home directory, without any git configuration."""
    directory = tmp_path / "home"
    directory.mkdir()
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return directory


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    return make_project(tmp_path / "ws")


@pytest.mark.parametrize("how", ["attributes", "info", "configuration", "person"])
async def test_line_endings_that_git_converts_are_restored(how: str, project: Path, home: Path) -> None:
    match how:
        case "attributes":
            (project / ".gitattributes").write_text("*.txt text eol=crlf\n")
        case "info":
            (project / ".git" / "info" / "attributes").write_text("*.txt text eol=crlf\n")
        case "configuration":
            git(project, "config", "core.autocrlf", "true")
        case _:
            (home / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    text = b"".join(b"line %d\r\n" % number for number in range(1, 21))
    (project / "poem.txt").unlink()
    git(project, "checkout", "poem.txt")
    assert (project / "poem.txt").read_bytes() == text
    os.utime(project / "poem.txt", (1, 1))
    checkpoints, diff = await a_run_that_writes(project, {"poem.txt": text.replace(b"line 3\r\n", b"LINE 3\r\n")})
    assert "-line 3\n+LINE 3\n" in diff
    await checkpoints.reverter.revert(RUN)
    assert (project / "poem.txt").read_bytes() == text


async def test_an_encoding_that_git_converts_is_restored(project: Path) -> None:
    (project / ".gitattributes").write_text("*.rc working-tree-encoding=UTF-16\n")
    before = "one\nübung\n".encode("utf-16")
    (project / "menu.rc").write_bytes(before)
    checkpoints, diff = await a_run_that_writes(project, {"menu.rc": "one\nUBUNG\n".encode("utf-16")})
    assert "-übung\n+UBUNG\n" in diff
    await checkpoints.reverter.revert(RUN)
    assert (project / "menu.rc").read_bytes() == before


async def test_ids_that_git_wrote_into_a_file_are_restored(project: Path) -> None:
    poem = project / "poem.txt"
    (project / ".gitattributes").write_text("*.txt ident\n")
    poem.write_text("$Id$\n" + poem.read_text())
    git(project, "add", ".")
    poem.unlink()
    git(project, "checkout", "poem.txt")
    os.utime(poem, (1, 1))
    git(project, "update-index", "--refresh")
    before = poem.read_bytes()
    assert before.startswith(b"$Id: ")
    checkpoints, diff = await a_run_that_writes(project, {"poem.txt": before.replace(b"line 3\n", b"LINE 3\n")})
    assert "-line 3\n+LINE 3\n" in diff
    assert "\n+$Id" not in diff
    await checkpoints.reverter.revert(RUN)
    assert poem.read_bytes() == before


@pytest.mark.parametrize("place", [".config/git/ignore", ".ignored", "own"])
async def test_files_that_the_user_ignores_globally_stay_ignored(place: str, project: Path, home: Path) -> None:
    file = project / ".git" / "info" / "exclude" if place == "own" else home / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("*.secret\n")
    if place == ".ignored":
        (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/.ignored\n")
    _, diff = await a_run_that_writes(project, {"my.secret": b"secret\n", "poem.txt": b"changed\n"})
    assert "secret" not in diff
    assert "+changed" in diff


async def test_a_run_is_reverted_in_a_linked_work_tree(project: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(project, "worktree", "add", "-q", str(linked))
    git(project, "pack-refs", "--all")
    before = everything(linked)
    await (await a_run(linked)).reverter.revert(RUN)
    assert everything(linked) == before
    assert git(project, "status", "--porcelain") == "A  staged.txt\n?? mine.txt\n"


async def test_a_run_is_reverted_in_a_submodule(project: Path, tmp_path: Path) -> None:
    outer = make_project(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(project), "sub")
    before = everything(outer / "sub")
    await (await a_run(outer / "sub")).reverter.revert(RUN)
    assert everything(outer / "sub") == before


async def test_a_run_is_reverted_in_a_repository_with_sha256(tmp_path: Path, home: Path) -> None:
    directory = tmp_path / "ws"
    directory.mkdir()
    git(directory, "init", "-q", "--object-format=sha256")
    (directory / "poem.txt").write_text("line 3\n")
    (directory / "old.txt").write_text("old\n")
    git(directory, "add", ".")
    before = everything(directory)
    await (await a_run(directory)).reverter.revert(RUN)
    assert everything(directory) == before


async def test_a_run_is_reverted_with_a_split_index(project: Path) -> None:
    git(project, "update-index", "--split-index")
    before, status = everything(project), git(project, "status", "--porcelain")
    await (await a_run(project)).reverter.revert(RUN)
    assert (everything(project), git(project, "status", "--porcelain")) == (before, status)


async def test_a_run_is_reverted_in_a_sparse_work_tree(project: Path) -> None:
    (project / "aside").mkdir()
    (project / "aside" / "text").write_text("aside\n")
    git(project, "add", "aside")
    git(project, "commit", "-q", "-m", "aside")
    git(project, "sparse-checkout", "set", "--cone", "--sparse-index")
    assert not (project / "aside").exists()
    before = everything(project)
    checkpoints = await a_run(project)
    assert {file.path for file in (await checkpoints.reverter.revert(RUN)).files} == {"poem.txt", "new.bin", "old.txt"}
    assert everything(project) == before


async def test_a_run_is_reverted_in_a_partial_clone(project: Path, tmp_path: Path) -> None:
    git(project, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{project}", str(clone))
    before = everything(clone)
    await (await a_run(clone)).reverter.revert(RUN)
    assert everything(clone) == before


@pytest.mark.parametrize(
    ("name", "value"), [("refStorage", "reftable"), ("objectFormat", 'sha1\n[filter "x"]\nclean = true')]
)
async def test_a_format_that_is_not_supported_is_refused(name: str, value: str, project: Path) -> None:
    """The second case is an attack, because its value would add a filter to the configuration that the server writes
    for git.
    """
    checkpoints = await a_run(project)
    git(project, "config", "core.repositoryFormatVersion", "1")
    git(project, "config", f"extensions.{name}", value)
    for asked in (
        checkpoints.snapshotter.create("run_2", "before"),
        checkpoints.changes.of(RUN),
        checkpoints.reverter.revert(RUN),
    ):
        with pytest.raises((NoCheckpoint, GitFailed)):
            await asked


async def test_a_work_tree_configured_elsewhere_is_not_touched(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "poem.txt").write_text("not of this project\n")
    git(project, "config", "core.worktree", str(elsewhere))
    before = everything(project)
    await (await a_run(project)).reverter.revert(RUN)
    assert everything(project) == before
    assert (elsewhere / "poem.txt").read_text() == "not of this project\n"
