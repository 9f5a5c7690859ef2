"""A real Neovim with the plugin and its bridge, and an agent that implements Claude Code's side of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from drawbridge.editors.neovim import rpc as neovim_rpc
from drawbridge.editors.neovim.reviews import CHUNK_LINES

ROOT = Path(__file__).resolve().parent.parent


async def start_bridge(home: Path, *arguments: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "claude"), "TMPDIR": str(home)}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "drawbridge", "ide", *arguments, env=environment, stdout=asyncio.subprocess.PIPE
    )


async def ready_line(stdout: asyncio.StreamReader | None) -> dict[str, Any]:
    assert stdout is not None
    ready: dict[str, Any] = json.loads(await asyncio.wait_for(stdout.readline(), 10))
    return ready


class Agent:
    """Claude Code's side: the handshake, calls, and the notifications that it receives."""

    def __init__(self, port: int, token: str) -> None:
        self._address = f"ws://127.0.0.1:{port}"
        self._headers = {"X-Claude-Code-Ide-Authorization": token}
        self._next = 0
        self._heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def __aenter__(self) -> Agent:
        self._socket: ClientConnection = await connect(
            self._address,
            additional_headers=self._headers,
            subprotocols=[Subprotocol("mcp")],
            max_size=None,
            compression=None,
        )
        self._reading = asyncio.create_task(self._read())
        await self.answer(self._send("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}))
        for method, params in (("notifications/initialized", {}), ("ide_connected", {"pid": os.getpid()})):
            await self._socket.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._socket.close()
        await self._reading

    async def _read(self) -> None:
        async for frame in self._socket:
            message = json.loads(frame)
            if "id" in message:
                self._answers[message["id"]].set_result(message)
            else:
                self._heard.put_nowait(message)

    def _send(self, method: str, params: dict[str, Any]) -> int:
        self._next += 1
        self._answers[self._next] = asyncio.get_running_loop().create_future()
        frame = json.dumps({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        self._sending = asyncio.create_task(self._socket.send(frame))
        return self._next

    def open_diff(self, path: Path, text: str) -> int:
        arguments = {
            "old_file_path": str(path),
            "new_file_path": str(path),
            "new_file_contents": text,
            "tab_name": "bench",
        }
        return self._send("tools/call", {"name": "openDiff", "arguments": arguments})

    async def answer(self, call: int) -> dict[str, Any]:
        return await asyncio.wait_for(self._answers[call], 60)

    async def notification(self, method: str, *, line: int) -> None:
        """Waits for a notification of this ``method`` whose selection starts on ``line``, counted from 0."""
        async with asyncio.timeout(5):
            while True:
                message = await self._heard.get()
                if message["method"] == method and message["params"]["selection"]["start"]["line"] == line:
                    return

    async def settle(self) -> None:
        """Discards notifications until none has been received for 0.3 s."""
        while True:
            try:
                await asyncio.wait_for(self._heard.get(), 0.3)
            except TimeoutError:
                return


class BridgedNeovim:
    """A headless Neovim whose plugin has started the bridge. Two more connections drive it and watch it."""

    debounce_ms = 50

    def __init__(self, binary: Path, directory: Path) -> None:
        self._binary = binary
        self.directory = directory

    async def __aenter__(self) -> BridgedNeovim:
        socket = self.directory / "nvim.sock"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("NVIM")}
        environment |= {"HOME": str(self.directory), "CLAUDE_CONFIG_DIR": str(self.directory / "claude")}
        environment |= {"XDG_STATE_HOME": str(self.directory), "XDG_DATA_HOME": str(self.directory)}
        environment |= {"TMPDIR": str(self.directory)}
        setup = f"require('drawbridge').setup{{ idle_ms = 0, command = {{'{sys.executable}', '-m', 'drawbridge'}} }}"
        self._nvim = await asyncio.create_subprocess_exec(
            self._binary, "--clean", "-n", "--headless", "--listen", str(socket),
            "--cmd", f"set rtp^={ROOT}", "-c", f"lua {setup}",
            cwd=self.directory, env=environment, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 10
        while not socket.exists() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self._rpc = await neovim_rpc.connect(str(socket))
        self._watch = await neovim_rpc.connect(str(socket))
        while not (state := await self._lua("return require('drawbridge.link').state()")) or not state.get("port"):
            assert time.monotonic() < deadline, "the plugin's bridge did not come up"
            await asyncio.sleep(0.02)
        self.port, self.token = state["port"], state["token"]
        [self.bridge] = psutil.Process(self._nvim.pid).children()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rpc.close()
        self._watch.close()
        self._nvim.terminate()
        await self._nvim.wait()

    async def open_and_fill(self, path: Path, lines: list[str]) -> float:
        """How many seconds it takes to ``:edit`` the file and to put the lines into a new buffer, in portions as large
        as the bridge's."""
        began = time.perf_counter()
        await self._rpc.call("nvim_command", f"edit! {path}")
        buffer = await self._rpc.call("nvim_create_buf", False, True)
        for at in range(0, len(lines), CHUNK_LINES):
            portion = [line.removesuffix("\n") for line in lines[at : at + CHUNK_LINES]]
            await self._rpc.call("nvim_buf_set_lines", buffer, at, -1, False, portion)
        took = time.perf_counter() - began
        await self._rpc.call("nvim_buf_delete", buffer, {"force": True})
        await self._rpc.call("nvim_command", "enew")
        return took

    async def _lua(self, code: str, *arguments: object) -> Any:
        return await self._rpc.call("nvim_exec_lua", code, list(arguments))

    async def edit(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)
        await self._rpc.call("nvim_command", f"edit {name}")

    async def keys(self, keys: str) -> None:
        await self._rpc.call("nvim_input", keys)

    async def longest_round_trip(self) -> float:
        """Measures until it is canceled, and then returns the longest round trip to Neovim, in milliseconds."""
        longest = 0.0
        try:
            while True:
                began = time.perf_counter()
                await self._watch.call("nvim_eval", "1")
                longest = max(longest, (time.perf_counter() - began) * 1000)
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            return longest

    async def shown(self) -> None:
        await self._wait("return (require('drawbridge.review').pending()[1] or {}).shown == true")

    async def reject(self) -> None:
        await self._lua("require('drawbridge.review').reject()")

    async def _wait(self, code: str) -> None:
        async with asyncio.timeout(60):
            while not await self._lua(code):
                await asyncio.sleep(0.001)
