"""Measures the review of a large run, at the server's socket and in the web UI. Most times are absolute, so use an
idle machine; a decision is also compared with ``git status``, both alternately. On a busy machine, the processor times
of the server and of the processes that it starts change less.

.venv/bin/python -m bench.reviews
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from tests.page.conftest import page_of, project_in
from tests.page.rig import Browser, Person
from tests.server.checkpoints.rig import git
from tests.server.processes import Server
from websockets.asyncio.client import ClientConnection, connect

from bench.page import milliseconds, row, serving

FILES, HUNKS = 200, 10
"""The number of files that the run changes, and the number of hunks in each file."""
TIMES = 15
LINES = 30 * HUNKS

OPENED = """new Promise((done) => {
  const began = performance.now();
  location.hash = '#/p/%s/review';
  const look = () =>
    document.querySelector('.review .hunk .line') ? done(performance.now() - began) : requestAnimationFrame(look);
  look();
})"""
"""Milliseconds from opening the review until the frame in which lines of the first hunk are in the document."""

DECIDED = r"""new Promise((done) => {
  const decide = () => {
    const shown = () => document.querySelector('.review .hunk table').textContent;
    const before = shown();
    const began = performance.now();
    document.querySelector('.review .hunk footer .yes').click();
    const look = () => (shown() === before ? requestAnimationFrame(look) : done(performance.now() - began));
    look();
  };
  setTimeout(decide, 1000); // a hunk can only be kept without a question once it has been in view
})"""
"""Milliseconds from the click on "Keep" until the frame that shows the next hunk."""


def text(changed: bool) -> str:
    return "".join(
        f"line {number}{' is another one' if changed and number % 30 == 15 else ''}\n" for number in range(LINES)
    )


def repository(directory: Path) -> None:
    for number in range(FILES):
        file = directory / f"src/part{number % 20}/module{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text(changed=False))
    git(directory, "init", "-q")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "first")


class Socket:
    """A client that decodes only as much of an answer as it needs, so that its own work is not measured."""

    def __init__(self, socket: ClientConnection, project: str) -> None:
        self._socket = socket
        self._project = project
        self._requests = 0

    async def ask(self, type: str, **data: Any) -> bytes:
        self._requests += 1
        id = f"bench-{self._requests}"
        envelope = {"type": type, "data": data, "request_id": id, "project_id": self._project}
        await self._socket.send(json.dumps(envelope))
        return await self.received(f'"request_id":"{id}"')

    async def received(self, part: str) -> bytes:
        """The next message that contains ``part`` in its first or last characters."""
        while True:
            message = await self._socket.recv(decode=False)
            if part.encode() in message[:1000] + message[-1000:]:
                return message


def processor_milliseconds(process: psutil.Process) -> tuple[float, float]:
    """The processor time that a process has used, and that of the processes that it has started and that have
    ended."""
    found = process.cpu_times()
    return (found.user + found.system) * 1000, (found.children_user + found.children_system) * 1000


async def measured(server: Server, project: str, directory: Path) -> None:
    work = {f"src/part{number % 20}/module{number}.txt": text(changed=True) for number in range(FILES)}
    process = psutil.Process(server.process.pid)
    headers = {"Authorization": f"Bearer {server.token}"}
    async with connect(
        server.url, additional_headers=headers, proxy=None, max_size=None, compression=None
    ) as connection:
        socket = Socket(connection, project)
        await socket.ask("project_join")
        await socket.ask("execute", prompt=f"/write {json.dumps(work)}")
        await socket.received('"review_changed"')
        review = json.loads(await socket.ask("review_get"))["data"]
        shown = sum(len(file["hunks"]) for file in review["files"])
        what = f"review of {FILES} files, {shown:,} hunks"
        firsts = [file["hunks"][0]["id"] for file in review["files"]]
        requests: dict[str, list[tuple[str, dict[str, Any]]]] = {
            "review_get": [("review_get", {})] * TIMES,
            "keep": [("review_decide", {"hunks": [id], "decision": "keep"}) for id in firsts[:TIMES]],
            "undo": [("review_decide", {"hunks": [id], "decision": "undo"}) for id in firsts[TIMES : 2 * TIMES]],
        }
        for name, wanted in requests.items():
            took, ratios = list[float](), list[float]()
            server_before, children_before = processor_milliseconds(process)
            for type, data in wanted:
                began = time.perf_counter()
                answer = await socket.ask(type, **data)
                took.append((time.perf_counter() - began) * 1000)
                assert answer.startswith(b'{"type":"review"'), answer[:1000]
                began = time.perf_counter()
                git(directory, "status", "--porcelain")
                ratios.append(took[-1] / ((time.perf_counter() - began) * 1000))
            server_after, children_after = processor_milliseconds(process)
            own, theirs = (server_after - server_before) / TIMES, (children_after - children_before) / TIMES
            row(f"{what}: {name}", f"{median(took):.0f} ms", "<= 100 ms" if name != "review_get" else "")
            row(f"{what}: {name}, against git status", f"{median(ratios):.1f} x")
            row(f"{what}: {name}, processor time of the server; of git", f"{own:.0f} ms; {theirs:.0f} ms")


def on_the_page(person: Person, project: str) -> None:
    person.sees("h2", "blog")
    opened = []
    for _ in range(5):
        opened.append(person.runs(OPENED % project))
        person.goes_to(f"#/p/{project}")
        person.sees(".prompt")
    row("page: the review is opened", f"{milliseconds(opened, 0.5):.0f} ms", "<= 300 ms")
    person.runs(OPENED % project)
    decided = [person.runs(DECIDED) for _ in range(TIMES)]
    row("page: a hunk is kept", f"{milliseconds(decided, 0.5):.0f} ms", "<= 100 ms")


async def main() -> None:
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name, "work", "blog")
            directory.mkdir(parents=True)
            repository(directory)
            async with serving(Path(name, "data"), "--no-tls", "--allow", directory.parent) as server:
                project = await project_in(server, directory)
                await measured(server, project, directory)
                with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
                    await asyncio.to_thread(on_the_page, person, project)
    finally:
        browser.close()


if __name__ == "__main__":
    asyncio.run(main())
