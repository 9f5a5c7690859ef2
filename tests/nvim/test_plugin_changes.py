"""Reviews of runs in a real Neovim, with a real server."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core.review_memory import ReviewMemory
from tests import programs
from tests.server.checkpoints.rig import git
from tests.server.processes import Server, serving
from tests.server.wire_client import WireClient

from .plugin_rig import Neovim, neovim, wait_until

BRIDGE = f"{{ command = {{ [[{sys.executable}]], '-m', 'drawbridge' }}, idle_ms = 0, debounce_ms = 5 }}"
POEM = "".join(f"line {number}\n" for number in range(1, 13))
CHANGED = POEM.replace("line 3\n", "LINE 3\n").replace("line 7\n", "").replace("line 11\n", "line 11\nline 11b\n")

LIST = """
return vim.tbl_map(function(item)
  return ('%s:%d: %s'):format(item.module, item.lnum, item.text)
end, vim.fn.getqflist())
"""

TITLE = "return vim.fn.getqflist({ title = 0 }).title"

SIGNS = """
vim.cmd('redraw')
local found, place = {}, vim.fn.win_screenpos(0)
for row = place[1], place[1] + vim.fn.winheight(0) - 1 do
  local line = ''
  for column = place[2], place[2] + 20 do
    line = line .. vim.fn.screenstring(row, column)
  end
  local sign, text = line:match('^([+~-]) (.*)$')
  if sign and vim.trim(text) ~= '' then
    found[#found + 1] = sign .. vim.trim(text)
  end
end
return found
"""
"""Returns the lines of the window that have a sign: the first 21 columns of each, as they are on the screen."""

COLORED = """
vim.cmd('redraw')
local found, place = {}, vim.fn.win_screenpos(0)
local plain = vim.fn.screenattr(place[1], place[2] + 3)
for row = place[1], place[1] + vim.api.nvim_buf_line_count(0) do
  local text = ''
  for column = place[2] + 2, place[2] + 20 do
    text = text .. vim.fn.screenstring(row, column)
  end
  text = vim.trim(text)
  if vim.fn.screenattr(row, place[2] + 3) ~= plain and text:find('%w') then
    found[#found + 1] = text
  end
end
return found
"""
"""Returns the lines of the window whose text has another color than that of the first line."""

REMOVED = """
local space, found = vim.api.nvim_get_namespaces().drawbridge_changes, {}
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true })) do
  for _, line in ipairs(mark[4].virt_lines or {}) do
    found[#found + 1] = ('%d: %s'):format(mark[2] + 1, vim.trim(line[2] and line[2][1] or ''))
  end
end
return found
"""

WORDS = """
local space, found = vim.api.nvim_get_namespaces().drawbridge_changes, {}
for _, mark in ipairs(space and vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true }) or {}) do
  for _, chunk in ipairs(mark[4].virt_text or {}) do
    found[#found + 1] = chunk[1]
  end
end
return found
"""


CLOSE_NOTICE = """
for _, window in ipairs(vim.api.nvim_list_wins()) do
  if vim.api.nvim_win_get_config(window).relative ~= '' then
    vim.api.nvim_win_close(window, true)
    return true
  end
end
"""

COMMENTS = """
local space, found = vim.api.nvim_get_namespaces().drawbridge_changes, {}
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true })) do
  local line = (mark[4].virt_lines or {})[1]
  if line and not mark[4].virt_lines_above then
    found[#found + 1] = ('%d: %s'):format(mark[2] + 1, line[1][1])
  end
end
return found
"""


SUGGESTIONS = """
return vim.tbl_filter(function(name)
  return name:find('(suggestion', 1, true)
end, vim.tbl_map(vim.api.nvim_buf_get_name, vim.api.nvim_list_bufs()))
"""

ANSWER = """
local answer, path, lines = ...
vim.fn.confirm = function(question)
  vim.g.asked = question
  if path then
    vim.fn.writefile(lines, path)
  end
  return answer
end
"""
"""Answers the next questions with this number. If a path and lines are given, first writes that file."""


class ReviewRig:
    """A Neovim in a directory, and a server whose demo agent works there."""

    def __init__(self, editor: Neovim, client: WireClient, project: str, directory: Path) -> None:
        self.editor = editor
        self.client = client
        self.project = project
        self.directory = directory

    async def run(self, work: Callable[[Path], object]) -> None:
        """Starts a run and does ``work`` in it. Denies the demo agent's own proposal, which closes its view in
        Neovim."""
        await self.client.send("execute", {"prompt": "hello"}, self.project)
        await self.ends(work)
        await self.client.receive("update", "review_changed")

    async def ends(self, work: Callable[[Path], object] = lambda _: None) -> None:
        """Does ``work`` in the current run, then lets the run end, as ``run`` does."""
        asked = await self.client.receive("permission_request")
        shown = "local one = require('drawbridge.review').pending()[1] return (one and one.shown or false) == ..."
        self.editor.wait(shown, True)
        work(self.directory)
        answer = {"approval_id": asked["data"]["approval_id"], "decision": "deny"}
        await self.client.ask("permission_response", answer, self.project)
        await self.client.receive("update", "run_finished")
        self.editor.wait(shown, False)

    async def review(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.ask("review_get", {}, self.project))["data"]
        return found

    async def decided(self) -> dict[str, Any]:
        """The next decision, as the other clients receive it."""
        update = await self.client.receive("update", "review_decided")
        found: dict[str, Any] = update["data"]["data"]
        return found

    async def decide(self, decision: str, *hunks: str) -> dict[str, Any]:
        """Decides on hunks as the other client."""
        return await self.client.ask("review_decide", {"hunks": list(hunks), "decision": decision}, self.project)

    def open(self, name: str) -> None:
        self.editor.lua("vim.cmd('edit ' .. vim.fn.fnameescape(...))", str(self.directory / name))

    def at(self, line: int) -> None:
        self.editor.call("nvim_win_set_cursor", 0, [line, 0])

    def shows_list(self, *lines: str) -> None:
        self._becomes(lambda: self.editor.lua(LIST), list(lines))

    def shows_signs(self, *signs: str) -> None:
        self._becomes(lambda: self.editor.lua(SIGNS), list(signs))

    def shows_comments(self, *comments: str) -> None:
        self._becomes(lambda: self.editor.lua(COMMENTS), list(comments))

    def shows_lines(self, *lines: str) -> None:
        self._becomes(lambda: self.editor.call("nvim_buf_get_lines", 0, 0, -1, False), list(lines))

    def _becomes(self, condition: Callable[[], Any], expected: list[str]) -> None:
        found: list[Any] = []

        def is_so() -> bool:
            found[:] = condition() or []
            return found == expected

        try:
            wait_until(is_so, "")
        except TimeoutError:
            assert (found, self.editor.messages, self.editor.log) == (expected, [], [])

    def is_at(self, line: int) -> None:
        self.editor.wait("return vim.api.nvim_win_get_cursor(0)[1] == ...", line)

    async def has_seen(self, *hunks: str) -> None:
        """Waits until it is stored that the user has seen exactly these hunks, by the lines that they add or remove."""
        ids: dict[str, str] = {}
        for file in (await self.review())["files"]:
            ids |= {hunk["id"]: (hunk["added"] or hunk["removed"]).partition("\n")[0] for hunk in file["hunks"]}
        self._becomes(lambda: sorted(ids.get(id, id) for id in ReviewMemory().of(self.project).seen), sorted(hunks))

    def asks(self) -> None:
        """Runs `:DrawbridgeChanges`, and waits for the review."""
        self.editor.command("DrawbridgeChanges")
        self.editor.shows_message("to review.")


def logs(editor: Neovim, text: str) -> None:
    """Waits until the log contains ``text``. A screen of this size shows only part of the message."""
    wait_until(lambda: any(text in line for line in editor.log), text)
    assert not editor.is_stuck


def warns(editor: Neovim, text: str) -> None:
    """Waits for a warning, then closes its notice, which covers the first lines of the window for some seconds."""
    logs(editor, text)
    editor.wait(CLOSE_NOTICE, why=text)


def make(directory: Path) -> Path:
    directory.mkdir()
    git(directory, "init", "-q")
    (directory / "poem.txt").write_text(POEM)
    (directory / "old.txt").write_text("old\n")
    git(directory, "add", ".")
    git(directory, "commit", "-qm", "first")
    return directory


def change_poem(directory: Path) -> None:
    (directory / "poem.txt").write_text(CHANGED)


@asynccontextmanager
async def at_work(
    program: Path, server: Server, directory: Path, *names: str, init: str = ""
) -> AsyncIterator[ReviewRig]:
    async with server.client() as client:
        await client.ask("hello", {"client": "phone"})
        created = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
        with neovim(program, *(directory / name for name in names), cwd=directory, init=init) as editor:
            assert editor.setup(BRIDGE)
            editor.wait("return (require('drawbridge.link').state() or {}).token ~= nil")
            yield ReviewRig(editor, client, created["project_id"], directory)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path / "data", "--no-tls", "--allow", tmp_path) as server:
        yield server


@pytest.fixture(params=programs.each_nvim())
async def rig(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> AsyncIterator[ReviewRig]:
    """A ``ReviewRig`` with each version of Neovim, in which the poem is open."""
    async with at_work(request.param, server, make(tmp_path / "code"), "poem.txt") as rig:
        yield rig


@pytest.fixture
async def newest(server: Server, tmp_path: Path) -> AsyncIterator[ReviewRig]:
    """A ``ReviewRig`` with the newest Neovim, for tests that do not depend on the version."""
    async with at_work(programs.nvim(), server, make(tmp_path / "code"), "poem.txt") as rig:
        yield rig


async def test_the_changes_of_a_run_are_listed_and_marked(rig: ReviewRig) -> None:
    await rig.run(change_poem)
    rig.asks()
    rig.shows_list("poem.txt:3: +1 −1  LINE 3", "poem.txt:7: +0 −1  line 7", "poem.txt:11: +1 −0  line 11b")
    rig.shows_lines(*CHANGED.splitlines())
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    assert rig.editor.lua(COLORED) == ["line 3", "LINE 3", "line 7", "line 11b"]
    assert rig.editor.lua(REMOVED) == ["3: line 3", "7: line 7"]
    assert rig.editor.lua("return #vim.api.nvim_list_wins()") == 2
    assert rig.editor.lua("return vim.bo.buftype") == ""
    rig.open("old.txt")
    rig.shows_signs()


async def test_decisions_at_the_cursor_reach_the_server_and_clients(rig: ReviewRig) -> None:
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.at(3)
    rig.editor.command("DrawbridgeKeep")
    rig.shows_signs("-line 8", "+line 11b")
    rig.editor.shows_message("Kept: 1 change in poem.txt. 2 changes left.")
    decided = await rig.decided()
    assert (decided["by"], decided["decision"], decided["left"]) == ("Neovim", "keep", 2)
    rig.editor.keys("]c")
    rig.is_at(7)
    rig.editor.command("DrawbridgeUndo")
    rig.shows_lines(*CHANGED.replace("line 6\n", "line 6\nline 7\n").splitlines())
    rig.shows_signs("+line 11b")
    assert (await rig.decided())["decision"] == "undo"
    rig.editor.keys("]c")
    rig.is_at(12)
    rig.editor.command("DrawbridgeUndoFile")
    rig.editor.shows_message("Undone: 1 change in poem.txt. Nothing is left to review.")
    assert (rig.directory / "poem.txt").read_text() == POEM.replace("line 3\n", "LINE 3\n")
    rig.shows_lines(*POEM.replace("line 3\n", "LINE 3\n").splitlines())
    rig.shows_signs()
    rig.shows_list()
    assert (await rig.review())["state"] == "none"


@pytest.mark.thorough
async def test_a_change_decided_elsewhere_cannot_be_decided_again(rig: ReviewRig) -> None:
    """It disappears from the review in Neovim. After a late decision, the user sees who made the first one."""
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    [file] = (await rig.review())["files"]
    first, second, _ = (hunk["id"] for hunk in file["hunks"])
    await rig.decide("undo", first)
    rig.shows_signs("-line 8", "+line 11b")
    rig.shows_lines(*CHANGED.replace("LINE 3", "line 3").splitlines())
    rig.shows_list("poem.txt:7: +0 −1  line 7", "poem.txt:11: +1 −0  line 11b")
    rig.editor.shows_message("phone made decisions in this review.")
    await rig.decide("keep", second)
    rig.shows_signs("+line 11b")
    # As if the user had run `:DrawbridgeUndo` just before Neovim received that decision.
    late = {"decision": "undo", "version": "", "hunk": second}
    rig.editor.lua("require('drawbridge.link').send('review_decided', ...)", late)
    rig.editor.shows_message("phone already kept this change.")
    assert (rig.directory / "poem.txt").read_text() == CHANGED.replace("LINE 3", "line 3")


@pytest.mark.thorough
async def test_a_hunk_whose_lines_have_changed_is_not_undone(newest: ReviewRig) -> None:
    rig = newest
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    now = CHANGED.replace("LINE 3", "by hand")
    (rig.directory / "poem.txt").write_text(now)
    rig.at(3)
    rig.editor.command("DrawbridgeUndo")
    warns(rig.editor, "poem.txt changed at line 3 since you looked.")
    rig.shows_lines(*now.splitlines())
    rig.shows_signs("~by hand", "-line 8", "+line 11b")
    assert (rig.directory / "poem.txt").read_text() == now


@pytest.mark.thorough
async def test_unsaved_changes_are_not_lost(newest: ReviewRig) -> None:
    rig = newest
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.call("nvim_buf_set_lines", 0, 0, 0, False, ["unsaved"])
    rig.at(4)
    for command in ("DrawbridgeUndo", "DrawbridgeUndoFile"):
        rig.editor.command(command)
        rig.editor.shows_message(f":{command}: save or discard your unsaved changes first")
    assert (rig.directory / "poem.txt").read_text() == CHANGED
    rig.editor.command("DrawbridgeKeep")
    rig.shows_signs("-line 8", "+line 11b")
    rig.shows_lines("unsaved", *CHANGED.splitlines())
    # Other clients can't undo a change in this file either.
    [file] = (await rig.review())["files"]
    refused = await rig.decide("undo", file["hunks"][0]["id"])
    assert refused["data"]["code"] == "UNSAVED_CHANGES"
    rig.shows_lines("unsaved", *CHANGED.splitlines())
    rig.editor.command("edit!")
    await rig.decide("undo", file["hunks"][0]["id"])
    rig.shows_signs("+line 11b")


async def test_a_change_undone_elsewhere_reloads_the_open_file(rig: ReviewRig) -> None:
    """This applies even if Neovim does not show the review."""
    await rig.run(change_poem)
    rig.editor.command("checktime")
    rig.shows_lines(*CHANGED.splitlines())
    [file] = (await rig.review())["files"]
    await rig.decide("undo", file["hunks"][0]["id"])
    rig.shows_lines(*CHANGED.replace("LINE 3", "line 3").splitlines())
    assert rig.editor.lua(LIST) == []


@pytest.mark.thorough
async def test_a_decision_elsewhere_keeps_unsaved_changes(newest: ReviewRig) -> None:
    """A file that the decision restores is shown."""
    rig = newest

    def work(directory: Path) -> None:
        change_poem(directory)
        (directory / "old.txt").unlink()

    await rig.run(work)
    rig.shows_lines(*CHANGED.splitlines())  # reloaded after the run
    rig.editor.call("nvim_buf_set_lines", 0, 0, 1, False, ["unsaved"])
    rig.open("old.txt")
    rig.shows_lines("")
    hunks = {file["path"]: [hunk["id"] for hunk in file["hunks"]] for file in (await rig.review())["files"]}
    refused = await rig.decide("undo", *hunks["old.txt"], *hunks["poem.txt"])
    assert (refused["data"]["code"], refused["data"]["details"]) == ("UNSAVED_CHANGES", {"paths": ["poem.txt"]})
    assert not (rig.directory / "old.txt").exists()
    await rig.decide("undo", *hunks["old.txt"])
    rig.shows_lines("old")
    assert not rig.editor.is_stuck
    rig.editor.command("buffer poem.txt")
    rig.shows_lines("unsaved", *CHANGED.splitlines()[1:])
    assert (rig.directory / "poem.txt").read_text() == CHANGED


async def test_saving_a_file_updates_its_review(newest: ReviewRig) -> None:
    rig = newest
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.at(1)
    rig.editor.keys("yyPPjjjj")
    rig.editor.command("w")
    rig.shows_list("poem.txt:5: +1 −1  LINE 3", "poem.txt:9: +0 −1  line 7", "poem.txt:13: +1 −0  line 11b")
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")


@pytest.mark.thorough
async def test_a_user_edits_a_change_and_keeps_it(newest: ReviewRig) -> None:
    rig = newest
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.at(3)
    rig.editor.keys("ccby hand<Esc>")
    rig.editor.command("w")
    rig.shows_list("poem.txt:3: +1 −1  by hand", "poem.txt:7: +0 −1  line 7", "poem.txt:11: +1 −0  line 11b")
    rig.shows_signs("~by hand", "-line 8", "+line 11b")
    rig.editor.command("DrawbridgeKeep")
    rig.shows_signs("-line 8", "+line 11b")
    assert (await rig.decided())["decision"] == "keep"
    [file] = (await rig.review())["files"]
    assert [hunk["removed"] for hunk in file["hunks"]] == ["line 7\n", ""]
    assert (rig.directory / "poem.txt").read_text() == CHANGED.replace("LINE 3", "by hand")


@pytest.mark.thorough
async def test_while_the_agent_works_changes_are_kept_but_not_undone(newest: ReviewRig) -> None:
    rig = newest
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    await rig.client.send("execute", {"prompt": "hello"}, rig.project)
    await rig.client.receive("permission_request")
    # The demo agent's proposal opens in its own tab page.
    rig.editor.wait("return #vim.api.nvim_list_tabpages() == 2")
    rig.editor.lua("vim.cmd('tabfirst')")
    rig.at(3)
    rig.editor.command("DrawbridgeUndo")
    warns(rig.editor, "The agent is working in this project.")
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command("DrawbridgeKeep")
    rig.shows_signs("-line 8", "+line 11b")
    assert (rig.directory / "poem.txt").read_text() == CHANGED


async def test_a_later_runs_changes_appear_automatically(newest: ReviewRig) -> None:
    rig = newest
    rig.editor.command("DrawbridgeChanges")
    rig.editor.shows_message("Nothing to review in")
    await rig.run(change_poem)
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.shows_lines(*CHANGED.splitlines())


def write_later(directory: Path) -> None:
    (directory / "later.txt").write_text("later\n")


async def test_only_the_changes_since_the_last_visit_are_shown(rig: ReviewRig) -> None:
    old = "poem.txt:3: +1 −1  LINE 3", "poem.txt:7: +0 −1  line 7", "poem.txt:11: +1 −0  line 11b"
    new = "+1 −0  This is a new file."
    await rig.run(change_poem)
    rig.asks()
    rig.shows_list(*old)
    assert rig.editor.lua(TITLE) == "Drawbridge: 1 file +2 −2"
    await rig.has_seen("LINE 3", "line 7", "line 11b")
    await rig.run(write_later)
    rig.shows_list(f"later.txt:1: since your last visit  {new}", *old)
    assert rig.editor.lua(TITLE) == "Drawbridge: 2 files +3 −2 · 1 since your last visit"
    rig.editor.command("DrawbridgeChanges!")
    rig.shows_list(f"later.txt:1: {new}")
    assert rig.editor.lua(TITLE) == "Drawbridge: 1 of 4 changes · only since your last visit"
    rig.editor.shows_message("1 of 4 changes · only since your last visit.")
    rig.shows_signs()
    rig.shows_lines(*CHANGED.splitlines())
    for command in ("DrawbridgeKeepFile", "DrawbridgeUndoFile"):
        rig.editor.command("messages clear")
        rig.editor.command(command)
        rig.editor.shows_message("To decide on all changes at once, show the others too.")
    # A hidden change can be commented on.
    rig.editor.command("3DrawbridgeComment Why?")
    rig.shows_comments("3: Draft by Neovim: Why?")
    rig.editor.command("DrawbridgeChanges")
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.shows_list(f"later.txt:1: since your last visit  {new}", *old, "poem.txt:3: Draft by Neovim: Why?")
    # Once the new changes are decided, the others are shown.
    rig.editor.command("DrawbridgeChanges!")
    rig.shows_signs()
    rig.open("later.txt")
    rig.shows_signs("+later This is a new")
    rig.editor.command("DrawbridgeKeep")
    rig.editor.shows_message("Kept: 1 change in later.txt. 3 changes left.")
    rig.shows_list(*old, "poem.txt:3: Draft by Neovim: Why?")
    rig.editor.command("DrawbridgeChanges!")
    rig.editor.shows_message("Nothing is new since your last visit.")
    rig.shows_list(*old, "poem.txt:3: Draft by Neovim: Why?")


async def test_all_changes_are_kept_after_a_question(rig: ReviewRig) -> None:
    def work(directory: Path) -> None:
        change_poem(directory)
        write_later(directory)

    await rig.run(work)
    rig.asks()
    await rig.has_seen("LINE 3", "line 7", "line 11b")
    rig.editor.command("DrawbridgeKeepAll")
    wait_until(lambda: rig.editor.is_stuck, "the question")
    rig.editor.keys("n")
    rig.editor.lua(ANSWER, 1)
    rig.editor.command("DrawbridgeKeepAll")
    rig.editor.shows_message("Kept: 4 changes in 2 files. Nothing is left to review.")
    question = "Keep 4 changes in 2 files? You have not fully seen 1 of them."
    assert rig.editor.lua("return vim.g.asked") == question
    decided = await rig.decided()
    assert (decided["decision"], decided["hunks"], decided["left"]) == ("keep", 4, 0)
    assert (rig.directory / "poem.txt").read_text() == CHANGED


async def test_changes_that_are_not_shown_are_not_kept(newest: ReviewRig) -> None:
    rig = newest
    (rig.directory / "large.txt").write_text("old\n" * 80_000)
    await rig.run(change_poem)
    rig.asks()
    await rig.has_seen("LINE 3", "line 7", "line 11b")
    # A change arrives while the question is open.
    edited = CHANGED.replace("LINE 3", "by hand").splitlines()
    rig.editor.lua(ANSWER, 1, str(rig.directory / "poem.txt"), edited)
    rig.editor.command("DrawbridgeKeepAll")
    logs(rig.editor, "The review has changed since you saw it, so your decision was not applied.")
    warns(rig.editor, "Read what is new in poem.txt, then decide again.")
    rig.shows_signs("~by hand", "-line 8", "+line 11b")
    await rig.run(write_later)
    rig.editor.command("DrawbridgeChanges!")
    rig.editor.shows_message("only since your last visit.")
    rig.editor.command("DrawbridgeKeepAll")
    rig.editor.shows_message(":DrawbridgeKeepAll: first show all changes (:DrawbridgeChanges)")
    await rig.run(lambda directory: (directory / "large.txt").write_text("new\n" * 80_000))
    rig.editor.command("DrawbridgeChanges")
    rig.editor.shows_message("3 files +80003 −80002")
    rig.editor.command("DrawbridgeKeepAll")
    rig.editor.shows_message(":DrawbridgeKeepAll: first decide on files too large to show")
    # As if the bridge had sent only some of the files.
    file = {"path": "/a", "name": "a", "shown": "a", "hunks": [], "has_lines": False, "was_deleted": False, "text": ""}
    part = {"version": "", "title": "", "files": [file], "comments": [], "drafts": "", "only_new": False, "more": 2}
    rig.editor.lua("require('drawbridge.changes').show_review(...)", {"review": part, "wanted": False})
    rig.editor.command("DrawbridgeKeepAll")
    rig.editor.shows_message(":DrawbridgeKeepAll: first decide on the files shown (2 more)")
    assert (await rig.review())["files"] != []


async def test_a_file_that_is_too_large_to_show_is_never_hidden(newest: ReviewRig) -> None:
    """Nothing shows which of its changes are new."""
    rig = newest
    (rig.directory / "large.txt").write_text("old\n" * 80_000)

    def work(directory: Path) -> None:
        change_poem(directory)
        (directory / "large.txt").write_text("new\n" * 80_000)

    large = "large.txt:1: The changes to this file are too large to show here."
    old = "poem.txt:3: +1 −1  LINE 3", "poem.txt:7: +0 −1  line 7", "poem.txt:11: +1 −0  line 11b"
    await rig.run(work)
    rig.asks()
    rig.shows_list(large, *old)
    await rig.has_seen("LINE 3", "line 7", "line 11b")
    await rig.run(write_later)
    rig.shows_list(large, "later.txt:1: since your last visit  +1 −0  This is a new file.", *old)
    rig.editor.command("DrawbridgeChanges!")
    rig.shows_list(large, "later.txt:1: +1 −0  This is a new file.")


async def test_a_change_was_seen_once_both_ends_were_in_a_window(rig: ReviewRig) -> None:
    """A change without lines in a buffer was seen once it was in the list."""

    def work(directory: Path) -> None:
        (directory / "long.txt").write_text("".join(f"long {number}\n" for number in range(1, 41)))
        (directory / "a.png").write_bytes(b"\0")

    await rig.run(work)
    rig.open("long.txt")
    rig.asks()
    await rig.has_seen("")
    rig.editor.keys("G")
    await rig.has_seen("", "long 1")


@pytest.mark.slow
async def test_folded_and_hidden_lines_were_not_seen(newest: ReviewRig) -> None:
    rig = newest
    rig.editor.command("3,7fold")
    await rig.run(change_poem)
    rig.editor.command("checktime")
    rig.shows_lines(*CHANGED.splitlines())
    rig.editor.lua("vim.cmd('normal! zE') vim.cmd('3,7fold')")
    rig.asks()
    await rig.has_seen("line 11b")
    rig.editor.keys("zEG")
    await rig.has_seen("LINE 3", "line 7", "line 11b")


@pytest.mark.thorough
async def test_comments_are_drafts_until_they_are_sent(rig: ReviewRig) -> None:
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command('3,4DrawbridgeComment Why "in capitals" | here?')
    rig.shows_comments('4: Draft by Neovim: Why "in capitals" | here?')
    rig.editor.shows_message("Draft added. 1 draft to send.")
    [comment] = (await rig.review())["comments"]
    found = {name: comment[name] for name in ("path", "line", "end_line", "quote", "by")}
    assert found == {"path": "poem.txt", "line": 3, "end_line": 4, "quote": "LINE 3\nline 4\n", "by": "Neovim"}
    theirs = {"path": "poem.txt", "line": 11, "quote": "line 11b\n", "text": "Two?"}
    await rig.client.ask("review_comment", theirs, rig.project)
    rig.shows_comments('4: Draft by Neovim: Why "in capitals" | here?', "11: Draft by phone: Two?")
    # Of two drafts on a line, the one that was written last is removed.
    rig.at(4)
    rig.editor.command("DrawbridgeComment Second")
    rig.shows_comments(
        '4: Draft by Neovim: Why "in capitals" | here?', "4: Draft by Neovim: Second", "11: Draft by phone: Two?"
    )
    rig.editor.command("DrawbridgeComment!")
    rig.editor.shows_message("Draft removed. 2 drafts to send.")
    rig.shows_list(
        "poem.txt:3: +1 −1  LINE 3",
        "poem.txt:7: +0 −1  line 7",
        "poem.txt:11: +1 −0  line 11b",
        'poem.txt:3: Draft by Neovim: Why "in capitals" | here?',
        "poem.txt:11: Draft by phone: Two?",
    )
    rig.at(3)
    rig.editor.command("DrawbridgeComment!")
    rig.editor.shows_message("Draft removed. 1 draft to send.")
    rig.editor.command("DrawbridgeSendComments Please:")
    rig.editor.shows_message("Sent to the agent: 1 comment.")
    rig.shows_comments("11: phone: Two?")
    started = (await rig.client.receive("update", "run_started"))["data"]["data"]
    [comment] = (await rig.review())["comments"]
    assert (comment["state"], comment["run_id"]) == ("sent", started["run_id"])
    rig.editor.command("DrawbridgeSendComments")
    rig.editor.shows_message(":DrawbridgeSendComments: there are no drafts to send")


@pytest.mark.thorough
async def test_a_comment_is_resolved_and_reopened(rig: ReviewRig) -> None:
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.at(3)
    rig.editor.command("DrawbridgeComment Why?")
    rig.shows_comments("3: Draft by Neovim: Why?")
    rig.editor.command("DrawbridgeResolve")
    rig.editor.shows_message(":DrawbridgeResolve: the agent has not received this comment yet")
    rig.editor.command("DrawbridgeSendComments")
    await rig.ends()
    rig.shows_comments("3: Neovim: Why?")
    rig.editor.command("DrawbridgeResolve")
    rig.editor.shows_message("Comment resolved.")
    rig.shows_comments("3: Resolved · Neovim: Why?")
    changes = "poem.txt:3: +1 −1  LINE 3", "poem.txt:7: +0 −1  line 7", "poem.txt:11: +1 −0  line 11b"
    rig.shows_list(*changes)
    [comment] = (await rig.review())["comments"]
    assert (comment["state"], comment["resolved_by"]) == ("resolved", "Neovim")
    rig.editor.command("DrawbridgeResolve")
    rig.editor.shows_message("Comment reopened.")
    rig.shows_list(*changes, "poem.txt:3: Neovim: Why?")
    rig.editor.lua("vim.cmd('copen') vim.cmd('normal! G')")
    rig.editor.command("DrawbridgeResolve")
    rig.shows_list(*changes)


async def test_edited_lines_are_suggested_in_a_window(rig: ReviewRig) -> None:
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command("3,4DrawbridgeSuggest Quieter.")
    rig.editor.shows_message(":DrawbridgeSuggest: edit; :w adds a draft, :q! closes without")
    rig.shows_lines("LINE 3", "line 4")
    rig.editor.keys("ccline three<Esc>")
    rig.editor.command("wq")
    rig.editor.shows_message("Draft added. 1 draft to send.")
    rig.shows_comments("4: Draft by Neovim: Quieter. (with a suggestion)")
    [comment] = (await rig.review())["comments"]
    found = {name: comment[name] for name in ("line", "end_line", "quote", "text", "suggestion")}
    assert found == {
        "line": 3, "end_line": 4, "quote": "LINE 3\nline 4\n", "text": "Quieter.", "suggestion": "line three\nline 4\n"
    }  # fmt: skip
    assert rig.editor.lua(SUGGESTIONS) == []
    # Without `:w`, the suggestion is dropped.
    rig.editor.command("3DrawbridgeSuggest")
    rig.shows_lines("LINE 3")
    rig.editor.keys("x")
    rig.editor.command("q!")
    rig.shows_lines(*CHANGED.splitlines())
    assert (rig.editor.lua(SUGGESTIONS), len((await rig.review())["comments"])) == ([], 1)
    # An empty line is a suggestion, too. Without any line, the suggestion is to remove the lines.
    for keys, drafts in (("cc<Esc>", "2 drafts"), ("dd", "3 drafts")):
        rig.editor.command("3DrawbridgeSuggest")
        rig.shows_lines("LINE 3")
        rig.editor.keys(keys)
        rig.editor.command("wq")
        rig.editor.shows_message(f"Draft added. {drafts} to send.")
    assert [comment["suggestion"] for comment in (await rig.review())["comments"][1:]] == ["\n", ""]


async def test_a_suggestion_that_is_not_added_is_not_lost(newest: ReviewRig) -> None:
    rig = newest
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command("3DrawbridgeSuggest")
    rig.shows_lines("LINE 3")
    rig.editor.command("w")
    rig.editor.shows_message(":DrawbridgeSuggest: change the lines first")
    (rig.directory / "poem.txt").write_text(CHANGED.replace("LINE 3", "by hand"))
    rig.editor.keys("ccline three<Esc>")
    rig.editor.command("wq")
    warns(rig.editor, "The lines have changed since they were shown. Read the review again.")
    rig.shows_lines("line three")
    assert rig.editor.lua("return { vim.bo.modified, vim.bo.modifiable }") == [True, True]
    rig.editor.command("DrawbridgeStop")
    rig.editor.wait("return not require('drawbridge.link').attached()")
    rig.editor.command("w")
    rig.editor.shows_message(":DrawbridgeSuggest: the bridge is not running (:DrawbridgeStart)")
    rig.shows_lines("line three")


LOSE_ANSWERS = """
local suggest = require('drawbridge.changes.suggest')
local suggested = suggest.suggested
suggest.suggested = function() end
restore_answers = function()
  suggest.suggested = suggested
end
"""
"""Lets the answers about suggestions get lost, as if the bridge had stopped before it could send them."""


async def test_a_suggestion_is_added_once_despite_a_lost_answer(rig: ReviewRig) -> None:
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command("3DrawbridgeSuggest")
    rig.shows_lines("LINE 3")
    rig.editor.lua(LOSE_ANSWERS)
    rig.editor.keys("ccline three<Esc>")
    rig.editor.command("wq")
    rig.editor.shows_message("Draft added. 1 draft to send.")
    rig.editor.command("DrawbridgeStop")
    logs(rig.editor, ":DrawbridgeSuggest: may not have been added: the bridge has stopped")
    rig.shows_lines("line three")
    rig.editor.lua("restore_answers()")
    rig.editor.command("DrawbridgeStart")
    rig.editor.wait("return (require('drawbridge.link').state() or {}).token ~= nil")
    rig.editor.command("DrawbridgeChanges")
    rig.editor.wait("return vim.fn.getqflist({ size = 0 }).size > 0")
    rig.editor.command("w")
    rig.editor.wait(f"return #(function() {SUGGESTIONS} end)() == 0")
    assert [comment["suggestion"] for comment in (await rig.review())["comments"]] == ["line three\n"]


CUT_AND_WRITE = """
for _, channel in ipairs(vim.api.nvim_list_chans()) do
  if channel.stream == 'job' then
    vim.fn.chanclose(channel.id)
  end
end
vim.cmd('silent! wq')
"""
"""Closes the connection to the bridge, and writes the current buffer before Neovim notices that."""


async def test_a_suggestion_stays_if_the_connection_is_closed(rig: ReviewRig) -> None:
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command("3DrawbridgeSuggest")
    rig.shows_lines("LINE 3")
    rig.editor.keys("ccline three<Esc>")
    rig.shows_lines("line three")
    rig.editor.lua(CUT_AND_WRITE)
    logs(rig.editor, ":DrawbridgeSuggest: may not have been added: the bridge has stopped")
    rig.shows_lines("line three")
    assert rig.editor.lua("return { vim.bo.modified, vim.bo.modifiable }") == [True, True]


async def test_a_refused_suggestion_is_shown_after_the_bridge_stops(rig: ReviewRig) -> None:
    """The user was typing when it was refused, so it had to wait."""
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command("3DrawbridgeSuggest")
    rig.shows_lines("LINE 3")
    (rig.directory / "poem.txt").write_text(CHANGED.replace("LINE 3", "by hand"))
    rig.editor.keys("ccline three<Esc>:wq<CR>:new<CR>i")
    logs(rig.editor, "The lines have changed since they were shown. Read the review again.")
    rig.editor.call("nvim_command", "DrawbridgeStop")
    rig.editor.wait("return not require('drawbridge.link').attached()")
    rig.shows_lines("")
    rig.editor.keys("<Esc>")
    rig.shows_lines("line three")
    assert rig.editor.lua("return { vim.bo.modified, vim.bo.modifiable }") == [True, True]


@pytest.mark.thorough
async def test_a_comment_requires_the_lines_as_they_were_shown(newest: ReviewRig) -> None:
    rig = newest

    def work(directory: Path) -> None:
        (directory / "windows.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
        (directory / "end.txt").write_bytes(b"a\nb")
        change_poem(directory)

    await rig.run(work)
    rig.asks()
    for name, lines in (("windows.txt", "%"), ("end.txt", "2")):
        rig.open(name)
        rig.editor.wait(f"return #(function() {WORDS} end)() > 0")
        rig.editor.command(f"{lines}DrawbridgeComment Good")
        rig.shows_comments("2: Draft by Neovim: Good")
    rig.open("poem.txt")
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    (rig.directory / "poem.txt").write_text(CHANGED.replace("LINE 3", "by hand"))
    rig.editor.command("3DrawbridgeComment Late")
    logs(rig.editor, "The lines have changed since they were shown. Read the review again.")
    rig.shows_lines(*CHANGED.replace("LINE 3", "by hand").splitlines())
    assert len((await rig.review())["comments"]) == 2


@pytest.mark.slow
async def test_missing_requirements_of_a_comment_are_reported(newest: ReviewRig) -> None:
    rig = newest
    rig.editor.command("DrawbridgeComment Why?")
    rig.editor.shows_message(":DrawbridgeComment: no changes are shown (:DrawbridgeChanges)")
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command("DrawbridgeComment")
    rig.editor.shows_message(":DrawbridgeComment: write the comment after the command")
    rig.editor.command("DrawbridgeComment!")
    rig.editor.shows_message(":DrawbridgeComment!: no draft at the cursor")
    rig.editor.call("nvim_buf_set_lines", 0, 0, 0, False, ["unsaved"])
    rig.editor.command("DrawbridgeComment Why?")
    rig.editor.shows_message(":DrawbridgeComment: save or discard your unsaved changes first")
    rig.editor.command("undo")
    rig.editor.command("1DrawbridgeComment Why?")
    rig.shows_comments("1: Draft by Neovim: Why?")
    # A comment moves with its line, and does not cover what is typed above that line.
    rig.editor.call("nvim_buf_set_lines", 0, 0, 0, False, ["unsaved"])
    rig.shows_comments("2: Draft by Neovim: Why?")
    rig.editor.lua("vim.cmd('copen') vim.cmd('normal! G')")
    for command in ("DrawbridgeKeep", "DrawbridgeUndoFile"):
        rig.editor.command(command)
        rig.editor.shows_message(f":{command}: this line is a comment")
    rig.editor.command("DrawbridgeComment!")
    rig.editor.shows_message(":DrawbridgeComment!: go to the draft first (Enter)")
    rig.editor.command("DrawbridgeComment Why?")
    rig.editor.shows_message(":DrawbridgeComment: this buffer is not a file")
    rig.editor.lua("vim.cmd('edit! old.txt')")
    rig.editor.command("DrawbridgeComment Why?")
    rig.editor.shows_message(":DrawbridgeComment: this file has nothing to review")


async def test_when_the_bridge_stops_nothing_is_shown(newest: ReviewRig) -> None:
    rig = newest
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command("DrawbridgeStop")
    rig.shows_signs()
    rig.shows_list()
    rig.editor.wait("return vim.fn.maparg(']c', 'n') == ''")
    rig.editor.command("DrawbridgeKeep")
    rig.editor.shows_message(":DrawbridgeKeep: the bridge is not running (:DrawbridgeStart)")
    rig.editor.command("DrawbridgeStart")
    rig.editor.wait("return (require('drawbridge.link').state() or {}).token ~= nil")
    rig.editor.command("DrawbridgeChanges")
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")


@pytest.mark.slow
async def test_commands_report_a_missing_bridge_or_review(tmp_path: Path) -> None:
    with neovim(programs.nvim(), cwd=tmp_path) as editor:
        for command in ("DrawbridgeChanges", "DrawbridgeKeep"):
            editor.command(command)
            editor.shows_message(f":{command}: the bridge is not running (:DrawbridgeStart)")
        assert editor.setup(BRIDGE)
        editor.wait("return (require('drawbridge.link').state() or {}).token ~= nil")
        editor.command("DrawbridgeKeep")
        editor.shows_message(":DrawbridgeKeep: no changes are shown (:DrawbridgeChanges)")
        editor.command("DrawbridgeChanges")
        logs(editor, "No agent server is running. Start one with: drawbridge serve")
        async with serving(tmp_path / "data", "--no-tls", "--allow", tmp_path):
            editor.command("DrawbridgeChanges")
            logs(editor, "Nothing to review: the server has no session in this directory")


async def test_keys_and_commands_only_work_on_changes(newest: ReviewRig) -> None:
    rig = newest
    await rig.run(change_poem)
    rig.open("old.txt")
    rig.asks()
    rig.editor.wait("return #vim.fn.getqflist() == 3")
    rig.editor.command("DrawbridgeUndoFile")
    rig.editor.shows_message(":DrawbridgeUndoFile: this file has nothing to review")
    assert rig.editor.lua("return vim.fn.maparg(']c', 'n')") == ""
    rig.open("poem.txt")
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    rig.editor.command("DrawbridgeUndo")
    rig.editor.shows_message("no change at the cursor")
    rig.editor.keys("2]c")
    rig.is_at(7)
    rig.editor.keys("[c")
    rig.is_at(3)
    rig.editor.keys("[c")
    rig.editor.shows_message("[c: no marked change above the cursor")
    rig.editor.keys("9]c")
    rig.is_at(11)
    # In diff mode these keys are Neovim's own.
    rig.editor.lua("vim.cmd('leftabove vsplit') vim.cmd('enew') vim.cmd('diffthis') vim.cmd('wincmd p')")
    rig.editor.lua("vim.cmd('diffthis') vim.api.nvim_win_set_cursor(0, { 12, 0 })")
    rig.editor.keys("[c")
    rig.is_at(1)
    rig.editor.lua("vim.cmd('diffoff!')")
    await rig.decide("keep", *(hunk["id"] for file in (await rig.review())["files"] for hunk in file["hunks"]))
    rig.shows_signs()
    rig.editor.wait("return vim.fn.maparg(']c', 'n') == ''")


async def test_a_users_own_mapping_is_kept(newest: ReviewRig) -> None:
    rig = newest
    rig.editor.lua("vim.keymap.set('n', ']c', 'G', { buffer = true })")
    await rig.run(change_poem)
    rig.asks()
    rig.shows_signs("~LINE 3", "-line 8", "+line 11b")
    assert rig.editor.lua("return vim.fn.maparg(']c', 'n')") == "G"
    assert rig.editor.lua("return vim.fn.maparg('[c', 'n', false, true).desc") == "Previous change made by a run"


def change_all_kinds(directory: Path) -> None:
    (directory / "old.txt").unlink()
    (directory / "new.txt").write_text("new\n")
    (directory / "image.bin").write_bytes(b"\0\1\2")
    (directory / "windows.txt").write_bytes(b"\xef\xbb\xbfEINS\r\nzwei\r\n")
    (directory / "end.txt").write_bytes(b"a\nb")
    (directory / "poem.txt").rename(directory / "song.txt")
    (directory / "link").symlink_to("end.txt")


@pytest.mark.thorough
async def test_every_kind_of_file_is_shown_and_undone(rig: ReviewRig) -> None:
    (rig.directory / "windows.txt").write_bytes(b"\xef\xbb\xbfeins\r\nzwei\r\n")
    (rig.directory / "end.txt").write_bytes(b"a\nb\n")
    before = contents(rig.directory)
    await rig.run(change_all_kinds)
    rig.asks()
    rig.shows_list(
        "end.txt:2: +1 −1  b",
        "image.bin:1: This is a new file. Its content is not shown: it is not UTF-8 text, or it is too large to compare.",
        "link:1: This is a new symbolic link. Its content is not shown.",
        "new.txt:1: +1 −0  This is a new file.",
        "old.txt:1: +0 −1  This file was deleted.",
        "song.txt:1: The file was renamed from poem.txt.",
        "windows.txt:1: +1 −1  EINS",
    )
    rig.open("end.txt")
    rig.shows_signs("~b No newline at end")
    rig.open("new.txt")
    rig.shows_signs("+new This is a new f")
    rig.open("windows.txt")
    rig.shows_signs("~EINS")
    assert rig.editor.lua(REMOVED) == ["1: eins"]
    rig.editor.command("DrawbridgeUndo")
    rig.shows_lines("eins", "zwei")
    rig.open("image.bin")
    rig.editor.command("DrawbridgeUndoFile")
    rig.editor.shows_message("Undone: 1 change in image.bin")
    rig.open("old.txt")
    rig.editor.wait("return #vim.api.nvim_buf_get_lines(0, 0, -1, false) == 1")
    rig.editor.command("DrawbridgeUndo")
    rig.shows_lines("old")
    line = rig.editor.wait(LINE_OF, "link")
    rig.editor.lua("vim.cmd('copen') vim.api.nvim_win_set_cursor(0, { ..., 0 })", line)
    rig.editor.command("DrawbridgeUndo")
    rig.editor.shows_message("Undone: 1 change in link")
    for name in ("new.txt", "song.txt", "end.txt"):
        line = rig.editor.wait(LINE_OF, name)
        rig.editor.lua("vim.cmd('copen') vim.api.nvim_win_set_cursor(0, { ..., 0 })", line)
        rig.editor.command("DrawbridgeUndoFile")
        rig.editor.shows_message(f"Undone: 1 change in {name}")
    rig.shows_list()
    assert contents(rig.directory) == before


LINE_OF = """
for line, item in ipairs(vim.fn.getqflist()) do
  if item.module == ... then
    return line
  end
end
"""


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.is_file()}


HOSTILE = "%|silent !touch pwned|'\"`touch pwned`\x1b]0;x\x07[*] <CR>.txt"


async def test_hostile_names_and_texts_run_nothing(rig: ReviewRig) -> None:
    def work(directory: Path) -> None:
        (directory / HOSTILE).write_text("a\x1b[31m|!touch pwned\n\u202eb\n")

    await rig.run(work)
    rig.asks()
    [shown] = rig.editor.wait(f"local list = (function() {LIST} end)() return #list == 1 and list")
    assert not set("\x1b\x07\u202e").intersection(shown), shown
    rig.editor.lua("vim.cmd('wincmd b')")
    rig.editor.keys("<CR>")
    rig.editor.wait("return vim.fn.expand('%:t') == ...", HOSTILE)
    rig.editor.wait(f"return #(function() {WORDS} end)() > 0")
    rig.editor.keys("]c")
    rig.editor.command("DrawbridgeUndo")
    rig.editor.shows_message("Undone: 1 change in %|silent")
    rig.shows_list()
    assert sorted(path.name for path in rig.directory.iterdir()) == [".git", "old.txt", "poem.txt"]
    assert not any("\x1b" in line for line in rig.editor.log)
