"""Copies of the texts that reloads replaced: how they are listed, pruned and restored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drawbridge.guard import copies

from . import processes
from .conftest import Guard
from .payloads import KEPT, edited

NOW = 1_790_000_000_000
"""The time of the newest copy, in milliseconds since 1970."""


@pytest.fixture
def kept(home: Path) -> Path:
    """The directory of the copies, created where the guard expects it."""
    directory = Path(os.environ["XDG_STATE_HOME"], "drawbridge", "guard", "copies")
    directory.mkdir(parents=True)
    return directory


def copied(directory: Path, path: Path | str, content: str, *, ago: int = 0, pid: int = 4711) -> Path:
    """Creates a copy of ``path`` with this content, as an editor does, dated ``ago`` milliseconds before ``NOW``.
    Returns the path of the copy.
    """
    copy = directory / f"{NOW - ago}.{pid}{path}"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(content)
    return copy


def restore(*arguments: str, **options: str) -> tuple[int, str, str]:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    ended = processes.run(processes.command("--restore", *arguments, *flags), b"")
    return ended.code, ended.output.decode(), ended.errors


def test_copies_are_listed_newest_first_with_path_and_size(kept: Path) -> None:
    copied(kept, "/ws/old.py", "x", ago=5_000)
    copied(kept, "/ws/new.py", "three")
    copied(kept, "/ws/caf\udce9.py", "x", ago=1_000)
    found = copies.listed(str(kept))
    assert [(copy.path, copy.size) for copy in found] == [("/ws/new.py", 5), ("/ws/caf\udce9.py", 1), ("/ws/old.py", 1)]
    assert found[0].seconds == NOW / 1000
    assert Path(found[0].file).read_text() == "three"


def test_files_that_are_not_copies_are_ignored(kept: Path, tmp_path: Path) -> None:
    copied(kept, "/ws/a.py", "x")
    (kept / "file").write_text("x")
    (kept / "1.2").write_text("x")
    (kept / "notes" / "ws").mkdir(parents=True)
    (kept / "notes" / "ws" / "a.py").write_text("x")
    (kept / "².1" / "ws").mkdir(parents=True)
    (kept / "².1" / "ws" / "a.py").write_text("x")
    (kept / "3.4").symlink_to(tmp_path)
    (tmp_path / "a.py").write_text("x")
    (kept / f"{NOW}.4711" / "ws" / "broken").symlink_to("nowhere")
    assert [copy.path for copy in copies.listed(str(kept))] == ["/ws/a.py"]


def test_the_oldest_copies_are_pruned(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MOST", 3)
    for number in range(6):
        copied(kept, "/ws/a.py", str(number), ago=number * 1_000)
    copies.prune(str(kept))
    assert [Path(copy.file).read_text() for copy in copies.listed(str(kept))] == ["0", "1", "2"]
    assert len(list(kept.iterdir())) == 3  # no empty directories remain


def test_pruning_by_total_size_always_keeps_the_newest_copy(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "LARGEST_SUM", 10)
    for number, size in enumerate((6, 4, 1)):
        copied(kept, "/ws/a.py", "x" * size, ago=number * 1_000)
    copies.prune(str(kept))
    assert [copy.size for copy in copies.listed(str(kept))] == [6, 4]
    copied(kept, "/ws/b.py", "x" * 100, ago=-1_000)
    copies.prune(str(kept))
    assert [copy.size for copy in copies.listed(str(kept))] == [100]
    assert kept.exists()


def test_copies_in_one_directory_are_pruned_individually(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When one reload replaces many files, their copies are in one directory."""
    monkeypatch.setattr(copies, "MOST", 1)
    for name in "abc":
        copied(kept, f"/ws/{name}.py", "x")
    copies.prune(str(kept))
    assert len(copies.listed(str(kept))) == 1


def test_the_guard_prunes_after_a_reload(guard: Guard, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MOST", 1)
    guard.neovim(answers={"refresh_buffer": {"success": True, "reloaded": [{"name": "/ws/b.py"}], "kept": []}})
    for number in range(3):
        copied(kept, "/ws/a.py", "x", ago=number)
    assert guard.run(edited()) == {}
    assert len(copies.listed(str(kept))) == 1


# The ``--restore`` option of the command.


def test_restore_without_copies_prints_a_message() -> None:
    assert restore() == (0, "There are no saved copies yet: the guard has not replaced any text in an editor.\n", "")


def test_the_list_of_copies_is_readable_and_escaped(kept: Path) -> None:
    copied(kept, "/ws/a.py", "x" * 12_345)
    copied(kept, "/ws/\x1b[31m.py", "x", ago=1_000)
    code, output, _ = restore()
    assert code == 0
    first, second = output.splitlines()
    assert first.startswith("  1  2026-09-")
    assert first.endswith("12,345 bytes  /ws/a.py")
    assert "\x1b" not in second


def test_a_long_list_of_copies_is_truncated(kept: Path) -> None:
    for number in range(40):
        copied(kept, f"/ws/{number}.py", "x", ago=number)
    assert restore()[1].splitlines()[-1].strip().startswith("and 10 older ones")


@pytest.mark.parametrize("by", ["number", "name"])
def test_restoring_a_copy_saves_the_replaced_text_as_a_copy(guard: Guard, kept: Path, tmp_path: Path, by: str) -> None:
    file = tmp_path / "a.py"
    file.write_text("now\n")
    file.chmod(0o755)
    copied(kept, file, "older\n", ago=9_000)
    copied(kept, file, "then\n")
    neovim = guard.neovim({str(file): {}})
    code, output, errors = restore("1" if by == "number" else str(file), socket_dir=str(guard.sockets))
    assert (code, errors) == (0, "")
    assert output.startswith(f"{file} was restored to its text from 2026-09-")
    assert output.endswith("The replaced text is now the newest copy.\n")
    assert file.read_text() == "then\n"
    assert file.stat().st_mode & 0o777 == 0o755
    newest = copies.listed(str(kept))[0]
    assert (newest.path, Path(newest.file).read_text()) == (str(file), "now\n")
    assert Path(newest.file).stat().st_mode & 0o777 == 0o600
    assert neovim.methods[-1] == "refresh_buffer"


def test_restoring_creates_a_missing_file(kept: Path, tmp_path: Path) -> None:
    copied(kept, tmp_path / "gone" / "a.py", "then\n")
    code, output, _ = restore("1", socket_dir=str(tmp_path))
    assert code == 0
    assert "newest copy" not in output
    assert (tmp_path / "gone" / "a.py").read_text() == "then\n"


def test_restoring_never_overwrites_unsaved_changes(guard: Guard, kept: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("now\n")
    copied(kept, file, "then\n")
    guard.neovim({str(file): KEPT | {"current": False}})
    code, output, errors = restore("1", socket_dir=str(guard.sockets))
    assert (code, output) == (2, "")
    assert f"{file} has unsaved changes in Neovim 0.12.4. Save or discard them first." in errors
    assert file.read_text() == "now\n"
    assert len(copies.listed(str(kept))) == 1


@pytest.mark.parametrize("which", ["2", "0", "²", "missing.py", "/ws", "-1x"])
def test_restoring_without_a_copy_is_refused(kept: Path, tmp_path: Path, which: str) -> None:
    copied(kept, tmp_path / "a.py", "then\n")
    code, output, errors = restore(f"--restore={which}") if which.startswith("-") else restore(which)
    assert (code, output) == (2, "")
    what = "with the number" if which in ("2", "0") else "of"
    assert f"There is no copy {what} {which}. `drawbridge hook --restore` lists" in errors
    assert errors.count("\n") == 1


def test_a_copy_is_kept_if_its_file_cannot_be_written(kept: Path, tmp_path: Path) -> None:
    """The message names the file, the reason and the path of the copy."""
    (tmp_path / "file").write_text("x")
    copy = copied(kept, tmp_path / "file" / "a.py", "then\n")
    code, output, errors = restore("1", socket_dir=str(tmp_path))
    assert (code, output) == (2, "")
    assert f"{tmp_path}/file/a.py could not be restored: " in errors
    assert f"The copy is still at {copy}." in errors
    assert copy.read_text() == "then\n"


def test_an_unreadable_state_directory_is_reported_in_one_line(home: Path) -> None:
    (home / ".local").write_text("a file")
    code, output, errors = restore()
    assert (code, output) == (3, "")
    assert errors.startswith("drawbridge hook: The copies can't be read: ")
    assert errors.count("\n") == 1
