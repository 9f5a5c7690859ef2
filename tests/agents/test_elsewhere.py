"""If macOS or a file system lacks a feature, the server works as well as possible without it and reports what does not
work.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from drawbridge.agents import supervisor
from drawbridge.agents.base import Confinement, Exited
from drawbridge.agents.supervisor_pipe import SupervisorPipe
from drawbridge.core.errors import NotWritable
from drawbridge.server.serve import _own_data
from tests.agents.rig import bad_agent, eventually, lives, session

ON_A_MAC = "import runpy, sys; sys.platform = 'darwin'; runpy.run_path({!r}, run_name='__main__')"


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts supervisors as if on macOS: without a subreaper, parent-death signal or /proc."""
    usual = SupervisorPipe.command

    def command(self: SupervisorPipe, confinement: Confinement, agent: Sequence[str]) -> list[str]:
        python, *flags, _, descriptor, open_files, nice, confined = usual(self, confinement, [])
        return [
            python,
            *flags,
            "-c",
            ON_A_MAC.format(supervisor.__file__),
            descriptor,
            open_files,
            nice,
            confined,
            *agent,
        ]

    monkeypatch.setattr(SupervisorPipe, "command", command)


@pytest.mark.usefixtures("mac")
async def test_without_a_subreaper_children_are_found_by_their_mark(tmp_path: Path) -> None:
    async with session(bad_agent(), tmp_path) as agent:
        await agent.turn("child")
        child = int(agent.received.words)
        assert lives(child)
        assert os.getsid(child) != os.getsid(agent.process.pid)
        await agent.process.kill()
        assert not lives(child)
        assert not lives(agent.process.pid)


@pytest.mark.usefixtures("mac")
async def test_on_macos_an_agent_ends_with_its_server(tmp_path: Path) -> None:
    async with session(bad_agent(), tmp_path) as agent:
        agent.process.prompt("half")
        await eventually(lambda: agent.received.messages, "its first words")
        agent.process._pipe._local.close()  # as the kernel closes the files of a killed process
        assert (await agent.received.next(Exited)).code == -signal.SIGTERM
        assert not lives(agent.process.pid)


def test_without_file_locks_no_server_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        pytest.raises(NotWritable, match=r"no locks available.*another directory with --data-dir"),
        _own_data(tmp_path),
    ):
        pytest.fail("the server started without a lock")
