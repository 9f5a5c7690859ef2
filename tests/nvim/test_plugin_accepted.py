"""The changes of accepted proposals are shown, kept and undone in a real Neovim without a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from drawbridge.ide.claude import TOKEN_HEADER
from tests import programs
from tests.waiting import PATIENCE

from .plugin_rig import Neovim, neovim, wait_until
from .test_plugin_changes import BRIDGE, CHANGED, LIST, POEM, REMOVED, SIGNS, logs


class Claude:
    """A fake Claude Code that writes what is accepted."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._number = 0

    async def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        await self._send(id=self._number, method=method, params=params)
        while (message := json.loads(await self._client.recv())).get("id") != self._number:
            pass
        return message["result"]

    async def connect(self) -> None:
        await self.ask("initialize", protocolVersion="2025-11-25")
        await self._send(method="notifications/initialized")

    async def edit(self, editor: Neovim, path: Path, text: str) -> None:
        """Proposes a change, accepts it in Neovim, writes it, and waits until Neovim shows the new text."""
        self._number += 1
        arguments = {"old_file_path": str(path), "new_file_path": str(path), "new_file_contents": text}
        call = {"name": "openDiff", "arguments": {**arguments, "tab_name": path.name}}
        await self._send(id=self._number, method="tools/call", params=call)
        editor.wait("local one = require('drawbridge.review').pending()[1] return one and one.shown")
        editor.command("DrawbridgeAccept!")
        while (message := json.loads(await self._client.recv())).get("id") != self._number:
            pass
        assert message["result"]["content"][0]["text"] == "FILE_SAVED"
        path.write_text(text)

    async def _send(self, **message: Any) -> None:
        await self._client.send(json.dumps({"jsonrpc": "2.0", **message}))


@asynccontextmanager
async def claude(editor: Neovim) -> AsyncIterator[Claude]:
    assert editor.setup(BRIDGE)
    bridge = editor.wait(
        "local one = require('drawbridge.link').state() return one and one.token and { one.port, one.token }"
    )
    headers = {TOKEN_HEADER: bridge[1]}
    async with connect(
        f"ws://127.0.0.1:{bridge[0]}/", additional_headers=headers, compression=None, proxy=None
    ) as client:
        agent = Claude(client)
        await agent.connect()
        yield agent


def becomes(editor: Neovim, code: str, *expected: str) -> None:
    try:
        wait_until(lambda: list(editor.lua(code) or []) == list(expected), code, PATIENCE)
    except TimeoutError:
        assert (editor.lua(code), editor.messages, editor.log) == (list(expected), [], [])


LINES = "return vim.api.nvim_buf_get_lines(0, 0, -1, false)"


@pytest.mark.parametrize("program", programs.each_nvim())
async def test_accepted_changes_are_kept_and_undone(program: Path, tmp_path: Path) -> None:
    poem = tmp_path / "poem.txt"
    poem.write_text(POEM)
    with neovim(program, poem, cwd=tmp_path) as editor:
        async with claude(editor) as agent:
            await agent.edit(editor, poem, CHANGED)
            becomes(editor, LINES, *CHANGED.splitlines())
            editor.command("DrawbridgeChanges")
            listed = ("poem.txt:3: +1 −1  LINE 3", "poem.txt:7: +0 −1  line 7", "poem.txt:11: +1 −0  line 11b")
            becomes(editor, LIST, *listed)
            logs(editor, "1 file +2 −2 to review, from proposals accepted here.")
            becomes(editor, SIGNS, "~LINE 3", "-line 8", "+line 11b")
            assert editor.lua(REMOVED) == ["3: line 3", "7: line 7"]
            editor.call("nvim_win_set_cursor", 0, [3, 0])
            editor.command("DrawbridgeKeep")
            becomes(editor, SIGNS, "-line 8", "+line 11b")
            editor.keys("]c")
            editor.wait("return vim.api.nvim_win_get_cursor(0)[1] == 7")
            editor.command("DrawbridgeComment Why?")
            logs(editor, "Can't comment: no server is running. Run: drawbridge serve")
            editor.command("DrawbridgeUndo")
            expected = CHANGED.replace("line 6\n", "line 6\nline 7\n")
            becomes(editor, LINES, *expected.splitlines())
            assert poem.read_text() == expected
            editor.command("DrawbridgeUndoFile")
            becomes(editor, SIGNS)
            becomes(editor, LIST)
            assert poem.read_text() == POEM.replace("line 3\n", "LINE 3\n")
