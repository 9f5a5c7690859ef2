"""Measures the agent server. ``python -m bench.server`` takes about ten minutes and 200 MB, and needs what ``make
programs`` fetches."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
from tests.server import core_rig
from websockets.asyncio.client import ClientConnection, connect

from bench import fanout
from drawbridge.server.protocol.commands import ProjectList
from drawbridge.server.protocol.frames import encode
from drawbridge.server.sessions.metadata import Metadata, save
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.recorded_state import RecordedState
from drawbridge.server.store.log import History

PROJECTS = 100
MESSAGES = 100_000
"""The number of messages in each project."""

LINE = json.dumps({"type": "assistant", "text": "a short line"}).encode()
AT = "2026-01-01T00:00:00.000Z"

WITHOUT_UVLOOP = "import sys; sys.modules['uvloop'] = None; from drawbridge.cli import main; sys.exit(main())"


def row(what: str, value: str, goal: str) -> None:
    print(f"{what:<72} {value:>24}   {goal}", flush=True)


@contextlib.asynccontextmanager
async def serving(data: Path, *arguments: str, fast: bool = True) -> AsyncIterator[tuple[int, str, dict[str, Any]]]:
    """Runs a server. Yields its process ID, its token and its ready line."""
    command = [sys.executable, *(("-m", "drawbridge") if fast else ("-c", WITHOUT_UVLOOP)), "serve"]
    process = await asyncio.create_subprocess_exec(
        *(*command, "--json", "--port", "0", "--data-dir", str(data), "--log-level", "error", *arguments),
        stdout=asyncio.subprocess.PIPE,
    )
    ready = await fanout.line_of(process)
    try:
        yield process.pid, (data / "token").read_text().strip(), ready
    finally:
        process.terminate()
        await process.communicate()


def client(ready: dict[str, Any], token: str, data: Path) -> connect:
    import ssl

    tls = ssl.create_default_context(cafile=data / "tls" / "cert.pem") if ready["fingerprint"] else None
    headers = {"Authorization": f"Bearer {token}"}
    return connect(ready["url"], additional_headers=headers, ssl=tls, proxy=None, max_size=None, compression=None)


async def ask(socket: ClientConnection, type: str, data: dict[str, Any] | None = None, project: str = "") -> Any:
    envelope = {"type": type, "data": data, "request_id": type, "project_id": project or None}
    await socket.send(json.dumps(envelope))
    while True:
        answer = json.loads(await socket.recv())
        if answer.get("request_id") == type:
            return answer


async def idle_memory(directory: Path) -> None:
    count = 500
    kinds = {"uvloop": ("--no-tls",), "asyncio": ("--no-tls",), "uvloop, TLS": (), "asyncio, TLS": ()}
    for number, (kind, flags) in enumerate(kinds.items()):
        data = directory / f"idle{number}"
        async with (
            serving(data, "--max-clients", "1000", *flags, fast=kind.startswith("uvloop")) as (pid, token, ready),
            contextlib.AsyncExitStack() as stack,
        ):
            process = psutil.Process(pid)
            for _ in range(20):
                await ask(await stack.enter_async_context(client(ready, token, data)), "hello")
            before = process.memory_info().rss
            for _ in range(count):
                await ask(await stack.enter_async_context(client(ready, token, data)), "hello")
            each = (process.memory_info().rss - before) / count / 1000
        row(f"server: memory per idle client ({kind})", f"{each:.0f} kB", "<= 40 kB" if kind == "uvloop" else "")


def filled(directory: Path) -> None:
    """Creates many projects with long histories. One is written, and the others reuse its files."""
    first = directory / "projects" / "proj_000"
    first.mkdir(parents=True)
    history = History.open(first / "logs", fsync="off")
    for _ in range(MESSAGES):
        history.append("claude", LINE)
    history.close()
    newest = sorted((first / "logs").glob("messages_*"))[-1]
    for number in range(PROJECTS):
        place = directory / "projects" / f"proj_{number:03}"
        if number:
            shutil.copytree(first / "logs", place / "logs", symlinks=True, copy_function=_link_all_but(newest))
        save(place, Metadata(place.name, f"/nowhere/{number}", "", AT, AT, "demo"))


def _link_all_but(newest: Path) -> Any:
    def copy(source: str, target: str) -> None:
        if Path(source).name.startswith("messages_") and Path(source).name != newest.name:
            os.link(source, target)
        else:
            shutil.copy2(source, target)

    return copy


async def restart(directory: Path) -> None:
    data = directory / "many"
    filled(data)
    took, listed = [], []
    for _ in range(4):
        began = time.perf_counter()
        async with serving(data) as (_, token, ready), client(ready, token, data) as socket:
            answer = await ask(socket, "project_list")
            took.append(time.perf_counter() - began)
            assert sum(project["message_count"] for project in answer["data"]["projects"]) == PROJECTS * MESSAGES
            for _ in range(50):
                began = time.perf_counter()
                await ask(socket, "project_list")
                listed.append((time.perf_counter() - began) * 1000)
    what = f"server: start with {PROJECTS} projects of {MESSAGES:,} messages -> first list"
    row(what, f"{statistics.median(took[1:]):.2f} s", "<= 1 s")
    row("server: project_list of these", f"{statistics.median(listed):.1f} ms", "<= 5 ms")


async def listing(directory: Path) -> None:
    """Measures how long the event loop's thread works on a list of many projects if few of them have changed since the
    previous list, and if all have."""
    count, few = 500, 10
    folder = directory / "listed"
    for number in range(count):
        project, place = folder / "work" / str(number), folder / "data" / "projects" / f"proj_{number:03}"
        project.mkdir(parents=True)
        place.mkdir(parents=True)
        save(place, Metadata(place.name, str(project), "", AT, AT, "claude"))
    client: Any = core_rig.Client()
    took: dict[int, list[float]] = {few: [], count: []}
    async with core_rig.serving(folder, Limits(checkpoints=False, projects=count)) as server:
        sessions = list(server.core.all_sessions)
        for changed in [few, count] * 30:
            for session in random.sample(sessions, changed):
                session.publish_state()
            began = time.thread_time()
            answer = await server.core.project_list(ProjectList(), client)
            encode(answer)
            took[changed].append((time.thread_time() - began) * 1000)
            assert len(answer.data.projects) == count
    of_few, of_all = min(took[few]), min(took[count])  # other programs only make them longer
    what = f"server: loop time of a list of {count} projects, {few} changed; against all"
    row(what, f"{of_few:.1f} ms; {of_few / of_all:.2f} x", "<= 5 ms")


async def executions(directory: Path) -> None:
    data, code = directory / "runs", directory / "code"
    code.mkdir()
    async with serving(data, "--allow", str(directory)) as (_, token, ready), client(ready, token, data) as socket:
        project = (await ask(socket, "project_create", {"path": str(code), "agent": "demo"}))["project_id"]
        await ask(socket, "project_join", None, project)
        began = time.perf_counter()
        for number in range(100):
            await socket.send(json.dumps({"type": "execute", "project_id": project, "data": {"prompt": "/quick"}}))
            while '"run_finished"' not in str(await socket.recv()):
                pass
            if number == 0:
                began = time.perf_counter()  # from now on, the agent is warm
        row("server: executions per minute (demo, warm)", f"{99 / (time.perf_counter() - began) * 60:,.0f}", ">= 600")


async def persistence(directory: Path) -> None:
    """Measures how long it takes to store what must be on disk before any client is notified, that is, a project's
    metadata and a user's decision."""
    place = directory / "saved"
    place.mkdir()
    known = RecordedState(requests={f"request {number}": f"run {number}" for number in range(500)})
    metadata = Metadata(place.name, "/nowhere", "", AT, AT, "demo", recorded=known)
    saved = [timed_save(place, metadata) for _ in range(500)]
    row("server: a project's metadata saved (p50, p99)", spread(saved), "p99 <= 10 ms")
    data, code = directory / "decisions", directory / "decided"
    code.mkdir()
    async with serving(data, "--allow", str(directory)) as (_, token, ready), client(ready, token, data) as socket:
        project = (await ask(socket, "project_create", {"path": str(code), "agent": "demo"}))["project_id"]
        await ask(socket, "project_join", None, project)
        took = []
        for _ in range(100):
            await socket.send(json.dumps({"type": "execute", "project_id": project, "data": {"prompt": "/ask"}}))
            question = await message_with(socket, '"permission_request"')
            answer = {"approval_id": question["data"]["approval_id"], "decision": "deny"}
            began = time.perf_counter()
            await ask(socket, "permission_response", answer, project)
            took.append((time.perf_counter() - began) * 1000)
            await message_with(socket, '"run_finished"')
    row("server: a decision, answered once it is stored (p50, p99)", spread(took), "p99 <= 10 ms")


def timed_save(place: Path, metadata: Metadata) -> float:
    began = time.perf_counter()
    save(place, metadata)
    return (time.perf_counter() - began) * 1000


async def message_with(socket: ClientConnection, words: str) -> Any:
    while words not in (message := str(await socket.recv())):
        pass
    return json.loads(message)


def spread(taken: list[float]) -> str:
    return f"{statistics.median(taken):.2f}, {sorted(taken)[int(len(taken) * 0.99)]:.2f} ms"


async def main() -> None:
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        await fanout.rows(row, directory)
        await fanout.latency(row)
        await idle_memory(directory)
        await restart(directory)
        await listing(directory)
        await executions(directory)
        await persistence(directory)


if __name__ == "__main__":
    asyncio.run(main())
