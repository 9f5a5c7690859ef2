"""Single changes in a proposal: marked where Neovim's diff mode is not used, and put back one by one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from drawbridge.editors import neovim_marks, neovim_reviews
from drawbridge.editors.port import Accepted, Rejected
from tests.nvim.rig import Desk, proposal

LAYOUTS = ("vertical", "inline")
anyhow = pytest.mark.parametrize("layout", LAYOUTS)

OLD = "one\ntwo\nthree\nfour\nfive\n"
NEW = "zero\none\nTWO\nthree\nfive\nsix\n"

MARKS = """
local namespace = vim.api.nvim_get_namespaces().drawbridge_inline
local marks = {}
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
  local removed = vim.tbl_map(function(line) return line[1][1] end, mark[4].virt_lines or {})
  local words = mark[4].hl_group == 'DrawbridgeChanged' and { mark[3], mark[4].end_col } or nil
  table.insert(marks, { mark[2], mark[4].end_row or mark[2], removed, words })
end
return marks
"""


async def marks(desk: Desk) -> dict[str, Any]:
    """Added lines, and removed ones by the line that they stand at; from 0."""
    added: set[int] = set()
    removed: dict[int, list[str]] = {}
    for row, end, lines, *words in await desk.person.lua(MARKS):
        if words:
            continue
        added |= set(range(row, end))
        if lines:
            removed[row] = lines
    return {"added": sorted(added), "removed": removed}


async def shown(desk: Desk, layout: str, old: str = OLD, new: str = NEW) -> Path:
    await desk.options(f"{{ diff = {{ layout = '{layout}' }} }}")
    path = await desk.opened("a.txt", old)
    await desk.shows(proposal(path, old, new))
    return path


async def marked(desk: Desk, expected: dict[str, Any]) -> None:
    deadline = time.monotonic() + 5
    while await marks(desk) != expected:
        assert time.monotonic() < deadline, f"{await marks(desk)} instead of {expected}"


async def test_the_inline_view_marks_what_is_added_and_shows_what_is_removed(desk: Desk) -> None:
    await shown(desk, "inline")
    assert await marks(desk) == {"added": [0, 2, 5], "removed": {2: ["two"], 4: ["four"]}}


async def test_what_differs_within_a_changed_line_is_marked_by_itself(desk: Desk) -> None:
    await shown(
        desk, "inline", "let gr\u00f6\u00dfe = 1;\nif a\nkept\n", "let gr\u00f6\u00dfe = 21;\nif (not b or c)\nkept\n"
    )
    words = [mark[3] for mark in await desk.person.lua(MARKS) if len(mark) > 3]
    assert words == [[14, 15]]


async def test_marks_follow_what_the_person_types(desk: Desk) -> None:
    await shown(desk, "inline")
    await desk.person.types("ggdd")
    await marked(desk, {"added": [1, 4], "removed": {1: ["two"], 3: ["four"]}})
    await desk.person.types("Gocseven<Esc>")
    await marked(desk, {"added": [1, 4, 5], "removed": {1: ["two"], 3: ["four"]}})
    await desk.person.types("uu")
    await marked(desk, {"added": [0, 2, 5], "removed": {2: ["two"], 4: ["four"]}})
    await desk.person.types(":%d<CR>")
    await marked(desk, {"added": [], "removed": {0: OLD.splitlines()}})


async def test_removed_lines_are_shown_as_they_would_look(desk: Desk) -> None:
    await shown(desk, "inline", "\ttab\n\nb\x01ell\r\nx\ty\n" + "long " * 1_000 + "\n", "")
    (lines,) = (await marks(desk))["removed"].values()
    assert lines[:4] == ["        tab", " ", "b^Aell^M", "x       y"]
    assert len(lines[4]) == 500


async def test_a_very_long_removal_is_cut_with_a_word_about_it(desk: Desk) -> None:
    await shown(desk, "inline", "line\n" * 1_000, "")
    (lines,) = (await marks(desk))["removed"].values()
    assert len(lines) == neovim_marks.REMOVED_LINES + 1
    assert "800 more removed lines" in lines[-1]


@anyhow
@pytest.mark.parametrize(
    ("line", "left"),
    [
        (1, "one\nTWO\nthree\nfive\nsix\n"),
        (3, "zero\none\ntwo\nthree\nfive\nsix\n"),
        (4, "zero\none\nTWO\nthree\nfour\nfive\nsix\n"),
        (5, "zero\none\nTWO\nthree\nfour\nfive\nsix\n"),
        (6, "zero\none\nTWO\nthree\nfive\n"),
    ],
)
async def test_the_change_under_the_cursor_goes_back_and_can_be_undone(
    desk: Desk, layout: str, line: int, left: str
) -> None:
    await shown(desk, layout)
    await desk.person.types(f"{line}G")
    await desk.person.lua("require('drawbridge.review').reject_hunk()")
    await desk.person.until("return table.concat(vim.fn.getline(1, '$'), '\\n') .. '\\n' == ...", left)
    await desk.person.types("u")
    assert await desk.person.lines() == NEW.splitlines()
    await desk.person.types("<C-r>:w<CR>")
    assert await desk.decided() == Accepted(left)


async def test_the_cursor_may_be_in_the_present_text(desk: Desk) -> None:
    await shown(desk, "vertical")
    await desk.person.types("<C-w>h4G")
    await desk.person.lua("require('drawbridge.review').reject_hunk()")
    await desk.person.types("<C-w>l")
    await desk.person.until("return vim.fn.getline(5) == 'four'")


@anyhow
async def test_all_changes_put_back_are_the_present_text(desk: Desk, layout: str) -> None:
    await shown(desk, layout, "one\ntwo\n", "")
    await desk.person.lua("require('drawbridge.review').reject_hunk()")
    await desk.person.until("return vim.fn.getline(2) == 'two'")
    await desk.person.types(":w<CR>")
    assert await desk.decided() == Accepted("one\ntwo\n")


@anyhow
async def test_no_change_under_the_cursor_is_said(desk: Desk, layout: str) -> None:
    await shown(desk, layout)
    await desk.person.types("2G")
    await desk.person.lua("require('drawbridge.review').reject_hunk()")
    await desk.person.until("return vim.fn.execute('messages'):find('no change under the cursor')")
    assert await desk.person.lines() == NEW.splitlines()


async def test_what_was_computed_for_an_older_text_is_not_applied(desk: Desk) -> None:
    await shown(desk, "inline")
    before = await marks(desk)
    tick = await desk.person.lua("return vim.api.nvim_buf_get_changedtick(0)")
    late: dict[str, Any] = {
        "id": "1",
        "tick": tick - 1,
        "first": 0,
        "last": 1,
        "lines": ["late"],
        "clear": True,
        "hunks": [],
    }
    for method in ("put_back", "mark"):
        await desk.person.lua("require('drawbridge.link').handle(...)", method, late)
    assert await desk.person.lines() == NEW.splitlines()
    assert await marks(desk) == before


class Typist:
    """A session with a Neovim whose text changes while it is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(neovim_reviews, "CHUNK_LINES", 2)
        self.lines, self.tick, self.calls = ["a", "b", "c"], 1, 0

    async def call(self, method: str, calls: list[Any]) -> Any:
        self.calls += 1
        if self.calls == 2:
            self.lines, self.tick = ["typed", *self.lines], 2
        _, start, end, _ = calls[0][1]
        return [[self.lines[start:end], self.tick], None]


async def test_a_text_that_changes_while_it_is_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Typist(monkeypatch)
    reviews = neovim_reviews.NeovimReviews(session, session.call)
    view = neovim_reviews._Shown(proposal("/a", OLD, NEW), OLD.splitlines())
    assert await reviews._current(view) == (["typed", "a", "b", "c"], 2)


async def test_outside_of_a_proposal_there_is_nothing_to_put_back(desk: Desk) -> None:
    await desk.opened("a.txt", OLD)
    await desk.person.lua("require('drawbridge.review').reject_hunk()")
    await desk.person.until("return vim.fn.execute('messages'):find('not in a proposal')")
    assert await desk.person.lines() == OLD.splitlines()


LARGE = [f"    line {number:6d} of a large file, with some words" for number in range(100_000)]


async def test_five_megabytes_are_shown_marked_and_accepted_unharmed(desk: Desk) -> None:
    old = "\n".join(LARGE) + "\n"
    new = "\n".join(line + " changed" if number % 100 == 50 else line for number, line in enumerate(LARGE)) + "\n"
    path = desk.file("large.txt", old)
    await desk.shows(proposal(path, old, new))
    assert await desk.person.lua("return #vim.api.nvim_tabpage_list_wins(0)") == 1
    assert await desk.person.lua("return vim.fn.line('.')") == 51
    assert len((await marks(desk))["removed"]) == 1_000
    await desk.person.types("A!<Esc>:w<CR>")
    assert await desk.decided() == Accepted(new.replace(" changed", " changed!", 1))


async def test_one_change_of_five_megabytes_can_be_put_back(desk: Desk) -> None:
    old = "\n".join(LARGE) + "\n"
    new = old.replace("    99 of", "    99 OF").replace("  9999 of", "  9999 OF")
    path = desk.file("large.txt", old)
    await desk.shows(proposal(path, old, new))
    await desk.person.types("10000G")
    await desk.person.lua("require('drawbridge.review').reject_hunk()")
    await desk.person.until("return vim.fn.getline('.'):find('9999 of')")
    await desk.person.types(":w<CR>")
    assert await desk.decided() == Accepted(old.replace("    99 of", "    99 OF"))


async def test_very_long_lines_are_shown(desk: Desk) -> None:
    old, new = "x" * 300_000 + "\n", "y" * 300_000 + "\n"
    path = await desk.opened("a.txt", old)
    await desk.shows(proposal(path, old, new))
    await desk.person.types(":q<CR>")
    assert await desk.decided() == Rejected()
