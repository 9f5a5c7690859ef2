"""The page in Chromium: an answer that streams, and a long history. Ratios make no sense here: use a quiet machine.

.venv/bin/python -m bench.page
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import tempfile
from pathlib import Path

from tests.page.agent import COMMAND
from tests.page.conftest import page_of, project_in
from tests.page.history import write_history
from tests.page.rig import Browser, Person
from tests.page.test_everywhere import FRAMES, says
from tests.page.test_hostile_texts import LONGEST, PACE, with_texts
from tests.server import processes
from tests.server.processes import Server

serving = functools.partial(processes.serving, command=COMMAND)

RECORDS = 5_000
STREAMED, SECONDS = 50_000, 20
USABLE = "!!document.querySelector('.project') && document.querySelector('#prompt')?.disabled === false"
"""Whether the list is shown and the message box accepts text."""
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
"""Milliseconds from a letter to the end of the frame that shows it."""


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
    """A phone with a CPU four times slower, 400 kb/s and 400 ms. A second visit gets the page from the worker's cache,
    whose own requests are not slowed down."""
    person("throttle", cpu=4, kilobits=400, latency=400)
    for visit in ("first", "second"):
        person("goto", url=address)
        took = milliseconds_until(person, USABLE)
        row(f"page: slow phone, {visit} visit: list and message box", f"{took / 1000:.1f} s", "<= 4 s")
        person("goto", url="about:blank")


def milliseconds_until(person: Person, code: str) -> float:
    """Milliseconds from the start of the visit to the frame in which ``code`` is true; fails if that takes too long."""
    for _ in range(3):
        with contextlib.suppress(AssertionError):
            person.until(code)
            break
    person.until(code)
    taken: float = person.runs("performance.now()")
    return taken


async def opened(server: Server, directory: Path) -> str:
    project = await project_in(server, directory)
    return f"{page_of(server)}#token={server.token}&project={project}"


async def main() -> None:
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as name:
            data, directory = Path(name, "data"), Path(name, "work", "blog")
            directory.mkdir(parents=True)
            options = ("--no-tls", "--allow", directory.parent)
            async with serving(data, *options) as server:
                address = await opened(server, directory)
                with browser.person("about:blank", width=390, height=844) as person:
                    await asyncio.to_thread(opens, person, address)
                with browser.person(address) as person:
                    await asyncio.to_thread(streams, person)
            texts = Path(name, "texts")
            (texts / "work").mkdir(parents=True)
            projects = await with_texts(texts / "data", texts / "work")
            async with serving(texts / "data", "--no-tls", "--allow", texts / "work") as server:
                with browser.person(f"{page_of(server)}#token={server.token}") as person:
                    await asyncio.to_thread(draws, person, projects)
            project = address.rpartition("=")[2]
            write_history(data, project, (says(number) for number in range(1, RECORDS + 1)))
            async with serving(data, *options) as server:
                address = f"{page_of(server)}#token={server.token}&project={project}"
                with browser.person(address) as person:
                    await asyncio.to_thread(scrolls, person)
    finally:
        browser.close()


if __name__ == "__main__":
    asyncio.run(main())
