"""``drawbridge demo``: an address, a first question, and nothing left."""

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

from .rig import Browser

COMMAND = [sys.executable, "-m", "drawbridge", "demo", "--no-browser"]


@pytest.fixture
def demo(browser: Browser) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True, start_new_session=True)
    yield process
    if process.poll() is None:
        process.terminate()
    process.wait(20)
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


def test_the_first_approval_waits_and_ctrl_c_leaves_nothing(browser: Browser, demo: subprocess.Popen[str]) -> None:
    with browser.person(address_in(demo)) as person:
        person.sees(".approval h3", "README.md")
        person.sees(".approval .line.added", "You said: Welcome me in README.md")
        assert "token" not in person.runs("location.href")
        [place] = left()
        person.clicks(".approval button:has-text('Accept')")
        person.sees(".finished", "Finished")
        assert "Welcome me" in (place / "toll-house" / "README.md").read_text()
    os.killpg(demo.pid, signal.SIGINT)  # as a terminal does
    assert demo.wait(15) == 0
    assert left() == []


def test_a_signal_ends_it_as_well(demo: subprocess.Popen[str]) -> None:
    address_in(demo)
    demo.terminate()
    assert demo.wait(15) == 0
    assert left() == []
