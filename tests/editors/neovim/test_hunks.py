"""The hunks of a proposal are marked where Neovim's diff mode is not used, and can be reverted one by one."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.editors.neovim import marks as neovim_marks
from drawbridge.editors.neovim import reviews as neovim_reviews
from drawbridge.editors.neovim.neovim import Neovim
from drawbridge.editors.port import Accepted, Rejected
from drawbridge.text import hunks
from tests.nvim.rig import Workstation, on_screen, proposal
from tests.programs import each_nvim
from tests.waiting import PATIENCE

LAYOUTS = ("vertical", "inline")
anyhow = pytest.mark.parametrize("layout", LAYOUTS)

OLD = "one\ntwo\nthree\nfour\nfive\n"
NEW = "zero\none\nTWO\nthree\nfive\nsix\n"

MARKS = """
local namespace = vim.api.nvim_get_namespaces().drawbridge_inline
local marks = {}
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
  local removed = vim.tbl_map(function(line)
    local chunks = vim.tbl_map(function(chunk) return chunk[1] end, line)
    return (table.concat(chunks, '', 2):gsub(' +$', ''))
  end, mark[4].virt_lines or {})
  local words = mark[4].hl_group == 'DrawbridgeChanged' and { mark[3], mark[4].end_col } or nil
  table.insert(marks, { mark[2], mark[4].end_row or mark[2], removed, words })
end
return marks
"""


async def marks(rig: Workstation) -> dict[str, Any]:
    """The added lines, and the removed lines by the line at which they are shown. Lines are counted from 0."""
    added: set[int] = set()
    removed: dict[int, list[str]] = {}
    for row, end, lines, *words in await rig.person.lua(MARKS):
        if words:
            continue
        added |= set(range(row, end))
        if lines:
            removed[row] = lines
    return {"added": sorted(added), "removed": removed}


async def shown(rig: Workstation, layout: str, old: str = OLD, new: str = NEW) -> Path:
    await rig.options(f"{{ diff = {{ layout = '{layout}' }} }}")
    path = await rig.opened("a.txt", old)
    await rig.shows(proposal(path, old, new))
    return path


async def marked(rig: Workstation, expected: dict[str, Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while await marks(rig) != expected:
        assert time.monotonic() < deadline, f"{await marks(rig)} instead of {expected}"


async def test_the_inline_view_marks_added_and_shows_removed_lines(rig: Workstation) -> None:
    await shown(rig, "inline")
    assert await marks(rig) == {"added": [0, 2, 5], "removed": {2: ["two"], 4: ["four"]}}


async def test_only_the_differing_words_of_a_line_are_highlighted(rig: Workstation) -> None:
    await shown(
        rig, "inline", "let gr\u00f6\u00dfe = 1;\nif a\nkept\n", "let gr\u00f6\u00dfe = 21;\nif (not b or c)\nkept\n"
    )
    words = [mark[3] for mark in await rig.person.lua(MARKS) if len(mark) > 3]
    assert words == [[14, 15]]


async def test_marks_are_updated_as_the_user_types(rig: Workstation) -> None:
    await shown(rig, "inline")
    await rig.person.types("ggdd")
    await marked(rig, {"added": [1, 4], "removed": {1: ["two"], 3: ["four"]}})
    await rig.person.types("Gocseven<Esc>")
    await marked(rig, {"added": [1, 4, 5], "removed": {1: ["two"], 3: ["four"]}})
    await rig.person.types("uu")
    await marked(rig, {"added": [0, 2, 5], "removed": {2: ["two"], 4: ["four"]}})
    await rig.person.types(":%d<CR>")
    await marked(rig, {"added": [], "removed": {0: OLD.splitlines()}})


async def test_removed_lines_are_shown_as_neovim_displays_text(rig: Workstation) -> None:
    await shown(rig, "inline", "\ttab\n\nb\x01ell\r\nx\ty\n" + "long " * 1_000 + "\n", "")
    (lines,) = (await marks(rig))["removed"].values()
    assert lines[:4] == ["        tab", "", "b^Aell^M", "x       y"]
    assert len(lines[4]) == 499, "500 bytes, the last one of them a space"


async def test_a_very_long_removal_is_truncated_with_a_note(rig: Workstation) -> None:
    await shown(rig, "inline", "line\n" * 1_000, "")
    (lines,) = (await marks(rig))["removed"].values()
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
async def test_reverting_the_hunk_under_the_cursor_can_be_undone(
    rig: Workstation, layout: str, line: int, left: str
) -> None:
    await shown(rig, layout)
    await rig.person.types(f"{line}G")
    await rig.person.lua("require('drawbridge.review').reject_hunk()")
    await rig.person.until("return table.concat(vim.fn.getline(1, '$'), '\\n') .. '\\n' == ...", left)
    await rig.person.types("u")
    assert await rig.person.lines() == NEW.splitlines()
    await rig.person.types("<C-r>:w<CR>")
    assert await rig.decided() == Accepted(left)


async def test_a_hunk_can_be_reverted_from_the_current_text(rig: Workstation) -> None:
    await shown(rig, "vertical")
    await rig.person.types("<C-w>h4G")
    await rig.person.lua("require('drawbridge.review').reject_hunk()")
    await rig.person.types("<C-w>l")
    await rig.person.until("return vim.fn.getline(5) == 'four'")


@anyhow
async def test_reverting_every_hunk_restores_the_current_text(rig: Workstation, layout: str) -> None:
    await shown(rig, layout, "one\ntwo\n", "")
    await rig.person.lua("require('drawbridge.review').reject_hunk()")
    await rig.person.until("return vim.fn.getline(2) == 'two'")
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted("one\ntwo\n")


async def test_lines_stay_visible_after_the_last_hunk_is_reverted(rig: Workstation) -> None:
    """Diff mode would fold all lines into one, on both sides."""
    old = "".join(f"line {number}\n" for number in range(40))
    await shown(rig, "vertical", old, old.replace("line 20\n", "another\n"))
    await rig.person.until("return vim.fn.foldclosed(1) == 1")
    await rig.person.types("21G")
    await rig.person.lua("require('drawbridge.review').reject_hunk()")
    await rig.person.until("return vim.fn.getline(21) == 'line 20'")
    for side in ("h", "l"):
        await rig.person.types(f"<C-w>{side}")
        await rig.person.until("return vim.fn.foldclosed(1) == -1")


@anyhow
async def test_reverting_without_a_hunk_under_the_cursor_is_reported(rig: Workstation, layout: str) -> None:
    await shown(rig, layout)
    await rig.person.types("2G")
    await rig.person.lua("require('drawbridge.review').reject_hunk()")
    await rig.person.until("return vim.fn.execute('messages'):find('no change under the cursor')")
    assert await rig.person.lines() == NEW.splitlines()


async def test_results_for_an_outdated_text_are_not_applied(rig: Workstation) -> None:
    await shown(rig, "inline")
    before = await marks(rig)
    tick = await rig.person.lua("return vim.api.nvim_buf_get_changedtick(0)")
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
        await rig.person.lua("require('drawbridge.link').handle(...)", method, late)
    assert await rig.person.lines() == NEW.splitlines()
    assert await marks(rig) == before


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


async def test_a_text_that_changes_during_reading_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Typist(monkeypatch)
    reviews = neovim_reviews.NeovimReviews(session, session.call)
    view = neovim_reviews._Shown(proposal("/a", OLD, NEW))
    assert await reviews._current(view) == (["typed", "a", "b", "c"], 2)


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_view_that_closes_during_an_update_is_no_error(caplog: pytest.LogCaptureFixture, is_open: bool) -> None:
    """The user decides while Python reads the edited text. The same error in an open view is logged."""
    view = neovim_reviews._Shown(proposal("/a", OLD, NEW))

    class Closing:
        async def call(self, method: str, calls: list[Any]) -> Any:
            if not is_open:
                reviews.heard("decided", {"id": view.proposal.id, "accepted": False})
            return [[], [0, 0, "Invalid buffer id: 7"]]

    session: Any = Closing()
    reviews = neovim_reviews.NeovimReviews(session, session.call)
    reviews._shown[view.proposal.id] = view
    reviews.heard("edited", {"id": view.proposal.id})
    await asyncio.gather(*reviews._tasks._tasks)
    found = [(record.levelname, record.getMessage()) for record in caplog.records]
    text = "marking the changes of a view: [0, 0, 'Invalid buffer id: 7']"
    assert found == [("WARNING", text)] * is_open
    await reviews.close()


async def test_reverting_outside_a_proposal_is_reported(rig: Workstation) -> None:
    await rig.opened("a.txt", OLD)
    await rig.person.lua("require('drawbridge.review').reject_hunk()")
    await rig.person.until("return vim.fn.execute('messages'):find('not in a proposal')")
    assert await rig.person.lines() == OLD.splitlines()


CHANGED = ("same\nname = old\nkept\ngone\n", "same\nname = newer\nadded\nkept\n")
HIGHLIGHTS = """
local found = {}
for _, name in ipairs({ 'Added', 'Removed', 'Changed' }) do
  local id = vim.fn.synIDtrans(vim.fn.hlID('Drawbridge' .. name))
  local number = vim.fn.synIDattr(id, 'bg', 'cterm')
  if vim.o.termguicolors then
    number = vim.fn.synIDattr(id, 'bg#', 'gui')
  end
  found[name] = number
end
return found
"""


@pytest.mark.parametrize(
    ("number", "columns"),
    [(True, 80), (False, 120), *(pytest.param(*one, marks=pytest.mark.thorough) for one in [(False, 80), (True, 120)])],
)
@pytest.mark.parametrize("program", each_nvim())
async def test_changed_lines_have_signs_and_full_width_colors(
    program: Path, tmp_path: Path, number: bool, columns: int
) -> None:
    """Tested on the screen, in the default colors, with and without line numbers."""
    old, new = CHANGED
    path = tmp_path / "app.py"
    path.write_text(old)
    async with on_screen(program, str(path), cwd=tmp_path, rows=20, columns=columns) as (person, pane):
        editor = await Neovim.connect(person.address)
        made = Workstation(person, editor, tmp_path)
        await editor.start(made.events.append)
        await made.options("{ diff = { layout = 'inline' }, idle_ms = 70 }")
        await person.lua("vim.o.termguicolors = false vim.o.number = ... vim.o.cursorline = false", number)
        await made.shows(proposal(path, old, new))
        gutter = "   {}" if number else "{}"
        lines = [
            " " + gutter.format("1 " if number else " ") + "same",
            "-" + gutter.format("  " if number else " ") + "name = old",
            "+" + gutter.format("2 " if number else " ") + "name = newer",
            "+" + gutter.format("3 " if number else " ") + "added",
            " " + gutter.format("4 " if number else " ") + "kept",
            "-" + gutter.format("  " if number else " ") + "gone",
        ]
        await asyncio.to_thread(pane.wait_for, "(?m)" + r" *\n".join(map(re.escape, lines)))
        groups = await person.lua(HIGHLIGHTS)
        assert len({*groups.values(), ""}) == 4, "each has a background of its own"
        shown = {text.rstrip(): backgrounds for text, backgrounds in colored(pane.colored)}
        for line in lines:
            backgrounds = shown[line.rstrip()]
            group = groups[{"-": "Removed", "+": "Added"}.get(line[0], "Changed")]
            assert (group in backgrounds) is (line[0] != " "), line
            if line[0] != " ":
                assert len(backgrounds) == columns, line
            words = [at for at, background in enumerate(backgrounds) if background == groups["Changed"]]
            differs = {"old": 3, "newer": 5}.get(line.rpartition(" ")[2], 0)
            assert words == [*range(len(line) - differs, len(line))], line
            if line[0] != " ":
                assert set(backgrounds) <= {group, groups["Changed"]}, line
        await person.types(":w<CR>")
        assert await made.decided() == Accepted(new)
        await editor.close()


def colored(screen: str) -> Iterator[tuple[str, list[str]]]:
    """Each line of a screen, and the number of each cell's background color; "" for a cell without one."""
    background = ""
    for line in screen.splitlines():
        text, backgrounds = "", list[str]()
        for codes, character in re.findall(r"\x1b\[([\d;]*)m|([^\x1b])", line):
            if character:
                text += character
                backgrounds.append(background)
                continue
            for code in re.findall(r"38[;:][25][;:][\d;]+?(?=;48|$)|48[;:]5[;:]\d+|\d+", codes or "0"):
                if code in ("0", "49"):
                    background = ""
                elif re.fullmatch(r"4[0-7]", code):
                    background = str(int(code) - 40)
                elif re.fullmatch(r"10[0-7]", code):
                    background = str(int(code) - 92)
                elif code.startswith("48"):
                    background = re.split("[;:]", code)[2]
        yield text, backgrounds


async def test_similar_lines_of_uneven_hunks_are_compared() -> None:
    old = ["a long line: größe 1", "if a", "last = 1"]
    new = ["unlike", "a long line: größe 23", "b", "c", "last = 2"]
    [[mark]] = neovim_marks.portions(hunks.diff(old, new), old, new)
    assert mark["words"] == [(1, 21, 23), (4, 7, 8)], "bytes"
    assert mark["removed_words"] == [(0, 21, 22), (2, 7, 8)]


async def test_word_marks_are_correct_in_lines_with_tabs(rig: Workstation) -> None:
    old, new = "\ttab\x01größe 1\tend of the line\n", "\ttab\x01größe 22\tend of the line\n"
    await shown(rig, "inline", old, new)
    [chunks] = await rig.person.lua(
        "local namespace = vim.api.nvim_get_namespaces().drawbridge_inline "
        "local lines = {} "
        "for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do "
        "  vim.list_extend(lines, mark[4].virt_lines or {}) "
        "end "
        "return lines"
    )
    assert [text for text, group in chunks if group == "DrawbridgeChanged"] == ["1"]
    assert "".join(text for text, _ in chunks).rstrip() == "-         tab^Agröße 1    end of the line"


LARGE = [f"    line {number:6d} of a large file, with some words" for number in range(100_000)]


async def test_a_5_mb_proposal_is_shown_marked_and_accepted_unchanged(rig: Workstation) -> None:
    old = "\n".join(LARGE) + "\n"
    new = "\n".join(line + " changed" if number % 100 == 50 else line for number, line in enumerate(LARGE)) + "\n"
    path = rig.file("large.txt", old)
    await rig.shows(proposal(path, old, new))
    assert await rig.person.lua("return #vim.api.nvim_tabpage_list_wins(0)") == 1
    assert await rig.person.lua("return vim.fn.line('.')") == 51
    assert len((await marks(rig))["removed"]) == 1_000
    await rig.person.types("A!<Esc>:w!<CR>")  # most of the change has not been in a window
    assert await rig.decided() == Accepted(new.replace(" changed", " changed!", 1))


async def test_one_hunk_of_a_5_mb_proposal_can_be_reverted(rig: Workstation) -> None:
    old = "\n".join(LARGE) + "\n"
    new = old.replace("    99 of", "    99 OF").replace("  9999 of", "  9999 OF")
    path = rig.file("large.txt", old)
    await rig.shows(proposal(path, old, new))
    await rig.person.types("10000G")
    await rig.person.lua("require('drawbridge.review').reject_hunk()")
    await rig.person.until("return vim.fn.getline('.'):find('9999 of')")
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(old.replace("    99 of", "    99 OF"))


async def test_very_long_lines_are_shown(rig: Workstation) -> None:
    old, new = "x" * 300_000 + "\n", "y" * 300_000 + "\n"
    path = await rig.opened("a.txt", old)
    await rig.shows(proposal(path, old, new))
    await rig.person.types(":q<CR>")
    assert await rig.decided() == Rejected()
