"""Clients see what a run changed. The tests use the real git."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.changes import ESCAPED, LARGEST_DIFF, beginning_of
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import NoCheckpoint
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.frames import encode
from drawbridge.server.protocol.messages import FRAME_BYTES
from tests import programs
from tests.server.checkpoints.rig import RUN, a_run, everything, git
from tests.waiting import PATIENCE

ASKS_AT_ONCE = f"""
import asyncio, pathlib, sys, uvloop
from drawbridge.server.checkpoints.checkpoints import Checkpoints

async def main(project):
    checkpoints = Checkpoints(project, "proj_1")
    for number in range(3):
        await checkpoints.snapshotter.create({RUN!r}, "before")
        (project / "poem.txt").write_text(str(number))
        looking = asyncio.ensure_future(checkpoints.snapshotter.create({RUN!r}, "after"))
        await asyncio.sleep(0)
        print([file.path for file in (await checkpoints.changes.of({RUN!r})).files])
        await looking

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main(pathlib.Path(sys.argv[1])))
"""


def test_changes_can_be_requested_as_the_run_ends(project: Path) -> None:
    """This runs in a separate process, because uvloop keeps a pipe open for as long as its process lives."""
    programs.uvloop()
    command = [sys.executable, "-c", ASKS_AT_ONCE, str(project)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
    assert output.splitlines() == ["['poem.txt']"] * 3


async def test_a_runs_changed_files_are_listed(project: Path) -> None:
    changes = await (await a_run(project)).changes.of(RUN)
    assert {(file.path, file.change) for file in changes.files} == {
        ("poem.txt", "changed"), ("new.bin", "added"), ("old.txt", "deleted")
    }  # fmt: skip
    assert "-line 3\n+LINE 3\n" in changes.diff


async def test_a_users_display_settings_change_nothing(project: Path) -> None:
    for name, value in {
        "diff.noprefix": "true",
        "color.ui": "always",
        "diff.upper.textconv": "tr a-z A-Z <",
        "diff.external": "false",
        "apply.whitespace": "error",
    }.items():
        git(project, "config", name, value)
    (project / ".gitattributes").write_text("poem.txt diff=upper\n")
    before = everything(project)
    checkpoints = await a_run(project)
    assert "-line 3\n+LINE 3\n" in (await checkpoints.changes.of(RUN)).diff
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


async def test_attributes_do_not_hide_what_a_run_changed(project: Path) -> None:
    (project / ".gitattributes").write_text("*.txt -diff\n*.bin diff\n")
    before = everything(project)
    checkpoints = await a_run(project)
    diff = (await checkpoints.changes.of(RUN)).diff
    assert "-line 3\n+LINE 3\n" in diff
    assert "Binary files /dev/null and b/new.bin differ\n" in diff
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


@pytest.mark.parametrize("is_added", [False, True])
async def test_ident_does_not_hide_what_a_run_changed(is_added: bool, project: Path) -> None:
    """git stores only "$Id$" for such a line, also in the user's index if the agent adds the file to it."""
    before = everything(project)
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    (project / ".git" / "info" / "attributes").write_text("*.txt ident\n")
    (project / "poem.txt").write_text(before["poem.txt"].decode().replace("line 3\n", "$Id: hidden $\n"))
    os.utime(project / "poem.txt", (1, 1))
    if is_added:
        git(project, "add", "poem.txt")
        assert "\n$Id$\n" in git(project, "show", ":poem.txt")
    await checkpoints.snapshotter.create(RUN, "after")
    assert "-line 3\n+$Id: hidden $\n" in (await checkpoints.changes.of(RUN)).diff
    await checkpoints.reverter.revert(RUN)
    assert everything(project) == before


async def test_a_large_change_is_shown_in_part_and_reverted_fully(project: Path) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    before = everything(project)
    await checkpoints.snapshotter.create(RUN, "before")
    (project / "many").mkdir()
    for number in range(3_000):
        (project / "many" / f"{number:060}").write_text("\x01" * 150)
    await checkpoints.snapshotter.create(RUN, "after")
    changes = await checkpoints.reverter.revert(RUN)
    assert changes.truncated
    assert 1_000 < len(changes.files) < 3_000
    assert len(encode(Answer(type="run_changes", data=changes))) < FRAME_BYTES
    assert everything(project) == before
    assert not (project / "many").exists()


async def test_a_run_that_has_not_ended_has_no_changes_yet(project: Path) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    with pytest.raises(NoCheckpoint):
        await checkpoints.changes.of(RUN)


def test_the_beginning_of_a_diff_fits_into_a_message(tmp_path: Path) -> None:
    """Control characters take six bytes each in JSON."""
    patch = tmp_path / "patch"
    patch.write_text("short\n")
    assert beginning_of(patch) == ("short\n", False)
    patch.write_text("a" * LARGEST_DIFF + "b")
    assert beginning_of(patch) == ("a" * LARGEST_DIFF, True)
    patch.write_text("\1" * LARGEST_DIFF)
    diff, more = beginning_of(patch)
    assert more
    assert len(diff) * 6 <= ESCAPED
