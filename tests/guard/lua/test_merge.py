"""`buffer_text` and `merge_buffer`: an agent's change to a file is merged into the user's unsaved text, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from drawbridge import text
from drawbridge.text import hunks
from tests.guard.lua.rig import Workstation
from tests.programs import nvim_version

LINES = "".join(f"line {number}\n" for number in range(1, 101))


def edits(old: str, new: str) -> list[dict[str, Any]]:
    """Returns the edits that turn ``old`` into ``new``, computed as the guard computes them."""
    before, after = text.split(old)[0], text.split(new)[0]
    return [
        {"start": hunk.old_start, "end": hunk.old_end, "lines": after[hunk.new_start : hunk.new_end]}
        for hunk in hunks.diff(before, after)
    ]


async def merged(at: Workstation, path: Path, new: str) -> Any:
    """Merges the edits that turn the buffer's text into ``new``. Returns Neovim's answer."""
    found = await at.asks("buffer_text", file_path=path)
    return await at.asks(
        "merge_buffer", file_path=path, version=found["version"], edits=edits(found["text"], new)
    )  # fmt: skip


# The text.

TEXTS = {
    "lf": b"one\ntwo\n",
    "crlf": b"one\r\ntwo\r\n",
    "a byte order mark": b"\xef\xbb\xbfone\n",
    "nul bytes": b"a\0b\n",
    "bytes that are nothing": "é".encode() + b"\n",
    "empty": b"",
    "one empty line": b"\n",
    "a trailing empty line": b"one\n\n",
    "wide": "日本語 \U0001f600\n".encode(),
}


@pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
async def test_the_text_is_what_a_save_would_write(at: Workstation, content: bytes) -> None:
    path = await at.opened("a.txt", content)

    found = await at.asks("buffer_text", file_path=path)

    assert found["text"].encode("utf-8", "surrogateescape") == content


async def test_unsaved_text_is_returned_with_a_version(at: Workstation) -> None:
    path = await at.opened("a.txt", b"one")
    before = await at.asks("buffer_text", file_path=path)
    await at.keys("omine<Esc>")

    after = await at.asks("buffer_text", file_path=path)

    assert before["text"] == "one\n", "Neovim would add the line end that the file lacks"
    assert after["text"] == "one\nmine\n"
    assert after["version"] > before["version"]
    assert (await at.asks("buffer_text", file_path=path))["version"] == after["version"]


async def test_a_missing_final_newline_is_kept_without_fixendofline(at: Workstation) -> None:
    await at.ex("set nofixendofline")
    path = await at.opened("a.txt", b"one\ntwo")

    assert (await at.asks("buffer_text", file_path=path))["text"] == "one\ntwo"


async def test_text_in_another_encoding_is_returned_in_utf8(at: Workstation) -> None:
    path = await at.opened("a.txt", b"caf\xe9\n")

    found = await at.asks("buffer_text", file_path=path)

    assert (found["text"], found["encoding"]) == ("café\n", "latin1")


async def test_bytes_that_are_not_utf8_are_returned_unchanged(at: Workstation) -> None:
    await at.ex('edit ++enc=utf-8 a.txt | call setline(1, "\\xff\\xe9t\\xc3\\xa9\\xf0\\x9f")')

    found = await at.asks("buffer_text", file_path=at.folder / "a.txt")

    assert found["text"].encode("utf-8", "surrogateescape") == b"\xff\xe9t\xc3\xa9\xf0\x9f\n"


async def test_a_file_that_is_unopened_or_too_large_has_no_text(at: Workstation) -> None:
    large = await at.opened("large.txt", "x" * 79 + "\n" + ("y" * 79 + "\n") * 53_000)

    assert await at.asks("buffer_text", file_path=large) == {"text": None}
    assert await at.asks("buffer_text", file_path=at.file("closed.txt")) == {"text": None}


# The merge.


async def test_an_agents_change_is_merged_into_the_unsaved_text(at: Workstation) -> None:
    path = await at.opened("a.py", "one\ntwo\nthree\n")
    await at.keys("Gomine<Esc>")
    path.write_text("zero\none\nTWO\nthree\n")

    assert await merged(at, path, "zero\none\nTWO\nthree\nmine\n") == {"merged": True}

    assert await at.text() == ["zero", "one", "TWO", "three", "mine"]
    assert await at.modified()
    assert path.read_text() == "zero\none\nTWO\nthree\n"
    assert (await at.mode(), await at.person.messages()) == ("n", "")


async def test_saving_after_a_merge_does_not_warn(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.keys("omine<Esc>")
    path.write_text("agent's\none\n")
    await merged(at, path, "agent's\none\nmine\n")

    await at.keys(":w<CR>")

    await at.person.until("return not vim.bo.modified")
    assert path.read_text() == "agent's\none\nmine\n"
    assert "WARNING" not in await at.person.messages()


async def test_a_merged_buffer_is_not_reloaded_afterwards(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.keys("omine<Esc>")
    path.write_text("agent's\none\n")
    await merged(at, path, "agent's\none\nmine\n")

    await at.ex("checktime")
    answer = await at.asks("refresh_buffer", file_path=path)

    assert (answer["kept"], answer["reloaded"]) == ([], [])
    assert await at.mode() == "n"
    assert await at.text() == ["agent's", "one", "mine"]


async def test_a_change_on_disk_after_a_merge_is_reported(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.keys("omine<Esc>")
    path.write_text("agent's\none\n")
    await merged(at, path, "agent's\none\nmine\n")
    path.write_text("once more\n")

    assert [file["name"] for file in (await at.asks("refresh_buffer", file_path=path))["kept"]] == [str(path)]
    assert (await at.asks("save_buffer", file_path=path))["saved"] is False


async def test_one_undo_restores_exactly_the_users_text(at: Workstation) -> None:
    path = await at.opened("a.py", LINES)
    await at.keys("50Gomine<Esc>x")
    before = await at.text()
    path.write_text("new\n" + LINES.replace("line 90\n", ""))
    new = ["new", *(line for line in before if line != "line 90")]
    await merged(at, path, "\n".join(new) + "\n")
    assert await at.text() == new

    await at.keys("u")

    assert await at.text() == before
    assert await at.modified()
    await at.keys("<C-r>")
    assert await at.text() == new
    assert await at.modified()


async def test_undo_to_the_text_saved_earlier_counts_as_modified(at: Workstation) -> None:
    """The file on disk has changed since that text was saved."""
    path = await at.opened("a.py", "one\n")
    await at.keys("omine<Esc>")
    path.write_text("agent's\none\n")
    await merged(at, path, "agent's\none\nmine\n")

    await at.keys("uu")

    assert await at.text() == ["one"]
    assert await at.modified(), "the file contains something else now"


async def test_a_merge_while_the_user_types_can_be_undone(at: Workstation) -> None:
    path = await at.opened("a.py", "one\ntwo\n")
    await at.keys("jA before")
    await at.waits_for_mode("i")
    path.write_text("zero\none\ntwo\n")
    assert await merged(at, path, "zero\none\ntwo before\n") == {"merged": True}
    await at.keys(" and after")
    await at.keys("<Esc>")
    await at.waits_for_mode("n")
    assert await at.text() == ["zero", "one", "two before and after"]

    await at.keys("u")
    if nvim_version(at.program) >= (0, 10):
        assert await at.text() == ["zero", "one", "two before"]
        await at.keys("u")
        assert await at.text() == ["one", "two before"]
    else:  # Neovim 0.7 does not close the undo step while the user keeps typing
        assert await at.text() == ["one", "two before and after"]


async def test_cursor_marks_folds_and_extmarks_move_with_the_text(at: Workstation) -> None:
    path = await at.opened("a.py", LINES)
    await at.ex("set foldmethod=manual")
    await at.keys("10Gomine<Esc>")
    await at.ex("50,60fold | 50foldopen | 70mark a")
    await at.ex("call winrestview({'topline': 75, 'lnum': 80, 'col': 3})")
    await at.person.lua("vim.api.nvim_buf_set_extmark(0, vim.api.nvim_create_namespace('other'), 84, 2, { id = 1 })")
    old = await at.text()
    new = ["a", "b", *(line.replace("line 83", "line 83!") for line in old if line != "line 40")]
    path.write_text("whatever\n")

    await merged(at, path, "\n".join(new) + "\n")

    look = (
        'local v = vim.fn.winsaveview() return { v.topline, v.lnum, v.col, vim.fn.line("\'a"), vim.fn.foldlevel(51), '
        "vim.fn.foldlevel(50), vim.fn.foldlevel(61), vim.fn.foldlevel(62), "
        "vim.api.nvim_buf_get_extmark_by_id(0, vim.api.nvim_create_namespace('other'), 1, {})[1] }"
    )
    assert await at.person.lua(look) == [76, 81, 3, 71, 1, 0, 1, 0, 85]
    assert await at.text() == new


async def test_a_hidden_buffer_is_merged(at: Workstation) -> None:
    await at.ex("set hidden")
    path = await at.opened("a.py", "one\n")
    await at.keys("omine<Esc>")
    await at.ex("edit b.py")
    path.write_text("agent's\none\n")

    assert await merged(at, path, "agent's\none\nmine\n") == {"merged": True}

    assert await at.text(path) == ["agent's", "one", "mine"]
    assert await at.modified(path)
    assert await at.person.lua("return vim.fn.expand('%')") == "b.py"


SHAPES = {
    "from nothing": ("", "one\ntwo\n"),
    "to nothing": ("one\ntwo\n", ""),
    "an empty line": ("", "\n"),
    "only the first line": ("one\ntwo\n", "two\n"),
    "only the last line": ("one\ntwo\n", "one\n"),
    "everything": ("a\nb\nc\n", "d\ne\n"),
    "many lines": (LINES, "".join(f"{number}\n" for number in range(1_000))),
    "in the middle of wide characters": ("日本語\ncafé\n", "日人語\ncafè\n"),
    "a stray carriage return": ("one\n", "one\r\ntwo\n"),
    "nul and odd bytes": ("one\n", "o\0ne\udcff\\udc80\U0001f600\n"),
}


@pytest.mark.parametrize(("old", "new"), SHAPES.values(), ids=SHAPES)
async def test_any_change_is_merged(at: Workstation, old: str, new: str) -> None:
    path = await at.opened("a.txt", "something else\n")
    await at.person.lua("vim.api.nvim_buf_set_lines(0, 0, -1, true, ...)", old.splitlines() or [""])

    assert await merged(at, path, new) == {"merged": True}

    found = await at.asks("buffer_text", file_path=path)
    assert not new or found["text"] == new
    assert new or await at.text() == [""]


async def test_a_merge_into_an_empty_file_adds_no_empty_line(at: Workstation) -> None:
    path = await at.opened("a.txt", b"")

    assert await merged(at, path, "one\ntwo\n") == {"merged": True}

    assert await at.text() == ["one", "two"]


async def test_crlf_is_kept_if_added_lines_have_only_lf(at: Workstation) -> None:
    path = await at.opened("a.txt", b"one\r\ntwo\r\n")
    await at.keys("omine<Esc>")
    version = (await at.asks("buffer_text", file_path=path))["version"]
    change = [{"start": 0, "end": 1, "lines": ["ONE\r", "new"]}]

    await at.asks("merge_buffer", file_path=path, version=version, edits=change)
    await at.ex("silent write!")

    assert path.read_bytes() == b"ONE\r\nnew\r\nmine\r\ntwo\r\n"


# A merge that fails changes nothing.


async def refused(at: Workstation, path: Path, reason: str, *, version: int | None = None, change: Any = None) -> None:
    before = await at.person.lua("return { vim.fn.getline(1, '$'), vim.bo.modified, vim.fn.undotree().seq_last }")
    known = await at.asks("buffer_text", file_path=path)

    answer = await at.asks(
        "merge_buffer",
        file_path=path,
        version=known.get("version", 0) if version is None else version,
        edits=[{"start": 0, "end": 1, "lines": ["agent's"]}] if change is None else change,
    )

    assert answer == {"merged": False, "reason": reason}
    after = await at.person.lua("return { vim.fn.getline(1, '$'), vim.bo.modified, vim.fn.undotree().seq_last }")
    assert after == before
    assert await at.mode() == "n"


async def test_a_merge_into_an_outdated_version_is_refused(at: Workstation) -> None:
    path = await at.opened("a.py")
    version = (await at.asks("buffer_text", file_path=path))["version"]
    await at.keys("x")

    await refused(at, path, "the unsaved text has changed in the meantime", version=version)


async def test_a_file_that_is_not_open_cannot_be_merged(at: Workstation) -> None:
    await refused(at, at.file("a.py"), "the file is not open")


@pytest.mark.parametrize(
    "change",
    [
        [{"start": 0, "end": 99, "lines": []}],
        [{"start": 2, "end": 1, "lines": []}],
        [{"start": -1, "end": 1, "lines": []}],
        [{"start": 0, "end": 2, "lines": ["x"]}, {"start": 1, "end": 3, "lines": ["y"]}],
    ],
)
async def test_edits_with_invalid_positions_change_nothing(at: Workstation, change: Any) -> None:
    path = await at.opened("a.py")
    await at.keys("x")

    await refused(at, path, "the change does not fit the text", change=change)


async def test_a_text_in_another_encoding_is_left_alone(at: Workstation) -> None:
    path = await at.opened("a.txt", b"caf\xe9\n")
    await at.keys("x")

    await refused(at, path, "the file is in latin1, not in UTF-8")


async def test_a_text_that_a_plugin_saves_is_left_alone(at: Workstation) -> None:
    path = await at.opened("a.secret")
    await at.ex("autocmd BufWriteCmd *.secret let g:written = 1")
    await at.keys("x")

    await refused(at, path, "a plugin, not Neovim, reads or writes the file")
    assert await at.person.lua("return vim.g.written") is None


async def test_a_merge_that_fails_halfway_is_undone(at: Workstation) -> None:
    """The edits are applied from the bottom up, and the topmost fails because no line can contain a line end."""
    path = await at.opened("a.py", "one\ntwo\nthree\n")
    await at.keys("Gomine<Esc>")
    version = (await at.asks("buffer_text", file_path=path))["version"]
    change = [{"start": 0, "end": 1, "lines": ["bad\nline"]}, {"start": 2, "end": 3, "lines": ["THREE"]}]
    before = await at.text()

    answer = await at.asks("merge_buffer", file_path=path, version=version, edits=change)

    assert answer["merged"] is False
    assert await at.text() == before
    assert await at.modified()
    assert os.fsdecode(path.read_bytes()) == "one\ntwo\nthree\n"
