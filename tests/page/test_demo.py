"""``drawbridge demo`` prints an address, requests a first approval, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.messages_stub import MessagesStub, text
from tests.rigs.tmux import wait_until
from tests.waiting import PATIENCE

from .rig import Browser

COMMAND = [sys.executable, "-m", "drawbridge", "demo", "--no-browser"]


@pytest.fixture
def demo(browser: Browser) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True, start_new_session=True)
    yield process
    if process.poll() is None:
        process.terminate()
    process.wait(PATIENCE)
    assert process.stdout is not None
    process.stdout.close()


def address_in(demo: subprocess.Popen[str]) -> str:
    assert demo.stdout is not None
    for line in demo.stdout:
        if found := re.search(r"http://\S+", line):
            return found[0]
    raise AssertionError("no address")


def left() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("drawbridge-demo-*"))


@pytest.mark.thorough
def test_the_first_approval_waits_and_ctrl_c_leaves_no_files(browser: Browser, demo: subprocess.Popen[str]) -> None:
    with browser.person(address_in(demo)) as person:
        person.sees(".approval h3", "README.md")
        person.sees(".approval .line.added", "You said: Add a welcome to README.md")
        # Finding S3-37 in docs/internals/page.md: the prompt's author used to be shown as an address.
        person.sees(".prompt .who", "drawbridge demo")
        assert person.runs("document.querySelector('.prompt .who').firstChild.textContent") == "drawbridge demo"
        assert "token" not in person.runs("location.href")
        [place] = left()
        person.clicks(".approval button:has-text('Accept')")
        person.sees(".finished", "Finished")
        assert "Add a welcome" in (place / "toll-house" / "README.md").read_text()
    os.killpg(demo.pid, signal.SIGINT)  # as a terminal does for Ctrl+C
    assert demo.wait(PATIENCE) == 0
    assert left() == []


@pytest.mark.thorough
def test_the_token_is_not_in_the_arguments_and_sigterm_cleans_up(browser: Browser, tmp_path: Path) -> None:
    """All users of a machine can read the arguments of a process, so they must not contain the token."""
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n')
    program.chmod(0o700)
    environment = os.environ | {"BROWSER": str(program)}
    process = subprocess.Popen(COMMAND[:-1], stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment)
    try:
        address = address_in(process)
        wait_until(lambda: opened.exists() or None)
        file = Path(opened.read_text().removeprefix("file://"))
        assert "token" not in opened.read_text()
        assert address.split("#")[0] in file.read_text()
        with browser.person(file.as_uri()) as person:
            person.sees(".approval h3", "README.md")
            assert len(left()) == 1
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert process.stdout is not None
        process.stdout.close()
    assert left() == []


@pytest.mark.slow
def test_a_real_agent_gets_no_prompt_before_the_users_first(browser: Browser) -> None:
    claude = programs.claude()
    with MessagesStub() as model:
        model.will_say(text("I mind the **bridge**."))
        claude_rig.prepare_home(Path("/nowhere"))
        environment = claude_rig.environment(model)
        environment["PATH"] = f"{claude.parent}:{environment['PATH']}"
        process = subprocess.Popen(
            [*COMMAND, "--agent", "claude"], stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment
        )
        try:
            with browser.person(address_in(process)) as person:
                person.sees(".path", "claude · ")
                assert person.reads(".prompt") == []
                person.prompts("Who are you?")
                person.sees(".said strong", "bridge")
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
            assert process.stdout is not None
            process.stdout.close()
