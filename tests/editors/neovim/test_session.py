"""The connection to a real Neovim: how it begins, how it ends, and what happens while Neovim is busy."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgpack
import pytest

from drawbridge.core.errors import EditorGone, EditorHung, Refused
from drawbridge.editors.neovim import rpc as neovim_rpc
from drawbridge.editors.neovim.neovim import Neovim
from drawbridge.editors.port import BridgeState, EditorEvent, FoldersChanged, Gone, SelectionChanged
from tests.nvim.rig import Workstation, headless, proposal, settled
from tests.programs import each_nvim, nvim

ROOT = Path(__file__).parents[3]


def busy(end: Path) -> str:
    """Keys after which Neovim does not answer until the file ``end`` exists."""
    return f":lua while not vim.loop.fs_stat('{end}') do vim.loop.sleep(5) end<CR>"


@pytest.mark.parametrize("address", ["{folder}/nobody.sock", "127.0.0.1:1", "{folder}", "x" * 300, "nul\0here", ""])
async def test_a_failed_connection_is_reported_in_one_line(tmp_path: Path, address: str) -> None:
    with pytest.raises(EditorGone) as caught:
        await Neovim.connect(address.format(folder=tmp_path))
    assert str(caught.value).startswith("Can't connect to Neovim at ")
    assert "\n" not in str(caught.value)


async def test_an_address_may_be_a_host_and_a_port() -> None:
    async with headless(nvim()) as person:
        address = await person.lua("return vim.fn.serverstart('127.0.0.1:0')")
        editor = await Neovim.connect(address)
        await editor.start(lambda event: None)
        assert editor.pid == await person.lua("return vim.fn.getpid()")
        await editor.close()


async def test_a_neovim_without_the_plugin_gets_the_bundled_one(rig: Workstation) -> None:
    assert await rig.person.lua("return require('drawbridge.link').attached()") is True
    assert str(ROOT) in await rig.person.lua("return vim.o.runtimepath")
    assert await rig.person.lua("return vim.fn.exists(':DrawbridgeAccept')") == 2
    assert rig.editor.pid == await rig.person.lua("return vim.fn.getpid()")
    assert rig.editor.name == "Neovim"


async def test_project_files_named_like_the_plugin_are_never_run(tmp_path: Path) -> None:
    (tmp_path / "drawbridge").mkdir()
    for name in ("drawbridge.lua", "drawbridge/link.lua", "drawbridge/init.lua"):
        (tmp_path / name).write_text("vim.g.foreign = 1")  # the current directory is on Lua's path
    async with headless(nvim(), cwd=tmp_path) as person:
        editor = await Neovim.connect(person.address)
        await editor.start(lambda event: None)
        assert await person.lua("return vim.g.foreign") is None
        await editor.close()


async def test_a_plugin_of_another_version_is_refused_and_left_alone() -> None:
    async with headless(nvim()) as person:
        await person.lua("package.loaded['drawbridge.link'] = { REVISION = 99 }")
        editor = await Neovim.connect(person.address)
        with pytest.raises(Refused, match=r"revision 99"):
            await editor.start(lambda event: None)
        await editor.close()


async def test_a_second_bridge_is_refused_while_one_is_connected(rig: Workstation) -> None:
    second = await Neovim.connect(rig.person.address)
    with pytest.raises(Refused, match="Another bridge"):
        await second.start(lambda event: None)
    await second.close()
    assert await rig.editor.folders() == (str(rig.folder),)
    await rig.editor.close()
    third = await Neovim.connect(rig.person.address)
    await third.start(lambda event: None)
    await third.close()


async def test_a_busy_neovim_fails_one_call_and_answers_the_next(
    rig: Workstation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = tmp_path / "end"
    await rig.person.types(busy(end))
    monkeypatch.setattr(neovim_rpc, "CALL_SECONDS", 0.1)
    with pytest.raises(EditorHung, match="did not answer"):
        await rig.editor.folders()
    end.touch()
    monkeypatch.undo()
    await rig.quiet()
    assert await rig.editor.folders() == (str(rig.folder),)


async def test_a_proposal_that_timed_out_does_not_open_later(
    rig: Workstation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = tmp_path / "end"
    path = await rig.opened("a.txt", "one\n")
    before = await rig.picture()
    await rig.person.types(busy(end))
    monkeypatch.setattr(neovim_rpc, "CALL_SECONDS", 0.1)
    with pytest.raises(EditorHung):
        await rig.editor.show(proposal(path, "one\n", "two\n"))
    end.touch()
    monkeypatch.undo()
    await rig.quiet()
    assert await rig.person.lua("return #require('drawbridge.review').pending()") == 0
    assert await rig.picture() == before


@pytest.mark.parametrize("end", [":qa!<CR>", "kill"])
async def test_the_end_of_neovim_is_reported_once_and_ends_calls(rig: Workstation, tmp_path: Path, end: str) -> None:
    may_go_on = tmp_path / "end"
    await rig.person.types(busy(may_go_on))
    pending = asyncio.create_task(rig.editor.folders())
    await asyncio.sleep(0)
    if end == "kill":
        rig.person.kill()
    else:
        may_go_on.touch()
        await rig.person.types(end)
    outcome = (await asyncio.gather(pending, return_exceptions=True))[0]
    # The answer may still arrive before the end is noticed.
    assert isinstance(outcome, EditorGone | tuple)
    await settled(lambda: rig.events.count(Gone()) == 1, "the end")
    with pytest.raises(EditorGone):
        await rig.editor.folders()
    await rig.editor.close()
    assert rig.events[-1] == Gone()
    assert rig.events.count(Gone()) == 1


async def test_the_end_is_reported_before_neovim_has_exited(rig: Workstation) -> None:
    hour = 3_600_000  # ms: Neovim is still running when the test ends, and is then killed
    await rig.person.lua(f"vim.cmd('autocmd VimLeavePre * lua vim.loop.sleep({hour})')")
    await rig.person.types(":qa!<CR>")
    await settled(lambda: Gone() in rig.events, "the end")


async def test_closing_twice_is_allowed_and_not_reported_as_gone(rig: Workstation) -> None:
    await rig.editor.close()
    await rig.editor.close()
    assert Gone() not in rig.events
    with pytest.raises(EditorGone):
        await rig.editor.folders()


async def test_changes_of_the_directory_are_reported(rig: Workstation) -> None:
    other = rig.folder / "other dir"
    other.mkdir()
    await rig.person.lua("vim.cmd('cd ' .. vim.fn.fnameescape(...))", str(other))
    await settled(lambda: FoldersChanged((str(other),)) in rig.events, "the new folder")
    assert await rig.editor.folders() == (str(other),)


async def test_neovim_receives_the_state_of_the_bridge(rig: Workstation) -> None:
    await rig.person.lua(
        """
        Heard, Calls = {}, 0
        require('drawbridge.link').on_state(function() Calls = Calls + 1 end)
        for _, name in ipairs({ 'DrawbridgeConnected', 'DrawbridgeDisconnected' }) do
          vim.api.nvim_create_autocmd('User', { pattern = name, callback = function(args)
            table.insert(Heard, args.match .. ' ' .. vim.g.drawbridge_event.agent)
          end })
        end
        """
    )
    await rig.editor.announce(BridgeState(4711, "token"))
    await rig.editor.announce(BridgeState(4711, "token", ("Claude Code",)))
    await rig.editor.announce(BridgeState(4711, "token", ("Claude Code", "Claude Code"), (812,)))
    assert await rig.person.lua("return require('drawbridge.link').state()") == {
        "port": 4711,
        "token": "token",
        "agents": ["Claude Code", "Claude Code"],
        "pids": [812],
        "unasked": [],
        "modes": [],
    }
    await rig.editor.announce(BridgeState(4711, "token", ("Claude Code",)))
    assert await rig.person.lua("return Heard") == [
        "DrawbridgeConnected Claude Code",
        "DrawbridgeConnected Claude Code",
        "DrawbridgeDisconnected Claude Code",
    ]
    assert await rig.person.lua("return Calls") == 4
    await rig.editor.close()
    await rig.person.until("return require('drawbridge.link').state() == nil")
    assert await rig.person.lua("return #Heard") == 4


async def test_a_notice_does_not_cause_a_hit_enter_prompt(rig: Workstation) -> None:
    await rig.editor.notify("Something happened. " * 20, "warn")
    await rig.editor.notify("two\nlines", "info")
    await rig.person.until("return vim.fn.execute('messages'):find('Something happened')")
    assert (await rig.person.call("nvim_get_mode"))["blocking"] is False


async def test_a_notice_in_wide_characters_fits_in_one_line(rig: Workstation) -> None:
    await rig.editor.notify("日本語 " * 40, "warn")
    await rig.person.until("return vim.fn.execute('messages'):find('日本語')")
    shown = "return vim.fn.strdisplaywidth(vim.fn.execute('messages'):match('[^\\n]*$')) <= vim.v.echospace"
    assert await rig.person.lua(shown)


async def test_invalid_messages_from_neovim_are_ignored(rig: Workstation) -> None:
    await rig.person.lua(
        """
        local link = require('drawbridge.link')
        link.send('selection', { path = 1 })
        link.send('decided', { id = 'unknown', accepted = true })
        link.send('nonsense', { a = 1 })
        """
    )
    assert await rig.editor.folders() == (str(rig.folder),)
    assert [event for event in rig.events if not isinstance(event, SelectionChanged)] == []


async def test_a_request_from_neovim_gets_an_error(rig: Workstation) -> None:
    answer = await rig.person.lua(
        """
        local channel
        for _, info in ipairs(vim.api.nvim_list_chans()) do
          if info.mode == 'rpc' and info.id ~= ... then channel = math.max(channel or 0, info.id) end
        end
        return { pcall(vim.rpcrequest, channel, 'anything') }
        """,
        (await rig.person.call("nvim_get_api_info"))[0],
    )
    assert answer[0] is False
    assert "no function" in answer[1]


@pytest.fixture
async def broken() -> AsyncIterator[tuple[asyncio.Queue[bytes], str]]:
    """A peer that answers with what is put into the queue, and its address."""
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            writer.write(await answers.get())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield answers, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.parametrize("answer", [b"\xc1", b"HTTP/1.1 400 Bad Request\r\n\r\n", msgpack.packb([9, 9])])
async def test_a_peer_that_is_not_neovim_is_disconnected(
    broken: tuple[asyncio.Queue[bytes], str], answer: bytes
) -> None:
    answers, address = broken
    editor = await Neovim.connect(address)
    answers.put_nowait(answer)
    events: list[EditorEvent] = []
    with pytest.raises(EditorGone):
        await editor.start(events.append)
    await editor.close()


BRIDGE = """
import asyncio, sys
from drawbridge.editors.neovim.neovim import Neovim
from drawbridge.editors.port import Gone

async def main():
    editor = await Neovim.stdio()
    ended = asyncio.Event()
    await editor.start(lambda event: ended.set() if event == Gone() else None)
    print("this is no message", flush=True)
    await editor.notify(f"hello from {editor.pid}")
    await ended.wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("program", each_nvim())
async def test_a_bridge_started_by_neovim_ends_with_it(program: Path, tmp_path: Path) -> None:
    """It communicates with Neovim over stdin and stdout."""
    script = tmp_path / "bridge.py"
    script.write_text(BRIDGE)
    async with headless(program) as person:
        job = await person.lua(
            """
            Stderr = ''
            return vim.fn.jobstart({ ... }, { rpc = true, detach = true, on_stderr = function(_, data)
              Stderr = Stderr .. table.concat(data, ' ')
            end })
            """,
            sys.executable,
            str(script),
        )
        child = await person.lua("return vim.fn.jobpid(...)", job)
        await person.until("return vim.fn.execute('messages'):find('hello from ' .. vim.fn.getpid())")
        await person.until("return Stderr:find('this is no message')")
        person.kill()
        await settled(lambda: not Path(f"/proc/{child}").exists(), "the end of the child")
