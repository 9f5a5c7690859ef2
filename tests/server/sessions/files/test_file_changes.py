"""Comparing a file with the last commit: all kinds of changes and refusals, and that nothing private is shown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings

from drawbridge.agents.base import Confinement
from drawbridge.agents.memory import MemoryWatch
from drawbridge.core.privacy import Privacy
from drawbridge.server.checkpoints.git import program as git_program
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import encode
from drawbridge.server.protocol.messages import FRAME_BYTES
from drawbridge.server.protocol.replies import FileChanges
from drawbridge.server.sessions.files import file_changes
from drawbridge.server.sessions.files.file_changes import Comparisons
from drawbridge.server.sessions.files.files import LARGEST_TEXT, Project
from tests.server.checkpoints.rig import RUN, git, make_project
from tests.server.checkpoints.test_hostile_repository import ATTACKS, spy  # noqa: F401 - a fixture
from tests.server.sessions.files.test_files import PNG, paths

PUBLIC = "public\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with two commits. Its ``src`` directory is also used as a project."""
    folder = make_project(tmp_path / "code")
    (folder / "src").mkdir()
    (folder / "src" / "bridge.py").write_text("one\n")
    git(folder, "add", "src")
    git(folder, "commit", "-q", "-m", "second", "src")
    return folder


@pytest.fixture
async def comparisons() -> AsyncIterator[Comparisons]:
    made = Comparisons(Confinement(), MemoryWatch(None))
    yield made
    await made.close()


def project_of(folder: Path) -> Project:
    return Project(folder, folder.parent / "data", Privacy())


async def refusal(comparisons: Comparisons, folder: Path, path: str) -> str:
    with pytest.raises(ClientError) as refused:
        await comparisons.of(project_of(folder), path)
    assert "/" not in refused.value.text, "the error contains a path"
    assert refused.value.field == "data.path"
    return refused.value.code


# what has changed


async def test_a_changed_file_has_both_texts(folder: Path, comparisons: Comparisons) -> None:
    (folder / "old.txt").write_text("new\n")
    expected = FileChanges(path="old.txt", status="M", old="old\n", new="new\n")
    assert await comparisons.of(project_of(folder), "old.txt") == expected
    git(folder, "add", ".")
    assert await comparisons.of(project_of(folder), str(folder / "old.txt")) == expected


async def test_an_unchanged_file_has_no_changes(folder: Path, comparisons: Comparisons) -> None:
    assert await comparisons.of(project_of(folder), "old.txt") == FileChanges(path="old.txt")
    (folder / "old.txt").chmod(0o755)
    assert await comparisons.of(project_of(folder), "old.txt") == FileChanges(path="old.txt")


@pytest.mark.parametrize(("path", "status"), [("staged.txt", "A"), ("mine.txt", "?"), ("noise.log", "?")])
async def test_a_new_file_has_no_old_text(folder: Path, comparisons: Comparisons, path: str, status: str) -> None:
    found = await comparisons.of(project_of(folder), path)
    assert (found.status, found.old, found.new) == (status, None, (folder / path).read_text())


@pytest.mark.parametrize("staged", [False, True])
async def test_a_deleted_file_has_its_old_text(folder: Path, comparisons: Comparisons, staged: bool) -> None:
    """The file's directory is deleted, too."""
    (folder / "src" / "bridge.py").unlink()
    (folder / "src").rmdir()
    if staged:
        git(folder, "add", "src/bridge.py")
    found = await comparisons.of(project_of(folder), "src/bridge.py")
    assert found == FileChanges(path="src/bridge.py", status="D", old="one\n")


async def test_the_text_of_an_empty_file_is_empty(folder: Path, comparisons: Comparisons) -> None:
    (folder / "old.txt").write_text("")
    assert (await comparisons.of(project_of(folder), "old.txt")).new == ""


async def test_a_renamed_file_is_a_deleted_and_a_new_one(folder: Path, comparisons: Comparisons) -> None:
    git(folder, "mv", "old.txt", "renamed.txt")
    assert (await comparisons.of(project_of(folder), "old.txt")).status == "D"
    assert (await comparisons.of(project_of(folder), "renamed.txt")).status == "A"


async def test_before_the_first_commit_every_file_is_new(tmp_path: Path, comparisons: Comparisons) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text(PUBLIC)
    assert (await comparisons.of(project_of(tmp_path), "a.txt")).status == "?"
    git(tmp_path, "add", "a.txt")
    assert (await comparisons.of(project_of(tmp_path), "a.txt")).status == "A"


async def test_a_linked_work_tree_has_its_own_commit(folder: Path, comparisons: Comparisons) -> None:
    git(folder, "worktree", "add", "-q", "../linked")
    (folder / "old.txt").write_text("new\n")
    git(folder, "commit", "-q", "-a", "-m", "third")
    (folder.parent / "linked" / "old.txt").write_text("linked\n")
    found = await comparisons.of(project_of(folder.parent / "linked"), "old.txt")
    assert (found.old, found.new) == ("old\n", "linked\n")


@pytest.mark.parametrize("text", ["old\n", "old\r\n"])
async def test_line_ends_that_git_converts_are_not_a_change(folder: Path, comparisons: Comparisons, text: str) -> None:
    git(folder, "config", "core.autocrlf", "true")
    (folder / "old.txt").write_bytes(text.encode())
    assert (await comparisons.of(project_of(folder), "old.txt")).status is None


async def test_the_users_index_is_not_changed(folder: Path, comparisons: Comparisons) -> None:
    index = folder / ".git" / "index"
    os.utime(folder / "old.txt")  # git would now refresh its index
    before = index.read_bytes(), index.stat().st_mtime_ns
    for path in ("old.txt", "staged.txt"):
        await comparisons.of(project_of(folder), path)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


# large texts


@pytest.mark.parametrize("change", ["changed", "deleted", "added"])
async def test_large_texts_are_sent_as_a_diff(folder: Path, comparisons: Comparisons, change: str) -> None:
    lines = [f"line {number}\n" for number in range(90_000)]
    (folder / "large.txt").write_text("".join(lines))
    if change != "added":
        git(folder, "add", "large.txt")
        git(folder, "commit", "-q", "-m", "large")
        (folder / "large.txt").unlink()
    if change == "changed":
        lines[500] = "changed\n"
        (folder / "large.txt").write_text("".join(lines))
    found = await comparisons.of(project_of(folder), "large.txt")
    assert (found.old, found.new, found.truncated) == (None, None, change != "changed")
    assert len(encode(Answer(type="file_changes", data=found))) < FRAME_BYTES
    assert found.diff is not None
    first, *rest = found.diff.splitlines()
    if change == "changed":
        assert first.startswith("@@ -498,7 +498,7 @@")
        assert rest[3:5] == ["-line 500", "+changed"]
    else:
        assert rest[0] == ("-line 0" if change == "deleted" else "+line 0")


@pytest.mark.parametrize("now", [None, "small"])
async def test_an_old_text_that_is_too_large_is_refused(
    folder: Path, comparisons: Comparisons, now: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is refused without being read."""
    (folder / "large.txt").write_text("x" * (LARGEST_TEXT + 1))
    assert await refusal(comparisons, folder, "large.txt") == "FILE_TOO_LARGE"
    git(folder, "add", "large.txt")
    git(folder, "commit", "-q", "-m", "large")
    (folder / "large.txt").unlink()
    if now is not None:
        (folder / "large.txt").write_text(now)
    really = Git.read

    async def read(asked: Git, *words: str, **more: Any) -> str:
        assert words[0] != "cat-file"
        return await really(asked, *words, **more)

    monkeypatch.setattr(Git, "read", read)
    with pytest.raises(ClientError) as refused:
        await comparisons.of(project_of(folder), "large.txt")
    assert (refused.value.code, refused.value.details) == (
        "FILE_TOO_LARGE",
        {"size": LARGEST_TEXT + 1, "limit": LARGEST_TEXT},
    )


async def test_a_text_that_grows_by_its_line_ends_is_refused(folder: Path, comparisons: Comparisons) -> None:
    (folder / "large.txt").write_text("\n" * (LARGEST_TEXT - 1))
    git(folder, "add", "large.txt")
    git(folder, "commit", "-q", "-m", "large")
    git(folder, "config", "core.autocrlf", "true")
    (folder / "large.txt").write_bytes(b"small\r\n")
    assert await refusal(comparisons, folder, "large.txt") == "FILE_TOO_LARGE"


# what is not shown


@pytest.mark.parametrize("was", [b"\0", b"\xff", PNG, b"text", None])
async def test_only_text_files_are_compared(folder: Path, comparisons: Comparisons, was: bytes | None) -> None:
    if was is not None:
        (folder / "a.bin").write_bytes(was)
        git(folder, "add", "a.bin")
        git(folder, "commit", "-q", "-m", "binary", "a.bin")
        (folder / "a.bin").unlink()
    others = (None, b"other text") if was in (None, b"text") else ()
    for now in {b"\0", b"\xff", PNG, None, b"other text"}.difference(others):
        (folder / "a.bin").unlink(missing_ok=True)
        if now is not None:
            (folder / "a.bin").write_bytes(now)
        assert await refusal(comparisons, folder, "a.bin") == "FILE_UNSUPPORTED"


@pytest.mark.parametrize(
    ("path", "content", "error"),
    [
        ("src", None, "This path can't be compared with the last commit: it is a directory."),
        ("a.png", PNG, "The file can't be compared with the last commit: it is an image."),
        ("a.bin", b"\0", "The file can't be compared with the last commit: it is binary."),
        ("a.txt", b"x" * (LARGEST_TEXT + 1), "The file can't be compared with the last commit: it is "),
    ],
)
async def test_errors_name_the_comparison(
    folder: Path, comparisons: Comparisons, path: str, content: bytes | None, error: str
) -> None:
    if content is not None:
        (folder / path).write_bytes(content)
    with pytest.raises(ClientError) as refused:
        await comparisons.of(project_of(folder), path)
    assert refused.value.text.startswith(error)


@pytest.mark.parametrize("path", [".env", "src/key.pem", ".git/config", "sub/../old.txt", "/etc/passwd", "none", "src"])
async def test_files_that_the_viewer_refuses_are_refused(folder: Path, comparisons: Comparisons, path: str) -> None:
    """The last commit contains secrets that are no longer in the work tree."""
    for name in (".env", "src/key.pem"):
        (folder / name).write_text("secret")
    git(folder, "add", "-f", ".")
    git(folder, "commit", "-q", "-m", "secrets")
    for name in (".env", "src/key.pem"):
        (folder / name).unlink()
    expected = {"none": "FILE_NOT_FOUND", "src": "FILE_UNSUPPORTED", "/etc/passwd": "INVALID_PATH"}
    refused = await refusal(comparisons, folder, path)
    assert refused == expected.get(path, "INVALID_PATH" if ".." in path else "FILE_PRIVATE")


@pytest.mark.parametrize("path", ["../old.txt", ":/old.txt", ":(top)old.txt", ":/", "*.py", ":(glob)**", "-r"])
async def test_nothing_above_the_project_is_shown(folder: Path, comparisons: Comparisons, path: str) -> None:
    """The project is a directory inside the work tree. Most of the paths have a special meaning to git."""
    (folder / "old.txt").unlink()
    (folder / "src" / "bridge.py").unlink()
    refused = await refusal(comparisons, folder / "src", path)
    assert refused == ("INVALID_PATH" if ".." in path else "FILE_NOT_FOUND")
    (folder / "src" / "bridge.py").write_text("two\n")
    found = await comparisons.of(project_of(folder / "src"), "bridge.py")
    assert found == FileChanges(path="bridge.py", status="M", old="one\n", new="two\n")


@pytest.mark.parametrize("path", [":/a.txt", ":(top)a.txt", "*.py", "-r", "a b\n.txt", "Ünï [x].txt"])
async def test_files_with_unusual_names_are_compared(folder: Path, comparisons: Comparisons, path: str) -> None:
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text("one\n")
    git(folder, "--literal-pathspecs", "add", "--", path)
    git(folder, "commit", "-q", "-m", "odd")
    (folder / path).write_text("two\n")
    found = await comparisons.of(project_of(folder), path)
    assert (found.path, found.status, found.old) == (path, "M", "one\n")


async def test_links_are_followed_as_in_the_viewer(folder: Path, comparisons: Comparisons) -> None:
    (folder / "link").symlink_to("old.txt")
    (folder / "out").symlink_to("../secret.txt")
    (folder.parent / "secret.txt").write_text("secret")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "links")
    (folder / "old.txt").write_text("new\n")
    assert (await comparisons.of(project_of(folder), "link")).path == "old.txt"
    assert await refusal(comparisons, folder, "out") == "INVALID_PATH"
    for name in ("link", "out"):
        (folder / name).unlink()
    assert await refusal(comparisons, folder, "out") == "FILE_UNSUPPORTED"
    (folder / "link").write_text("a file now")
    assert await refusal(comparisons, folder, "link") == "FILE_UNSUPPORTED"


async def test_a_file_that_replaced_a_directory_is_new(folder: Path, comparisons: Comparisons) -> None:
    (folder / "src" / "bridge.py").unlink()
    (folder / "src").rmdir()
    (folder / "src").write_text(PUBLIC)
    found = await comparisons.of(project_of(folder), "src")
    assert (found.status, found.old) == ("?", None)


async def test_a_nested_repository_is_not_compared(folder: Path, comparisons: Comparisons) -> None:
    git(folder, "clone", "-q", ".", "inside")
    git(folder, "add", "inside")
    git(folder, "commit", "-q", "-m", "inside")
    assert await refusal(comparisons, folder, "inside") == "FILE_UNSUPPORTED"
    (folder / "inside").rename(folder.parent / "moved")
    assert await refusal(comparisons, folder, "inside") == "FILE_UNSUPPORTED"


async def test_without_a_repository_nothing_is_compared(tmp_path: Path, comparisons: Comparisons) -> None:
    (tmp_path / "a.txt").write_text(PUBLIC)
    assert await refusal(comparisons, tmp_path, "a.txt") == "FILE_NOT_COMPARED"
    assert await refusal(comparisons, tmp_path, "none") == "FILE_NOT_FOUND"


async def test_a_repository_that_git_cant_read_is_reported(
    folder: Path, comparisons: Comparisons, caplog: pytest.LogCaptureFixture
) -> None:
    git(folder, "config", "core.repositoryFormatVersion", "1")
    git(folder, "config", "extensions.refStorage", "reftable")
    assert await refusal(comparisons, folder, "old.txt") == "FILE_NOT_COMPARED"
    assert "git can't compare a file of a project" in caplog.text


async def test_a_missing_object_is_reported(
    folder: Path, comparisons: Comparisons, caplog: pytest.LogCaptureFixture
) -> None:
    blob = git(folder, "rev-parse", "HEAD:old.txt").strip()
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert await refusal(comparisons, folder, "old.txt") == "FILE_OPERATION"
    assert "git can't compare a file of a project" in caplog.text


async def test_a_git_that_hangs_is_ended(
    folder: Path, comparisons: Comparisons, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Git waits, because its index is a pipe that nobody writes to."""
    monkeypatch.setattr(file_changes, "GIT_SECONDS", 0.3)
    (folder / ".git" / "index").unlink()
    os.mkfifo(folder / ".git" / "index")
    assert await refusal(comparisons, folder, "mine.txt") == "FILE_OPERATION"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ATTACKS)
async def test_no_program_of_the_repository_runs(
    name: str,
    folder: Path,
    spy: Path,  # noqa: F811
    comparisons: Comparisons,
) -> None:
    git(folder, "update-ref", f"refs/drawbridge/{RUN}", "HEAD")  # one of the attacks removes the objects of this commit
    (folder / "poem.txt").write_text("another\r\n")
    ATTACKS[name](folder, str(folder.parent / "spy"))
    spy.unlink(missing_ok=True)  # git may have run the program while the attack was being prepared
    for path in ("poem.txt", "mine.txt", "inside/text"):
        with contextlib.suppress(ClientError):
            await comparisons.of(project_of(folder), path)
    assert not spy.exists(), spy.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="needs features of the Linux kernel")
async def test_git_runs_with_an_agents_privileges(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, program = git_program.program(), tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncat /proc/self/status >{tmp_path}/status\nulimit -n >{tmp_path}/files\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    comparisons = Comparisons(Confinement(open_files=100), MemoryWatch(None))
    await comparisons.of(project_of(folder), "old.txt")
    await comparisons.close()
    assert "NoNewPrivs:\t1\n" in (tmp_path / "status").read_text()
    assert (tmp_path / "files").read_text() == "100\n"


# whatever is sent


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work tree that contains the project. Only texts that contain "public" may be shown, current or committed."""
    here = tmp_path_factory.mktemp("changes").resolve()
    for name in ("code/src/in", "code/data", "outside"):
        (here / name).mkdir(parents=True)
    private = ("code/.env", "code/src/key.pem", "code/data/token", "outside/secret.txt", "secret.txt")
    public = ("code/src/bridge.py", "code/secret.txt", "code/src/in/config", "code/src/gone.py")
    git(here, "init", "-q")
    for when in ("old", "new"):
        for name in (*private, *public):
            (here / name).write_text(f"{when} {'private' if name in private else 'public'}")
        if when == "old":
            for place, target in {
                "out": "../outside",
                "in": "src/in",
                "up": "..",
                "src/up": "..",
                "src/out": "../.env",
            }.items():
                (here / "code" / place).symlink_to(target)
            git(here, "add", "-f", ".")
            git(here, "commit", "-q", "-m", "all")
    for name in ("code/src/gone.py", "code/src/key.pem", "code/data/token", "outside/secret.txt"):
        (here / name).unlink()
    return here


@pytest.mark.thorough
@given(path=paths)
@example(path="src/bridge.py")
@example(path="src/gone.py")
@example(path="out/secret.txt")
@example(path="src/out")
@example(path="up/code/secret.txt")
@example(path="HERE/code/in/config")
@example(path="data/token")
@example(path=":/secret.txt")
@settings(deadline=None)
def test_whatever_path_is_sent_only_public_texts_are_shown(tree: Path, path: str) -> None:
    project = Project(tree / "code", tree / "code" / "data", Privacy())

    async def compared() -> FileChanges | str:
        comparisons = Comparisons(Confinement(), MemoryWatch(None))
        try:
            return await comparisons.of(project, path.replace("HERE", str(tree)))
        except ClientError as refused:
            return refused.code
        finally:
            await comparisons.close()

    found = asyncio.run(compared())
    if isinstance(found, str):
        assert found in ("INVALID_PATH", "FILE_PRIVATE", "FILE_NOT_FOUND", "FILE_UNSUPPORTED")
    else:
        assert found.status in ("M", "D")
        assert (found.old, found.new) == ("old public", None if found.status == "D" else "new public")
