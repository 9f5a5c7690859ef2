"""Takes the screenshots of the web UI for the documentation.

Run ``PYTHONPATH=tools python -m tests.page.pictures docs/images``. The browser, the web UI and the server are real. The
agent is the demo agent or, in a terminal session, the real Claude Code with a stub as its model.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.messages_stub import MessagesStub, edit, read, text
from tests.rigs.tmux import Tmux
from tests.server.processes import Server, serving
from tests.server.terminal_sessions.rig import ServedWorkstation

from .conftest import page_of, project_in
from .rig import Browser, Person

PYTHON = '''"""What crosses the bridge, and when."""

from datetime import datetime, time

OPENS = time(6, 0)
CLOSES = time(22, 0)


def is_open(now: datetime) -> bool:
    """Whether the bridge is down at this time."""
    return OPENS <= now.time() <= CLOSES


def toll(carts: int) -> int:
    # Two coppers a cart, the first one free.
    return max(0, carts - 1) * 2
'''
CHANGED = PYTHON.replace("<= CLOSES", "< CLOSES").replace(
    """    # Two coppers a cart, the first one free.
    return max(0, carts - 1) * 2
""",
    '''    """In coppers: two a cart, the first one free."""
    if carts < 0:
        raise ValueError("carts can't be negative")
    return max(0, carts - 1) * 2
''',
)
GATE = """-- The gate behind the house.
local SPEED = 1 -- turns a second

local function open(gate)
  for angle = 0, 90, SPEED do
    gate:turn(angle)
  end
end

return { open = open }
"""
ANSWER = """Two things are wrong in `bridge.py`:

1. At **22:00 sharp** the bridge counts as open, although it closes then.
2. `toll` accepts a negative number of carts.

I'll fix both:"""


COLORED = "[...document.querySelectorAll('.diff')].every((one) => one.querySelector('[class^=code-]'))"
"""True once the code in every diff is highlighted."""


class Agent:
    """Writes a program that the server runs in place of the demo agent, with the texts that a screenshot needs."""

    def __init__(self, place: Path, directory: Path) -> None:
        change = {"file_path": str(directory / "bridge.py"), "content": CHANGED}
        self.script = place / "agent.py"
        self.script.write_text(
            "import json\n"
            "from drawbridge.agents.demo import edits, script\n"
            f"CHANGE, ANSWER = json.loads({json.dumps(json.dumps([change, ANSWER]))})\n"
            "edits.for_prompt = lambda words, directory: edits.Edit('Write', CHANGE)\n"
            "tell = script.Agent._tell\n"
            "def say(self, text, pace=None):\n"
            "    return tell(self, ANSWER if 'if you allow it' in text else text, pace=0)\n"
            "script.Agent._tell = say\n"
            "script.main()\n"
        )


@contextlib.contextmanager
def home_of_ada() -> Iterator[Path]:
    """Creates a home directory whose name can be shown in a screenshot, sets HOME to it, and removes it afterwards."""
    root = Path(tempfile.gettempdir()) / "ada"
    root.mkdir()
    (root / ".run").mkdir(mode=0o700)
    places = {"HOME": "", "XDG_RUNTIME_DIR": ".run", "XDG_STATE_HOME": ".state", "CLAUDE_CONFIG_DIR": ".claude"}
    try:
        with pytest.MonkeyPatch.context() as patch:
            for variable, place in places.items():
                patch.setenv(variable, str(root / place))
            yield root
    finally:
        shutil.rmtree(root)


def git(directory: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-C", directory, "-c", "user.name=Ada", "-c", "user.email=ada@localhost", *words], check=True
    )


async def take(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="db-") as scratch, home_of_ada() as root:
        directory = root / "toll-house"
        directory.mkdir(parents=True)
        (directory / "bridge.py").write_text(PYTHON)
        git(directory, "init", "-q")
        git(directory, "add", ".")
        git(directory, "commit", "-qm", "The toll house")
        for name in ("blog", "garden-planner"):
            (root / name).mkdir()
            (root / name / "notes.md").write_text("# Notes\n")
        agent = Agent(Path(scratch), directory)
        start = Path(scratch) / "sitecustomize.py"
        start.write_text(
            "from drawbridge.agents.demo import driver\nimport sys\n"
            f"command = (sys.executable, {str(agent.script)!r})\n"
            "driver.Demo.__init__.__defaults__ = (command, *driver.Demo.__init__.__defaults__[1:])\n"
        )
        async with serving(
            Path(scratch) / "data", "--no-tls", "--allow", root, PYTHONPATH=f"{scratch}:{Path.cwd() / 'src'}"
        ) as server:
            browser = Browser()
            try:
                await scenes(browser, server, root, directory, target)
                in_a_terminal(browser, server, root, target)
            finally:
                browser.close()


async def scenes(browser: Browser, server: Server, root: Path, directory: Path, target: Path) -> None:
    for name in ("blog", "garden-planner"):
        await project_in(server, root / name)
    project = await project_in(server, directory)
    address = f"{page_of(server)}#token={server.token}&project={project}"
    with browser.person(address, width=1280, height=900) as person:
        person.prompts("The tests of bridge.py fail at ten at night. Why?")
        person.sees(".approval .diff")
        person.runs("document.activeElement.blur()")
        shoot(person, target / "page-approval-light.png")
        with browser.person(address, width=390, height=844) as phone:
            phone.sees(".approval .diff")
            shoot(phone, target / "page-phone.png")
        person.readies_keys()
        person.presses("a")
        person.clicks("text=Review changes")
        person.sees(".review .diff")
        person.clicks('.comment[data-line="11"]')
        person.fills(".writing textarea", "The sign at the bridge says “until 22:00”. Is it still open then?")
        person.clicks(".writing button:has-text('Add comment')")
        person.sees(".remark.draft", "The sign")
        person.runs("document.activeElement.blur()")
        shoot(person, target / "page-review.png")
        person.goes_to(f"#/p/{project}")
        person.prompts("/ask")
        with browser.person(address, width=390, height=844, dark=True) as phone:
            phone.sees("legend")
            shoot(phone, target / "page-phone-dark.png")
        person.clicks("label:has-text('Oak')")
        person.clicks("text=Submit")
        person.sees(".said", "Oak it is.")


def in_a_terminal(browser: Browser, server: Server, root: Path, target: Path) -> None:
    """Takes a screenshot of a terminal session of the real Claude Code, whose model is a stub."""
    with MessagesStub() as model, Tmux.server() as tmux, ServedWorkstation(root / "garden-gate", model, tmux) as rig:
        gate = rig.file("gate.lua", GATE)
        question = "It creaks, so it opens slowly. The hinge can take twice the speed. Should I double it?"
        model.will_say(read(gate), [text(question), edit(gate, "SPEED = 1", "SPEED = 2")])
        with browser.person(f"{page_of(server)}#token={server.token}", width=1280, height=900, dark=True) as person:
            claude = rig.plain_claude()
            person.clicks(".project:has(.at-desk)")
            claude.prompt("Why is the gate so slow?")
            person.sees(".approval .diff")
            person.runs("document.activeElement.blur()")
            shoot(person, target / "page-desk.png")


def shoot(person: Person, file: Path) -> None:
    person.until("document.documentElement.dataset.connection !== 'connecting'")
    person.until(COLORED)
    person.runs("new Promise((later) => requestAnimationFrame(() => requestAnimationFrame(later)))")
    person("shot", file=str(file))


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1]).resolve()))
