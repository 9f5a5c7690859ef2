"""Which changes of an accepted proposal are left when others change the file, and when the user decides on some."""

from __future__ import annotations

import pytest

from drawbridge.ide import accepted_files
from drawbridge.ide.accepted_files import AcceptedFile, AcceptedFiles, after_write

POEM = "".join(f"line {number}\n" for number in range(1, 13))
WRITTEN = POEM.replace("line 3\n", "LINE 3\n").replace("line 11\n", "line 11\nline 11b\n")


def file(base: str | None = POEM, written: str = WRITTEN) -> AcceptedFile:
    return AcceptedFile("/ws/poem.txt", base, written)


def sides(file: AcceptedFile) -> list[tuple[str, str]]:
    return [(hunk.removed, hunk.added) for hunk in file.hunks()]


def write(files: AcceptedFiles, before: str | None, written: str, path: str = "/ws/poem.txt") -> None:
    files.wrote(after_write(files.find(path), path, before, written))


def test_a_hunk_can_be_kept_or_undone_alone() -> None:
    first, second = file().hunks()
    assert sides(file()) == [("line 3\n", "LINE 3\n"), ("", "line 11b\n")]
    assert sides(file().kept([first])) == [("", "line 11b\n")]
    assert file().kept([first]).written == WRITTEN
    assert file().undone([second]).written == POEM.replace("line 3\n", "LINE 3\n")
    assert file().undone([first, second]).written == POEM
    assert file().kept([first, second]).is_decided


def test_changes_by_others_are_kept_but_not_shown() -> None:
    now = WRITTEN.replace("line 6\n", "mine\n").replace("line 1\n", "")
    found = file().at(now)
    assert sides(found) == sides(file())
    assert found.undone(found.hunks()).written == POEM.replace("line 6\n", "mine\n").replace("line 1\n", "")


def test_an_edit_of_a_hunk_becomes_part_of_it() -> None:
    found = file().at(WRITTEN.replace("LINE 3\n", "Line three\n"))
    assert sides(found) == [("line 3\n", "Line three\n"), ("", "line 11b\n")]


def test_a_change_that_was_undone_by_hand_is_no_longer_shown() -> None:
    assert sides(file().at(WRITTEN.replace("LINE 3\n", "line 3\n"))) == [("", "line 11b\n")]
    assert file().at(POEM).is_decided


@pytest.mark.parametrize(
    ("base", "written", "hunk"),
    [
        ("a\r\nb\r\n", "a\r\nB\r\n", ("b\r\n", "B\r\n")),
        ("a\r\n", "a\n", ("a\r\n", "a\n")),
        ("a\nb", "a\nb\n", ("b", "b\n")),
        ("\ufeffa\n", "a\n", ("\ufeffa\n", "a\n")),
        ("\udcff\nb\n", "\udcff\nB\n", ("b\n", "B\n")),
        ("a\n", "", ("a\n", "")),
    ],
)
def test_undoing_restores_line_endings_and_bytes(base: str, written: str, hunk: tuple[str, str]) -> None:
    found = file(base, written)
    assert sides(found) == [hunk]
    assert found.undone(found.hunks()).written == base


def test_equal_hunks_can_be_distinguished() -> None:
    found = file("a\nb\na\n", "A\nb\nA\n")
    one, other = found.hunks()
    assert one.id != other.id
    assert found.undone([other]).written == "A\nb\na\n"


def test_a_second_proposal_for_a_file_adds_its_changes() -> None:
    files = AcceptedFiles()
    write(files, POEM, WRITTEN)
    mine = WRITTEN.replace("line 6\n", "mine\n")
    write(files, mine, mine.replace("line 8\n", "LINE 8\n"))
    [found] = files.all()
    assert sides(found) == [("line 3\n", "LINE 3\n"), ("line 8\n", "LINE 8\n"), ("", "line 11b\n")]
    assert found.undone(found.hunks()).written == POEM.replace("line 6\n", "mine\n")


def test_a_file_without_changes_is_forgotten() -> None:
    files = AcceptedFiles()
    write(files, POEM, WRITTEN)
    write(files, WRITTEN, POEM)
    write(files, None, "", "/ws/empty.txt")
    assert not files


def test_a_new_file_is_one_change() -> None:
    found = file(None, "a\nb\n").at("a\nmine\nb\n")
    assert sides(found) == [("", "a\nmine\nb\n")]
    assert found.undone(found.hunks()).written == ""


def test_the_oldest_files_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_files, "MOST_FILES", 2)
    files = AcceptedFiles()
    for path in ("/a", "/b", "/a", "/c"):
        write(files, None, "text\n", path)
    assert [file.path for file in files.all()] == ["/a", "/c"]


def test_large_texts_are_forgotten_except_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_files, "MOST_BYTES", 1000)
    files = AcceptedFiles()
    for path in ("/a", "/b"):
        write(files, None, "x" * 2000, path)
    assert [file.path for file in files.all()] == ["/b"]


def test_only_a_written_proposal_is_announced() -> None:
    files, announced = AcceptedFiles(), list[str]()
    files.watch(lambda: announced.append("written"))
    found = after_write(files.find("/a"), "/a", None, "text\n")
    assert announced == []
    files.wrote(found)
    files.store(found)
    assert announced == ["written"]
