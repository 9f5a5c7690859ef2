"""Background sessions of ``claude``: started with ``--bg``, or moved to the background with the left arrow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.messages_stub import Block, text, tool_use
from tests.rigs.tmux import wait_until
from tests.server.processes import Server
from tests.waiting import PATIENCE

from .rig import ServedWorkstation, following

pytestmark = pytest.mark.thorough


def touch(name: str) -> Block:
    return tool_use("Bash", command=f"touch {name}", description="Make a file")


def run_claude(rig: ServedWorkstation, *words: str) -> str:
    """Runs a CLI command that does not need a terminal. Returns its output."""
    return subprocess.run(
        [str(programs.claude()), *words],
        cwd=rig.project,
        env=claude_rig.environment(rig.model),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    ).stdout


@pytest.fixture
def daemon(rig: ServedWorkstation) -> Iterator[None]:
    """Runs setup. After the test, ends the daemon of the background sessions, which the CLI starts and which outlives
    them.
    """
    rig.set_up()
    yield
    run_claude(rig, "daemon", "stop", "--any")
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: None if processes() else True, timeout=10)
    for process in processes():  # on a busy machine, the daemon may ignore the command
        with contextlib.suppress(psutil.Error):
            process.kill()
    wait_until(lambda: None if processes() else True)


def processes() -> list[psutil.Process]:
    """The daemon of this home directory, the processes that run its sessions, and those that it started in
    advance.
    """
    home = os.environ["HOME"]
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
            ours = any(part in words for part in ("daemon run", "bg-pty-host", "bg-spare"))
            if ours and process.environ().get("HOME") == home:
                found.append(process)
    return found


@pytest.mark.usefixtures("daemon")
async def test_a_background_session_asks_a_client(rig: ServedWorkstation, server: Server) -> None:
    rig.model.will_say(touch("made"), text("Done."))
    async with following(server) as phone:
        started = await asyncio.to_thread(run_claude, rig, "--permission-mode", "default", "--bg", "Do it")
        assert "backgrounded" in started
        session = await phone.session()
        assert session["desk"]["background"]
        await phone.answer(await phone.question("Bash"), "allow")
        await phone.client.receive("update", "run_finished", outcome="completed")
        assert (await phone.state("finished"))["desk"]["background"]
        assert (rig.project / "made").exists()
        listed = (await phone.client.ask("project_list"))["data"]["projects"]
        assert [one["id"] for one in listed] == [session["id"]]


@pytest.mark.slow
@pytest.mark.usefixtures("daemon")
async def test_a_session_moved_to_the_background_is_linked(rig: ServedWorkstation, server: Server) -> None:
    rig.model.will_say(text("Hello there."), text("Hello again."))
    async with following(server) as phone:
        claude = rig.plain_claude()
        before = await phone.session()
        for prompt, answer in [("First words", "Hello there."), ("Second words", "Hello again.")]:
            claude.prompt(prompt)
            claude.pane.wait_for(answer)
            await phone.client.receive("update", "run_finished", outcome="completed")
        claude.pane.press("Left")
        claude.pane.wait_for("describe a task for a new session")
        after = await phone.session()
        phone.project = before["id"]
        ended = await phone.state("ended")
        phone.project = after["id"]
        assert ended["desk"]["continued_in"] == after["id"] != before["id"]
        claude.pane.press("Enter")
        claude.pane.wait_for("← for agents")
        rig.model.will_say(touch("made"), text("Done."))
        claude.prompt("More words")
        await phone.answer(await phone.question("Bash"), "allow")
        claude.pane.wait_for("Done.")
        await phone.state("finished")
        assert (rig.project / "made").exists()
        listed = {one["id"]: one["desk"] for one in (await phone.client.ask("project_list"))["data"]["projects"]}
        assert listed[before["id"]]["state"] == "ended"
        assert set(listed) == {before["id"], after["id"]}
