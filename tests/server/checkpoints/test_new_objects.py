"""Objects that are made without git and stored by one git process. The tests use the real git."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.new_objects import NewObjects
from tests.server.checkpoints.rig import git

LARGE = "".join(f"line {number}\n" for number in range(20_000))


def repository(directory: Path, format: str = "sha1") -> Path:
    """A repository with files in several directories, of which one has the name of a file that is sorted after it."""
    directory.mkdir()
    git(directory, "init", "-q", f"--object-format={format}")
    for name in ("a/b/c.txt", "a/b.txt", "a/run.sh", "a.txt", "z é.txt"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"{name}\n")
    (directory / "a" / "run.sh").chmod(0o755)
    (directory / "link").symlink_to("a.txt")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "first")
    return directory


@pytest.mark.parametrize("format", ["sha1", "sha256"])
async def test_git_reads_the_stored_objects(tmp_path: Path, format: str) -> None:
    project = repository(tmp_path / "project", format)
    root = git(project, "rev-parse", "HEAD^{tree}").strip()
    async with Checkpoints(project, "proj_1").operations.exclusive() as running:
        objects = NewObjects(format)
        new = {
            path: (mode, objects.add("blob", text.encode()))
            for path, mode, text in (
                ("a/b/c.txt", "100755", LARGE),
                ("a/run.sh", "100755", ""),
                ("z é.txt", "100644", "new"),
            )
        }
        tree = await objects.tree(running, root, new)
        assert tree is not None
        commit = objects.commit(tree, "title\n\nnotes é\n")
        await objects.store(running)
    assert git(project, "fsck", "--strict", "--no-dangling") == ""
    assert git(project, "log", "-1", "--format=%an <%ae> %B", commit).startswith(
        "Drawbridge <drawbridge@localhost> title\n\nnotes é"
    )
    changed = git(project, "-c", "core.quotePath=off", "diff", "--raw", "--no-abbrev", "HEAD", commit).splitlines()
    assert {line.partition("\t")[2]: tuple(line.split()[1:4:2]) for line in changed} == new
    assert git(project, "show", f"{commit}:a/b/c.txt") == LARGE


@pytest.mark.parametrize("path", ["new.txt", "a", "a.txt/b", "link", "new/b.txt", "a/new\nline.txt"])
async def test_only_regular_files_get_other_versions(tmp_path: Path, path: str) -> None:
    project = repository(tmp_path / "project")
    root = git(project, "rev-parse", "HEAD^{tree}").strip()
    async with Checkpoints(project, "proj_1").operations.exclusive() as running:
        objects = NewObjects("sha1")
        assert await objects.tree(running, root, {path: ("100644", objects.add("blob", b"new"))}) is None


async def test_the_trees_of_earlier_operations_are_known(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    tree = git(project, "rev-parse", "HEAD^{tree}").strip()
    checkpoints = Checkpoints(project, "proj_1")
    for text in ("one", "two"):
        async with checkpoints.operations.exclusive() as running:
            objects = NewObjects("sha1")
            if text == "two":  # the trees themselves can't be read again
                (project / ".git/objects" / tree[:2] / tree[2:]).unlink()
            blob = objects.add("blob", text.encode())
            found = await objects.tree(running, tree, {"a/b/c.txt": ("100644", blob)})
            assert found is not None
            await objects.store(running)
            tree = found
    assert git(project, "show", f"{tree}:a/b/c.txt") == "two"
