"""What the commands show the user, and what a status line and scripts receive."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.ide.unasked import THEN, WHY
from tests import programs

from .plugin_rig import Neovim, bridge_options, neovim, wait_until

TELL = "require('drawbridge.link').handle('announce', { port = 41234, token = ('t'):rep(32), agents = ... })"
FLOAT_LINES = "return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n')"
FLOAT = """
local window = vim.api.nvim_get_current_win()
if vim.api.nvim_win_get_config(window).relative == '' then return nil end
return vim.api.nvim_buf_get_lines(0, 0, -1, false)
"""
IS_ONE_WINDOW = "return #vim.api.nvim_list_wins() == 1"


@pytest.fixture(params=programs.each_nvim())
def editor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Neovim]:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\nthree\nfour\n")
    with neovim(request.param, file) as started:
        yield started


def connect(editor: Neovim, *agents: str) -> None:
    """Starts a bridge, unless one is connected, and announces these agents."""
    if not editor.lua("return require('drawbridge.link').attached()"):
        assert editor.setup(bridge_options())
        editor.wait("return (require('drawbridge.link').state() or {}).token ~= nil")
    editor.lua(TELL, list(agents))


def statusline(editor: Neovim) -> str:
    return str(editor.lua("return require('drawbridge').statusline()"))


class TestRefusals:
    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            ("DrawbridgeAccept", "DrawbridgeAccept: no proposal is waiting"),
            ("DrawbridgeReject", "DrawbridgeReject: no proposal is waiting"),
            ("DrawbridgeRejectHunk", "DrawbridgeRejectHunk: the cursor is not in a proposal"),
            ("DrawbridgeReview", "DrawbridgeReview: no proposal is waiting"),
            (
                "DrawbridgeSend",
                ":DrawbridgeSend: the bridge is not running (:DrawbridgeStart)",
            ),
            ("DrawbridgeStop", ":DrawbridgeStop: the bridge is not running"),
        ],
    )
    def test_a_command_that_cannot_run_reports_why(self, editor: Neovim, command: str, expected: str) -> None:
        editor.command(command)
        editor.shows_message(expected)

    def test_a_buffer_without_a_file_is_not_sent(self, editor: Neovim) -> None:
        connect(editor, "claude")
        editor.command("help")
        editor.wait("return vim.bo.buftype == 'help'")
        editor.command("DrawbridgeSend")
        editor.shows_message(":DrawbridgeSend: this buffer is not a file")


class TestLongMessages:
    LONG = "require('drawbridge.message').answer(('word '):rep(200) .. 'end')"

    @pytest.mark.parametrize("columns", [40, 80, 200])
    def test_messages_are_cut_on_the_screen_but_not_in_the_log(self, editor: Neovim, columns: int) -> None:
        editor.call("nvim_ui_try_resize", columns, 24)
        editor.lua(self.LONG)
        message = editor.shows_message("word")
        assert message.endswith("... (:DrawbridgeLog)" if columns > 60 else "...")
        assert columns * 0.6 < len(message) < columns
        assert editor.log[-1].endswith("word end")

    def test_a_first_sentence_that_fits_is_not_cut(self, editor: Neovim) -> None:
        editor.call("nvim_ui_try_resize", 80, 24)
        words = WHY.format(agent="Claude Code", file="app.py", then=THEN["reloaded"])
        editor.lua("require('drawbridge.message').report(..., 'warn', false)", words)
        assert editor.shows_message("app.py").endswith("Claude Code wrote app.py without asking: no diff.")
        assert editor.log[-1].endswith(words)

    def test_messages_never_stop_neovim_without_a_command_line(self, editor: Neovim) -> None:
        editor.lua("pcall(vim.cmd, 'set cmdheight=0')")
        editor.lua(self.LONG)
        editor.shows_message("word")
        assert not editor.is_stuck


class TestSending:
    @pytest.fixture(autouse=True)
    def sent(self, editor: Neovim) -> None:
        connect(editor)
        editor.lua("""
          sent = {}
          require('drawbridge.selection').mention = function(path, first, last)
            sent = { vim.fn.fnamemodify(path, ':t'), first or -1, last or -1 }
          end
        """)

    def test_a_whole_file_is_sent(self, editor: Neovim) -> None:
        editor.command("DrawbridgeSend")
        editor.shows_message(":DrawbridgeSend: a.txt")
        assert editor.lua("return sent") == ["a.txt", -1, -1]

    def test_a_range_of_lines_is_sent(self, editor: Neovim) -> None:
        editor.lua(TELL, ["claude"])
        editor.command("2,3DrawbridgeSend")
        editor.shows_message(":DrawbridgeSend: a.txt lines 2-3")
        assert editor.lua("return sent") == ["a.txt", 1, 2]

    def test_a_visual_selection_is_sent(self, editor: Neovim) -> None:
        editor.keys("ggVj:DrawbridgeSend<CR>")
        editor.shows_message(":DrawbridgeSend: a.txt lines 1-2")
        assert editor.lua("return sent") == ["a.txt", 0, 1]

    def test_unsaved_changes_are_mentioned(self, editor: Neovim) -> None:
        editor.lua(TELL, ["claude"])
        editor.keys("xx")
        editor.command("4DrawbridgeSend")
        editor.shows_message(":DrawbridgeSend: a.txt line 4 (without its unsaved changes)")


class TestStatus:
    def test_the_command_without_arguments_shows_the_status(self, editor: Neovim) -> None:
        connect(editor)
        editor.command("Drawbridge")
        editor.wait(f"{FLOAT_LINES}:find('bridge     listening', 1, true)")

    def test_a_stopped_bridge_is_shown(self, editor: Neovim) -> None:
        editor.command("DrawbridgeStatus")
        shown = editor.wait(FLOAT)
        assert " bridge     stopped " in shown
        assert " next       :DrawbridgeStart starts the bridge " in shown
        assert not editor.is_stuck

    def test_a_connected_bridge_is_shown(self, editor: Neovim) -> None:
        connect(editor, "claude-code", "Gemini CLI")
        editor.command("DrawbridgeStatus")
        shown = "\n".join(editor.wait(FLOAT))
        assert "bridge     connected" in shown
        assert "agents     claude-code, Gemini CLI" in shown
        assert "port       41234" in shown
        assert "lock file  ~/.claude/ide/" in shown
        assert re.search(r"discovery  \S+/gemini/ide/gemini-ide-server-\d+-\d+\.json", shown)

    def test_the_guards_state_is_found_in_the_background(self, editor: Neovim) -> None:
        connect(editor)
        editor.command("DrawbridgeStatus")
        editor.wait(f"{FLOAT_LINES}:find('guard      on for Claude Code, on for Gemini CLI ', 1, true)")
        assert not editor.is_stuck

    @pytest.mark.parametrize(
        ("found", "shown"),
        [
            ({"guard": []}, "not installed: run drawbridge setup claude (or gemini, codex)"),
            (
                {"editors": []},
                "on for Claude Code, on for Gemini CLI; it can't find this Neovim (:checkhealth drawbridge",
            ),
            (
                {"problems": ["Something."]},
                "on for Claude Code, on for Gemini CLI (:checkhealth drawbridge has the details)",
            ),
            ({"guard": "nonsense"}, "can't be determined: `drawbridge info` did not print a readable report"),
        ],
    )
    def test_problems_of_the_guard_are_reported(self, editor: Neovim, found: dict[str, Any], shown: str) -> None:
        (Path(os.environ["TMPDIR"]) / "info.json").write_text(json.dumps(found))
        connect(editor)
        editor.command("DrawbridgeStatus")
        editor.wait(f"{FLOAT_LINES}:find(..., 1, true)", f"guard      {shown}")

    @pytest.mark.parametrize("key", ["q", "<Esc>", "<CR>", "<C-w>p"])
    def test_closing_the_status_leaves_the_window_unchanged(self, editor: Neovim, key: str) -> None:
        editor.keys("jj")
        editor.command("DrawbridgeStatus")
        editor.wait(FLOAT)
        editor.keys(key)
        editor.wait("return vim.api.nvim_win_get_config(0).relative == ''")
        editor.wait(IS_ONE_WINDOW)
        assert editor.lua("return vim.api.nvim_win_get_cursor(0)[1]") == 3

    def test_the_status_fits_a_tiny_screen(self, editor: Neovim) -> None:
        connect(editor, "claude-code")
        editor.call("nvim_ui_try_resize", 30, 8)
        editor.command("DrawbridgeStatus")
        assert editor.wait(FLOAT)
        assert not editor.is_stuck
        editor.keys("q")
        editor.wait(IS_ONE_WINDOW)

    def test_a_notice_does_not_cover_the_status(self, editor: Neovim) -> None:
        connect(editor, "claude-code")
        above = "return vim.api.nvim_win_get_config(0).zindex > vim.api.nvim_win_get_config(...).zindex"
        notice = editor.lua("return require('drawbridge.view.notice').show({ 'a notice' }).float")
        editor.command("DrawbridgeStatus")
        editor.wait(FLOAT)
        assert editor.lua(above, notice)

    def test_a_script_gets_a_table(self, editor: Neovim) -> None:
        connect(editor, "claude-code", "claude-code")
        found = editor.status()
        assert (found["state"], found["port"], found["pending"]) == ("connected", 41234, 0)
        assert found["agents"] == ["claude-code", "claude-code"]
        assert found["program"][0]


class TestAliases:
    def aliases(self, editor: Neovim) -> list[str]:
        commands = editor.lua("return vim.tbl_keys(vim.api.nvim_get_commands({}))")
        return sorted(name for name in commands if name.startswith("Gemini"))

    def test_setup_creates_aliases_that_act_like_our_commands(self, editor: Neovim) -> None:
        connect(editor)
        assert self.aliases(editor) == ["GeminiRestart", "GeminiStatus", "GeminiStop"]
        editor.command("GeminiStatus")
        assert " bridge     listening " in editor.wait(FLOAT)
        editor.keys("q")
        editor.command("GeminiRestart")
        editor.shows_message(":DrawbridgeRestart: the bridge listens on port")
        editor.command("GeminiStop")
        editor.shows_message(":DrawbridgeStop: the bridge is stopping")

    def test_aliases_can_be_turned_off(self, editor: Neovim) -> None:
        editor.setup(bridge_options(more="auto_start = false"))
        editor.setup(bridge_options(more="auto_start = false, gemini = { aliases = false }"))
        assert self.aliases(editor) == []

    def test_without_setup_no_aliases_are_created(self, editor: Neovim) -> None:
        assert self.aliases(editor) == []

    @pytest.mark.parametrize("nvim", programs.each_nvim())
    def test_a_users_own_command_is_kept(self, nvim: Path) -> None:
        setup = f"require('drawbridge').setup({bridge_options(more='auto_start = false')})"
        theirs = "vim.cmd('command GeminiStatus let g:theirs = 1')"
        with neovim(nvim, init=f"{setup}\n{theirs}") as editor:
            editor.wait("return vim.api.nvim_get_commands({}).GeminiStop ~= nil")
            editor.command("GeminiStatus")
            editor.wait("return vim.g.theirs == 1")
            editor.setup(bridge_options(more="auto_start = false, gemini = { aliases = false }"))
            assert self.aliases(editor) == ["GeminiStatus"]


class TestStatusline:
    def test_the_status_line_shows_bridge_agents_and_proposals(self, editor: Neovim) -> None:
        assert statusline(editor) == ""
        connect(editor)
        assert statusline(editor) == "◇"
        editor.lua(TELL, ["claude-code"])
        assert statusline(editor) == "◆ Claude"
        editor.lua(TELL, ["Claude Code", "gemini-cli", "claude-code"])
        assert statusline(editor) == "◆ Claude, Gemini"
        editor.lua("require('drawbridge.review').pending = function() return { {}, {} } end")
        assert statusline(editor) == "◆ Claude, Gemini ▲2"
        editor.command("DrawbridgeStop")
        wait_until(lambda: statusline(editor) == "", "it is empty again")

    def test_the_status_line_is_redrawn_when_something_changes(self, editor: Neovim) -> None:
        editor.lua("""
          drawn = {}
          function Line()
            drawn[#drawn + 1] = require('drawbridge').statusline()
            return drawn[#drawn]
          end
          vim.o.laststatus, vim.o.statusline = 2, '%{v:lua.Line()}'
        """)
        last = "return drawn[#drawn] == ..."
        connect(editor)
        editor.wait(last, "◇")
        editor.lua(TELL, ["claude-code"])
        editor.wait(last, "◆ Claude")
        editor.lua("require('drawbridge').stop()")
        editor.wait(last, "")

    def test_the_status_line_loads_no_other_module(self, editor: Neovim) -> None:
        editor.lua("require('drawbridge').statusline()")
        loaded = editor.lua("return vim.tbl_keys(package.loaded)")
        assert [name for name in loaded if name.startswith("drawbridge")] == ["drawbridge"]

    def test_after_an_error_the_status_line_is_empty(self, editor: Neovim) -> None:
        connect(editor, "claude-code")
        editor.lua("require('drawbridge.link').state = function() error('broken') end")
        assert statusline(editor) == ""

    def test_the_status_line_takes_less_than_200_microseconds(self, editor: Neovim) -> None:
        connect(editor, "claude-code")
        microseconds = editor.lua("""
          local line, least = require('drawbridge').statusline, math.huge
          for _ = 1, 20 do
            local from = vim.loop.hrtime()
            for _ = 1, 50 do line() end
            least = math.min(least, (vim.loop.hrtime() - from) / 5e4)
          end
          return least
        """)
        assert microseconds < 200, "a status line is drawn at every key"


CLIPBOARD = """
let g:copied = []
let g:clipboard = #{ name: 'test',
  \\ copy: { '+': {lines, kind -> extend(g:copied, lines)}, '*': {lines, kind -> 0} },
  \\ paste: { '+': {-> [g:copied, 'v']}, '*': {-> [[], 'v']} } }
"""


def test_a_prompt_is_copied_to_the_registers(editor: Neovim) -> None:
    connect(editor)
    editor.call("nvim_exec", CLIPBOARD, False)
    copied = editor.lua("return require('drawbridge.link').handle('copy', { text = ... })", 'Why?\n\n"+p\0')
    assert copied == {"ok": True, "value": 'registers " and +'}
    assert editor.lua("return { vim.fn.getreg('\"'), vim.g.copied }") == ['Why?\n\n"+p', ["Why?", "", '"+p']]


class TestLoading:
    def test_the_commands_exist_and_nothing_else_is_loaded(self, editor: Neovim) -> None:
        commands = editor.lua("return vim.tbl_keys(vim.api.nvim_get_commands({}))")
        assert sorted(name for name in commands if name.startswith("Drawbridge")) == [
            *("Drawbridge", "DrawbridgeAccept", "DrawbridgeChanges", "DrawbridgeClaude", "DrawbridgeComment"),
            *("DrawbridgeGemini", "DrawbridgeInstall", "DrawbridgeKeep", "DrawbridgeKeepAll", "DrawbridgeKeepFile"),
            *("DrawbridgeLog", "DrawbridgeReject", "DrawbridgeRejectHunk", "DrawbridgeResolve", "DrawbridgeRestart"),
            *("DrawbridgeReview", "DrawbridgeSend", "DrawbridgeSendComments", "DrawbridgeStart", "DrawbridgeStatus"),
            *("DrawbridgeStop", "DrawbridgeSuggest", "DrawbridgeUndo", "DrawbridgeUndoFile"),
        ]
        assert not editor.lua("return package.loaded.drawbridge ~= nil")

    def test_loading_takes_less_than_a_millisecond(self, editor: Neovim) -> None:
        script = str(Path(__file__).resolve().parents[2] / "plugin" / "drawbridge.lua")
        milliseconds = editor.lua(
            """
            local least = math.huge
            for _ = 1, 20 do
              vim.g.loaded_drawbridge = nil
              local from = vim.loop.hrtime()
              dofile(...)
              least = math.min(least, (vim.loop.hrtime() - from) / 1e6)
            end
            return least
            """,
            script,
        )
        assert milliseconds < 0.7

    def test_loading_defines_no_globals_and_no_key_maps(self, editor: Neovim) -> None:
        count = """
          local maps = 0
          for _, mode in ipairs({ 'n', 'v', 'i', 't', 'c' }) do
            maps = maps + #vim.api.nvim_get_keymap(mode)
          end
          return { vim.tbl_count(_G), maps }
        """
        before = editor.lua(count)
        connect(editor, "claude-code")
        editor.command("DrawbridgeStatus")
        editor.wait(FLOAT)
        editor.command("DrawbridgeLog")
        assert editor.lua(count) == before

    @pytest.mark.parametrize("nvim", programs.each_nvim())
    def test_a_second_copy_on_the_runtime_path_changes_nothing(self, nvim: Path) -> None:
        with neovim(nvim, init="vim.cmd('runtime plugin/drawbridge.lua')") as editor:
            editor.command("DrawbridgeAccept")
            editor.shows_message("no proposal is waiting")
