"""A run's changes are shown and reverted, and the user's own git state is never touched. The tests use the
real git.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drawbridge.server.checkpoints import checkpoints as module
from drawbridge.server.checkpoints import commits
from drawbridge.server.checkpoints.checkpoints import Changed, Checkpoints, RunChanges
from drawbridge.server.checkpoints.git import NoCheckpoint
from drawbridge.server.protocol.messages import FRAME_BYTES, Answer, encode
from drawbridge.server.sessions.limits import Limits
from tests.server.checkpoints.rig import RUN, a_run, everything, git, make_project
from tests.server.core_rig import Client, Server, serving
from tests.waiting import PATIENCE, until


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "ws")


ASKS_AT_ONCE = f"""
import asyncio, pathlib, sys, uvloop
from drawbridge.server.checkpoints.checkpoints import Checkpoints

async def main(project):
    checkpoints = Checkpoints(project, "proj_1")
    for number in range(3):
        await checkpoints.take({RUN!r}, "before")
        (project / "poem.txt").write_text(str(number))
        looking = asyncio.ensure_future(checkpoints.take({RUN!r}, "after"))
        await asyncio.sleep(0)
        print([file.path for file in (await checkpoints.changes({RUN!r})).files])
        await looking

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main(pathlib.Path(sys.argv[1])))
"""


def test_changes_can_be_requested_as_the_run_ends(project: Path) -> None:
    """This runs in a separate process, because uvloop keeps a pipe open for as long as its process lives."""
    pytest.importorskip("uvloop")
    command = [sys.executable, "-c", ASKS_AT_ONCE, str(project)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
    assert said.splitlines() == ["['poem.txt']"] * 3


def own_git(project: Path) -> list[str]:
    questions = ("status --porcelain", "branch -v", "stash list", "diff --cached", "log --oneline")
    return [git(project, *words.split(" ")) for words in questions]


async def test_a_runs_changed_files_are_listed(project: Path) -> None:
    changes = await (await a_run(project)).changes(RUN)
    assert {(file.path, file.change) for file in changes.files} == {
        ("poem.txt", "changed"), ("new.bin", "added"), ("old.txt", "deleted")
    }  # fmt: skip
    assert "-line 3\n+LINE 3\n" in changes.diff


async def test_a_run_has_priority_over_requests_of_clients(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many clients send requests, a run waits for at most one of them. Identical requests are executed once."""
    checkpoints, read, done = Checkpoints(project, "proj_1"), list[str](), list[str]()
    runs = [f"run_{number}" for number in range(5)]
    for run in runs:
        await checkpoints.take(run, "before")
        (project / "poem.txt").write_text(run)
        await checkpoints.take(run, "after")
    reads = Checkpoints._changes

    async def counted(self: Checkpoints, run_id: str) -> RunChanges:
        read.append(run_id)
        return await reads(self, run_id)

    async def asks(run: str) -> None:
        assert run in (await checkpoints.changes(run)).diff
        done.append(run)

    monkeypatch.setattr(Checkpoints, "_changes", counted)
    asking = [asyncio.create_task(asks(run)) for run in runs for _ in range(20)]
    await asyncio.sleep(0)
    await checkpoints.begin("run_next")
    done.append("run_next")
    await asyncio.gather(*asking)
    await checkpoints.stored()
    assert set(done[: done.index("run_next")]) <= {runs[0]}
    assert read == runs


async def test_a_revert_restores_exactly(project: Path) -> None:
    before = everything(project)
    checkpoints = await a_run(project)
    assert everything(project) != before
    await checkpoints.revert(RUN)
    assert everything(project) == before


async def test_later_changes_elsewhere_are_kept(project: Path) -> None:
    checkpoints = await a_run(project)
    text = (project / "poem.txt").read_text()
    (project / "poem.txt").write_text(text.replace("line 18\n", "my line 18\n"))
    await checkpoints.revert(RUN)
    assert (project / "poem.txt").read_text() == "".join(
        f"{'my ' if number == 18 else ''}line {number}\n" for number in range(1, 21)
    )


async def test_lines_changed_since_are_named_and_nothing_is_reverted(project: Path) -> None:
    checkpoints = await a_run(project)
    text = (project / "poem.txt").read_text()
    (project / "poem.txt").write_text("two lines\nmore\n" + text.replace("LINE 3\n", "my line 3\n"))
    before = everything(project)
    with pytest.raises(Changed) as refused:
        await checkpoints.revert(RUN)
    assert refused.value.paths == ("poem.txt",)
    assert str(refused.value) == "poem.txt (line 5)"
    assert everything(project) == before


async def test_changes_are_reverted_in_place_among_similar_lines(project: Path) -> None:
    def write(letters: str) -> None:
        (project / "poem.txt").write_text("".join(f"{letter}\n" for letter in letters))

    write("aabaabbbaaaabaababb")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    write("aabaabbbaaaabaabbb")
    await checkpoints.take(RUN, "after")
    write("aabaabbbaaaabbabbb")
    await checkpoints.revert(RUN)
    assert (project / "poem.txt").read_text().replace("\n", "") == "aabaabbbaaaabbababb"


async def test_changes_already_reverted_by_hand_are_accepted(project: Path) -> None:
    before = everything(project)
    checkpoints = await a_run(project)
    (project / "old.txt").write_text("old\n")
    (project / "new.bin").unlink()
    await checkpoints.revert(RUN)
    assert everything(project) == before


async def test_a_change_in_the_second_in_which_git_looked_is_seen(project: Path) -> None:
    """The file's size and modification time stay the same. git compares the contents if its index isn't newer than the
    file.
    """
    poem, index = project / "poem.txt", project / ".git" / "index"
    then = 1_700_000_000
    git(project, "config", "core.trustctime", "false")
    os.utime(poem, (then, then))
    git(project, "update-index", "--really-refresh", "-q")
    os.utime(index, (then, then))
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    poem.write_text(poem.read_text().replace("line 3", "LINE 3"))
    os.utime(poem, (then, then))
    await checkpoints.take(RUN, "after")
    assert [file.path for file in (await checkpoints.changes(RUN)).files] == ["poem.txt"]


async def test_a_file_created_since_is_not_overwritten(project: Path) -> None:
    checkpoints = await a_run(project)
    (project / "old.txt").write_text("mine now\n")
    with pytest.raises(Changed) as refused:
        await checkpoints.revert(RUN)
    assert (refused.value.paths, refused.value.lines) == (("old.txt",), {})
    assert (project / "old.txt").read_text() == "mine now\n"


async def test_the_persons_index_branches_and_stash_are_never_touched(project: Path) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    before = own_git(project)
    await checkpoints.take(RUN, "before")
    await checkpoints.take(RUN, "after")
    assert own_git(project) == before


async def test_no_hook_of_the_repository_runs(project: Path) -> None:
    for name in ("pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        hook = project / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {project}/ran-{name}\n")
        hook.chmod(0o755)
    await a_run(project)
    assert list(project.glob("ran-*")) == []


async def test_a_repository_without_a_commit_has_checkpoints_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "poem.txt").write_text("line 3\n")
    (tmp_path / "old.txt").write_text("old\n")
    before = everything(tmp_path)
    await (await a_run(tmp_path)).revert(RUN)
    assert everything(tmp_path) == before


async def test_a_project_inside_a_repository_has_only_its_files(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    (inner / "poem.txt").write_text("line 3\n")
    (inner / "old.txt").write_text("old\n")
    checkpoints = await a_run(inner)
    (project / "poem.txt").write_text("mine\n")
    changes = await checkpoints.revert(RUN)
    assert {file.path for file in changes.files} == {"poem.txt", "new.bin", "old.txt"}
    assert (inner / "old.txt").read_text() == "old\n"
    assert (project / "poem.txt").read_text() == "mine\n"


async def test_names_with_spaces_umlauts_and_line_breaks(project: Path) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    names = ["two words.txt", "übung.txt", "line\nbreak.txt", "-rf"]
    for name in names:
        (project / name).write_text(name)
    await checkpoints.take(RUN, "after")
    assert {file.path for file in (await checkpoints.changes(RUN)).files} == set(names)
    await checkpoints.revert(RUN)
    assert [name for name in names if (project / name).exists()] == []


async def test_files_ignored_before_a_run_are_never_removed(project: Path) -> None:
    """A run may make git track such a file, but did not create it."""
    (project / "build").mkdir()
    (project / "build" / "result.log").write_text("mine\n")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    (project / ".gitignore").write_text("")
    (project / "made.log").write_text("by the run\n")
    git(project, "add", "-f", "noise.log")
    await checkpoints.take(RUN, "after")
    changed = {(file.path, file.change) for file in (await checkpoints.revert(RUN)).files}
    assert changed == {(".gitignore", "changed"), ("made.log", "added")}
    assert (project / "noise.log").read_text() == "noise\n"
    assert (project / "build" / "result.log").read_text() == "mine\n"
    assert not (project / "made.log").exists()


async def test_files_that_a_run_makes_git_ignore_are_restored(project: Path) -> None:
    before = everything(project)
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    (project / ".gitignore").write_text("mine.txt\n")
    (project / "mine.txt").write_text("not mine any more\n")
    await checkpoints.take(RUN, "after")
    assert {file.path for file in (await checkpoints.revert(RUN)).files} == {".gitignore", "mine.txt"}
    assert everything(project) == before


async def test_nested_repositories_are_left_alone(project: Path, tmp_path: Path) -> None:
    for name in ("sub", "new"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
        (tmp_path / name / "text").write_text("text\n")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "-q", "-m", "one")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tmp_path / "sub"), "sub")
    (project / "empty").mkdir()
    git(project / "empty", "init", "-q")
    checkpoints = Checkpoints(project, "proj_1")
    assert await checkpoints.take(RUN, "before")
    (project / "sub" / "text").write_text("changed\n")
    git(project / "sub", "commit", "-q", "-a", "-m", "two")
    (tmp_path / "new").rename(project / "new")
    (project / "poem.txt").write_text("changed\n")
    assert await checkpoints.take(RUN, "after")
    assert [file.path for file in (await checkpoints.revert(RUN)).files] == ["poem.txt"]
    assert (project / "poem.txt").read_text().startswith("line 1\n")
    assert (project / "sub" / "text").read_text() == "changed\n"
    assert (project / "new" / "text").read_text() == "text\n"


async def test_a_persons_display_settings_change_nothing(project: Path) -> None:
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
    assert "-line 3\n+LINE 3\n" in (await checkpoints.changes(RUN)).diff
    await checkpoints.revert(RUN)
    assert everything(project) == before


async def test_text_that_is_not_utf8_is_restored_exactly(project: Path) -> None:
    name, other = os.fsencode(project) + b"/\xfcbung", os.fsencode(project) + b"/\xe4nderung"
    for path in (name, other):
        Path(os.fsdecode(path)).write_bytes(b"\xe4 one\n")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    for path in (name, other):
        Path(os.fsdecode(path)).write_bytes(b"\xe4 two\n")
    await checkpoints.take(RUN, "after")
    changes = await checkpoints.changes(RUN)
    assert "\N{REPLACEMENT CHARACTER} two".encode() in encode(Answer(type="run_changes", data=changes))
    Path(os.fsdecode(other)).write_bytes(b"mine\n")
    with pytest.raises(Changed) as refused:
        await checkpoints.revert(RUN)
    encode(Answer(type="error", data=refused.value.paths))
    Path(os.fsdecode(other)).write_bytes(b"\xe4 two\n")
    await checkpoints.revert(RUN)
    assert Path(os.fsdecode(name)).read_bytes() == b"\xe4 one\n"


async def test_a_large_change_is_shown_in_part_and_reverted_fully(project: Path) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    before = everything(project)
    await checkpoints.take(RUN, "before")
    (project / "many").mkdir()
    for number in range(3_000):
        (project / "many" / f"{number:060}").write_text("\x01" * 150)
    await checkpoints.take(RUN, "after")
    changes = await checkpoints.revert(RUN)
    assert changes.truncated
    assert 1_000 < len(changes.files) < 3_000
    assert len(encode(Answer(type="run_changes", data=changes))) < FRAME_BYTES
    assert everything(project) == before
    assert not (project / "many").exists()


async def test_without_git_a_missing_checkpoint_is_explained(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    checkpoints = Checkpoints(project, "proj_1")
    assert not await checkpoints.take(RUN, "before")
    with pytest.raises(NoCheckpoint):
        await checkpoints.revert(RUN)


async def test_outside_of_git_a_missing_checkpoint_is_explained(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "proj_1")
    assert not await checkpoints.take(RUN, "before")
    with pytest.raises(NoCheckpoint):
        await checkpoints.changes(RUN)
    with pytest.raises(NoCheckpoint):
        await checkpoints.revert(RUN)


async def test_a_run_that_has_not_ended_has_no_changes_yet(project: Path) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    with pytest.raises(NoCheckpoint):
        await checkpoints.changes(RUN)


def refs(project: Path) -> list[str]:
    return git(project, "for-each-ref", "--format=%(refname)", "refs/drawbridge").split()


async def test_a_run_without_an_end_leaves_no_checkpoint(project: Path) -> None:
    """For example, the server is killed during the run, or the checkpoint after the run fails."""
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take("run_0", "before")
    await Checkpoints(project, "proj_2").take("run_9", "before")
    await checkpoints.take(RUN, "before")
    assert len(refs(project)) == 3
    await checkpoints.take(RUN, "after")
    own = f"refs/drawbridge/proj_1/{RUN}"
    assert refs(project) == [f"{own}/after", f"{own}/before", "refs/drawbridge/proj_2/run_9/before"]


async def ended(checkpoints: Checkpoints, run: str) -> None:
    for when in ("before", "after"):
        await checkpoints.take(run, when)


async def test_the_latest_runs_keep_their_checkpoints(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They include the last run, even if the clock was set back before it."""
    monkeypatch.setattr(module, "KEPT_RUNS", 2)
    checkpoints = Checkpoints(project, "proj_1")
    for second, run in ((1, "run_a"), (3, "run_b"), (2, "run_c"), (0, "run_d")):
        at = {"GIT_COMMITTER_DATE": f"{1_800_000_000 + second} +0000"}
        monkeypatch.setattr(commits, "AUTHOR", commits.AUTHOR | at)
        await ended(checkpoints, run)
    assert {ref.split("/")[3] for ref in refs(project)} == {"run_b", "run_c", "run_d"}


async def test_the_checkpoints_of_a_project_can_be_removed(project: Path) -> None:
    other = Checkpoints(project, "proj_10")
    await other.take(RUN, "before")
    await (await a_run(project)).remove()
    assert refs(project) == [f"refs/drawbridge/proj_10/{RUN}/before"]


REFS = 5
"""The number of refs of a project with one run: two checkpoints, and the three trees of the review."""


async def deleted_project(server: Server) -> tuple[Path, Path]:
    """Deletes a project that has the checkpoints of one run. Returns its directory, and the directory of its data in
    the trash.
    """
    phone = Client()
    id = await server.project(phone, "one")
    project = server.root / "one"
    git(project, "init", "-q")
    (project / "poem.txt").write_text("one\n")
    (await server.running(phone, id)).ends()
    await until(lambda: len(refs(project)) == REFS, "the checkpoints")
    await server.does(phone, "project_delete", id)
    [deleted] = (server.folder / "data" / "trash").iterdir()
    return project, deleted


async def after_seven_days(server: Server, deleted: Path) -> None:
    os.utime(deleted, (0, 0))
    await server.core.maintenance.clean()
    assert not deleted.exists()


async def test_a_deleted_project_leaves_no_checkpoints(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits()) as server:
        project, deleted = await deleted_project(server)
        await server.core.maintenance.clean()
        assert len(refs(project)) == REFS, "a deleted project can be restored for 7 days"
        await after_seven_days(server, deleted)
        assert refs(project) == []


async def test_a_restored_project_keeps_its_checkpoints(tmp_path: Path) -> None:
    """The owner has copied the project's data back from the trash."""
    async with serving(tmp_path, Limits()) as server:
        project, deleted = await deleted_project(server)
    shutil.copytree(deleted, tmp_path / "data" / "projects" / deleted.name.rpartition("-")[0])
    async with serving(tmp_path, Limits()) as server:
        await after_seven_days(server, deleted)
        assert len(refs(project)) == REFS


async def test_a_repository_that_is_no_longer_allowed_is_left_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, Limits()) as server:
        project, deleted = await deleted_project(server)
    async with serving(tmp_path, Limits(), tmp_path / "other") as server:
        await after_seven_days(server, deleted)
        assert len(refs(project)) == REFS


async def test_a_repository_that_git_cannot_read_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The project's data is still removed from the trash."""
    async with serving(tmp_path, Limits()) as server:
        project, deleted = await deleted_project(server)
        (project / ".git" / "config").write_text("[broken")
        await after_seven_days(server, deleted)
        [warning] = [one.message for one in caplog.records if "could not remove the checkpoints" in one.message]
        assert deleted.name.rpartition("-")[0] in warning


async def test_a_directory_in_place_of_a_file_is_seen_and_reverted(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    (project / "old.txt").unlink()
    (project / "old.txt").mkdir()
    (project / "old.txt" / "new").write_text("new\n")
    await checkpoints.take(RUN, "after")
    changes = await checkpoints.changes(RUN)
    assert {file.path: file.change for file in changes.files} == {"old.txt": "deleted", "old.txt/new": "added"}
    await checkpoints.revert(RUN)
    assert (project / "old.txt").read_text() == "old\n"
