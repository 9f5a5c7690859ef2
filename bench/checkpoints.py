"""A checkpoint of a large repository, compared with ``git status``: both are measured alternately in the same run.

.venv/bin/python -m bench.checkpoints
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.server.checkpoints.rig import git

from bench.page import row
from drawbridge.server.checkpoints.checkpoints import Checkpoints

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


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory, data = Path(name, "blog"), Path(name, "data")
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


if __name__ == "__main__":
    asyncio.run(main())
