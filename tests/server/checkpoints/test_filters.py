"""Files with a filter, such as Git LFS, are shown and reverted without running it. The tests use the real git."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.server.checkpoints import filters
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import NoCheckpoint
from tests.server.checkpoints.rig import RUN, a_run_that_writes, everything, git

POINTER = "version https://git-lfs.github.com/spec/v1\n"


def with_filter(project: Path, files: dict[str, bytes]) -> None:
    """Commits the files as pointers, as Git LFS does. git then knows that they are unchanged."""
    (project / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git(project, "config", "filter.lfs.clean", f"sh -c 'echo \"{POINTER.strip()}\"; sha256sum'")
    git(project, "config", "filter.lfs.required", "true")
    for name, data in files.items():
        (project / name).write_bytes(data)
        os.utime(project / name, (1, 1))
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "with a filter")
    assert git(project, "show", f"HEAD:{next(iter(files))}").startswith(POINTER)


async def test_a_file_with_a_filter_is_reverted_exactly(project: Path) -> None:
    files = {"photo.bin": b"\0photo\n" * 1000, "table.bin": b"one\ntwo\n", "gone.bin": b"gone"}
    with_filter(project, files)
    (project / "dirty.bin").write_bytes(b"not added\n")
    before = everything(project)
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    (project / "photo.bin").write_bytes(b"\0other\n")
    (project / "table.bin").write_bytes(b"one\nTWO\n")
    (project / "dirty.bin").write_bytes(b"changed\n")
    (project / "gone.bin").unlink()
    await checkpoints.snapshotter.create(RUN, "after")
    changes = await checkpoints.changes.of(RUN)
    assert {file.path for file in changes.files} == {"photo.bin", "table.bin", "gone.bin", "dirty.bin"}
    assert "-two\n+TWO\n" in changes.diff
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


@pytest.mark.parametrize("attributes", ["", "*.bin -filter\n", "* filter=other\n"])
async def test_a_run_that_changes_filters_is_reverted(attributes: str, project: Path) -> None:
    with_filter(project, {"photo.bin": b"\0photo\n", "other.bin": b"\0other\n"})
    before = everything(project)
    checkpoints, _ = await a_run_that_writes(project, {"photo.bin": b"new\n", ".gitattributes": attributes.encode()})
    assert {file.path for file in (await checkpoints.changes.of(RUN)).files} == {"photo.bin", ".gitattributes"}
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


async def test_a_run_that_commits_a_file_with_a_filter_is_reverted(project: Path) -> None:
    with_filter(project, {"photo.bin": b"\0photo\n", "other.bin": b"\0other\n"})
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    (project / "photo.bin").write_bytes(b"\0longer photo\n")
    git(project, "commit", "-q", "-a", "-m", "by the agent")
    await checkpoints.snapshotter.create(RUN, "after")
    await checkpoints.reverter.revert(RUN)
    assert (project / "photo.bin").read_bytes() == b"\0photo\n"


async def test_a_large_file_with_a_filter_is_named_and_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "FILTERED_BYTES", 20)
    with_filter(project, {"large.bin": b"\0" * 100, "same.bin": b"\1" * 100, "small.bin": b"small\n"})
    checkpoints, _ = await a_run_that_writes(project, {"small.bin": b"SMALL\n"})
    assert [file.path for file in (await checkpoints.reverter.revert(RUN)).files] == ["small.bin"]
    assert (project / "small.bin").read_bytes() == b"small\n"
    checkpoints, _ = await a_run_that_writes(project, {"small.bin": b"SMALL\n", "large.bin": b"larger\n"})
    assert {file.path for file in (await checkpoints.changes.of(RUN)).files} == {"small.bin", "large.bin"}
    before = everything(project)
    with pytest.raises(NoCheckpoint, match=r"large\.bin"):
        await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


async def test_a_new_large_file_with_a_filter_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is new since the server opened the project, as after the user has switched to another branch."""
    monkeypatch.setattr(filters, "FILTERED_BYTES", 20)
    checkpoints = Checkpoints(project, "proj_1")
    with_filter(project, {"large.bin": b"\0" * 100})
    await checkpoints.snapshotter.create(RUN, "before")
    (project / "large.bin").write_bytes(b"larger\n")
    await checkpoints.snapshotter.create(RUN, "after")
    with pytest.raises(NoCheckpoint, match=r"large\.bin"):
        await checkpoints.reverter.revert(RUN)


async def test_a_file_with_a_non_utf8_name_may_have_a_filter(project: Path) -> None:
    with_filter(project, {"photo.bin": b"photo\n", os.fsdecode(b"\xfcbung.bin"): b"one\n"})
    before = everything(project)
    checkpoints, _ = await a_run_that_writes(project, {os.fsdecode(b"\xfcbung.bin"): b"two\n"})
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


def test_the_smallest_files_are_read_up_to_a_total_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that no longer exists is ignored."""
    monkeypatch.setattr(filters, "FILTERED_BYTES", 30)
    for name, size in {"ten": 10, "twenty": 20, "one": 1}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    assert filters.smallest(tmp_path, ["twenty", "ten", "gone", "one"]) == {"one", "ten"}


def test_an_unchanged_file_with_a_new_filter_counts_as_unread() -> None:
    """Its entry may contain what the filter produced. Files that were read before are read again."""
    same, other = b"\1" * 20, b"\2" * 20
    known = {"old.bin": f"100644 {other.hex()} 0", "same.bin": f"100644 {same.hex()} 0", "new.bin": "100644 ff 0"}
    earlier = {"old.bin": (0o100644, other), "same.bin": (0o100644, same), "new.bin": (0o100644, other)}
    found = filters.filtered_since(frozenset({"old.bin", "gone.bin"}), known, earlier)
    assert found.read == {"old.bin", "gone.bin", "new.bin"}
    assert found.unread == {"same.bin"}


def test_a_run_that_changes_unread_files_names_some_of_them() -> None:
    filters.check_read(frozenset({"a"}), ["b"])
    paths = [f"{number}.bin" for number in range(8)]
    with pytest.raises(NoCheckpoint, match=r"applies to 0\.bin, 1\.bin, 2\.bin, 3\.bin, 4\.bin and others, and"):
        filters.check_read(frozenset(paths), paths)


LISTS = [".gitattributes", ".git/info/attributes", "person", "deeper/.gitattributes"]


@pytest.mark.parametrize("name", LISTS)
async def test_any_list_of_attributes_may_name_a_filter(
    name: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list is written after the last checkpoint, when no file had a filter."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    (project / "deeper").mkdir()
    (project / "deeper/photo.bin").write_bytes(b"photo\n")
    git(project, "add", ".")
    checkpoints = Checkpoints(project, "proj_1")
    async with checkpoints.operations.exclusive() as running:
        await checkpoints.work_tree.current(running, "HEAD")
    file = tmp_path / "configuration/git/attributes" if name == "person" else project / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[attr]odd filter=odd\n*.bin odd\n" if "deeper" not in name else "*.bin filter=odd\n")
    async with checkpoints.operations.exclusive() as running:
        found = (await checkpoints.work_tree.current(running, "HEAD"))[1]
    assert found.read == {"deeper/photo.bin"}


async def test_git_does_not_search_for_filters_without_attributes(
    project: Path, calls: Callable[[], list[str]]
) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    (project / ".gitattributes").write_text("*.txt text=auto\n")
    git(project, "add", ".")
    async with checkpoints.operations.exclusive() as running:
        calls()
        await checkpoints.work_tree.current(running, "HEAD")
        assert not [call for call in calls() if "attr:" in call]
        (project / ".gitattributes").unlink()  # git then reads the list in the index
        await checkpoints.work_tree.current(running, "HEAD")
        assert [call for call in calls() if "attr:" in call]
