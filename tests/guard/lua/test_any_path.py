"""However a path is spelled, the guard finds the buffer of that file and no other. The file system is the reference."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from tests.guard.lua.rig import Workstation, workstation

COMPOSED, DECOMPOSED = "caf\u00e9.py", "cafe\u0301.py"
FILES = ("a.py", "A.py", COMPOSED, DECOMPOSED)
"""Files in each directory. Linux compares names byte by byte, so they are four different files."""

DIRECTORIES = ("ws", "ws/sub", "other")
LINKS = {
    "dir": "ws",
    "ws/up": "..",
    "ws/sub/across": "../../other",
    "link.py": "ws/a.py",
    "ws/dangling.py": "sub/new.py",
    "ws/far.py": "nowhere/new.py",
    "x": "y",
    "y": "x",
}
HARD_LINKS = {"other/hard.py": "ws/a.py"}

STEPS = ("ws", "sub", "other", "dir", "up", "across", "nowhere", "..", ".", "")
LEAVES = (*FILES, "link.py", "dangling.py", "far.py", "hard.py", "new.py", "x")
PATHS = some.tuples(some.lists(some.sampled_from(STEPS), max_size=4), some.sampled_from(LEAVES)).map(
    lambda parts: "/".join([*parts[0], parts[1]])
)


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths name the same file: on disk if both exist, or where they would be created if neither does."""
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return not os.path.exists(one) and not os.path.exists(other) and os.path.realpath(one) == os.path.realpath(other)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        yield running


def test_any_two_paths_lead_to_the_right_buffers(program: Path, tmp_path: Path, runner: asyncio.Runner) -> None:
    for name in DIRECTORIES:
        (tmp_path / name).mkdir()
        for leaf in FILES:
            (tmp_path / name / leaf).write_text(f"{name}/{leaf}\n")
    for name, target in LINKS.items():
        (tmp_path / name).symlink_to(target)
    for name, target in HARD_LINKS.items():
        os.link(tmp_path / target, tmp_path / name)
    sitting = workstation(program, tmp_path, "-n")
    at: Workstation = runner.run(sitting.__aenter__())

    @settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    @given(opened=PATHS, asked=PATHS)
    @example(opened=f"ws/{COMPOSED}", asked=f"ws/{DECOMPOSED}")
    @example(opened="ws/a.py", asked="ws/A.py")
    @example(opened="other/hard.py", asked="link.py")
    @example(opened="ws/dir/a.py", asked="nowhere/../dir/dir/a.py")
    @example(opened="ws/sub/new.py", asked="dir/dangling.py")
    def check(opened: str, asked: str) -> None:
        opened, asked = f"{tmp_path}/{opened}", f"{tmp_path}/{asked}"
        if is_a_circle(opened) or is_a_circle(asked):
            return
        runner.run(opens(at, opened))
        stands = runner.run(at.state_of(asked))
        assert (stands is not None) is is_same_file(opened, asked), (opened, asked)

    try:
        check()
    finally:
        runner.run(sitting.__aexit__(None, None, None))


def is_a_circle(path: str) -> bool:
    """Whether links in the path form a loop. No file can be opened by such a name. ``test_snapshot`` tests these."""
    try:
        os.path.realpath(path, strict=True)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


async def opens(at: Workstation, path: str) -> None:
    """Opens a buffer with that name and unsaved work, and closes all others."""
    await at.person.lua(
        """
        vim.cmd('silent! %bwipeout!')
        local buf = vim.fn.bufadd(...)
        vim.fn.bufload(buf)
        vim.api.nvim_buf_set_lines(buf, 0, 0, false, { 'mine' })
        """,
        path,
    )
