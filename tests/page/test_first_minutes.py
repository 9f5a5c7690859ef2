"""From the README's first command to the first approved change, as a new user who is not root."""

from __future__ import annotations

import logging
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.messages_stub import MessagesStub, edit, text
from tests.rigs.tmux import Tmux

from .rig import Browser

logger = logging.getLogger(__name__)

NEWCOMER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]

PIP_AND_NPM_SECONDS = 900


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_from_the_readme_to_the_first_approved_change(browser: Browser, home: Path) -> None:
    """Uses a new clone, a new home directory, and the real ``claude``, whose model is a stub. Needs access to the
    package indexes."""
    if subprocess.run([*NEWCOMER, "true"], capture_output=True, check=False).returncode:
        programs.missing("this machine allows no user namespaces")
    blog = home / "blog"
    blog.mkdir()
    (blog / "notes.md").write_text("The bridge is up.\n")
    subprocess.run(["git", "init", "-q", str(blog)], check=True)
    with MessagesStub() as model, Tmux.server() as tmux:
        model.will_say(edit(blog / "notes.md", "up", "down"), text("It is down now."))
        claude_rig.prepare_home(blog)
        environment = claude_rig.environment(model)
        environment["PATH"] = f"{programs.claude().parent}:{environment['PATH']}"
        began = time.monotonic()
        clone = home / "drawbridge"
        subprocess.run(["git", "clone", "-q", str(programs.ROOT), str(clone)], check=True)
        serve = ["make", "-C", str(clone), "serve", "ARGS=--port 0"]
        pane = tmux.start("serve", [*NEWCOMER, *serve], cwd=home, environment=environment)
        shown = pane.wait_for("Next: open the link", timeout=PIP_AND_NPM_SECONDS)
        served = time.monotonic()
        link = re.search(r"sign in +(https://\S+)", shown)
        assert link is not None
        with browser.person(link[1], untrusting=True) as person:
            person.sees("#folders [role=option]:has-text('blog') .tag", "Git")
            person.clicks("#folders [role=option]:has-text('blog')")
            person.sees(".agent-choice:has(:checked)", "Claude")
            person.fills("#first", "Take the bridge down")
            person.clicks("button:has-text('Start session')")
            person.sees(".approval .line.added", "The bridge is down.")
            person.clicks(".approval button:has-text('Accept')")
            person.sees(".said", "It is down now.")
        assert (blog / "notes.md").read_text() == "The bridge is down.\n"
        ended = time.monotonic()
        pane.press("C-c")
        pane.wait_for("Pane is dead")
    report = "%.0f s until the server was ready, %.0f s to the approved change"
    logger.info(report, served - began, ended - served)
