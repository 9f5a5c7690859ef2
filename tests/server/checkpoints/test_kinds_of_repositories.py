"""Checkpoints in repositories with different layouts, formats, line endings and filters. The tests use the real git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from drawbridge.server.checkpoints import checkpoints as module
from drawbridge.server.checkpoints import git as git_module
from drawbridge.server.checkpoints import git_program, git_settings
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git_directory import remove_left_folders
from drawbridge.server.checkpoints.git_program import GitProgram
from drawbridge.server.checkpoints.shell import Shell
from tests.server.checkpoints.rig import RUN, a_run, everything, git, make_project
from tests.server.core_rig import serving
from tests.waiting import PATIENCE

POINTER = "version https://git-lfs.github.com/spec/v1\n"


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


async def changed(project: Path, files: dict[str, bytes]) -> tuple[Checkpoints, str]:
    """Takes the checkpoints of a run that writes these files. Returns them and the diff."""
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    for name, data in files.items():
        (project / name).write_bytes(data)
    await checkpoints.take(RUN, "after")
    return checkpoints, (await checkpoints.changes(RUN)).diff


async def test_an_extension_that_is_not_known_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown extension is refused even if git itself supports it, because such a repository may not be readable
    through links.
    """
    git(project, "config", "core.repositoryFormatVersion", "1")
    git(project, "config", "extensions.worktreeConfig", "true")
    assert await Checkpoints(project, "proj_1").take(RUN, "before")
    known = git_settings.KNOWN_EXTENSIONS - {"extensions.worktreeconfig"}
    monkeypatch.setattr(git_settings, "KNOWN_EXTENSIONS", known)
    with pytest.raises(NoCheckpoint, match=r"the repository uses extensions\.worktreeconfig, which is not supported"):
        await Checkpoints(project, "proj_1").take(RUN, "before")


@pytest.mark.parametrize("how", ["attributes", "info", "configuration", "person"])
async def test_line_endings_keep_their_meaning(how: str, project: Path, home: Path) -> None:
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
    checkpoints, diff = await changed(project, {"poem.txt": text.replace(b"line 3\r\n", b"LINE 3\r\n")})
    assert "-line 3\n+LINE 3\n" in diff
    await checkpoints.revert(RUN)
    assert (project / "poem.txt").read_bytes() == text


async def test_an_encoding_keeps_its_meaning(project: Path) -> None:
    (project / ".gitattributes").write_text("*.rc working-tree-encoding=UTF-16\n")
    before = "one\nübung\n".encode("utf-16")
    (project / "menu.rc").write_bytes(before)
    checkpoints, diff = await changed(project, {"menu.rc": "one\nUBUNG\n".encode("utf-16")})
    assert "-übung\n+UBUNG\n" in diff
    await checkpoints.revert(RUN)
    assert (project / "menu.rc").read_bytes() == before


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
    await checkpoints.take(RUN, "before")
    (project / "photo.bin").write_bytes(b"\0other\n")
    (project / "table.bin").write_bytes(b"one\nTWO\n")
    (project / "dirty.bin").write_bytes(b"changed\n")
    (project / "gone.bin").unlink()
    await checkpoints.take(RUN, "after")
    changes = await checkpoints.changes(RUN)
    assert {file.path for file in changes.files} == {"photo.bin", "table.bin", "gone.bin", "dirty.bin"}
    assert "-two\n+TWO\n" in changes.diff
    await checkpoints.revert(RUN)
    assert everything(project) == before


@pytest.mark.parametrize("attributes", ["", "*.bin -filter\n", "* filter=other\n"])
async def test_a_run_that_changes_filters_is_reverted(attributes: str, project: Path) -> None:
    with_filter(project, {"photo.bin": b"\0photo\n", "other.bin": b"\0other\n"})
    before = everything(project)
    checkpoints, _ = await changed(project, {"photo.bin": b"new\n", ".gitattributes": attributes.encode()})
    assert {file.path for file in (await checkpoints.changes(RUN)).files} == {"photo.bin", ".gitattributes"}
    await checkpoints.revert(RUN)
    assert everything(project) == before


async def test_a_run_that_commits_a_file_with_a_filter_is_reverted(project: Path) -> None:
    with_filter(project, {"photo.bin": b"\0photo\n", "other.bin": b"\0other\n"})
    checkpoints = Checkpoints(project, "proj_1")
    await checkpoints.take(RUN, "before")
    (project / "photo.bin").write_bytes(b"\0longer photo\n")
    git(project, "commit", "-q", "-a", "-m", "by the agent")
    await checkpoints.take(RUN, "after")
    await checkpoints.revert(RUN)
    assert (project / "photo.bin").read_bytes() == b"\0photo\n"


async def test_a_large_file_with_a_filter_is_named_and_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILTERED_BYTES", 20)
    with_filter(project, {"large.bin": b"\0" * 100, "same.bin": b"\1" * 100, "small.bin": b"small\n"})
    checkpoints, _ = await changed(project, {"small.bin": b"SMALL\n"})
    assert [file.path for file in (await checkpoints.revert(RUN)).files] == ["small.bin"]
    assert (project / "small.bin").read_bytes() == b"small\n"
    checkpoints, _ = await changed(project, {"small.bin": b"SMALL\n", "large.bin": b"larger\n"})
    assert {file.path for file in (await checkpoints.changes(RUN)).files} == {"small.bin", "large.bin"}
    before = everything(project)
    with pytest.raises(NoCheckpoint, match=r"large\.bin"):
        await checkpoints.revert(RUN)
    assert everything(project) == before


async def test_a_name_that_is_not_utf8_may_have_a_filter(project: Path) -> None:
    with_filter(project, {"photo.bin": b"photo\n", os.fsdecode(b"\xfcbung.bin"): b"one\n"})
    before = everything(project)
    checkpoints, _ = await changed(project, {os.fsdecode(b"\xfcbung.bin"): b"two\n"})
    await checkpoints.revert(RUN)
    assert everything(project) == before


@pytest.mark.parametrize("place", [".config/git/ignore", ".ignored", "own"])
async def test_files_that_the_person_ignores_globally_stay_ignored(place: str, project: Path, home: Path) -> None:
    file = project / ".git" / "info" / "exclude" if place == "own" else home / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("*.secret\n")
    if place == ".ignored":
        (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/.ignored\n")
    _, diff = await changed(project, {"my.secret": b"secret\n", "poem.txt": b"changed\n"})
    assert "secret" not in diff
    assert "+changed" in diff


async def test_a_linked_work_tree(project: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(project, "worktree", "add", "-q", str(linked))
    git(project, "pack-refs", "--all")
    before = everything(linked)
    await (await a_run(linked)).revert(RUN)
    assert everything(linked) == before
    assert git(project, "status", "--porcelain") == "A  staged.txt\n?? mine.txt\n"


async def test_a_submodule_as_the_project(project: Path, tmp_path: Path) -> None:
    outer = make_project(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(project), "sub")
    before = everything(outer / "sub")
    await (await a_run(outer / "sub")).revert(RUN)
    assert everything(outer / "sub") == before


async def test_a_repository_with_sha256(tmp_path: Path, home: Path) -> None:
    directory = tmp_path / "ws"
    directory.mkdir()
    git(directory, "init", "-q", "--object-format=sha256")
    (directory / "poem.txt").write_text("line 3\n")
    (directory / "old.txt").write_text("old\n")
    git(directory, "add", ".")
    before = everything(directory)
    await (await a_run(directory)).revert(RUN)
    assert everything(directory) == before


async def test_an_index_that_is_split(project: Path) -> None:
    git(project, "update-index", "--split-index")
    before, status = everything(project), git(project, "status", "--porcelain")
    await (await a_run(project)).revert(RUN)
    assert (everything(project), git(project, "status", "--porcelain")) == (before, status)


async def test_a_sparse_work_tree(project: Path) -> None:
    (project / "aside").mkdir()
    (project / "aside" / "text").write_text("aside\n")
    git(project, "add", "aside")
    git(project, "commit", "-q", "-m", "aside")
    git(project, "sparse-checkout", "set", "--cone", "--sparse-index")
    assert not (project / "aside").exists()
    before = everything(project)
    checkpoints = await a_run(project)
    assert {file.path for file in (await checkpoints.revert(RUN)).files} == {"poem.txt", "new.bin", "old.txt"}
    assert everything(project) == before


async def test_a_partial_clone(project: Path, tmp_path: Path) -> None:
    git(project, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{project}", str(clone))
    before = everything(clone)
    await (await a_run(clone)).revert(RUN)
    assert everything(clone) == before


@pytest.mark.parametrize(
    ("name", "value"), [("refStorage", "reftable"), ("objectFormat", 'sha1\n[filter "x"]\nclean = true')]
)
async def test_a_format_that_is_not_supported(name: str, value: str, project: Path) -> None:
    """The second case is an attack: its value would add a filter to the configuration that the server writes
    for git.
    """
    checkpoints = await a_run(project)
    git(project, "config", "core.repositoryFormatVersion", "1")
    git(project, "config", f"extensions.{name}", value)
    for asked in (checkpoints.take("run_2", "before"), checkpoints.changes(RUN), checkpoints.revert(RUN)):
        with pytest.raises((NoCheckpoint, GitFailed)):
            await asked


async def test_a_work_tree_that_is_configured_elsewhere(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "poem.txt").write_text("not of this project\n")
    git(project, "config", "core.worktree", str(elsewhere))
    before = everything(project)
    await (await a_run(project)).revert(RUN)
    assert everything(project) == before
    assert (elsewhere / "poem.txt").read_text() == "not of this project\n"


async def test_a_pointer_that_names_no_file(project: Path) -> None:
    (project / ".git" / "commondir").write_bytes(b"\0")
    assert not await Checkpoints(project, "proj_1").take(RUN, "before")


async def test_a_pipe_in_place_of_the_repository(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    assert not await Checkpoints(tmp_path, "proj_1").take(RUN, "before")


OF_GIT = [
    *(".git/" + name for name in ("config", "HEAD", "packed-refs", "info/exclude", "info/attributes")),
    *(".git/objects/info/alternates", ".gitignore", ".gitattributes"),
]

OF_OBJECTS = [
    *(".git/objects/pack/" + name for name in (f"pack-{40 * '1'}.idx", "multi-pack-index")),
    *(".git/objects/info/commit-graph", f".git/sharedindex.{40 * '1'}"),
]
"""Git's own files that may have any size."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in OF_GIT for kind in ("pipe", "large")),
        *((name, "pipe") for name in (".git/commondir", *OF_OBJECTS)),
    ],
)
async def test_a_file_that_git_would_wait_for(name: str, kind: str, project: Path) -> None:
    file = project / name
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    else:
        with file.open("wb") as made:
            made.truncate(200_000_000)
    with pytest.raises(NoCheckpoint, match=f"{name.removeprefix('.git/')} is not a small regular file"):
        await Checkpoints(project, "proj_1").take(RUN, "before")


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
async def test_a_pipe_in_a_directory_is_waited_for_once(
    name: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    assert await checkpoints.take(RUN, "before")
    file = project / "a" / "b" / name
    file.parent.mkdir(parents=True)
    (file.parent / "main.py").write_text("")
    os.mkfifo(file)
    with monkeypatch.context() as patched:
        patched.setattr(git_program, "SECONDS", 0.5)
        with pytest.raises(NoCheckpoint, match=f"a/b/{name} is not a small regular file"):
            await checkpoints.take(RUN, "after")
    with monkeypatch.context() as patched:
        patched.setattr(GitProgram, "run", None)  # the next operation does not start git
        with pytest.raises(NoCheckpoint, match=f"a/b/{name} is not a small regular file"):
            await checkpoints.changes(RUN)
    file.unlink()
    assert await checkpoints.take(RUN, "after")


@pytest.mark.parametrize("what", ["objects", "a ref", "the alternates of an alternate"])
async def test_a_pipe_among_the_data_of_git_is_waited_for_once(
    what: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(project, "proj_1")
    assert await checkpoints.take(RUN, "before")
    data = project / ".git"
    match what:
        case "objects":
            files, name = [*data.glob("objects/??/*")], "objects/../[0-9a-f]+"
        case "a ref":
            name = "refs/drawbridge/proj_1/run_2/before"
            files = [data / name]
        case _:
            name = "other/info/alternates"
            files = [data / name]
            (data / "objects" / "info" / "alternates").write_text(f"{data / 'other'}\n")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    with monkeypatch.context() as patched:
        patched.setattr(git_program, "SECONDS", 0.5)
        with pytest.raises(NoCheckpoint, match=f"git's file {name} is not a small regular file"):
            await checkpoints.take("run_2", "before")
    with monkeypatch.context() as patched:
        patched.setattr(GitProgram, "run", None)  # the next operation does not start git
        with pytest.raises(NoCheckpoint, match=f"git's file {name} is not a small regular file"):
            await checkpoints.take("run_2", "before")


async def test_git_that_waits_for_something_unknown_is_waited_for_once(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once git has taken too long, it gets less time in this repository for a few minutes, and then its usual time
    again.
    """
    time = 1_000.0
    monkeypatch.setattr(git_program, "now", lambda: time)
    (tmp_path / "info").mkdir()
    pipe = tmp_path / "info" / "alternates"
    os.mkfifo(pipe)
    checkpoints = Checkpoints(project, "proj_1")
    assert await checkpoints.take("run_0", "before")
    (project / ".git" / "objects" / "info" / "alternates").write_text(f"{tmp_path}\n")
    monkeypatch.setattr(git_program, "SECONDS", 0.6)
    monkeypatch.setattr(git_program, "SECONDS_AFTER", 0.3)
    for run, seconds in (("run_1", "0.6"), ("run_2", "0.3"), ("run_3", "0.3")):
        with pytest.raises(GitFailed, match=f"git took more than {seconds} s for"):
            await checkpoints.take(run, "before")
    time += git_program.HURRIED_SECONDS
    for run, seconds in (("run_4", "0.6"), ("run_5", "0.3")):
        with pytest.raises(GitFailed, match=f"git took more than {seconds} s for"):
            await checkpoints.take(run, "before")
    monkeypatch.setattr(git_program, "SECONDS_AFTER", PATIENCE)
    pipe.unlink()
    assert await checkpoints.take("run_6", "before")


async def test_git_is_not_hurried_while_it_writes_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If git were killed partway through, some files would be reverted and others not."""
    checkpoints = await a_run(project)
    monkeypatch.setitem(git_program._late_at, project, git_program.now())
    run, given = Shell.run, dict[str, float]()

    async def noted(shell: Shell, line: str, seconds: float, what: str, **more: bool) -> int:
        given[line] = seconds
        return await run(shell, line, PATIENCE, what, **more)

    monkeypatch.setattr(Shell, "run", noted)
    await checkpoints.revert(RUN)
    assert {seconds for line, seconds in given.items() if " apply " in line} == {git_program.SECONDS}
    assert {seconds for line, seconds in given.items() if " write-tree " in line} == {git_program.SECONDS_AFTER}


@pytest.mark.parametrize("setting", ["core.excludesFile", "core.attributesFile"])
async def test_a_setting_that_names_a_pipe(setting: str, project: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    git(project, "config", setting, str(tmp_path / "pipe"))
    with pytest.raises(NoCheckpoint, match=f"{setting.lower()} is not a small regular file"):
        await Checkpoints(project, "proj_1").take(RUN, "before")
    git(project, "config", setting, os.devnull)
    assert await Checkpoints(project, "proj_1").take(RUN, "before")


async def test_a_configuration_that_includes_a_pipe(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_module, "SETTINGS_SECONDS", 0.2)
    os.mkfifo(tmp_path / "pipe")
    git(project, "config", "include.path", str(tmp_path / "pipe"))
    monkeypatch.setattr(git_program, "SECONDS_AFTER", 0.1)
    for seconds in ("0.2", "0.1"):  # the second attempt gets less time
        with pytest.raises(GitFailed, match=f"git took more than {seconds} s for: config --list"):
            await Checkpoints(project, "proj_1").take(RUN, "before")


def ended_process() -> int:
    """The process id of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_folders_of_killed_servers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = ended_process()
    left, mine, other = (tmp_path / f"drawbridge-git-{id}-x" for id in (gone, os.getpid(), "mine"))
    link = tmp_path / f"drawbridge-git-{gone}-link"
    for folder in (left, mine, other):
        folder.mkdir()
        (folder / "index").touch()
    link.symlink_to(mine)
    remove_left_folders()
    assert sorted(tmp_path.glob("drawbridge-*")) == sorted([mine, other, link])
    assert (mine / "index").exists()


async def test_a_starting_server_removes_folders_of_killed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    gone = ended_process()
    left = tmp_path / "temporary" / f"drawbridge-git-{gone}-x"
    left.mkdir()
    async with serving(tmp_path):
        assert not left.exists()


@pytest.mark.parametrize("place", [".git", ".git/objects", "bare", "nowhere"])
async def test_a_directory_that_is_not_in_a_work_tree(
    place: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process is started for such a directory."""
    git(project, "init", "-q", "--bare", "bare")
    (tmp_path / "nowhere").mkdir()
    directory = tmp_path / "nowhere" if place == "nowhere" else project / place
    monkeypatch.setattr("asyncio.create_subprocess_exec", None)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert not await Checkpoints(directory, "proj_1").take(RUN, "before")
