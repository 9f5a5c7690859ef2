"""What operations remember of git's objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.server.checkpoints import remembered
from drawbridge.server.checkpoints.remembered import Remembered
from drawbridge.server.checkpoints.repository import Repository

ONE, OTHER = "1" * 40, "2" * 40
CHANGES = {"poem.txt": (f"100644 {ONE}", f"100644 {OTHER}")}


def place(name: str = "work") -> tuple[Repository, Path]:
    root = Path("/", name)
    return Repository(root, root / ".git", root / ".git"), root


def test_another_directory_has_other_paths() -> None:
    known = Remembered()
    repository, directory = place()
    known.begin(repository, directory)
    known.remember_differences(ONE, OTHER, CHANGES)
    known.begin(repository, directory)
    assert known.differences(ONE, OTHER) == CHANGES
    known.begin(repository, directory / "inside")
    assert known.differences(ONE, OTHER) is None


def test_differences_of_a_ref_are_not_remembered() -> None:
    known = Remembered()
    known.remember_differences("refs/drawbridge/proj_1/review/base", OTHER, CHANGES)
    known.remember_differences(ONE, f"{OTHER}^{{tree}}", CHANGES)
    assert known.differences("refs/drawbridge/proj_1/review/base", OTHER) is None
    assert known.differences(ONE, f"{OTHER}^{{tree}}") is None


def test_only_the_latest_texts_are_kept_for_the_next_operation() -> None:
    known = Remembered()
    known.begin(*place())
    for number in range(10):
        known.texts[str(number)] = "x" * (remembered.LARGEST_TEXTS // 4)
    known.texts["binary"] = None
    known.begin(*place())
    assert list(known.texts) == ["6", "7", "8", "9", "binary"]


def test_the_number_of_contents_that_are_not_text_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_SIZES", 3)
    known = Remembered()
    known.begin(*place())
    known.texts.update(dict.fromkeys("abcde"))
    known.begin(*place())
    assert list(known.texts) == ["c", "d", "e"]
