"""`snapshot` with a selection: what the user has selected, as long as it is current, and once for each session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.guard.lua.rig import Workstation

TEXT = "first line\nsecond line\nthird line\nfourth line\n"
WIDE = "ab\u00e9d日本語x\nae\u0301 o\u0308 \U0001f600 z\n\tin\tdented 日\nshort\n\nlonger than short\n"


async def selection(at: Workstation, session: str = "s") -> Any:
    return (await at.asks("snapshot", paths=[], want=["selection"], session=session))["selection"]


async def content(at: Workstation) -> str | None:
    """Returns the selected text, or None. Requests it in a new session, which has not received it before."""
    found = await selection(at, f"session {id(asyncio.current_task())} {asyncio.get_running_loop().time()}")
    return None if found is None else str(found["content"])


async def starts(at: Workstation, text: str = TEXT, name: str = "a.py") -> None:
    """Opens a file and begins an agent's session, whose first request makes Neovim watch the selection."""
    await at.opened(name, text)
    await at.asks("snapshot", paths=[], want=["unsaved"])


async def test_lines_selected_in_visual_mode_are_returned(at: Workstation) -> None:
    await starts(at)
    await at.ex("set filetype=python")
    await at.keys("jVj")

    assert await selection(at) == {
        "file_path": str(at.folder / "a.py"), "start_line": 2, "end_line": 3,
        "content": "second line\nthird line", "language": "python",
    }  # fmt: skip


async def test_characters_selected_a_moment_ago_are_returned(at: Workstation) -> None:
    await starts(at)
    await at.keys("jwve<Esc>")

    found = await selection(at)

    assert (found["content"], found["start_line"], found["end_line"]) == ("line", 2, 2)


async def test_without_a_selection_none_is_returned(at: Workstation) -> None:
    await starts(at)

    assert await selection(at) is None


async def test_a_selection_from_before_the_session_does_not_count(at: Workstation) -> None:
    await at.opened("a.py", TEXT)
    await at.keys("Vj<Esc>")

    assert await selection(at) is None


# Exactly what is selected: Neovim's own yank is the reference.

KEYS = {
    "charwise": "lvjh",
    "charwise backwards": "jjlvkhh",
    "charwise to the end of the line": "lv$",
    "charwise over several lines to the end": "lvj$",
    "one character": "llv",
    "one wide character": "4lv",
    "combining characters": "jlvll",
    "linewise": "jVj",
    "linewise backwards": "jjVk",
    "select mode": "lgh<S-Right><S-Right>",
}
BLOCKS = {
    "block": "l<C-v>jl",
    "block backwards": "jj6l<C-v>kkhhh",
    "block of the other diagonal": "4l<C-v>jjhh",
    "block of wide characters": "4l<C-v>jl",
    "block to the end of the lines": "l<C-v>jjj$",
    "block over short lines": "8l<C-v>jjjj",
    "block that begins behind a short line": "3j4l<C-v>jjh",
}


async def is_yanked(at: Workstation, keys: str, *, left: bool) -> None:
    await at.keys(f"gg0{keys}{'<Esc>' if left else ''}")

    found = await content(at)

    await at.keys("gvy" if left else "<C-g>y" if keys.startswith("lgh") else "y")
    yanked = await at.person.lua("return vim.fn.getreg('\"')")
    assert found is not None, keys
    # A yank pads a block with spaces.
    assert [line.rstrip(" ") for line in found.splitlines()] == [line.rstrip(" ") for line in yanked.splitlines()], keys


@pytest.mark.parametrize("inclusive", ["inclusive", "exclusive", "old"])
async def test_a_selection_equals_what_a_yank_would_copy(at: Workstation, inclusive: str) -> None:
    await starts(at, WIDE)
    await at.ex(f"set selection={inclusive} keymodel=")
    for keys in KEYS.values():
        await is_yanked(at, keys, left=False)
        await is_yanked(at, keys, left=True)


@pytest.mark.parametrize("inclusive", ["inclusive", "exclusive", "old"])
async def test_a_block_selection_equals_what_a_yank_would_copy(at: Workstation, inclusive: str) -> None:
    await starts(at, "ab\u00e9d日mn yz\nae\u0301o\u03088語mn z...\nshort ones\n12345\n\n0123456789\n")
    await at.ex(f"set selection={inclusive}")
    for keys in BLOCKS.values():
        await is_yanked(at, keys, left=False)
        await is_yanked(at, keys, left=True)


async def test_a_tab_or_wide_character_cut_by_a_block_is_sent_whole(at: Workstation) -> None:
    """A yank would replace the part of a character that it cuts off with spaces."""
    await starts(at, "12345678\n\tin\n1日本語\n")
    await at.ex("set tabstop=4")
    await at.keys("gg02l<C-v>jjl<Esc>")

    assert await content(at) == "345\n\tin"[:6] + "\n日本"


# How long a selection counts.


async def test_a_selection_is_returned_once_for_each_session(at: Workstation) -> None:
    await starts(at)
    await at.keys("Vj")

    assert await selection(at, "one") is not None
    assert await selection(at, "one") is None
    await at.keys("<Esc>")
    assert await selection(at, "one") is None
    assert await selection(at, "two") is not None


async def test_a_selection_made_again_is_returned_again(at: Workstation) -> None:
    await starts(at)
    await at.keys("V")
    assert (await selection(at))["content"] == "first line"
    await at.keys("<Esc>jV")
    assert (await selection(at))["content"] == "second line"
    await at.keys("<Esc>ggV")
    assert (await selection(at))["content"] == "first line"


async def test_a_selection_expires_after_two_minutes(at: Workstation) -> None:
    await starts(at)
    await at.keys("V<Esc>")
    await at.person.lua("__drawbridge_guard.left.at = __drawbridge_guard.left.at - 119e9")
    assert await content(at) == "first line"

    await at.person.lua("__drawbridge_guard.left.at = __drawbridge_guard.left.at - 2e9")

    assert await content(at) is None


async def test_a_selection_does_not_expire_in_visual_mode(at: Workstation) -> None:
    await starts(at)
    await at.keys("V")
    await at.person.lua("if __drawbridge_guard.left then __drawbridge_guard.left.at = 0 end")

    assert await content(at) == "first line"


@pytest.mark.parametrize("change", ["x", "ihello<Esc>", "jjdd"])
async def test_a_selection_does_not_count_after_the_text_changes(at: Workstation, change: str) -> None:
    await starts(at)
    await at.keys(f"V<Esc>{change}")

    assert await content(at) is None


@pytest.mark.parametrize("operator", ["d", "cnew<Esc>", "rx", ">", "gU", "J", "p"])
async def test_a_selection_that_was_edited_does_not_count(at: Workstation, operator: str) -> None:
    await starts(at)
    await at.ex("let @\" = 'put'")
    await at.keys(f"vj{operator}")
    await at.waits_for_mode("n")

    assert await content(at) is None


@pytest.mark.parametrize("operator", ["y", ":<C-u>nohlsearch<CR>"])
async def test_a_selection_counts_after_commands_that_change_nothing(at: Workstation, operator: str) -> None:
    await starts(at)
    await at.keys(f"jV{operator}")
    await at.waits_for_mode("n")

    assert await content(at) == "second line"


async def test_a_selection_counts_while_a_command_about_it_is_typed(at: Workstation) -> None:
    await starts(at)
    await at.keys("jV:")
    await at.waits_for_mode("c")

    assert await content(at) == "second line"


async def test_a_selection_counts_from_the_terminal_next_to_it(at: Workstation) -> None:
    await starts(at)
    await at.ex("botright split | terminal sleep 60")
    await at.ex("wincmd p")
    await at.keys("jV<C-w>p")
    assert await at.person.lua("return vim.bo.buftype") == "terminal"

    assert await content(at) == "second line"


async def test_a_selection_outside_a_file_does_not_count(at: Workstation) -> None:
    await starts(at)
    await at.ex("new | call setline(1, 'secret')")
    await at.keys("V")

    assert await content(at) is None


async def test_a_reload_ends_a_selection(at: Workstation) -> None:
    await starts(at)
    await at.keys("V<Esc>")
    path = at.file("a.py", "new\n" + TEXT)
    await at.asks("refresh_buffer", file_path=path)

    assert await content(at) is None


async def test_a_selection_in_a_hidden_buffer_counts_until_it_is_wiped(at: Workstation) -> None:
    await at.ex("set hidden")
    await starts(at)
    await at.keys("j0<C-v>jl<Esc>")
    await at.ex("edit b.py")

    assert await content(at) == "se\nth"
    await at.ex("bwipeout a.py")
    assert await content(at) is None


# Large selections.


async def test_a_long_selection_is_truncated(at: Workstation) -> None:
    await starts(at, "é" * 79 + "\n" + ("ä" * 79 + "\n") * 20_000)
    await at.keys("VG")

    found = await selection(at)

    assert found["truncated"] is True
    assert (found["start_line"], found["end_line"]) == (1, 20_001)
    assert found["content"] == ("é" * 79 + "\n" + ("ä" * 79 + "\n") * 99)
    assert len(found["content"]) == 8_000


async def test_a_selection_exactly_at_the_limit_is_not_truncated(at: Workstation) -> None:
    await starts(at, "é" * 8_000 + "\n")
    await at.keys("V")

    found = await selection(at)

    assert found["content"] == "é" * 8_000
    assert "truncated" not in found


@pytest.mark.parametrize("keys", ["v$", "<C-v>$", "V"])
async def test_a_selected_line_of_a_megabyte_is_truncated(at: Workstation, keys: str) -> None:
    await starts(at, "x" * 1_000_000 + "\n")
    await at.keys(keys)

    found = await selection(at)

    assert found["content"] == "x" * 8_000
    assert found["truncated"] is True


async def test_bytes_that_are_not_utf8_are_surrogate_escaped(at: Workstation) -> None:
    await at.ex('edit ++enc=utf-8 a.py | call setline(1, "caf\\xe9 \\xc3\\xa9")')
    await at.asks("snapshot", paths=[])
    await at.keys("V")

    assert await content(at) == "caf\udce9 é"
