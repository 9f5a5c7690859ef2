"""`refresh_buffer` shows what an agent wrote, and keeps the user's view, marks and unsaved work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.guard.lua.rig import Workstation, kept, reloaded, with_bridge, workstation
from tests.nvim.rig import Workstation as Bridged
from tests.nvim.rig import proposal

LINES = "".join(f"line {number}\n" for number in range(1, 201))


async def test_a_file_that_an_agent_wrote_is_shown(at: Workstation) -> None:
    path = await at.opened("a.py", "one\ntwo\nthree\n")
    path.write_text("zero\none\nTWO\nthree\n")

    answer = await at.asks("refresh_buffer", file_path=path)

    assert answer == {"success": True, "reloaded": [{"name": str(path), "backup": None}], "kept": []}
    assert await at.text() == ["zero", "one", "TWO", "three"]
    assert not await at.modified()
    assert await at.person.messages() == ""


async def test_a_file_that_did_not_change_is_not_reloaded(at: Workstation) -> None:
    path = await at.opened("a.py")
    ticks = "return vim.api.nvim_buf_get_changedtick(0)"
    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == []
    before = await at.person.lua(ticks)

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == []

    assert await at.person.lua(ticks) == before


async def test_a_file_that_is_not_open_is_not_reloaded(at: Workstation) -> None:
    assert reloaded(await at.asks("refresh_buffer", file_path=at.file("a.py"))) == []


@pytest.mark.parametrize("how", ["hidden", "in another tab page", "in the other half of a split", "unlisted"])
async def test_a_file_is_reloaded_wherever_it_is_open(at: Workstation, how: str) -> None:
    path = await at.opened("a.py", "old\n")
    await at.ex("set hidden")
    await at.ex({
        "hidden": "edit b.py", "in another tab page": "tabedit b.py",
        "in the other half of a split": "split b.py", "unlisted": "setlocal nobuflisted",
    }[how])  # fmt: skip
    window = "return { vim.api.nvim_get_current_win(), vim.api.nvim_get_current_buf(), vim.fn.winlayout() }"
    before = await at.person.lua(window)
    path.write_text("new\n")

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert await at.text(path) == ["new"]
    assert await at.person.lua(window) == before


@pytest.mark.parametrize("autoread", ["autoread", "noautoread"])
async def test_a_file_is_reloaded_with_and_without_autoread(at: Workstation, autoread: str) -> None:
    await at.ex(f"set {autoread}")
    path = await at.opened("a.py", "old\n")
    path.write_text("new\n")

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert await at.text() == ["new"]
    await at.ex("checktime")
    assert await at.text() == ["new"]
    assert (await at.mode(), await at.person.messages()) == ("n", "")
    assert await at.person.lua("return vim.o.autoread") is (autoread == "autoread")


# All open files at once.


async def test_without_a_path_every_changed_open_file_is_reloaded(at: Workstation) -> None:
    await at.ex("set hidden")
    first, second, unchanged = await at.opened("1.py"), await at.opened("2.py"), await at.opened("3.py")
    gone = await at.opened("gone.py")
    await at.asks("snapshot", paths=[])
    first.write_text("new\n")
    second.write_text("new\n")
    gone.unlink()

    assert reloaded(await at.asks("refresh_buffer")) == [str(first), str(second)]

    assert [await at.text(path) for path in (first, second)] == [["new"], ["new"]]
    assert await at.text(unchanged) == await at.text(gone) == ["one", "two", "three"]
    assert not await at.modified(gone)


async def test_a_change_before_the_first_refresh_is_found(at: Workstation) -> None:
    path = await at.opened("a.py", "old\n")
    path.write_text("new\n")
    await at.asks("snapshot", paths=[])

    assert reloaded(await at.asks("refresh_buffer")) == [str(path)]


async def test_unsaved_work_is_reported_once_for_each_change_on_disk(at: Workstation) -> None:
    """This applies to requests that name no file. A request that names the file reports it again."""
    path = await at.opened("a.py", "old\n")
    await at.keys("onew<Esc>")
    await at.asks("snapshot", paths=[])
    assert kept(await at.asks("refresh_buffer")) == []
    path.write_text("first\n")

    assert kept(await at.asks("refresh_buffer")) == [str(path)]
    assert kept(await at.asks("refresh_buffer")) == []
    path.write_text("second one\n")
    assert kept(await at.asks("refresh_buffer")) == [str(path)]
    assert kept(await at.asks("refresh_buffer", file_path=path)) == [str(path)]


async def test_a_watched_change_is_reported_again_to_inform_the_agent(
    at: Workstation,
) -> None:
    path = await at.opened("a.py", "old\n")
    await at.keys("onew<Esc>")
    await at.asks("snapshot", paths=[])
    path.write_text("first\n")

    assert (await at.asks("refresh_buffer", watched=True))["kept"] == [{"name": str(path), "lines": 2}]
    assert kept(await at.asks("refresh_buffer", watched=True)) == []
    assert (await at.asks("refresh_buffer"))["kept"] == [{"name": str(path), "lines": 2, "notified": True}]
    assert kept(await at.asks("refresh_buffer")) == []
    assert kept(await at.asks("refresh_buffer", watched=True)) == []


# Unsaved work.


@pytest.mark.parametrize("where", ["in front", "hidden", "in another tab page"])
async def test_a_modified_buffer_is_kept_and_neovim_never_warns(at: Workstation, where: str) -> None:
    """Neovim would warn with W12 that both the file and the buffer have changed."""
    await at.ex("set hidden")
    path = await at.opened("a.py", "one\ntwo\n")
    await at.keys("omine<Esc>")
    if where != "in front":
        await at.ex("edit b.py" if where == "hidden" else "tabedit b.py")
    await at.asks("snapshot", paths=[str(path)])
    before = await at.person.lua("return vim.fn.getbufvar(vim.fn.bufnr(...), 'changedtick')", str(path))
    path.write_text("agent's\n")

    for params in ({}, {"file_path": path}):
        answer = await at.asks("refresh_buffer", **params)
        assert (answer["reloaded"], kept(answer)) == ([], [str(path)])

    assert await at.mode() == "n"
    assert await at.text(path) == ["one", "mine", "two"]
    assert await at.modified(path)
    assert await at.person.lua("return vim.fn.getbufvar(vim.fn.bufnr(...), 'changedtick')", str(path)) == before
    assert await at.person.messages() == ""
    assert path.read_text() == "agent's\n"


async def test_unsaved_work_on_an_unchanged_file_is_not_reported(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.keys("x")

    assert kept(await at.asks("refresh_buffer", file_path=path)) == []


async def test_a_save_by_the_user_is_not_a_change_by_others(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.asks("snapshot", paths=[])
    await at.keys("x")
    await at.ex("silent write")
    await at.keys("x")

    assert kept(await at.asks("refresh_buffer", file_path=path)) == []


async def test_a_newer_file_is_reported_at_the_first_request(
    at: Workstation,
) -> None:
    path = await at.opened("a.py")
    await at.keys("x")
    later = path.stat().st_mtime + 5
    os.utime(path, (later, later))

    assert kept(await at.asks("refresh_buffer", file_path=path)) == [str(path)]


# Unsaved work that an accepted proposal contains.

UNSAVED, PROPOSED = "mine\none\ntwo\n", "mine\nONE\ntwo\n"


async def decided(at: Workstation, bridge: Bridged, keys: str, *, eol: str = "\n") -> Path:
    """Returns a file with unsaved changes, after the user has decided with ``keys`` on a proposal that contains them."""
    path = await at.opened("a.py", "one\ntwo\n".replace("\n", eol))
    await at.keys("ggOmine<Esc>")
    await at.asks("snapshot", paths=[str(path)])
    unsaved = UNSAVED.replace("\n", eol)
    assert await bridge.editor.unsaved_text(str(path)) == unsaved
    await bridge.shows(proposal(path, unsaved, PROPOSED.replace("\n", eol)))
    await at.person.types(keys)
    await bridge.decided()
    return path


@pytest.mark.parametrize("keys", [":w<CR>", "ZZ"])
@pytest.mark.parametrize("eol", ["\n", "\r\n"], ids=["LF", "CRLF"])
async def test_a_proposal_with_unsaved_work_is_not_reported_as_kept(
    program: Path, tmp_path: Path, keys: str, eol: str
) -> None:
    """The guard may be faster than the bridge, which then shows the file in the buffer."""
    async with with_bridge(program, tmp_path) as (at, bridge):
        path = await decided(at, bridge, keys, eol=eol)
        written = PROPOSED.replace("\n", eol)
        path.write_bytes(written.encode())

        assert kept(await at.asks("refresh_buffer", file_path=path)) == []

        await bridge.editor.written(str(path), written, "1")
        assert (await at.text(path), await at.modified(path)) == (PROPOSED.splitlines(), False)


async def test_other_text_than_the_accepted_one_is_reported(program: Path, tmp_path: Path) -> None:
    async with with_bridge(program, tmp_path) as (at, bridge):
        path = await decided(at, bridge, ":w<CR>")
        path.write_text(PROPOSED + "three\n")

        assert kept(await at.asks("refresh_buffer", file_path=path)) == [str(path)]


async def test_a_rejected_proposal_that_was_written_is_reported(program: Path, tmp_path: Path) -> None:
    async with with_bridge(program, tmp_path) as (at, bridge):
        path = await decided(at, bridge, ":q<CR>")
        path.write_text(PROPOSED)

        assert kept(await at.asks("refresh_buffer", file_path=path)) == [str(path)]


async def test_text_typed_after_the_decision_is_reported(program: Path, tmp_path: Path) -> None:
    async with with_bridge(program, tmp_path) as (at, bridge):
        path = await decided(at, bridge, ":w<CR>")
        await at.keys("x")
        path.write_text(PROPOSED)

        assert kept(await at.asks("refresh_buffer", file_path=path)) == [str(path)]


# The view.

VIEW = "local v = vim.fn.winsaveview() return { v.topline, v.lnum, v.col, v.leftcol }"


async def test_the_view_is_kept_in_every_window(at: Workstation) -> None:
    path = await at.opened("a.py", LINES)
    await at.keys("150G3l")
    await at.ex("call winrestview({'topline': 140})")
    await at.ex("split | normal! 30G")
    await at.ex("tab split | normal! 99G$")
    windows = await at.person.lua("return vim.fn.win_findbuf(vim.api.nvim_get_current_buf())")
    look = f"return vim.tbl_map(function(w) return vim.api.nvim_win_call(w, function() {VIEW} end) end, ...)"
    before = await at.person.lua(look, windows)
    path.write_text(LINES.replace("line 120\n", "changed\n"))

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert len(windows) == 3
    assert await at.person.lua(look, windows) == before


async def test_the_view_stays_in_place_when_lines_above_it_change(at: Workstation) -> None:
    path = await at.opened("a.py", LINES)
    await at.keys("150G3l")
    await at.ex("call winrestview({'topline': 140})")
    await at.ex("split | call winrestview({'topline': 100, 'lnum': 101, 'col': 1})")
    top = await at.person.lua("return vim.fn.getwininfo(vim.fn.win_getid(vim.fn.winnr('#')))[1].topline")
    path.write_text("new 1\nnew 2\nnew 3\n" + LINES.replace("line 120\n", ""))

    await at.asks("refresh_buffer", file_path=path)

    assert await at.person.lua(VIEW) == [103, 104, 1, 0]
    await at.ex("wincmd p")
    assert await at.person.lua(VIEW) == [top + 2, 152, 3, 0]
    assert await at.person.lua("return vim.fn.getline('.')") == "line 150"


async def test_marks_folds_and_jumps_move_with_the_text(at: Workstation) -> None:
    path = await at.opened("a.py", LINES)
    await at.ex("set foldmethod=manual")
    for command in ("50,60fold", "100,110fold", "50foldopen", "70mark a", "80mark B"):
        await at.ex(command)
    await at.keys("65G90G")
    await at.person.lua(
        "local b = vim.api.nvim_get_current_buf() local ns = vim.api.nvim_create_namespace('other') "
        "vim.api.nvim_buf_set_extmark(b, ns, 74, 2, { id = 1 }) vim.api.nvim_buf_set_extmark(b, ns, 54, 0, { id = 2 })"
    )
    path.write_text("new\n" + LINES.replace("line 60\n", "LINE 60\n").replace("line 70\n", "line 70, longer\n"))

    await at.asks("refresh_buffer", file_path=path)

    look = (
        "local ns = vim.api.nvim_create_namespace('other') local function mark(id) return "
        "vim.api.nvim_buf_get_extmark_by_id(0, ns, id, {}) end return { folds = { vim.fn.foldclosed(52), vim.fn.foldlevel(51), "
        "vim.fn.foldlevel(61), vim.fn.foldlevel(62), vim.fn.foldclosed(101), vim.fn.foldclosedend(101), "
        "vim.fn.foldlevel(112) }, "
        'marks = { vim.fn.line("\'a"), vim.fn.getpos("\'B")[2], mark(1), mark(2) }, text = vim.fn.getline("\'a") }'
    )
    found = await at.person.lua(look)
    assert found["folds"] == [-1, 1, 1, 0, 101, 111, 0]
    assert found["marks"] == [71, 81, [75, 2], [55, 0]]
    assert found["text"] == "line 70, longer"
    jumps = await at.person.lua("return vim.tbl_map(function(j) return j.lnum end, vim.fn.getjumplist()[1])")
    assert 66 in jumps


@pytest.mark.parametrize("fold", ["indent", "expr", "marker"])
async def test_folds_that_neovim_computes_stay_closed(at: Workstation, fold: str) -> None:
    body = "def {}() # {{{{{{\n    1\n    2\n# }}}}}}\n"
    text = "".join(body.format(name) for name in "abc")
    path = await at.opened("a.py", text)
    await at.ex(f"set foldmethod={fold} foldexpr=getline(v:lnum)=~'^\\ '")
    await at.ex("normal! zMggzR6Gzc")
    closed = await at.person.lua("return vim.fn.foldclosed(6)")
    path.write_text("new\n" + text)

    await at.asks("refresh_buffer", file_path=path)

    assert closed > 0
    assert await at.person.lua("return { vim.fn.foldclosed(7), vim.fn.foldclosed(3) }") == [closed + 1, -1]


@pytest.mark.parametrize(
    ("new", "cursor"),
    [
        ("ONE TWO", [1, 4]),
        ("one, two", [1, 5]),
        ("new\none two", [2, 4]),
        ("two", [1, 0]),
        ("one t", [1, 4]),
        ("xyz", [1, 2]),
    ],
)
async def test_the_cursor_stays_at_its_word(at: Workstation, new: str, cursor: list[int]) -> None:
    path = await at.opened("a.py", "one two\nthree\n")
    await at.keys("w")
    path.write_text(new + "\nthree\n")

    await at.asks("refresh_buffer", file_path=path)

    assert await at.person.call("nvim_win_get_cursor", 0) == cursor


async def test_the_cursor_moves_to_the_nearest_remaining_line(at: Workstation) -> None:
    path = await at.opened("a.py", LINES)
    await at.keys("G")
    path.write_text("only\n")

    await at.asks("refresh_buffer", file_path=path)

    assert await at.person.lua(VIEW) == [1, 1, 0, 0]


async def test_visual_mode_survives_a_reload(at: Workstation) -> None:
    path = await at.opened("a.py", LINES)
    await at.ex("split")
    await at.keys("10GVjj")
    path.write_text(LINES.replace("line 1\n", "LINE 1\n"))

    await at.asks("refresh_buffer", file_path=path)

    assert await at.mode() == "V"
    await at.keys("y")
    assert await at.person.lua("return vim.fn.getreg('\"')") == "line 10\nline 11\nline 12\n"


async def test_a_reload_can_remove_lines_selected_in_visual_mode(at: Workstation) -> None:
    path = await at.opened("a.py", LINES)
    await at.keys("GVgg")
    path.write_text("only\n")

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    await at.keys("<Esc>gg")
    assert await at.text() == ["only"]
    assert await at.mode() == "n"


# Undo.


async def test_one_undo_restores_the_previous_text_as_unsaved(at: Workstation) -> None:
    path = await at.opened("a.py", "one\ntwo\nthree\n")
    path.write_text("zero\nONE\nthree\nfour\n")
    await at.asks("refresh_buffer", file_path=path)

    await at.keys("u")

    assert await at.text() == ["one", "two", "three"]
    assert await at.modified(), "the text differs from the file on disk"
    await at.keys("<C-r>")
    assert await at.text() == ["zero", "ONE", "three", "four"]
    assert not await at.modified()


async def test_undo_continues_past_a_reload(at: Workstation) -> None:
    path = await at.opened("a.py", "one\ntwo\n")
    await at.keys("omine<Esc>")
    await at.ex("silent write")
    path.write_text("one\nmine\ntwo\nagent's\n")
    await at.asks("refresh_buffer", file_path=path)

    await at.keys("uu")

    assert await at.text() == ["one", "two"]
    assert await at.modified()


async def test_a_reload_of_a_large_file_can_be_undone(at: Workstation) -> None:
    old = "".join(f"{number}\n" for number in range(30_000))
    new = "".join(f"{number * 7}\n" for number in range(30_000))
    path = await at.opened("a.txt", old)
    path.write_text(new)

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert await at.text() == new.splitlines()
    await at.keys("u")
    assert await at.text() == old.splitlines()


async def test_the_undo_file_matches_the_file_on_disk(program: Path, tmp_path: Path) -> None:
    async with workstation(program, tmp_path, "--cmd", f"set undofile undodir={tmp_path}/undo") as at:
        (tmp_path / "undo").mkdir()
        path = await at.opened("a.py", "one\n")
        path.write_text("two\n")
        await at.asks("refresh_buffer", file_path=path)
    async with workstation(program, tmp_path, "--cmd", f"set undofile undodir={tmp_path}/undo") as at:
        await at.person.edits(path)
        await at.keys("u")

        assert await at.text() == ["one"]


async def test_typing_continues_after_a_reload_in_insert_mode(at: Workstation) -> None:
    path = await at.opened("a.py", "one\ntwo\n")
    await at.keys("jA")
    await at.waits_for_mode("i")
    path.write_text("zero\none\ntwo\n")

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert await at.mode() == "i"
    await at.keys(" typed<Esc>")
    await at.waits_for_mode("n")
    assert await at.text() == ["zero", "one", "two typed"]
    await at.keys("u")
    assert await at.text() == ["zero", "one", "two"]
    await at.keys("u")
    assert await at.text() == ["one", "two"]


# Neovim after a reload.


async def test_neovim_does_not_warn_when_the_user_saves_afterwards(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    path.write_text("two\n")
    await at.asks("refresh_buffer", file_path=path)
    await at.keys("omine<Esc>")

    await at.keys(":w<CR>")

    await at.person.until("return not vim.bo.modified")
    assert path.read_text() == "two\nmine\n"
    assert "WARNING" not in await at.person.messages()


async def test_saves_after_a_reload_reach_the_disk(at: Workstation) -> None:
    """The autocommand that makes Neovim believe it has saved is removed. Neovim 0.7 kept it, and lost every save."""
    path = await at.opened("a.py", "one\n")
    for number in range(3):
        path.write_text(f"agent {number}\n")
        await at.asks("refresh_buffer", file_path=path)
        await at.ex("normal! Gomine")
        await at.ex("silent write")

        assert path.read_text() == f"agent {number}\nmine\n"
    assert await at.person.lua("return #vim.api.nvim_get_autocmds({ event = 'BufWriteCmd', buffer = 0 })") == 0


async def test_a_reload_does_not_change_options(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.ex("setlocal readonly nomodifiable filetype=other | set nowrite eventignore=CursorMoved")
    look = "return { vim.bo.readonly, vim.bo.modifiable, vim.bo.filetype, vim.o.write, vim.o.eventignore, vim.o.undolevels }"
    before = await at.person.lua(look)
    path.write_text("two\n")

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert await at.person.lua(look) == before
    assert await at.text() == ["two"]
    assert await at.person.messages() == "", "no warning W10 about a read-only buffer, and no wait of a second for it"


COUNT = """
  let g:seen = []
  autocmd FileChangedShell * let g:seen += ['FileChangedShell'] | let v:fcs_choice = 'ask'
  autocmd FileChangedShellPost * let g:seen += ['FileChangedShellPost ' .. expand('<afile>:t')]
  autocmd BufReadPost * let g:seen += ['BufReadPost ' .. expand('<afile>:t')]
  autocmd BufWritePre,BufWritePost,BufEnter,BufLeave,WinEnter,WinLeave * let g:seen += ['another']
  autocmd FileType * let g:seen += ['FileType']
"""


async def test_a_reload_runs_only_read_and_reload_autocommands(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    other = at.file("other.py", "one\n")
    await at.ex("split other.py")
    await at.ex("normal! x")
    await at.asks("snapshot", paths=[])
    await at.person.lua("vim.api.nvim_exec(..., false)", COUNT)
    path.write_text("two\n")
    other.write_text("two\n")

    answer = await at.asks("refresh_buffer")

    assert [file["name"] for file in answer["reloaded"]] == [str(path)]
    assert [file["name"] for file in answer["kept"]] == [str(other)]
    assert await at.person.lua("return vim.g.seen") == ["BufReadPost a.py", "FileChangedShellPost a.py"]
    assert await at.mode() == "n"


async def test_a_failing_autocommand_does_not_prevent_a_reload(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.ex("autocmd BufReadPost,FileChangedShellPost * call No_such_function() | normal! gg")
    path.write_text("two\n")

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert await at.text() == ["two"]
    assert await at.mode() == "n"
    assert await at.person.lua("return vim.o.eventignore") == ""


async def test_plugins_attached_to_the_buffer_receive_only_the_change(at: Workstation) -> None:
    path = await at.opened("a.py", LINES)
    await at.person.lua(
        "_G.heard = {} vim.api.nvim_buf_attach(0, false, { on_lines = function(_, _, _, first, old, new) "
        "table.insert(heard, { first, old, new }) end, on_reload = function() table.insert(heard, 'reload') end })"
    )
    path.write_text(LINES.replace("line 100\n", "line 100\nnew\n"))

    await at.asks("refresh_buffer", file_path=path)

    assert await at.person.lua("return heard") == [[100, 100, 101]], "and nothing but the change"


# What is not reloaded.


async def test_the_buffer_of_a_deleted_file_keeps_its_text(at: Workstation) -> None:
    path = await at.opened("a.py")
    path.unlink()

    for params in ({"file_path": path}, {}):
        assert reloaded(await at.asks("refresh_buffer", **params)) == []

    assert await at.text() == ["one", "two", "three"]
    assert (await at.mode(), await at.person.messages()) == ("n", "")


async def test_an_open_empty_new_file_is_shown_once_it_is_written(at: Workstation) -> None:
    await at.ex("edit new.py")
    path = at.file("new.py", "hello\n")

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert await at.text() == ["hello"]
    await at.keys("omine<Esc>:w<CR>")
    await at.person.until("return not vim.bo.modified")
    assert path.read_text() == "hello\nmine\n"


async def test_unsaved_text_in_a_new_file_survives_an_agents_write(at: Workstation) -> None:
    await at.ex("edit new.py")
    await at.keys("imine<Esc>")
    await at.asks("snapshot", paths=[])
    path = at.file("new.py", "hello\n")

    assert kept(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert await at.text() == ["mine"]
    assert await at.mode() == "n"


async def test_a_file_that_cannot_be_read_is_kept_with_the_reason(at: Workstation) -> None:
    path = await at.opened("a.py")
    path.unlink()
    os.mkfifo(path)

    answer = await at.asks("refresh_buffer", file_path=path)

    assert answer["kept"] == [{"name": str(path), "lines": 3, "reason": "it is not a regular file"}]
    assert await at.text() == ["one", "two", "three"]


async def test_a_file_over_16_mb_is_kept_with_the_reason(at: Workstation) -> None:
    path = await at.opened("a.log")
    with path.open("ab") as file:
        file.truncate(17 * 1024 * 1024)

    answer = await at.asks("refresh_buffer", file_path=path)

    assert [file["reason"] for file in answer["kept"]] == ["it is larger than 16 MB"]
    assert await at.text() == ["one", "two", "three"]


async def test_a_buffer_that_a_plugin_reads_is_not_reloaded(at: Workstation) -> None:
    path = at.file("a.secret", "scrambled\n")
    await at.ex("autocmd BufReadCmd *.secret call setline(1, 'clear') | setlocal nomodified")
    await at.person.edits(path)
    await at.asks("snapshot", paths=[])
    path.write_text("scrambled anew\n")

    answer = await at.asks("refresh_buffer", file_path=path)

    assert [file["reason"] for file in answer["kept"]] == ["a plugin reads or writes the file"]
    assert await at.text() == ["clear"]
