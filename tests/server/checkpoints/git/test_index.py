"""Drawbridge's own reader of git's index is compared with what the real git lists."""

from __future__ import annotations

import os
import random
import tracemalloc
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.git import index as git_index
from tests.server.checkpoints.rig import git, make_project
from tests.waiting import until

LATER = 2_000_000_000 * 1_000_000_000
"""A time in the future, in nanoseconds."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = make_project(tmp_path / "project")
    (project / "sub" / "deep").mkdir(parents=True)
    (project / "sub" / "deep" / "a.txt").write_text("a\n")
    (project / "sub" / "naïve\nname.txt").write_text("b\n")
    git(project, "add", ".")
    return project


def found(project: Path) -> git_index.Index | None:
    return git_index.read(project / ".git" / "index", 20)


def paths_in(file: Path, id_bytes: int = 20) -> set[str] | None:
    scanned = git_index.scan(file, id_bytes)
    return None if scanned is None else set(scanned.paths)


def marked_in(file: Path, since: int) -> git_index.Marked:
    scanned = git_index.scan(file, 20, since)
    assert scanned is not None
    return scanned.marked


def is_damaged(project: Path) -> bool:
    return git_index.is_damaged(project / ".git" / "index", 20)


def listed(project: Path) -> dict[str, tuple[int, bytes]]:
    entries = (item.partition("\t") for item in git(project, "ls-files", "-s", "-z").split("\0") if item)
    return {path: (int(entry.split()[0], 8), bytes.fromhex(entry.split()[1])) for entry, _, path in entries}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_entries_are_those_that_git_lists(project: Path, version: int) -> None:
    if version == 3:
        git(project, "update-index", "--skip-worktree", "old.txt")
    else:
        git(project, "update-index", "--index-version", str(version))
    index = found(project)
    assert (project / ".git" / "index").read_bytes()[7] == version
    assert index is not None
    assert index.entries == listed(project)
    assert paths_in(project / ".git" / "index") == listed(project).keys()


@pytest.mark.parametrize("version", ["2", "4"])
def test_the_marked_files_are_found(project: Path, version: str) -> None:
    """With an entry that is marked skip-worktree, version 2 becomes version 3."""
    git(project, "update-index", "--index-version", version)
    git(project, "update-index", "--assume-unchanged", "poem.txt", "old.txt")
    git(project, "update-index", "--skip-worktree", "old.txt", "sub/deep/a.txt")
    marked = marked_in(project / ".git" / "index", LATER)
    assert marked == git_index.Marked(frozenset({"poem.txt", "old.txt"}), frozenset({"old.txt", "sub/deep/a.txt"}))
    index = found(project)
    assert index is not None
    assert index.marked == marked
    assert marked.below("sub/") == git_index.Marked(frozenset(), frozenset({"deep/a.txt"}))


@pytest.mark.parametrize("version", ["2", "4"])
async def test_files_changed_after_a_time_are_found(project: Path, version: str) -> None:
    git(project, "update-index", "--index-version", version)
    index, file = project / ".git" / "index", project / "poem.txt"
    earlier = marked_in(index, max(file.stat().st_ctime_ns for file in project.rglob("*")) + 1)
    assert earlier == git_index.Marked()
    last = file.stat().st_ctime_ns

    def touched() -> bool:
        file.write_text("changed\n")
        return file.stat().st_ctime_ns > last

    await until(touched, "a later time")
    git(project, "add", "poem.txt")
    later = marked_in(index, file.stat().st_ctime_ns)
    entry = git(project, "ls-files", "-s", "poem.txt").partition("\t")[0]
    assert later.recent == {"poem.txt": (entry, file.stat().st_ctime_ns)}


def test_object_ids_of_32_bytes_are_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    (tmp_path / "a.txt").write_text("a\n")
    git(tmp_path, "add", ".")
    index = git_index.read(tmp_path / ".git" / "index", 32)
    assert index is not None
    assert index.entries == listed(tmp_path)
    assert paths_in(tmp_path / ".git" / "index", 32) == {"a.txt"}


def test_the_digest_is_the_same_after_a_refresh(project: Path) -> None:
    before = found(project)
    data = (project / ".git" / "index").read_bytes()
    os.utime(project / "poem.txt", (1, 1))
    git(project, "status")
    assert (project / ".git" / "index").read_bytes() != data
    after = found(project)
    assert before is not None
    assert after is not None
    assert after.digest == before.digest


@pytest.mark.parametrize(
    "words",
    [
        ("rm", "-q", "--cached", "old.txt"),
        ("update-index", "--chmod=+x", "poem.txt"),
        ("update-index", "--assume-unchanged", "poem.txt"),
        ("mv", "poem.txt", "song.txt"),
    ],
)
def test_the_digest_changes_with_what_is_staged(project: Path, words: tuple[str, ...]) -> None:
    before = found(project)
    git(project, *words)
    after = found(project)
    assert before is not None
    assert after is not None
    assert after.digest != before.digest


def test_a_missing_index_has_no_entries(tmp_path: Path) -> None:
    assert git_index.read(tmp_path / "index", 20) == git_index.NO_INDEX
    assert paths_in(tmp_path / "index") == set()


def test_a_split_index_is_left_to_git(project: Path) -> None:
    git(project, "update-index", "--split-index")
    assert found(project) is None
    assert paths_in(project / ".git" / "index") is None
    assert not is_damaged(project)


def test_a_sparse_index_is_left_to_git(project: Path) -> None:
    git(project, "commit", "-q", "-m", "all")
    git(project, "sparse-checkout", "set", "--cone", "--sparse-index", "none")
    assert found(project) is None
    assert not is_damaged(project)


def test_reading_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "index")
    assert git_index.read(tmp_path / "index", 20) is None


def test_damaged_indexes_raise_no_errors(project: Path) -> None:
    data = (project / ".git" / "index").read_bytes()
    damaged = project / "damaged"
    chance = random.Random(1)
    for length in range(0, len(data), 7):
        damaged.write_bytes(data[:length])
        assert git_index.read(damaged, 20) is None
        assert git_index.is_damaged(damaged, 20)
    for _ in range(2_000):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        damaged.write_bytes(changed)
        assert git_index.is_damaged(damaged, 20) == (changed != data)
        index = git_index.read(damaged, 20)
        assert paths_in(damaged) == (None if index is None else set(index.entries))


@pytest.mark.parametrize(("format", "id_bytes"), [("sha1", 20), ("sha256", 32)])
@pytest.mark.parametrize("has_checksum", [True, False])
def test_an_index_that_git_wrote_is_not_damaged(tmp_path: Path, format: str, id_bytes: int, has_checksum: bool) -> None:
    """Newer versions of git can write zeros in place of the checksum (``index.skipHash``)."""
    git(tmp_path, "init", "-q", f"--object-format={format}")
    (tmp_path / "a.txt").write_text("a\n")
    git(tmp_path, "add", ".")
    index = tmp_path / ".git" / "index"
    content, checksum = index.read_bytes()[:-id_bytes], index.read_bytes()[-id_bytes:]
    if not has_checksum:
        checksum = bytes(id_bytes)
    index.write_bytes(content + checksum)
    assert not git_index.is_damaged(index, id_bytes)
    index.write_bytes(content[:-9] + checksum)
    assert git_index.is_damaged(index, id_bytes)


def index_of(version: int, *entries: bytes) -> bytes:
    """The bytes of an index without extensions."""
    return b"DIRC" + version.to_bytes(4, "big") + len(entries).to_bytes(4, "big") + b"".join(entries) + bytes(20)


def test_repetitive_paths_do_not_fill_the_memory(tmp_path: Path) -> None:
    """In version 4 of the format, an entry of 65 bytes can repeat a path of a megabyte: here, 65 kB would
    become 1 GB.
    """
    header = bytes(60) + b"\0\0"
    entries = [header + b"\0" + b"x" * 2**20 + b"\0", *[header + b"\0" + b"y\0"] * 1_000]
    (tmp_path / "index").write_bytes(index_of(4, *entries))
    tracemalloc.start()
    try:
        assert git_index.read(tmp_path / "index", 20) is None
        assert tracemalloc.get_traced_memory()[1] < 300_000_000
    finally:
        tracemalloc.stop()
