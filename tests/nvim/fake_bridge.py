"""A fake ``drawbridge ide --nvim stdio``, for tests of the plugin alone.

It reports that it is ready, attaches to Neovim like the real bridge, and exits when its stdin closes. An additional
first argument makes it misbehave: ``dies`` (soon after it is ready), ``crashes`` (before it is ready), ``refuses``
(exit code 2), ``silent`` (is never ready), ``deaf`` (keeps running after its stdin closes, until SIGTERM).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from drawbridge.protocols.msgpack_rpc import Connection, Response

CALL = "return require('drawbridge.link').handle(...)"


def main(arguments: list[str]) -> int:
    if "--version" in arguments:
        sys.stdout.write("drawbridge 0.0.0 (a fake)\n")
        return 0
    if arguments[:1] == ["info"]:
        sys.stdout.write(json.dumps(info(), indent=2))
        return 0
    manner = arguments.pop(0) if arguments[0] != "ide" else ""
    keep_record(arguments)
    if manner == "crashes":
        write("Traceback (most recent call last):\n  somewhere\nRuntimeError: the drawbridge is stuck")
        return 1
    if manner == "refuses":
        write("drawbridge ide: --port must be between 1 and 65535.")
        return 2
    if manner == "silent":
        sys.stdin.buffer.read()
        return 0
    return serve(arguments, manner)


def info() -> dict[str, Any]:
    """The output of `drawbridge info --json`. A test may override its keys in ``info.json``."""
    agents = {"claude": "Claude Code", "gemini": "Gemini CLI"}
    guards = [
        {"agent": agent, "title": title, "state": "works", "file": f"/{agent}", "problem": ""}
        for agent, title in agents.items()
    ]
    written = Path(os.environ["TMPDIR"]) / "info.json"
    other = json.loads(written.read_text()) if written.exists() else {}
    return {"guard": guards, "editors": [{"pid": os.getppid()}], "problems": []} | other


def serve(arguments: list[str], manner: str) -> int:
    port = int(arguments[arguments.index("--port") + 1]) if "--port" in arguments else 41_000 + os.getpid() % 1000
    lock = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "ide" / f"{port}.lock"
    discovery = Path(os.environ["TMPDIR"]) / "gemini" / "ide" / f"gemini-ide-server-{os.getppid()}-{port}.json"
    for file in (lock, discovery):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.parent.chmod(0o700)
        file.touch(0o600)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    files = {"lock_file": str(lock), "discovery_file": str(discovery)}
    write(json.dumps({"event": "ready", "port": port, "pid": os.getpid(), **files}))
    try:
        wire = Connection()
        channel = call(wire, "nvim_get_api_info")[0]
        call(wire, "nvim_exec_lua", CALL, ["attach", {"channel": channel}])
        token = os.environ.get("DRAWBRIDGE_TOKEN", f"token-of-{os.getpid()}")
        call(wire, "nvim_exec_lua", CALL, ["announce", {"port": port, "token": token, "agents": []}])
        if manner == "dies":
            write("2026-01-02 03:04:05,678 ERROR drawbridge.bridge: the chains broke")
            return 1
        sys.stdin.buffer.read()
        while manner == "deaf":
            time.sleep(1)
        return 0
    finally:
        for file in (lock, discovery):
            file.unlink(missing_ok=True)


def call(wire: Connection, method: str, *params: Any) -> Any:
    id, data = wire.request(method, params)
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    while received := os.read(0, 65_536):
        for event in wire.receive(received):
            if isinstance(event, Response) and event.id == id:
                assert event.error is None, event.error
                return event.result
    sys.exit(0)


def keep_record(arguments: list[str]) -> None:
    """Appends a line about this start to the file that the test reads."""
    ours = {name: value for name, value in os.environ.items() if name.startswith("DRAWBRIDGE_")}
    start = {"argv": arguments, "environment": ours, "pid": os.getpid(), "cwd": os.getcwd()}
    with (Path(os.environ["TMPDIR"]) / "bridges.jsonl").open("a") as record:
        record.write(json.dumps(start) + "\n")


def write(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
