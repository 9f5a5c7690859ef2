"""How setup writes a user's file: atomically, with a copy of the previous content, or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from drawbridge.core.errors import NotWritable, UnusableFile
from drawbridge.setup.files import Change, read
from tests.setup.conftest import everything_below


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("theirs", "copy"), [(0o644, 0o600), (0o600, 0o600), (0o400, 0o400)])
def test_a_file_keeps_its_mode_and_its_backup_is_private(theirs: int, copy: int, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(b"old")
    file.chmod(theirs)
    kept = Change(file, b"old", b"new").apply()
    assert (file.read_bytes(), mode(file)) == (b"new", theirs)
    assert kept is not None
    assert (kept.read_bytes(), mode(kept)) == (b"old", copy)
    assert kept.name.startswith("settings.json.drawbridge-2")


def test_backups_of_the_same_second_do_not_replace_each_other(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"0")
    for number in range(3):
        Change(file, b"%d" % number, b"%d" % (number + 1)).apply()
    assert sorted(copy.read_bytes() for copy in tmp_path.glob("*.bak")) == [b"0", b"1", b"2"]


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    file, link = tmp_path / "dotfiles" / "settings", tmp_path / "settings.json"
    file.write_bytes(b"old")
    link.symlink_to("dotfiles/settings")
    Change(link, b"old", b"new").apply()
    assert os.readlink(link) == "dotfiles/settings"
    assert file.read_bytes() == b"new"
    assert [entry.name for entry in file.parent.iterdir()] == ["settings"], "the copy is beside the link"


def test_a_link_to_a_missing_file_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "settings.json"
    link.symlink_to("later/settings")
    assert read(link) is None
    Change(link, None, b"new").apply()
    assert (tmp_path / "later" / "settings").read_bytes() == b"new"
    assert link.is_symlink()


def test_a_file_that_has_changed_since_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"newer")
    with pytest.raises(NotWritable, match=r"was not touched: another program has changed it in the meantime\. Run"):
        Change(file, b"old", b"new").apply()
    assert everything_below(tmp_path) == {"a": b"newer"}


def test_a_file_that_is_marked_read_only_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    file.chmod(0o444)
    with pytest.raises(NotWritable, match=r"a is read-only\. No changes were made\. Make it writable"):
        Change(file, b"old", b"new").check()


def test_a_directory_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotWritable, match=r"settings.json can't be created, because .*file is not a directory"):
        Change(tmp_path / "file" / "deep" / "settings.json", None, b"new").check()


def test_a_directory_without_write_permission_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)  # because root has access to everything
    with pytest.raises(NotWritable, match="you have no write permission for"):
        Change(tmp_path / "settings.json", None, b"new").check()


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(NotWritable, match=r"a can't be changed: no space left on device\."):
        Change(file, b"old", b"new").apply()
    assert everything_below(tmp_path) == {"a": b"old"}


def test_a_backup_that_cannot_be_written_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is called a backup must not lack the content that it is a backup of."""
    file = tmp_path / "a"
    file.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotWritable, match=r"a can't be changed: no space left on device\."):
        Change(file, b"old", b"new").apply()
    assert everything_below(tmp_path) == {"a": b"old"}


def test_a_directory_or_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="is not a regular file"):
        read(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UnusableFile, match="loop can't be read: too many levels of symbolic links"):
        read(tmp_path / "loop")


def test_a_diff_omits_crlf_and_marks_a_missing_final_newline() -> None:
    change = Change(Path("/s"), b"a\r\nb", b"a\r\nc\r\n")
    assert change.lines() == ["--- /s", "+++ /s", "@@ -1,2 +1,2 @@", " a", "-b", "\\ No newline at end of file", "+c"]
    assert Change(Path("/s"), None, b"x\n").lines()[:2] == ["--- /dev/null", "+++ /s"]
