"""The owner's limits on an agent and everything that it starts: memory, open files, CPU priority and privileges."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from drawbridge.agents import memory
from drawbridge.agents.base import Confinement
from drawbridge.server.sessions.processes.processes import FILE
from tests.agents.rig import lives
from tests.server.bad_claude import bad_claude, kept, project, words
from tests.server.processes import serving
from tests.waiting import until

linux = pytest.mark.skipif(sys.platform != "linux", reason="only there")


async def test_only_the_agent_that_uses_too_much_memory_is_ended(tmp_path: Path) -> None:
    """The process that takes the memory has its own process session and ignores signals."""
    async with (
        serving(tmp_path / "data", *bad_claude(tmp_path), "--max-memory", "400") as server,
        server.client() as client,
    ):
        modest, greedy = await project(server, client, "modest"), await project(server, client, "greedy")
        await client.ask("execute", {"prompt": "eat 100"}, modest)
        neighbour = int(await words(client))
        await client.ask("execute", {"prompt": "eat 500"}, greedy)
        eater = int(await words(client))
        finished = (await client.receive("update", "run_finished"))["data"]["data"]
        assert (finished["outcome"], finished["code"]) == ("failed", "MEMORY_LIMIT")
        assert "400 MB allowed" in finished["error"]
        assert not lives(eater)
        assert lives(neighbour)
        assert "MB of memory; the limit is 400 MB" in server.errors
        await client.ask("execute", {"prompt": "say hello"}, greedy)
        assert (await client.receive("update", "run_finished"))["data"]["data"]["outcome"] == "completed"


async def test_an_idle_agent_with_too_much_memory_is_ended(tmp_path: Path) -> None:
    async with (
        serving(tmp_path / "data", *bad_claude(tmp_path), "--max-memory", "150") as server,
        server.client() as client,
    ):
        id = await project(server, client)
        await client.ask("execute", {"prompt": "eat-and-end 200"}, id)
        eater = int(await words(client))
        await client.receive("update", "run_finished")  # completed, or failed if the memory was checked first
        await until(lambda: (tmp_path / "data" / FILE).read_bytes() == b"[]\n", "the end of the agent")
        assert not lives(eater)
        assert "the limit is 150 MB" in server.errors
        await client.ask("execute", {"prompt": "say hello"}, id)
        await client.receive("update", "run_finished", outcome="completed")


def test_resident_memory_is_measured_as_in_psutil() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        counted = memory.resident([process.pid])
        assert counted == {process.pid: pytest.approx(psutil.Process(process.pid).memory_info().rss, rel=0.1)}
        process.kill()
    assert memory.resident([2**22 + 1]) == {2**22 + 1: 0}


def test_the_owners_limits_on_files_and_niceness_apply() -> None:
    expected = f"300\n300\n{min(19, os.nice(0) + 7)}\n"
    assert kept("ulimit -Sn; ulimit -Hn; nice", Confinement(open_files=300, nice=7)) == (0, expected)


def test_the_servers_limit_on_open_files_is_the_default() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert kept("ulimit -Sn; ulimit -Hn; nice") == (0, f"{soft}\n{hard}\n{os.nice(0)}\n".replace("-1", "unlimited"))


def test_the_limit_on_open_files_is_at_most_the_servers() -> None:
    hard, more = resource.getrlimit(resource.RLIMIT_NOFILE)[1], 10_000_000
    allowed = more if hard == resource.RLIM_INFINITY else min(hard, more)
    assert kept("ulimit -n", Confinement(open_files=more)) == (0, f"{allowed}\n")


@pytest.mark.parametrize("confined", [True, False])
def test_an_agent_keeps_the_servers_umask(tmp_path: Path, confined: bool) -> None:
    file = tmp_path / "file"
    before = os.umask(0o022)
    try:
        assert kept(f"echo > {file}", Confinement(confined=confined)) == (0, "")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o644


@linux
@pytest.mark.parametrize("confined", [True, False])
def test_a_confined_agent_cannot_gain_privileges(confined: bool) -> None:
    assert kept("grep NoNewPrivs /proc/self/status", Confinement(confined=confined)) == (
        0,
        f"NoNewPrivs:\t{confined:d}\n",
    )


@linux
def test_the_kernel_ends_an_agent_before_the_server() -> None:
    assert kept("cat /proc/self/oom_score_adj")[1] == "500\n"


@pytest.fixture
def _core_dumps() -> Iterator[None]:
    """Enables core dumps for this process, as is the default on many systems. Skips the test if that is forbidden."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    most = before[1] or resource.RLIM_INFINITY
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    except (OSError, ValueError):
        pytest.skip("core dumps are forbidden here, and only root can allow them")
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.usefixtures("_core_dumps")
def test_a_crashed_agent_leaves_no_core_dump(tmp_path: Path) -> None:
    assert kept(f"cd {tmp_path}; ulimit -Sc; ulimit -Hc; kill -QUIT $$") == (-signal.SIGQUIT, "0\n0\n")
