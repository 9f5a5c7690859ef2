"""Measures the web UI in Chromium: a visit with a slow phone, an answer that streams, hostile texts, and a long
history. The times are absolute, so use an idle machine.

.venv/bin/python -m bench.page
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.page.agent import COMMAND
from tests.page.conftest import page_of, project_in
from tests.page.history import serving_history
from tests.page.rig import Browser, Person
from tests.page.test_everywhere import FRAMES, says
from tests.page.test_hostile_texts import LONGEST, PACE, with_texts
from tests.server import processes
from tests.server.processes import Server

from bench.rig import ROOT
from bench.slow_link import slow_link

serving = functools.partial(processes.serving, command=COMMAND)

RECORDS = 5_000
STREAMED, SECONDS = 50_000, 20
WORKED = 120
"""The number of records of an agent's work in the session that a slow phone opens."""
BOX = "!!document.querySelector('.project') && document.querySelector('#prompt')?.disabled === false"
"""Whether the list is shown and the message box accepts text."""
USABLE = (
    f"{BOX} && !!document.querySelector('.approval')"
    " && [...document.querySelectorAll('.said:not(.live)')].at(-1)?.textContent.includes('I will write that')"
)
"""Whether, in addition, the last message and the open approval request are shown."""
HEAP = "performance.memory.usedJSHeapSize"
TYPED = """new Promise((done) => {
  const box = document.querySelector('#prompt');
  const took = [];
  const next = () => {
    if (took.length === 60) return done(took);
    const began = performance.now();
    box.value += 'a';
    box.dispatchEvent(new InputEvent('input', { bubbles: true }));
    requestAnimationFrame(() => setTimeout(() => (took.push(performance.now() - began), setTimeout(next, 50))));
  };
  next();
})"""
"""Milliseconds from typing a letter to the end of the frame that shows it, for each of 60 letters."""


def row(what: str, value: str, goal: str = "") -> None:
    print(f"{what:<70}{value:>26}   {goal}", flush=True)


def milliseconds(taken: list[float], share: float) -> float:
    return sorted(taken)[int(len(taken) * share)]


def streams(person: Person) -> None:
    person.sees("h2", "blog")
    person.runs(LONGEST)
    person.prompts(f"/stream [{SECONDS}, {STREAMED}]")
    person.sees(".live", "A paragraph")
    letters = person.runs(TYPED)
    for _ in range(6):  # ten seconds each
        with contextlib.suppress(AssertionError):
            person.until("document.querySelector('.finished')")
            break
    tasks = person.runs("window.tasks")
    row(
        f"page: {STREAMED // 1000} kB streamed in {SECONDS} s: tasks over 50 ms, longest",
        f"{len(tasks)}, {max(tasks, default=0):.0f} ms",
        "none",
    )
    row(
        "page: a letter typed meanwhile, to the end of its frame (p50, p99)",
        f"{milliseconds(letters, 0.5):.0f}, {milliseconds(letters, 0.99):.0f} ms",
        "<= 50 ms",
    )


def scrolls(person: Person) -> None:
    person.sees(".said", f"Message {RECORDS}:")
    frames = person.runs(FRAMES)
    person.runs("document.querySelector('.scroller').scrollTop -= 100000")
    row(
        f"page: frames while {RECORDS:,} records are scrolled (p50, p99)",
        f"{milliseconds(frames, 0.5):.0f}, {milliseconds(frames, 0.99):.0f} ms",
        "17 ms",
    )
    row("page: memory of its script with them", f"{person.runs(HEAP) / 1e6:.0f} MB", "<= 15 MB")


def draws(person: Person, projects: dict[str, str]) -> None:
    person.sees(".project")
    person.runs(LONGEST)
    found: list[tuple[float, float, str]] = []
    for name, project in projects.items():
        pace = person.runs(PACE)
        person.runs(f"window.tasks = []; location.hash = '#/p/{project}'")
        person.sees(".said", "after it")
        longest = max(person.runs("window.tasks"), default=0)
        found.append((longest / max(pace, person.runs(PACE)), longest, name))
    times, longest, name = max(found)
    row(
        f"page: a hostile text of 1 MB ({name}): longest task, against fixed work",
        f"{longest:.0f} ms, {times:.1f} x",
        "<= 100 ms, 2 x (50 ms on an idle machine)",
    )


def opens(person: Person, address: str) -> None:
    """Visits the web UI twice with a CPU that is four times slower. On the second visit, the web UI comes from the
    service worker's cache."""
    person("throttle", cpu=4)
    for visit in ("first", "second"):
        person("goto", url=address)
        box, usable = (milliseconds_until(person, code) for code in (BOX, USABLE))
        row(f"page: slow phone, {visit} visit: list and message box", f"{box / 1000:.1f} s")
        row(f"page: slow phone, {visit} visit: and the session, usable", f"{usable / 1000:.1f} s", "<= 4 s")
        person.runs("navigator.serviceWorker.ready.then(() => null)")
        person("goto", url="about:blank")


def milliseconds_until(person: Person, code: str) -> float:
    """Milliseconds from the start of the visit to the frame in which ``code`` is true. Fails if that takes too long."""
    for _ in range(3):
        with contextlib.suppress(AssertionError):
            person.until(code)
            break
    person.until(code)
    taken: float = person.runs("performance.now()")
    return taken


def worked() -> Iterator[dict[str, Any]]:
    """The lines that Claude Code prints when it reads the beginnings of files, which are a text, a tool call and its
    result for each file."""
    recorded = (ROOT / "tests/transcripts/server/2.1.329-allow.jsonl").read_text().splitlines()
    said, answered = (json.loads(recorded[number])["line"] for number in (5, 6))
    for number, file in enumerate(sorted((ROOT / "src/drawbridge").rglob("*.py"))[-WORKED // 3 :]):
        text = file.read_text()[:1_500]
        id = f"toolu_{number:024}"
        call = {"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": str(file)}}
        result = {"type": "tool_result", "tool_use_id": id, "content": text}
        answered["tool_use_result"]["file"] = {"filePath": str(file), "content": text}
        words = {"type": "text", "text": f"I read `{file.name}` next. {text[:300]}"}
        for line, block in ((said, words), (said, call), (answered, result)):
            own = {"message": {**line["message"], "content": [block]}, "uuid": str(uuid.uuid4()), "session_id": None}
            yield {**line, **own}


async def with_session(server: Server, directory: Path) -> str:
    """Creates a project whose agent has worked for a while, and now asks for permission. Returns the project's ID."""
    project = await project_in(server, directory)
    async with server.client() as client:
        await client.ask("project_join", project_id=project)
        await client.ask("execute", {"prompt": f"/emit {json.dumps(list(worked()))}"}, project)
        await client.receive("update", "run_finished")
        await client.ask("execute", {"prompt": "Something"}, project)
        await client.receive("permission_request")
    return project


async def main() -> None:
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name, "work", "blog")
            directory.mkdir(parents=True)
            options = ("--no-tls", "--allow", directory.parent)
            async with serving(Path(name, "phone"), *options, "--trusted-proxy", "127.0.0.1") as server:
                project = await with_session(server, directory)
                async with slow_link(server, kilobits=400, latency=0.4) as page:
                    with browser.person("about:blank", width=390, height=844, worker=True) as person:
                        await asyncio.to_thread(opens, person, f"{page}#token={server.token}&project={project}")
            async with serving(Path(name, "data"), *options) as server:
                project = await project_in(server, directory)
                address = f"{page_of(server)}#token={server.token}&project={project}"
                with browser.person(address, worker=True) as person:
                    await asyncio.to_thread(streams, person)
            texts = Path(name, "texts")
            (texts / "work").mkdir(parents=True)
            projects = await with_texts(texts / "data", texts / "work")
            async with serving(texts / "data", "--no-tls", "--allow", texts / "work") as server:
                with browser.person(f"{page_of(server)}#token={server.token}", worker=True) as person:
                    await asyncio.to_thread(draws, person, projects)
            records = (says(number) for number in range(1, RECORDS + 1))
            async with serving_history(Path(name, "long"), directory, records) as (server, project):
                address = f"{page_of(server)}#token={server.token}&project={project}"
                with browser.person(address, worker=True) as person:
                    await asyncio.to_thread(scrolls, person)
    finally:
        browser.close()


if __name__ == "__main__":
    asyncio.run(main())
