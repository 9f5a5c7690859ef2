"""A checkpoint of a large repository, compared with ``git status``: both are measured alternately in the same run. And
how long the server delays a prompt in a terminal there, whose hook begins a checkpoint.

.venv/bin/python -m bench.checkpoints
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median

from tests.server.checkpoints.rig import git
from tests.server.terminal_sessions.socket_rig import Line, Session, socket_rig

from bench.page import row
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.sessions.options.limits import Limits

FILES, CHANGED = 10_000, 10
"""The number of files in the repository, and the number of files that change before each checkpoint."""
TIMES = 15


def repository(directory: Path) -> None:
    for number in range(FILES):
        file = directory / f"src/part{number % 100}/module{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"module {number}\n" * 30)
    git(directory, "init", "-q")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "first")


def change(directory: Path, round: int) -> None:
    for number in range(CHANGED):
        (directory / f"src/part{number}/module{number}.txt").write_text(f"round {round}\n" * 30)


async def against_git(folder: Path) -> None:
    directory, data = folder / "blog", folder / "data"
    directory.mkdir()
    data.mkdir()
    repository(directory)
    checkpoints = Checkpoints(directory, "proj_bench", folder=data)
    await checkpoints.snapshotter.create("run_0", "before")
    statuses, created = list[float](), list[float]()
    for number in range(1, TIMES + 1):
        change(directory, number)
        began = time.perf_counter()
        git(directory, "status", "--porcelain")
        statuses.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        await checkpoints.snapshotter.create(f"run_{number}", "before")
        created.append((time.perf_counter() - began) * 1000)
    await checkpoints.close()
    what = f"checkpoint of {FILES:,} files, {CHANGED} changed"
    row(f"{what}; git status", f"{median(created):.0f} ms; {median(statuses):.0f} ms")
    ratio = median(one / other for one, other in zip(created, statuses, strict=True))
    row(f"{what}, against git status", f"{ratio:.1f} x", "<= 2 x")


async def at_the_prompt(folder: Path) -> None:
    """Measures the time from the report of a prompt's hook until the server lets the hook continue."""
    (folder / "server").mkdir(parents=True)
    names = {"HOME": "home", "XDG_STATE_HOME": "state", "CLAUDE_CONFIG_DIR": "claude"}
    os.environ |= {name: str(folder / place) for name, place in names.items()}
    waited = []
    async with socket_rig(folder / "server", Limits()) as rig:
        directory = rig.folder / "blog"
        repository(directory)
        session = Session(rig, directory)
        for number in range(TIMES):
            change(directory, number)
            session.turn = str(uuid.uuid4())
            payload = session.payload("UserPromptSubmit", prompt="Go")
            async with Line.open() as line:
                began = time.perf_counter()
                line.send(type="hook", pid=session.pid, payload=payload)
                line.end()
                assert await line.receive() is None
                waited.append((time.perf_counter() - began) * 1000)
            await session.reports("Stop")
    row(
        f"a prompt in a terminal, {FILES:,} files: p50, longest",
        f"{median(waited):.1f} ms; {max(waited):.1f} ms",
        "<= 50 ms",
    )


async def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:  # git may still be compressing objects
        await against_git(Path(name))
        await at_the_prompt(Path(name, "terminal"))


if __name__ == "__main__":
    asyncio.run(main())
