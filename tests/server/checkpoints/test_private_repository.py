"""A directory that is not in a git work tree has its checkpoints in a private repository. The tests use the
real git.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from drawbridge.agents.memory import MB
from drawbridge.core.errors import DrawbridgeError
from drawbridge.server.checkpoints import commits, private, refs, shell
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import Changed, GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.index_cache import INDEX
from drawbridge.server.checkpoints.private import Largest
from drawbridge.server.reviews.decisions import HunkGone, RequestedDecision, ReviewMoved
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.server.reviews.reviews import Review
from tests import programs
from tests.server.checkpoints.rig import RUN, git, hanging, time_ends_at
from tests.server.checkpoints.test_hostile_repository import spy  # noqa: F401 - a fixture

POEM = "".join(f"line {number}\n" for number in range(1, 21))


@pytest.fixture(autouse=True)
def with_git() -> None:
    programs.git()


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "home"
    directory.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return directory


@pytest.fixture
def plain(own_home: Path, tmp_path: Path) -> Path:
    """A directory that is not in a git work tree. ``Kept`` creates the server's data directory next to it."""
    directory = tmp_path / "plain"
    directory.mkdir()
    (directory / "poem.txt").write_text(POEM)
    (directory / "old.txt").write_text("old\n")
    return directory


class Kept:
    """The checkpoints and the review of one directory."""

    def __init__(self, directory: Path, largest: Largest = Largest()) -> None:  # noqa: B008 - frozen
        self.directory = directory
        self.folder = directory.parent / "data"
        self.folder.mkdir(exist_ok=True)
        self.review = Review("proj_1", self.folder)
        self.checkpoints = Checkpoints(
            directory, "proj_1", folder=self.folder, on_stored=self.review.extend, largest=largest
        )

    @property
    def repository(self) -> Path:
        return self.folder / private.NAME

    async def run(self, work: Callable[[Path], object], run: str = RUN) -> None:
        assert await self.checkpoints.snapshotter.create(run, "before")
        work(self.directory)
        assert await self.checkpoints.snapshotter.create(run, "after")

    async def changed(self, run: str = RUN) -> dict[str, str]:
        return {file.path: file.change for file in (await self.checkpoints.changes.of(run)).files}

    async def seen(self) -> OpenReview:
        async with self.checkpoints.operations.exclusive() as running:
            return await self.review.current(running, self.checkpoints.work_tree)

    async def decide(self, wish: RequestedDecision) -> OpenReview:
        async with self.checkpoints.operations.exclusive() as running:
            return (await self.review.decide(running, self.checkpoints.work_tree, wish)).review


def state(directory: Path) -> dict[str, object]:
    """Everything in the directory, by relative path: contents, links and modes."""
    found: dict[str, object] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = (path.read_bytes(), path.stat().st_mode)
        else:
            found[name] = path.lstat().st_mode
    return found


def three_files(directory: Path) -> None:
    (directory / "poem.txt").write_text(POEM.replace("line 3\n", "LINE 3\n").replace("line 17\n", "LINE 17\n"))
    (directory / "new.bin").write_bytes(b"\0\xff\n")
    (directory / "old.txt").unlink()


async def test_showing_and_reverting_a_run_writes_nothing_else(plain: Path) -> None:
    before = state(plain)
    kept = Kept(plain)
    await kept.run(three_files)
    after = state(plain)
    assert await kept.changed() == {"poem.txt": "changed", "new.bin": "added", "old.txt": "deleted"}
    assert state(plain) == after
    await kept.checkpoints.reverter.revert(RUN)
    assert state(plain) == before
    assert [path for path in kept.folder.rglob("*") if path.lstat().st_mode & 0o077] == []


@pytest.mark.thorough
async def test_a_review_is_decided_hunk_by_hunk(plain: Path) -> None:
    kept = Kept(plain)
    await kept.run(three_files)
    review = await kept.seen()
    assert review.private
    ids = {file.path: [hunk.id for hunk in file.hunks] for file in review.files}
    assert {path: len(hunks) for path, hunks in ids.items()} == {"new.bin": 1, "old.txt": 1, "poem.txt": 2}
    await kept.decide(RequestedDecision("phone", "undo", (ids["poem.txt"][0], *ids["old.txt"])))
    await kept.decide(RequestedDecision("phone", "keep", tuple(ids["new.bin"])))
    left = await kept.decide(RequestedDecision("phone", "edit", (ids["poem.txt"][1],), text="seventeen\n"))
    assert (left.files, left.private) == ((), True)
    assert (plain / "poem.txt").read_text() == POEM.replace("line 17\n", "seventeen\n")
    assert sorted(os.listdir(plain)) == ["new.bin", "old.txt", "poem.txt"]


@pytest.mark.thorough
async def test_the_review_outlives_the_server(plain: Path) -> None:
    await Kept(plain).run(three_files)
    later = Kept(plain)
    assert len((await later.seen()).files) == 3
    await later.run(lambda directory: (directory / "more.txt").write_text("more\n"), "run_2")
    assert await later.changed("run_2") == {"more.txt": "added"}
    assert len((await later.seen()).files) == 4


async def test_files_that_are_ignored_by_default_are_left_out(plain: Path) -> None:
    """A ``.gitignore`` adds to the default list, and re-includes whatever it names after an exclamation mark."""
    (plain / ".gitignore").write_text("*.log\n!dist/\n")
    kept = Kept(plain)

    def work(directory: Path) -> None:
        for name in ("node_modules", ".venv", "venv", "target", "build", "dist", "__pycache__", ".cache", "src"):
            (directory / name).mkdir()
            (directory / name / "a.txt").write_text("a\n")
        for name in ("noise.log", "a.pyc", ".DS_Store"):
            (directory / name).write_text("noise\n")

    await kept.run(work)
    assert await kept.changed() == {"src/a.txt": "added", "dist/a.txt": "added"}


@pytest.mark.thorough
async def test_a_file_over_the_limit_is_left_out(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows over the limit during a run is still included, since it could not be reverted otherwise."""
    monkeypatch.setattr(private, "LARGEST_FILE", 1_000)
    (plain / "large.bin").write_bytes(b"\1" * 2_000)
    kept = Kept(plain)
    before = state(plain)

    def work(directory: Path) -> None:
        (directory / "large.bin").write_bytes(b"\2" * 2_000)
        (directory / "[l]arger *.bin").write_bytes(b"\2" * 2_000)
        (directory / "poem.txt").write_text(POEM * 100)

    await kept.run(work)
    assert await kept.changed() == {"poem.txt": "changed"}
    assert [file.path for file in (await kept.seen()).files] == ["poem.txt"]
    await kept.checkpoints.reverter.revert(RUN)
    after = state(plain)
    assert after["poem.txt"] == before["poem.txt"]
    assert after["large.bin"] != before["large.bin"]


@pytest.mark.parametrize("is_read_first", [True, False])
async def test_a_damaged_index_is_built_again(
    plain: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_read_first: bool
) -> None:
    """The next run, or the next client that reads the review, notices the damage."""
    monkeypatch.setattr(private, "LARGEST_FILE", 1_000)
    kept = Kept(plain)
    await kept.run(three_files)
    (plain / "poem.txt").write_text(POEM * 100)  # over the limit, but known
    index = kept.repository / INDEX
    index.write_bytes(index.read_bytes()[:40])
    kept = Kept(plain)  # the server was restarted
    if is_read_first:
        assert {file.path for file in (await kept.seen()).files} == {"new.bin", "old.txt", "poem.txt"}
    await kept.run(lambda directory: (directory / "next.txt").write_text("next\n"), "run_2")
    assert await kept.changed("run_2") == {"next.txt": "added"}
    assert f"{index} is damaged, and is built again" in caplog.text
    caplog.clear()
    await Kept(plain).run(lambda directory: (directory / "last.txt").write_text("last\n"), "run_3")
    assert "damaged" not in caplog.text


@pytest.mark.parametrize(
    ("largest", "words"),
    [
        (Largest(files=3), "more than 3 files.*--checkpoint-files"),
        (Largest(bytes=400), "MB.*--checkpoint-mb"),
    ],
)
async def test_a_directory_over_a_limit_is_refused_with_the_reason(largest: Largest, words: str, plain: Path) -> None:
    (plain / "poem.txt").write_text("a poem\n")
    kept = Kept(plain, largest)
    await kept.run(lambda directory: (directory / "poem.txt").write_text("another poem\n"))
    for number in range(3):
        (plain / f"{number}.txt").write_text("x" * 200)
    with pytest.raises(private.TooLarge, match=f"^Too large to review: .*{words}"):
        await kept.checkpoints.snapshotter.create("run_2", "before")
    assert [file.path for file in (await kept.seen()).files] == ["poem.txt"], "the earlier run can be decided on"
    with pytest.raises(private.TooLarge):
        await kept.checkpoints.changes.of("run_2")
    (plain / ".gitignore").write_text("?.txt\n")
    with pytest.raises(private.TooLarge):  # a run is not delayed by listing the files again so soon
        await kept.checkpoints.snapshotter.create("run_2", "before")
    assert (await kept.seen()).files, "a person who asks gets an answer"
    assert await kept.checkpoints.snapshotter.create("run_2", "before")


@pytest.mark.thorough
async def test_a_directory_that_takes_too_long_to_list_is_refused(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_ends_at(hanging(tmp_path, monkeypatch, "--others"), monkeypatch)
    with pytest.raises(private.TooLarge, match="can't be listed"):
        await Kept(plain).checkpoints.snapshotter.create(RUN, "before")


async def test_changes_can_be_decided_on_if_listing_takes_too_long(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The known files are still compared. Listing the others takes too long only after the run."""
    before = state(plain)
    kept = Kept(plain)
    await kept.run(three_files)
    time_ends_at(hanging(tmp_path, monkeypatch, "--others"), monkeypatch)
    (plain / "poem.txt").write_text(POEM)
    review = await kept.seen()
    assert [file.path for file in review.files] == ["new.bin", "old.txt"]
    await kept.decide(RequestedDecision("phone", "undo", all=True, version=review.version))
    assert state(plain) == before


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("which", "named"),
    [("home", "the home directory"), ("above", "the home directory"), ("data", "the server's data")],
)
async def test_a_home_directory_is_not_copied(which: str, named: str, own_home: Path, tmp_path: Path) -> None:
    (tmp_path / "data" / "one").mkdir(parents=True)
    directory = {"home": own_home, "above": tmp_path, "data": tmp_path / "data"}[which]
    with pytest.raises(NoCheckpoint, match=rf"is or contains {named}.*Work in one of its subdirectories"):
        await Checkpoints(directory, "proj_1", folder=tmp_path / "data" / "one").snapshotter.create(RUN, "before")
    assert not (tmp_path / "data" / "one" / private.NAME).exists()


@pytest.mark.thorough
async def test_a_directory_inside_a_git_directory_has_no_checkpoints(plain: Path) -> None:
    git(plain, "init", "-q")
    kept = Checkpoints(plain / ".git" / "info", "proj_1", folder=plain.parent)
    assert not await kept.snapshotter.create(RUN, "before")
    assert not (plain.parent / private.NAME).exists()


@pytest.mark.thorough
async def test_a_new_repository_is_used_once_everything_is_decided(plain: Path) -> None:
    """A run that makes the directory a repository is reviewed in the private repository, which has the checkpoint from
    before the run.
    """
    kept = Kept(plain)

    def work(directory: Path) -> None:
        three_files(directory)
        git(directory, "init", "-q")
        git(directory, "add", ".")
        git(directory, "commit", "-q", "-m", "by the agent")

    await kept.run(work)
    assert await kept.changed() == {"poem.txt": "changed", "new.bin": "added", "old.txt": "deleted"}
    await kept.run(lambda directory: (directory / "more.txt").write_text("more\n"), "run_2")
    review = await kept.seen()
    assert (len(review.files), review.private) == (4, True)
    assert git(plain, "for-each-ref", "refs/drawbridge") == ""
    await kept.decide(RequestedDecision("phone", "keep", all=True, version=review.version))
    await kept.run(lambda directory: (directory / "more.txt").write_text("yet more\n"), "run_3")
    review = await kept.seen()
    assert ([file.path for file in review.files], review.private) == (["more.txt"], False)
    assert not kept.repository.exists()
    shutil.rmtree(plain / ".git")
    await kept.run(lambda directory: (directory / "poem.txt").write_text("short\n"), "run_4")
    review = await kept.seen()
    assert ([file.path for file in review.files], review.private) == (["poem.txt"], True)


@pytest.mark.parametrize("kind", ["file", "link"])
async def test_a_pointer_to_another_repository_is_not_followed(kind: str, plain: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    kept = Kept(plain)
    await kept.run(lambda directory: None)
    if kind == "file":
        (plain / ".git").write_text(f"gitdir: {other / '.git'}\n")
    else:
        (plain / ".git").symlink_to(other / ".git")
    before = state(other)
    await kept.run(three_files, "run_2")
    assert (await kept.seen()).private
    await kept.checkpoints.reverter.revert("run_2")
    assert (plain / "poem.txt").read_text() == POEM
    assert state(other) == before


@pytest.mark.thorough
async def test_files_are_restored_byte_for_byte(plain: Path, own_home: Path) -> None:
    """Settings for line endings and encodings, in attributes and in the user's configuration, are not applied."""
    (own_home / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    (plain / ".gitattributes").write_text(
        "* text=auto eol=crlf ident\n*.rc working-tree-encoding=UTF-16\nold.txt binary\n"
    )
    contents = {"crlf.txt": b"one\r\ntwo\n", "menu.rc": b"not \xff UTF-16\r\n", "id.txt": b"$Id: x$\n"}
    for name, data in contents.items():
        (plain / name).write_bytes(data)
    before = state(plain)
    kept = Kept(plain)

    def work(directory: Path) -> None:
        for name in contents:
            (directory / name).write_bytes(b"other\r\n")
        (directory / "old.txt").write_text("new\n")

    await kept.run(work)
    assert "-old\n+new\n" in (await kept.checkpoints.changes.of(RUN)).diff
    await kept.checkpoints.reverter.revert(RUN)
    assert state(plain) == before


@pytest.mark.thorough
async def test_nested_repositories_are_not_changed(plain: Path) -> None:
    inside = plain / "inside"
    inside.mkdir()
    git(inside, "init", "-q")
    (inside / "a.txt").write_text("a\n")
    git(inside, "add", ".")
    git(inside, "commit", "-q", "-m", "one")
    kept = Kept(plain)

    def work(directory: Path) -> None:
        (directory / "inside" / "a.txt").write_text("b\n")
        (directory / "poem.txt").write_text("short\n")

    await kept.run(work)
    assert await kept.changed() == {"poem.txt": "changed"}
    await kept.run(work, "run_2")
    assert await kept.changed("run_2") == {}


@pytest.mark.thorough
async def test_files_a_run_makes_git_ignore_are_restored(plain: Path) -> None:
    kept = Kept(plain)
    before = state(plain)

    def work(directory: Path) -> None:
        (directory / ".gitignore").write_text("*.txt\n")
        (directory / "poem.txt").write_text("short\n")

    await kept.run(work)
    assert await kept.changed() == {".gitignore": "added", "poem.txt": "changed"}
    await kept.checkpoints.reverter.revert(RUN)
    assert state(plain) == before
    (plain / ".gitignore").write_text("*.txt\n")
    await kept.run(work, "run_2")
    assert await kept.changed("run_2") == {}
    await Kept(plain).run(work, "run_3")


def stored(kept: Kept) -> int:
    """The size of the files with objects, in bytes."""
    return sum(file.stat().st_size for file in (kept.repository / "objects").rglob("*") if file.is_file())


@pytest.mark.thorough
async def test_old_checkpoints_are_removed_with_their_contents(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refs, "KEPT_RUNS", 2)
    monkeypatch.setattr(private, "COLLECT_SECONDS", 0.0)
    kept = Kept(plain)
    for number in range(6):
        at = {"GIT_COMMITTER_DATE": f"{1_800_000_000 + number} +0000"}
        monkeypatch.setattr(commits, "AUTHOR", commits.AUTHOR | at)
        content = os.urandom(200_000)
        await kept.run(lambda directory: (directory / "noise.bin").write_bytes(content), f"run_{number}")  # noqa: B023
    assert 500_000 < stored(kept) < 1_000_000
    assert [path for path in kept.folder.rglob("*") if path.lstat().st_mode & 0o077] == []
    assert await kept.changed("run_5") == {"noise.bin": "changed"}
    with pytest.raises(NoCheckpoint):
        await kept.changed("run_1")


@pytest.mark.thorough
async def test_a_disk_that_cannot_be_written_is_a_reported_git_error(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No partial repository is left, and the checkpoint can be taken later."""

    def fails(path: str, data: bytes) -> None:
        raise DrawbridgeError("the disk is full")

    kept = Kept(plain)
    with monkeypatch.context() as patched:
        patched.setattr(private, "write_private", fails)
        with pytest.raises(GitFailed, match="the disk is full"):
            await kept.checkpoints.snapshotter.create(RUN, "before")
    assert not kept.repository.exists()
    await kept.run(three_files)


@pytest.mark.thorough
async def test_a_full_repository_keeps_the_latest_run(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "MOST_STORED", 300_000)
    kept = Kept(plain)
    for number in range(4):
        content = os.urandom(200_000)
        await kept.run(lambda directory: (directory / "noise.bin").write_bytes(content), f"run_{number}")  # noqa: B023
    assert await kept.changed("run_3") == {"noise.bin": "changed"}
    with pytest.raises(NoCheckpoint):
        await kept.changed("run_1")
    assert [file.path for file in (await kept.seen()).files] == ["noise.bin"]
    assert stored(kept) < 500_000


@pytest.mark.thorough
async def test_files_of_a_killed_git_are_removed(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not count as stored contents. Otherwise, the checkpoints of earlier runs would be removed."""
    monkeypatch.setattr(private, "MOST_STORED", 300_000)
    kept = Kept(plain)
    await kept.run(three_files)
    names = ("pack/tmp_pack_x", "pack/.tmp-1-pack-x.pack", "00/tmp_obj_x")
    left = [kept.repository / "objects" / name for name in names]
    for file in left:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(private.MOST_STORED))
    await kept.run(lambda directory: (directory / "poem.txt").write_text(POEM), "run_2")
    assert [file for file in left if file.exists()] == []
    assert (await kept.changed()).keys() == {"poem.txt", "new.bin", "old.txt"}


@pytest.mark.thorough
async def test_removing_old_contents_in_vain_leaves_no_files(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(private, "COLLECT_SECONDS", 0.0)
    begins = 'mkdir -p "$GIT_DIR/objects/pack"; echo >"$GIT_DIR/objects/pack/tmp_pack_x"'
    time_ends_at(hanging(tmp_path, monkeypatch, "repack", begins), monkeypatch)
    kept = Kept(plain)
    await kept.run(three_files)
    assert "was not cleaned up: git took more than 30 s for: repack" in caplog.text
    assert list((kept.repository / "objects" / "pack").iterdir()) == []


@pytest.mark.thorough
async def test_old_contents_are_removed_even_if_packing_hangs(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Packing is not tried again after the next run, which would have to wait for it. It gets more time than usual,
    because the repository is full."""
    monkeypatch.setattr(private, "MOST_STORED", 300_000)
    time_ends_at(hanging(tmp_path, monkeypatch, "repack"), monkeypatch)
    kept = Kept(plain)
    for number in range(4):
        content = os.urandom(200_000)
        await kept.run(lambda directory: (directory / "noise.bin").write_bytes(content), f"run_{number}")  # noqa: B023
    assert stored(kept) < 500_000
    assert caplog.text.count("was not cleaned up: git took more than 120 s for: repack") == 1


@pytest.mark.thorough
async def test_a_git_that_cannot_be_ended_leaves_the_review_complete(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next command would receive the reply to the one that removes old contents."""
    monkeypatch.setattr(private, "COLLECT_SECONDS", 0.0)
    monkeypatch.setattr(shell, "LEAVE_SECONDS", 0.1)
    time_ends_at(hanging(tmp_path, monkeypatch, "repack", "trap '' TERM"), monkeypatch)
    kept = Kept(plain)
    await kept.run(three_files)
    await kept.run(lambda directory: (directory / "more.txt").write_text("more\n"), "run_2")
    assert "was not cleaned up" in caplog.text
    assert {file.path for file in (await kept.seen()).files} == {"more.txt", "new.bin", "old.txt", "poem.txt"}


@pytest.mark.thorough
async def test_the_next_run_does_not_read_unchanged_files_again(plain: Path) -> None:
    kept = Kept(plain)
    await kept.run(three_files)
    assert (await kept.checkpoints.snapshotter.begin("run_2")) is True
    assert kept.checkpoints.snapshotter._cache._cached is None  # the checkpoint is still being stored
    await kept.checkpoints.snapshotter.stored()
    assert kept.checkpoints.snapshotter._cache._cached is not None


Attack: TypeAlias = Callable[[Path, str], None]


def filters(directory: Path, spy: str) -> None:  # noqa: F811
    (directory / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    (directory / ".gitconfig").write_text(f'[filter "x"]\n\tclean = {spy}\n\tsmudge = {spy}\n\tprocess = {spy}\n')


def filters_of_the_user(directory: Path, spy: str) -> None:  # noqa: F811
    filters(directory, spy)
    text = f'[filter "x"]\n\tclean = {spy}\n\trequired = true\n[core]\n\tfsmonitor = {spy}\n\thooksPath = {directory}\n'
    (Path(os.environ["HOME"]) / ".gitconfig").write_text(text)


def own_repository(directory: Path, spy: str) -> None:  # noqa: F811
    """Creates a repository with hooks, a filter, fsmonitor and an external diff, all of which run the spy."""
    git(directory, "init", "-q")
    for name, value in {"core.fsmonitor": spy, "filter.x.clean": spy, "diff.external": spy}.items():
        git(directory, "config", name, value)
    for name in ("post-index-change", "reference-transaction", "pre-commit", "pre-auto-gc"):
        (directory / ".git" / "hooks" / name).symlink_to(spy)
    filters(directory, spy)


def repository_inside(directory: Path, spy: str) -> None:  # noqa: F811
    inside = directory / "inside"
    inside.mkdir()
    own_repository(inside, spy)
    (inside / "a.txt").write_text("a\n")


def broken_repositories(directory: Path, spy: str) -> None:  # noqa: F811
    (directory / ".git").mkdir()
    (directory / ".git" / "config").write_text(f"[core]\n\tfsmonitor = {spy}\n")
    (directory / "inside").mkdir()
    (directory / "inside" / ".git").write_text("gitdir: /\n")
    os.mkfifo(directory / "pipe")


@pytest.mark.parametrize(
    "attack", [filters, filters_of_the_user, own_repository, repository_inside, broken_repositories]
)
async def test_no_program_of_the_directory_runs(attack: Attack, spy: Path, plain: Path) -> None:  # noqa: F811
    program = str(spy.parent / "spy")
    kept = Kept(plain)
    await kept.run(three_files)
    attack(plain, program)
    (plain / "poem.txt").write_text(POEM.upper())
    spy.unlink(missing_ok=True)  # git may have run the program while the attack was being prepared
    await kept.run(lambda directory: (directory / "poem.txt").write_text(POEM), "run_2")
    with contextlib.suppress(Changed, GitFailed, NoCheckpoint):
        await kept.checkpoints.reverter.revert("run_2")
    ids = [hunk.id for file in (await kept.seen()).files for hunk in file.hunks]
    for id in ids:
        with contextlib.suppress(Changed, HunkGone, ReviewMoved):
            await kept.decide(RequestedDecision("phone", "undo", (id,)))
    assert not spy.exists(), spy.read_text()


async def test_links_are_not_followed(plain: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret\n")
    kept = Kept(plain)
    (plain / "folder").mkdir()
    (plain / "folder" / "a.txt").write_text("a\n")

    def work(directory: Path) -> None:
        shutil.rmtree(directory / "folder")
        (directory / "folder").symlink_to(outside)
        (directory / "poem.txt").unlink()
        (directory / "poem.txt").symlink_to(outside / "secret.txt")
        (directory / ".gitignore").symlink_to(outside / "secret.txt")
        (directory / ".gitattributes").symlink_to(outside / "secret.txt")

    before, beside = state(plain), state(outside)
    await kept.run(work)
    assert "secret\n" not in (await kept.checkpoints.changes.of(RUN)).diff.replace("secret.txt\n", "")
    await kept.checkpoints.reverter.revert(RUN)
    assert state(plain) == before
    assert state(outside) == beside


@pytest.mark.thorough
async def test_a_canceled_listing_leaves_no_process(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = asyncio.Event()

    async def holds(self: private.PrivateRepository, git: Git) -> str:
        held.set()
        await asyncio.sleep(600)
        return ""

    monkeypatch.setattr(private.PrivateRepository, "selection", holds)
    kept = Kept(plain)
    taking = asyncio.create_task(kept.checkpoints.snapshotter.create(RUN, "before"))
    await held.wait()
    taking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await taking
    await kept.checkpoints.close()
    monkeypatch.undo()
    await Kept(plain).run(three_files)


def test_the_excluded_files_are_documented() -> None:
    document = (Path(__file__).parents[3] / "docs" / "server.md").read_text()
    assert [pattern for pattern in private.IGNORED if f"`{pattern}`" not in document] == []


def test_the_limits_are_documented() -> None:
    document = (Path(__file__).parents[3] / "docs" / "server.md").read_text()
    for row in (
        f"| files | {Largest().files:,} (`--checkpoint-files`) |",
        f"| all files together | {Largest().bytes // MB} MB (`--checkpoint-mb`) |",
        f"| large files | over {private.LARGEST_FILE // MB} MB, unless",
        f"| files over {private.LARGEST_FILE // MB} MB and nested repositories that are left out | {private.MOST_LARGE:,} |",
        f"| stored contents | {private.MOST_STORED // (1_000 * MB)} GB;",
    ):
        assert row in document
