"""Records the messages between the ``claude`` CLI and a bridge, as a proxy between them.

    python tools/record_ide.py LOCK_FILE OUT.jsonl [--what WORDS] [--replace REAL=SHOWN ...]

The proxy announces itself with its own lock file next to the bridge's, prints ``{"port": N}``, and passes on every
frame, in both directions, until it receives SIGTERM or SIGINT. Start the CLI with ``CLAUDE_CODE_SSE_PORT=N``.

The transcript is JSON lines. The first one describes it: ``{"cli", "recorded", "what"}``. The others are ``{"from":
"claude" | "bridge", "at": seconds since the first connection, ...}`` with one of ``handshake`` (path and headers),
``frame`` (the JSON message) and ``closed`` (the WebSocket's close code). They contain no secret and nothing about the
machine. The token and the handshake's key are left out, process ids become 4242, the random part of a tab name becomes
a number, and each REAL (a path) is written as SHOWN.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

LARGEST_FRAME = 64 * 1024 * 1024
"""The maximum size of a message, in bytes. The bridge has the same limit."""

TOKEN_HEADER = "X-Claude-Code-Ide-Authorization"  # the name of a header, not a secret
SHOWN_HEADERS = ("Host", "User-Agent", "Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions", "Sec-WebSocket-Version")
TAB_NUMBER = re.compile(r"\(([0-9a-f]{6})\) ⧉")


class Transcript:
    """A file of recorded lines that contains nothing about the machine."""

    def __init__(self, file: TextIO, what: str, replacements: list[tuple[str, str]]) -> None:
        self._file = file
        self._what = what
        self._replacements = replacements
        self._tabs: dict[str, str] = {}
        self._started: float | None = None

    def begin(self, user_agent: str) -> None:
        """Writes the first line, once. The CLI's version is not known before the CLI connects."""
        if self._started is None:
            self._started = time.monotonic()
            version = user_agent.removeprefix("claude-code/").partition(" ")[0]
            today = datetime.now(UTC).date().isoformat()
            self._write({"cli": version, "recorded": today, "what": self._what})

    def add(self, sender: str, **said: object) -> None:
        assert self._started is not None, "nothing is recorded before the first connection"
        self._write({"from": sender, "at": round(time.monotonic() - self._started, 3), **said})

    def _write(self, line: dict[str, Any]) -> None:
        text = TAB_NUMBER.sub(self._numbered, json.dumps(line, ensure_ascii=False))
        for real, shown in self._replacements:
            text = text.replace(real, shown)
        self._file.write(re.sub(r'"pid": \d+', '"pid": 4242', text) + "\n")
        self._file.flush()

    def _numbered(self, match: re.Match[str]) -> str:
        shown = self._tabs.setdefault(match[1], f"{len(self._tabs) + 1:06d}")
        return f"({shown}) ⧉"


class Listener:
    """Passes messages between the CLI and a bridge. ``lock``: the content of the bridge's lock file."""

    def __init__(self, bridge_port: int, lock: dict[str, Any], transcript: Transcript) -> None:
        self._bridge = f"ws://127.0.0.1:{bridge_port}/"
        self._token = lock["authToken"]
        self._transcript = transcript

    async def serve_cli(self, cli: ServerConnection) -> None:
        assert cli.request is not None
        headers = cli.request.headers
        if headers.get(TOKEN_HEADER) != self._token:
            await cli.close(1008, "Unauthorized")
            return
        self._transcript.begin(headers.get("User-Agent", ""))
        shown = {name: headers[name] for name in SHOWN_HEADERS if name in headers}
        self._transcript.add("claude", handshake={"path": cli.request.path, "headers": shown})
        async with connect(
            self._bridge,
            additional_headers={TOKEN_HEADER: self._token},
            subprotocols=["mcp"],  # type: ignore[list-item] # a NewType of str
            compression=None,
            max_size=LARGEST_FRAME,
            proxy=None,
        ) as bridge:
            ways = [self._pass_on("claude", cli, bridge), self._pass_on("bridge", bridge, cli)]
            await asyncio.gather(*ways)

    async def _pass_on(
        self, sender: str, source: ServerConnection | ClientConnection, target: ServerConnection | ClientConnection
    ) -> None:
        """Passes on messages until ``source`` is closed, then closes ``target`` too."""
        with suppress(ConnectionClosed):
            async for message in source:
                self._transcript.add(sender, frame=json.loads(message))
                await target.send(message)
        if target.close_code is None:
            self._transcript.add(sender, closed=source.close_code)
        await target.close()


async def record(arguments: argparse.Namespace) -> None:
    lock = json.loads(arguments.lock_file.read_text())
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    with arguments.out.open("w", encoding="utf-8") as file:
        listener = Listener(int(arguments.lock_file.stem), lock, Transcript(file, arguments.what, arguments.replace))
        options: dict[str, Any] = {"subprotocols": ["mcp"], "compression": None, "max_size": LARGEST_FRAME}
        async with serve(listener.serve_cli, "127.0.0.1", 0, **options) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            own_lock = arguments.lock_file.with_name(f"{port}.lock")
            own_lock.touch(mode=0o600)
            own_lock.write_text(json.dumps(lock))
            try:
                print(json.dumps({"port": port}), flush=True)  # the caller reads this line
                await ended.wait()
            finally:
                own_lock.unlink()


def replacement(words: str) -> tuple[str, str]:
    real, separator, shown = words.partition("=")
    if not (real and separator):
        raise argparse.ArgumentTypeError(f"{words!r} is not of the form REAL=SHOWN")
    return real, shown


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the messages between the claude CLI and a bridge.")
    parser.add_argument("lock_file", type=Path, help="the bridge's lock file: .../ide/<port>.lock")
    parser.add_argument("out", type=Path, help="the transcript to write (JSON lines)")
    parser.add_argument("--what", default="", help="one sentence about the session")
    parser.add_argument("--replace", type=replacement, action="append", default=[], metavar="REAL=SHOWN")
    asyncio.run(record(parser.parse_args()))


if __name__ == "__main__":
    main()
