"""A client sends a prompt to a real ``claude`` that runs in a terminal of a real Neovim."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.rigs.messages_stub import edit, read, text, tool_use
from tests.rigs.neovim_rig import Neovim
from tests.server.processes import Server, serving
from tests.server.reviews.rig import POEM

from .rig import Message, Phone, ServedWorkstation

HELD_LETTERS = "Half a line"

TERMINAL = """
for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
  if vim.bo[buffer].buftype == 'terminal' then
    return buffer
  end
end
"""

SCREEN = """
for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
  if vim.bo[buffer].buftype == 'terminal' then
    return table.concat(vim.api.nvim_buf_get_lines(buffer, -100, -1, false), '\\n')
  end
end
"""

BRIDGE_ASKS = """
local pid
for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
  pid = vim.bo[buffer].buftype == 'terminal' and vim.fn.jobpid(vim.bo[buffer].channel) or pid
end
return require('drawbridge.link').handle(..., { pid = pid, text = '1', before = os.time() + 5 })
"""

pytestmark = pytest.mark.thorough


@pytest.fixture
async def server(home: Path, rig: ServedWorkstation) -> AsyncIterator[Server]:
    async with serving(home / "data", "--no-tls", "--allow", rig.project) as server:
        yield server


@asynccontextmanager
async def claude_in_neovim(rig: ServedWorkstation, server: Server) -> AsyncIterator[tuple[Neovim, Phone, Path]]:
    """Starts ``claude`` in a terminal of Neovim. Yields Neovim, the phone, and the file in the other window, in which
    the user is typing a line.
    """
    rig.set_up()
    poem = rig.file("poem.txt", "one\ntwo\n")
    neovim = rig.neovim(poem, options=f"{{ terminal = {{ command = '{programs.claude()}', size = 60 }} }}")
    async with server.client() as client:
        phone = Phone(client)
        await client.ask("hello", {"client": "phone"})
        await phone.follow()
        neovim.command("DrawbridgeClaude")
        await phone.session()
        neovim.pane.wait_for("❯")
        neovim.wait_for(f"return ({function(SCREEN)}):find('⧉', 1, true) ~= nil", what="was not connected")
        neovim.pane.press("C-\\", "C-n", "C-w", "p")
        neovim.pane.type("A")
        neovim.pane.type(f" {HELD_LETTERS}")
        neovim.wait_for(f"return vim.api.nvim_get_current_line() == 'one {HELD_LETTERS}'", what="took no letters")
        yield neovim, phone, poem


def function(chunk: str) -> str:
    return f"(function() {chunk} end)()"


def person(neovim: Neovim) -> Any:
    """The mode, the current window, the cursor and the window layout in the user's Neovim."""
    mode = "vim.api.nvim_get_mode().mode"
    return neovim.lua(
        f"return {{ {mode}, vim.api.nvim_get_current_win(), vim.api.nvim_win_get_cursor(0), vim.fn.winlayout() }}"
    )


async def prompts(phone: Phone) -> list[tuple[str, str]]:
    """The prompts in the history, each with its sender."""
    answer = await phone.client.ask("get_messages", {"after_seq": 0}, phone.project)
    messages = [one["message"] for one in answer["data"]["messages"] if one["direction"] == "client"]
    return [(one["message"]["prompt"], one["by"]) for one in messages]


async def execute(phone: Phone, prompt: str, **more: Any) -> Message:
    return await phone.client.ask("execute", {"prompt": prompt, **more}, phone.project)


async def test_a_client_sends_a_prompt_while_the_user_types(rig: ServedWorkstation, server: Server) -> None:
    async with claude_in_neovim(rig, server) as (neovim, phone, _):
        before = person(neovim)
        rig.model.will_say(text("It rhymes."))
        accepted = await execute(phone, "Does it\nrhyme? See \x1b[201~ poem.txt \x1b[31m🎉")
        assert accepted["type"] == "accepted", accepted
        finished = await phone.client.receive("update", "run_finished")
        assert finished["data"]["data"]["run_id"] == accepted["data"]["run_id"]
        assert "Does it\nrhyme? See [201~ poem.txt [31m🎉" in rig.model.requests[-1].new_text
        assert len(rig.model.requests) == 1
        neovim.pane.wait_for("It rhymes")
        assert person(neovim) == before
        assert (await prompts(phone)) == [("Does it\nrhyme? See [201~ poem.txt [31m🎉", "phone")]


@pytest.mark.slow
async def test_comments_reach_the_agent_and_its_next_run_answers(rig: ServedWorkstation, server: Server) -> None:
    async with claude_in_neovim(rig, server) as (neovim, phone, _):
        song = rig.file("song.txt", POEM)
        rig.model.checks = True
        rig.model.will_say(read(song), edit(song, "line 3\n", "LINE 3\n"), text("Louder now."))
        assert (await execute(phone, "Make it louder"))["type"] == "accepted"
        await phone.answer(await phone.question("Edit"), "allow")
        await phone.client.receive("update", "run_finished")
        await phone.client.receive("update", "review_changed")
        comment = {"path": "song.txt", "line": 3, "quote": "LINE 3\n", "text": "Why in capitals?"}
        written = await phone.client.ask("review_comment", comment, phone.project)
        id = written["data"]["data"]["comment_id"]
        at_rest(neovim)
        rig.model.will_say(edit(song, "LINE 3\n", "Line three\n"), text("Quieter now."))
        drafts = (await phone.client.ask("review_get", project_id=phone.project))["data"]["drafts"]
        sent = await phone.client.ask("review_submit", {"drafts": drafts}, phone.project)
        assert sent["type"] == "accepted", sent
        await phone.answer(await phone.question("Edit"), "allow")
        finished = await phone.client.receive("update", "run_finished")
        assert finished["data"]["data"]["run_id"] == sent["data"]["run_id"]
        expected = "### 1. `song.txt`, line 3\n```\nLINE 3\n```\n\nWhy in capitals?"
        assert any(expected in request.new_text for request in rig.model.requests)
        assert [by for prompt, by in await prompts(phone) if expected in prompt] == ["phone"]
        await phone.client.receive("update", "review_changed")
        review = (await phone.client.ask("review_get", project_id=phone.project))["data"]
        [hunk] = [hunk for file in review["files"] for hunk in file["hunks"]]
        assert (hunk["added"], hunk["answers"]) == ("Line three\n", [id])


def to_terminal(neovim: Neovim, keys: str) -> None:
    """Sends keys to the terminal, as if the user had pressed them."""
    neovim.lua(f"local terminal = {function(TERMINAL)} vim.api.nvim_chan_send(vim.bo[terminal].channel, ...)", keys)


def wait_for_box(neovim: Neovim, words: str) -> None:
    neovim.wait_for(f"return ({function(SCREEN)}):find('❯[^\\n]*{words}') ~= nil", what=f"did not show {words!r}")


def at_rest(neovim: Neovim) -> None:
    """Waits until the CLI accepts prompts. It accepts none while its Stop hook runs, even if the hook has already
    reported the end of the run.
    """
    neovim.wait_for(f"return ({function(SCREEN)}):find('esc to interrupt', 1, true) == nil", what="is still at work")


@pytest.mark.slow
async def test_a_restarted_bridge_accepts_prompts(rig: ServedWorkstation, server: Server) -> None:
    async with claude_in_neovim(rig, server) as (neovim, phone, _):
        neovim.command("DrawbridgeRestart")
        for taken in (False, True):
            while (await phone.state("finished"))["desk"].get("prompts", False) is not taken:
                pass
        rig.model.will_say(text("It rhymes."))
        assert (await execute(phone, "Does it rhyme?"))["type"] == "accepted"
        neovim.pane.wait_for("It rhymes")


async def test_the_users_work_in_the_terminal_takes_precedence(rig: ServedWorkstation, server: Server) -> None:
    async with claude_in_neovim(rig, server) as (neovim, phone, _):
        for keys, box in [("half typed", "half typed"), ("\x1b[D" * 5, "half typed")]:
            to_terminal(neovim, keys)
            wait_for_box(neovim, box)
            refused = await execute(phone, "Do it")
            assert (refused["data"]["code"], refused["data"]["retryable"]) == ("PROCESS_ACTIVE", True)
            wait_for_box(neovim, "half typed *\\n")
        rig.model.will_say(tool_use("Bash", command="touch made", description="Make a file"), text("Done."))
        to_terminal(neovim, "\r")
        question = await phone.question("Bash")
        neovim.wait_for(f"return ({function(SCREEN)}):find('Do you want') ~= nil", what="was not asked")
        refused = await execute(phone, "1")
        assert refused["data"]["code"] == "PROCESS_ACTIVE"
        for method in ("paste", "submit"):  # the editor refuses even if the server does not know of the request
            answer = neovim.lua(BRIDGE_ASKS, method)
            assert answer["value"] is False if answer["ok"] else answer["code"] == "REFUSED"
        assert not (rig.project / "made").exists()
        await phone.answer(question, "deny", message="no")
        await phone.state("finished")
        many = "\n".join(f"line {number}" for number in range(500))
        rig.model.will_say(text("Many."))
        at_rest(neovim)
        assert (await execute(phone, many))["type"] == "accepted"
        await phone.client.receive("update", "run_finished")
        assert many in rig.model.requests[-1].new_text
        assert await prompts(phone) == [("half typed", "desk"), (many, "phone")]
