"""Nothing that an agent writes into a repository makes the server run a program. The tests use the real git.

Each attack names the same program, the spy, in a different place. The spy creates a file when it runs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import Changed, GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git.program import program
from drawbridge.server.reviews.decisions import Decision, HunkGone, RequestedDecision, ReviewMoved
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.server.reviews.reviews import Review
from tests.server.checkpoints.rig import RUN, git, make_project

Attack: TypeAlias = Callable[[Path, str], None]
"""A function that prepares an attack. Its arguments are the project's directory and the spy's path."""

ATTACKS: dict[str, Attack] = {}


def attack(does: Attack) -> Attack:
    ATTACKS[does.__name__] = does
    return does


def settings(project: Path, **values: str) -> None:
    """Sets values in the repository's configuration, as an agent would: ``filter__x__clean`` is ``filter.x.clean``."""
    for name, value in values.items():
        git(project, "config", name.replace("__", "."), value)


def filtered(project: Path) -> None:
    (project / ".gitattributes").write_text("* filter=x diff=x merge=x\n")


@attack
def clean_filter(project: Path, spy: str) -> None:
    settings(project, filter__x__clean=spy, filter__x__required="true")
    filtered(project)


@attack
def smudge_filter(project: Path, spy: str) -> None:
    settings(project, filter__x__smudge=spy, filter__x__required="true")
    filtered(project)


@attack
def process_filter(project: Path, spy: str) -> None:
    settings(project, filter__x__process=spy)
    filtered(project)


@attack
def filter_by_info_attributes(project: Path, spy: str) -> None:
    settings(project, filter__x__clean=spy)
    (project / ".git" / "info" / "attributes").write_text("* filter=x\n")


@attack
def filter_by_attributes_file(project: Path, spy: str) -> None:
    (project.parent / "attributes").write_text("* filter=x\n")
    settings(project, filter__x__clean=spy, core__attributesFile=str(project.parent / "attributes"))


@attack
def filter_in_an_included_file(project: Path, spy: str) -> None:
    (project / "more").write_text(f'[filter "x"]\n\tclean = {spy}\n')
    settings(project, include__path=str(project / "more"))
    filtered(project)


@attack
def filter_in_the_work_trees_configuration(project: Path, spy: str) -> None:
    settings(project, core__repositoryFormatVersion="1", extensions__worktreeConfig="true")
    (project / ".git" / "config.worktree").write_text(f'[filter "x"]\n\tclean = {spy}\n')
    filtered(project)


@attack
def filter_in_the_users_configuration(project: Path, spy: str) -> None:
    (Path(os.environ["HOME"]) / ".gitconfig").write_text(f'[filter "x"]\n\tclean = {spy}\n\tprocess = {spy}\n')
    filtered(project)


@attack
def fsmonitor(project: Path, spy: str) -> None:
    settings(project, core__fsmonitor=spy)


@attack
def hooks(project: Path, spy: str) -> None:
    for name in ("post-index-change", "reference-transaction", "pre-commit", "post-commit", "post-checkout"):
        (project / ".git" / "hooks" / name).symlink_to(spy)


@attack
def hooks_elsewhere(project: Path, spy: str) -> None:
    hooks(project, spy)
    (project / ".git" / "hooks").rename(project / "hooks")
    settings(project, core__hooksPath=str(project / "hooks"))


@attack
def differences(project: Path, spy: str) -> None:
    settings(project, diff__external=spy, diff__x__command=spy, diff__x__textconv=spy, merge__x__driver=spy)
    filtered(project)


@attack
def interactive_programs(project: Path, spy: str) -> None:
    settings(project, core__pager=spy, core__editor=spy, core__askPass=spy, credential__helper=spy, pager__config=spy)


@attack
def signatures(project: Path, spy: str) -> None:
    settings(project, commit__gpgSign="true", gpg__program=spy, tag__gpgSign="true")


@attack
def repository_inside(project: Path, spy: str) -> None:
    """A nested repository with its own configuration, which git reads to check whether a submodule has changed."""
    inside = project / "inside"
    inside.mkdir()
    git(inside, "init", "-q")
    (inside / "text").write_text("one\n")
    git(inside, "add", ".")
    git(inside, "commit", "-q", "-m", "one")
    git(project, "add", "inside")
    (inside / "text").write_text("two\n")
    settings(inside, filter__x__clean=spy, core__fsmonitor=spy)
    filtered(inside)


@attack
def missing_object(project: Path, spy: str) -> None:
    """git fetches a missing object from the repository's remote, with a program that the repository names."""
    values = {"repositoryFormatVersion": "1", "sshCommand": spy, "gitProxy": spy}
    settings(project, **{f"core__{name}": value for name, value in values.items()})
    settings(project, extensions__partialClone="origin", remote__origin__promisor="true")
    settings(project, remote__origin__url="ssh://nowhere.invalid/x", remote__origin__uploadpack=spy)
    for tree in git(project, "for-each-ref", "--format=%(tree)", "refs/drawbridge").split():
        blob = git(project, "rev-parse", f"{tree}:poem.txt").strip()
        (project / ".git" / "objects" / blob[:2] / blob[2:]).unlink(missing_ok=True)
    for pack in (project / ".git" / "objects" / "pack").glob("*"):
        pack.unlink()


@pytest.fixture
def spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Creates the spy. Returns the path of the file that the spy creates when it runs."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    ran, program = tmp_path / "ran", tmp_path / "spy"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >>{ran}\ncat\n')
    program.chmod(0o755)
    return ran


@pytest.mark.parametrize("name", ATTACKS)
async def test_no_program_of_the_repository_runs(name: str, tmp_path: Path, spy: Path) -> None:
    project = make_project(tmp_path / "ws")
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.snapshotter.create(RUN, "before")
    (project / "poem.txt").write_text((project / "poem.txt").read_text().replace("line 3\n", "LINE 3\n"))
    ATTACKS[name](project, str(tmp_path / "spy"))
    spy.unlink(missing_ok=True)  # git may have run the program while the attack was being prepared
    await checkpoints.snapshotter.create(RUN, "after")
    with contextlib.suppress(GitFailed, NoCheckpoint):
        await checkpoints.changes.of(RUN)
    with contextlib.suppress(Changed, GitFailed, NoCheckpoint):
        await checkpoints.reverter.revert(RUN)
    await checkpoints.snapshotter.create("run_2", "before")
    assert not spy.exists(), spy.read_text()


@pytest.mark.parametrize("name", ATTACKS)
async def test_no_program_of_the_repository_runs_for_a_review(name: str, tmp_path: Path, spy: Path) -> None:
    project, review = make_project(tmp_path / "ws"), Review("proj_1", tmp_path)
    checkpoints = Checkpoints(project, "proj_1", on_stored=review.extend)
    await checkpoints.snapshotter.create(RUN, "before")
    text = (project / "poem.txt").read_text()
    (project / "poem.txt").write_text(
        "".join(line.upper() if line[5] in "379" else line for line in text.splitlines(True))
    )
    await checkpoints.snapshotter.create(RUN, "after")
    ATTACKS[name](project, str(tmp_path / "spy"))
    spy.unlink(missing_ok=True)  # git may have run the program while the attack was being prepared

    async def seen() -> OpenReview:
        async with checkpoints.operations.exclusive() as running:
            return await review.current(running, checkpoints.work_tree)

    decided = 0
    decisions: list[Decision] = ["keep", "undo", "edit"]
    for decision in decisions:
        with contextlib.suppress(Changed, GitFailed, HunkGone, NoCheckpoint, ReviewMoved):
            ids = [hunk.id for file in (await seen()).files for hunk in file.hunks if hunk.kind == "lines"]
            async with checkpoints.operations.exclusive() as running:
                await review.decide(
                    running,
                    checkpoints.work_tree,
                    RequestedDecision("phone", decision, tuple(ids[:1]), text="edited\n"),
                )
                decided += 1
    with contextlib.suppress(GitFailed, NoCheckpoint):
        await checkpoints.snapshotter.create("run_2", "before")
    assert not spy.exists(), spy.read_text()
    assert decided == (0 if name == "missing_object" else 3)


def test_a_git_in_the_current_directory_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = tmp_path / "project", tmp_path / "bin"
    for folder in (own, other):
        folder.mkdir()
        (folder / "git").touch(mode=0o755)
    monkeypatch.chdir(own)
    for relative in (".", "", "../project"):
        monkeypatch.setenv("PATH", f"{relative}:{other}")
        assert program() == str(other / "git")
        monkeypatch.setenv("PATH", relative)
        assert program() is None
