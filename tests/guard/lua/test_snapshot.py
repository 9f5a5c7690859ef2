"""`snapshot`: the state of a Neovim, whatever the user has in front of them and however an agent spells a path."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from drawbridge.editors.port import BridgeState
from drawbridge.guard import ask, find
from tests.guard.lua.rig import Workstation, with_bridge, workstation
from tests.nvim.rig import proposal
from tests.programs import nvim_version


async def test_a_snapshot_has_the_version_and_the_process_id(at: Workstation) -> None:
    answer = await at.asks("snapshot", paths=[])

    version = ".".join(map(str, nvim_version(at.program)))
    assert answer == {"editor": f"Neovim {version}", "pid": await at.person.lua("return vim.fn.getpid()"), "files": []}


async def test_the_current_file_is_returned_with_its_state(at: Workstation) -> None:
    path = await at.opened("a.py", "one\ntwo\n")
    await at.keys("onew<Esc>")

    assert await at.state_of(path) == {
        "name": str(path), "modified": True, "current": True, "visible": True, "lines": 3,
    }  # fmt: skip


async def test_there_is_one_answer_for_each_path_in_order(at: Workstation) -> None:
    first, second = await at.opened("1.py"), await at.opened("2.py")
    closed = at.file("closed.py")

    answer = await at.asks("snapshot", paths=[str(second), str(closed), str(first), str(second)])

    names = [file and file["name"] for file in answer["files"]]
    assert names == [str(second), None, str(first), str(second)]


async def test_only_the_requested_fields_are_returned(at: Workstation) -> None:
    clean, unsaved = await at.opened("clean.py"), await at.opened("unsaved.py")
    await at.keys("x")

    without = await at.asks("snapshot", paths=[])
    answer = await at.asks("snapshot", paths=[], want=["open", "unsaved"])

    assert set(without) == {"editor", "pid", "files"}
    assert answer["open"] == [str(clean), str(unsaved)]
    assert [file["name"] for file in answer["unsaved"]] == [str(unsaved)]
    assert answer["unsaved"][0]["modified"] is True
    assert answer["folders"] == [str(at.folder)]
    assert "selection" not in answer


async def test_the_agents_connected_to_the_bridge_are_returned(program: Path, tmp_path: Path) -> None:
    async with with_bridge(program, tmp_path) as (at, bridge):
        before = await at.asks("snapshot", paths=[], want=["connected"])
        await bridge.editor.announce(BridgeState(4711, "token", ("Claude Code", "Gemini CLI"), (812,)))
        now = await at.asks("snapshot", paths=[], want=["selection"], session="s")

    assert (before["connected"], before["agents"]) == ([], [])
    assert (now["connected"], now["agents"]) == ([812], ["Claude Code", "Gemini CLI"])


async def test_empty_lists_are_returned_when_nothing_is_open(at: Workstation) -> None:
    answer = await at.asks("snapshot", paths=[], want=["open", "unsaved", "connected", "selection"], session="s")

    assert (answer["open"], answer["unsaved"], answer["connected"], answer["agents"]) == ([], [], [], [])
    assert answer["selection"] is None


# Which file counts as the current one.


async def test_a_modified_but_hidden_file_is_not_current(at: Workstation) -> None:
    await at.ex("set hidden")
    path = await at.opened("a.py")
    await at.keys("x")
    other = await at.opened("b.py")

    hidden, front = await at.state_of(path), await at.state_of(other)

    assert (hidden["modified"], hidden["current"], hidden["visible"]) == (True, False, False)
    assert (front["modified"], front["current"], front["visible"]) == (False, True, True)


async def test_the_other_half_of_a_split_is_visible_but_not_current(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.ex("split b.py")

    stands = await at.state_of(path)

    assert (stands["current"], stands["visible"]) == (False, True)


async def test_another_tab_page_is_visible_but_not_current(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.ex("tabedit b.py")

    stands = await at.state_of(path)

    assert (stands["current"], stands["visible"]) == (False, True)


SPECIAL = {
    "terminal": "botright split | terminal sleep 60",
    "nofile": "botright split | enew | setlocal buftype=nofile",
    "prompt": "botright split | enew | setlocal buftype=prompt",
    "help": "help",
    "quickfix": "copen",
    "float": "lua vim.api.nvim_open_win(vim.api.nvim_create_buf(false, true), true,"
    " { relative = 'editor', row = 2, col = 2, width = 20, height = 3 })",
    "url": "botright split | enew | file fugitive:///ws/.git//0/a.py",
    "no name": "botright new",
}


@pytest.mark.parametrize("command", SPECIAL.values(), ids=SPECIAL)
async def test_a_special_buffer_in_front_leaves_the_last_file_current(at: Workstation, command: str) -> None:
    await at.opened("other.py")
    await at.ex("vsplit")
    path = await at.opened("a.py")
    await at.keys("x")
    await at.ex(command)

    stands, other = await at.state_of(path), await at.state_of(at.folder / "other.py")

    assert (stands["current"], stands["modified"]) == (True, True)
    assert other["current"] is False


async def test_a_full_screen_terminal_leaves_the_last_file_current(at: Workstation) -> None:
    await at.ex("set hidden")
    path = await at.opened("a.py")
    await at.keys("x")
    await at.ex("terminal sleep 60")

    stands = await at.state_of(path)

    assert (stands["current"], stands["visible"]) == (True, False)


async def next_second(at: Workstation) -> None:
    """Waits for the next second, because Neovim records in whole seconds when a buffer was last used."""
    await at.person.until("return os.time() > ...", await at.person.lua("return os.time()"))


async def test_the_last_used_file_next_to_a_terminal_is_current(at: Workstation) -> None:
    old, new = await at.opened("old.py"), at.file("new.py")
    await at.ex("split new.py")
    await next_second(at)
    await at.ex("botright new | setlocal buftype=nofile")
    await at.ex("botright new | terminal sleep 60")
    await next_second(at)
    await at.ex("wincmd p")
    await at.ex("wincmd p")

    assert (await at.state_of(new))["current"] is True
    assert (await at.state_of(old))["current"] is False


async def test_files_used_in_the_same_second_are_all_current(at: Workstation) -> None:
    await at.person.until("return vim.loop.gettimeofday and select(2, vim.loop.gettimeofday()) < 3e5")
    first = await at.opened("1.py")
    await at.ex("split 2.py")
    await at.ex("botright split | enew | setlocal buftype=nofile")
    await at.ex("botright split | enew | setlocal buftype=nofile")

    assert [(await at.state_of(path))["current"] for path in (first, at.folder / "2.py")] == [True, True]


async def test_the_command_line_window_leaves_the_file_current(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.keys("q:")
    await at.person.until("return vim.fn.getcmdwintype() == ':'")

    assert (await at.state_of(path))["current"] is True


# While one of the plugin's own windows is in front.


@pytest.mark.parametrize("keys", ["", "<C-w>h"])
async def test_unsaved_work_stays_current_behind_a_proposal(program: Path, tmp_path: Path, keys: str) -> None:
    """The cursor is on the proposed side, or on the other one."""
    async with with_bridge(program, tmp_path) as (at, bridge):
        other, path = await at.opened("a.py"), await at.opened("b.py")
        await at.keys("x")
        await bridge.shows(proposal(other, other.read_text(), "new\n"))
        await at.keys(keys)

        stands = await at.state_of(path)

    assert (stands["modified"], stands["current"]) == (True, True)


async def test_work_behind_a_terminal_and_a_proposal_is_current(program: Path, tmp_path: Path) -> None:
    async with with_bridge(program, tmp_path) as (at, bridge):
        other, path = await at.opened("a.py"), await at.opened("b.py")
        await at.keys("x")
        await next_second(at)
        await at.ex("terminal sleep 60")
        await bridge.shows(proposal(other, other.read_text(), "new\n"))

        states = [(await at.state_of(file))["current"] for file in (other, path)]

    assert states == [False, True]


async def test_a_file_is_not_current_once_its_proposal_is_closed(program: Path, tmp_path: Path) -> None:
    """Neovim can't close its only window, so that window stays."""
    async with with_bridge(program, tmp_path) as (at, bridge):
        await bridge.options("{ diff = { open_in = 'current' } }")
        other, path = await at.opened("a.py"), await at.opened("b.py")
        await bridge.shows(proposal(path, path.read_text(), "new\n"))
        await at.keys("<C-w>o")
        await bridge.decided()
        await at.person.edits(other)

        states = [(await at.state_of(file))["current"] for file in (other, path)]

    assert states == [True, False]


async def test_proposals_and_suggestions_are_not_unsaved_files(program: Path, tmp_path: Path) -> None:
    async with with_bridge(program, tmp_path) as (at, bridge):
        path = await at.opened("a.py")
        await bridge.shows(proposal(path, path.read_text(), "new\n"))
        await at.keys("x")
        suggestion = "{ name = 'a.py', lines = { 'one' }, language = '' }"
        await at.person.lua(f"require('drawbridge.changes.suggest').open({suggestion}, function() end)")
        await at.keys("x")
        modified = await at.person.lua("return #vim.fn.getbufinfo({ bufmodified = 1 })")

        answer = await at.asks("snapshot", paths=[], want=["open", "unsaved"])

    assert modified == 2
    assert (answer["open"], answer["unsaved"]) == ([str(path)], [])


# Which buffers count.


async def test_unlisted_and_acwrite_buffers_count(at: Workstation) -> None:
    unlisted = await at.opened("unlisted.py")
    await at.ex("setlocal nobuflisted")
    taken = await at.opened("taken.py")
    await at.ex("setlocal buftype=acwrite")

    assert (await at.state_of(unlisted))["name"] == str(unlisted)
    assert (await at.state_of(taken))["name"] == str(taken)


async def test_a_buffer_that_is_not_loaded_does_not_count(at: Workstation) -> None:
    path = at.file("a.py")
    await at.ex("badd a.py")

    assert await at.state_of(path) is None
    assert (await at.asks("snapshot", paths=[], want=["open"]))["open"] == []


async def test_a_scratch_buffer_with_the_name_of_a_file_does_not_count(at: Workstation) -> None:
    path = at.file("a.py")
    await at.ex("file a.py | setlocal buftype=nofile")

    assert await at.state_of(path) is None


# How a path is spelled does not matter.


async def test_a_file_is_found_by_any_of_its_names(at: Workstation) -> None:
    path = await at.opened("ws/a [1] *.py")
    (at.folder / "link.py").symlink_to(path)
    (at.folder / "dir").symlink_to(path.parent)
    os.link(path, at.folder / "hard.py")
    names = ["link.py", "hard.py", "dir/a [1] *.py", "ws/../ws/./a [1] *.py", "ws//a [1] *.py"]

    answer = await at.asks("snapshot", paths=[f"{at.folder}/{name}" for name in names])

    assert [file["name"] for file in answer["files"]] == [str(path)] * len(names)


async def test_a_file_opened_through_a_link_is_found_by_its_real_name(at: Workstation) -> None:
    path = at.file("real.py")
    (at.folder / "link.py").symlink_to(path)
    await at.person.edits(at.folder / "link.py")
    await at.keys("x")

    assert (await at.state_of(path))["modified"] is True


async def test_an_open_file_is_found_after_it_was_replaced_on_disk(at: Workstation) -> None:
    path = at.file("real.py")
    (at.folder / "link.py").symlink_to(path)
    await at.person.edits(at.folder / "link.py")
    await at.keys("x")
    at.file("real.py.new", "other\n").rename(path)

    assert (await at.state_of(path))["modified"] is True


async def test_a_new_file_below_a_linked_directory_is_found(at: Workstation) -> None:
    (at.folder / "ws").mkdir()
    (at.folder / "dir").symlink_to("ws")
    await at.ex("edit dir/new.py")
    await at.keys("ihello<Esc>")

    for name in ("dir/new.py", "ws/new.py", "ws/./new.py", "dir/../ws/new.py"):
        stands = await at.state_of(f"{at.folder}/{name}")
        assert stands is not None, name
        assert (stands["modified"], stands["current"]) == (True, True)
    assert await at.state_of(at.folder / "ws/other.py") is None
    assert await at.state_of(at.folder / "new.py") is None


async def test_a_new_file_in_a_missing_directory_is_found(at: Workstation) -> None:
    await at.ex("edit deep/er/new.py")
    await at.keys("ihello<Esc>")

    for name in ("deep/er/new.py", "deep/./er//new.py", "deep/other/../er/new.py"):
        assert (await at.state_of(f"{at.folder}/{name}"))["modified"] is True, name
    assert await at.state_of(at.folder / "er/new.py") is None


async def test_a_new_file_is_found_through_a_link(at: Workstation) -> None:
    (at.folder / "link.py").symlink_to("new.py")
    await at.ex("edit new.py")
    await at.keys("ihello<Esc>")

    assert (await at.state_of(at.folder / "link.py"))["modified"] is True


async def test_circular_links_are_not_files(at: Workstation) -> None:
    await at.opened("a.py")
    (at.folder / "x").symlink_to("y")
    (at.folder / "y").symlink_to("x")

    (at.folder / "round").symlink_to("nowhere/../round")

    assert await at.state_of(at.folder / "x") is None
    assert await at.state_of(at.folder / "x/deeper.py") is None
    assert await at.state_of(at.folder / "round") is None


async def test_a_file_that_was_deleted_is_found_by_its_name(at: Workstation) -> None:
    path = await at.opened("a.py")
    path.unlink()

    assert (await at.state_of(path))["name"] == str(path)


async def test_a_file_whose_name_is_not_utf8_is_found(at: Workstation) -> None:
    path = Path(os.fsdecode(os.fsencode(at.folder) + b"/caf\xe9-\xc3\xa9-\\udc80.py"))
    path.write_text("one\n")
    await at.person.edits(path)
    await at.keys("x")

    stands = await at.state_of(path)

    assert (stands["name"], stands["modified"]) == (str(path), True)


async def test_a_file_in_two_buffers_is_modified_if_one_of_them_is(at: Workstation) -> None:
    await at.ex("set hidden")
    path = await at.opened("a.py")
    await at.keys("x")
    # Neovim keeps one buffer for each file, unless the file has been renamed in the meantime.
    path.rename(at.folder / "b.py")
    await at.ex("edit b.py")
    (at.folder / "a.py").symlink_to("b.py")

    stands = await at.state_of(at.folder / "b.py")

    assert (stands["modified"], stands["current"], stands["visible"]) == (True, True, True)


# Its cost, and what it leaves behind.


async def test_a_snapshot_changes_nothing_that_the_user_could_notice(at: Workstation) -> None:
    path = await at.opened("a.py", "x\n" * 200)
    await at.ex("split b.py | normal! ix")
    look = (
        "return vim.fn.json_encode({ vim.fn.getbufinfo(1)[1].changedtick, vim.fn.winlayout(), vim.fn.getreg('/'), "
        "vim.fn.getpos('.'), vim.v.errmsg, vim.fn.execute('messages'), vim.fn.getjumplist(), vim.o.eventignore, "
        "#vim.api.nvim_list_bufs(), vim.fn.execute('ls!') })"
    )
    before = await at.person.lua(look)

    await at.asks("snapshot", paths=[str(path)], want=["open", "unsaved", "selection"], session="s", remember=True)

    assert await at.person.lua(look) == before


async def test_the_guards_state_in_neovim_does_not_grow(at: Workstation) -> None:
    path = await at.opened("a.py")
    for number in range(120):
        params = {"paths": [str(path)], "want": ["selection"], "session": f"s{number}", "remember": True}
        await at.keys("Vj" if number % 2 else "V")
        await at.asks("snapshot", **params)
        await at.keys("<Esc>")

    kept = await at.person.lua(
        "local g = __drawbridge_guard return { #g.given, #g.remembered, #vim.tbl_keys(g.before) }"
    )

    assert max(kept) <= 50
    assert await at.person.lua("return #vim.api.nvim_get_autocmds({ group = 'drawbridge_guard' })") <= 10


def seconds_of_snapshot(at: Workstation, *paths: Path) -> float:
    params = {"paths": [str(path) for path in paths], "remember": True}
    begin = time.perf_counter()
    assert ask.ask([(at.person.address, find.NEOVIM)], "snapshot", params, 1_000)[0].problem == ""
    return time.perf_counter() - begin


STAT_EACH = """
local loop = vim.uv or vim.loop
local begin = loop.hrtime()
for _, buf in ipairs(vim.api.nvim_list_bufs()) do
  loop.fs_stat(vim.api.nvim_buf_get_name(buf))
end
return (loop.hrtime() - begin) / 1e9
"""
"""Returns the seconds that it takes to examine every open file once on the disk."""


async def test_a_snapshot_examines_each_open_file_quickly(program: Path, tmp_path: Path) -> None:
    """With 100 open files, compared with a request about no file, and with a look at each file on the disk. The fastest
    of 200 counts, because other programs on the machine delay some of them."""
    async with workstation(program, tmp_path) as at:
        for number in range(100):
            await at.opened(f"file{number}.py")
        times = [
            (
                seconds_of_snapshot(at, tmp_path / "file50.py"),
                seconds_of_snapshot(at),
                float(await at.person.lua(STAT_EACH)),
            )
            for _ in range(200)
        ]

    snapshot, request, stats = map(min, zip(*times, strict=True))
    assert snapshot < 4 * (request + stats), "measured: 1.1 times"
