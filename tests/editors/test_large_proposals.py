"""The texts of a large proposal are read and split once, and nothing else stays in memory until the decision."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from drawbridge import text
from drawbridge.editors import files
from drawbridge.ide.review import Reviews
from tests.nvim.rig import Workstation

OLD = "".join(f"line {number} of a file that an agent wants to change\n" for number in range(20_000))
NEW = "".join(line.upper() if number % 100 == 0 else line for number, line in enumerate(OLD.splitlines(True)))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records each file that is read ("read") and each text that is split ("split old", "split new" or "split")."""
    noted: list[str] = []
    read, split = files.read_text, text.split

    def noted_read(path: str) -> str | None:
        noted.append("read")
        return read(path)

    def noted_split(given: str) -> text.Split:
        noted.append("split old" if given == OLD else "split new" if given == NEW else "split")
        return split(given)

    monkeypatch.setattr(files, "read_text", noted_read)
    monkeypatch.setattr(text, "split", noted_split)
    return noted


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


async def proposed(rig: Workstation, reviews: Reviews, path: Path) -> asyncio.Task[object]:
    """Makes a proposal, and returns its task once the user sees it."""
    task: asyncio.Task[object] = asyncio.create_task(reviews.review("agent", "Claude Code", str(path), NEW, "tab"))
    await rig.person.until("local p = require('drawbridge.review').pending()[1] return p and p.shown")
    await rig.quiet()
    return task


async def withdrawn(reviews: Reviews, task: asyncio.Task[object]) -> None:
    reviews.withdraw_all("agent")
    await task
    await reviews.stop()


async def test_a_proposal_is_read_and_split_once(rig: Workstation, calls: list[str]) -> None:
    reviews = Reviews(rig.editor)
    task = await proposed(rig, reviews, rig.file("a.txt", OLD))
    await withdrawn(reviews, task)
    assert sorted(calls) == ["read", "split new", "split old"]


async def test_lines_are_not_kept_in_memory_while_a_user_decides(rig: Workstation, traced: None) -> None:
    reviews, path = Reviews(rig.editor), rig.file("a.txt", OLD)
    await withdrawn(reviews, await proposed(rig, reviews, path))  # loads modules, which do not count
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    reviews = Reviews(rig.editor)
    task = await proposed(rig, reviews, path)
    kept, peak = (value - before for value in tracemalloc.get_traced_memory())
    await withdrawn(reviews, task)
    assert kept < 1.5 * len(OLD), f"{kept / len(OLD):.1f} times the text"
    assert peak < 8 * len(OLD), f"{peak / len(OLD):.1f} times the text"
