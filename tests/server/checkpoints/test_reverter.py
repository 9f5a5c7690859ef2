"""Reverting a run restores exactly what it changed, and keeps what was changed after it. The tests use the real git."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import Changed
from drawbridge.server.checkpoints.reverter import first_conflict
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.frames import encode
from tests.server.checkpoints.rig import RUN, a_run, everything, make_project


async def test_a_revert_restores_the_files_exactly(project: Path) -> None:
    before = everything(project)
    checkpoints = await a_run(project)
    assert everything(project) != before
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


async def test_later_changes_elsewhere_are_kept(project: Path) -> None:
    checkpoints = await a_run(project)
    text = (project / "poem.txt").read_text()
    (project / "poem.txt").write_text(text.replace("line 18\n", "my line 18\n"))
    await checkpoints.reverter.revert(RUN)
    assert (project / "poem.txt").read_text() == "".join(
        f"{'my ' if number == 18 else ''}line {number}\n" for number in range(1, 21)
    )


async def test_lines_changed_since_are_named_and_nothing_is_reverted(project: Path) -> None:
    checkpoints = await a_run(project)
    text = (project / "poem.txt").read_text()
    (project / "poem.txt").write_text("two lines\nmore\n" + text.replace("LINE 3\n", "my line 3\n"))
    before = everything(project)
    with pytest.raises(Changed) as refused:
        await checkpoints.reverter.revert(RUN)
    assert refused.value.paths == ("poem.txt",)
    assert str(refused.value) == "poem.txt (line 5)"
    assert everything(project) == before


async def test_changes_are_reverted_in_place_among_similar_lines(project: Path) -> None:
    def write(letters: str) -> None:
        (project / "poem.txt").write_text("".join(f"{letter}\n" for letter in letters))

    write("aabaabbbaaaabaababb")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    write("aabaabbbaaaabaabbb")
    await checkpoints.snapshotter.create(RUN, "after")
    write("aabaabbbaaaabbabbb")
    await checkpoints.reverter.revert(RUN)
    assert (project / "poem.txt").read_text().replace("\n", "") == "aabaabbbaaaabbababb"


async def test_changes_already_reverted_by_hand_are_accepted(project: Path) -> None:
    before = everything(project)
    checkpoints = await a_run(project)
    (project / "old.txt").write_text("old\n")
    (project / "new.bin").unlink()
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


async def test_a_file_created_since_is_not_overwritten(project: Path) -> None:
    checkpoints = await a_run(project)
    (project / "old.txt").write_text("mine now\n")
    with pytest.raises(Changed) as refused:
        await checkpoints.reverter.revert(RUN)
    assert (refused.value.paths, refused.value.lines) == (("old.txt",), {})
    assert (project / "old.txt").read_text() == "mine now\n"


async def test_reverting_in_a_subdirectory_changes_only_its_files(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    (inner / "poem.txt").write_text("line 3\n")
    (inner / "old.txt").write_text("old\n")
    checkpoints = await a_run(inner)
    (project / "poem.txt").write_text("mine\n")
    changes = await checkpoints.reverter.revert(RUN)
    assert {file.path for file in changes.files} == {"poem.txt", "new.bin", "old.txt"}
    assert (inner / "old.txt").read_text() == "old\n"
    assert (project / "poem.txt").read_text() == "mine\n"


async def test_names_with_spaces_umlauts_and_line_breaks_are_reverted(project: Path) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    names = ["two words.txt", "übung.txt", "line\nbreak.txt", "-rf"]
    for name in names:
        (project / name).write_text(name)
    await checkpoints.snapshotter.create(RUN, "after")
    assert {file.path for file in (await checkpoints.changes.of(RUN)).files} == set(names)
    await checkpoints.reverter.revert(RUN)
    assert [name for name in names if (project / name).exists()] == []


async def test_text_that_is_not_utf8_is_restored_exactly(project: Path) -> None:
    name, other = os.fsencode(project) + b"/\xfcbung", os.fsencode(project) + b"/\xe4nderung"
    for path in (name, other):
        Path(os.fsdecode(path)).write_bytes(b"\xe4 one\n")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    for path in (name, other):
        Path(os.fsdecode(path)).write_bytes(b"\xe4 two\n")
    await checkpoints.snapshotter.create(RUN, "after")
    changes = await checkpoints.changes.of(RUN)
    assert "\N{REPLACEMENT CHARACTER} two".encode() in encode(Answer(type="run_changes", data=changes))
    Path(os.fsdecode(other)).write_bytes(b"mine\n")
    with pytest.raises(Changed) as refused:
        await checkpoints.reverter.revert(RUN)
    encode(Answer(type="error", data=refused.value.paths))
    Path(os.fsdecode(other)).write_bytes(b"\xe4 two\n")
    await checkpoints.reverter.revert(RUN)
    assert Path(os.fsdecode(name)).read_bytes() == b"\xe4 one\n"


async def test_a_directory_that_replaced_a_file_is_reverted(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    (project / "old.txt").unlink()
    (project / "old.txt").mkdir()
    (project / "old.txt" / "new").write_text("new\n")
    await checkpoints.snapshotter.create(RUN, "after")
    changes = await checkpoints.changes.of(RUN)
    assert {file.path: file.change for file in changes.files} == {"old.txt": "deleted", "old.txt/new": "added"}
    await checkpoints.reverter.revert(RUN)
    assert (project / "old.txt").read_text() == "old\n"


def test_the_first_line_in_conflict_is_found() -> None:
    before, after = "a\nb\nc\nd\n", "a\nB\nc\nD\n"
    assert first_conflict("a\nmine\nc\nD\n", after, before) == 2
    assert first_conflict("new\na\nB\nc\nmine\n", after, before) == 5
    assert first_conflict("mine\na\nB\nc\nD\n", after, before) is None
