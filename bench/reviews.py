"""Measures the review of a large run, at the server's socket and in the web UI. Most times are absolute, so use an
idle machine; a decision is also compared with ``git status``, both alternately.

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

from tests.page.conftest import page_of, project_in
from tests.page.rig import Browser, Person
from tests.server.checkpoints.rig import git
from tests.server.processes import Server

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


async def measured(server: Server, project: str, directory: Path) -> None:
    async with server.client() as client:
        await client.ask("project_join", project_id=project)
        work = {f"src/part{number % 20}/module{number}.txt": text(changed=True) for number in range(FILES)}
        await client.ask("execute", {"prompt": f"/write {json.dumps(work)}"}, project)
        await client.receive("update", "review_changed")
        opened, decided, ratios = list[float](), list[float](), list[float]()
        review: dict[str, Any] = {}
        for _ in range(TIMES):
            began = time.perf_counter()
            review = (await client.ask("review_get", project_id=project))["data"]
            opened.append((time.perf_counter() - began) * 1000)
        shown = sum(len(file["hunks"]) for file in review["files"])
        row(f"review of {FILES} files, {shown:,} hunks: review_get", f"{median(opened):.0f} ms")
        for decision in ("keep", "undo"):
            decided, ratios = [], []
            for file in review["files"][: TIMES if decision == "keep" else 2 * TIMES][-TIMES:]:
                began = time.perf_counter()
                wish = {"hunks": [file["hunks"][0]["id"]], "decision": decision}
                answer = await client.ask("review_decide", wish, project)
                decided.append((time.perf_counter() - began) * 1000)
                assert answer["type"] == "review", answer
                began = time.perf_counter()
                git(directory, "status", "--porcelain")
                ratios.append(decided[-1] / ((time.perf_counter() - began) * 1000))
            row(f"review of {FILES} files: review_decide, {decision}", f"{median(decided):.0f} ms", "<= 100 ms")
            row(f"review of {FILES} files: review_decide, {decision}, against git status", f"{median(ratios):.1f} x")


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
