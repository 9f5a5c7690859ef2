"""Takes the screenshot of the terminal client for the documentation: ``python -m tests.tui.pictures docs/images``. With
``--all``, also takes screenshots of other screens, sizes and colors.

The server is real. The agent is the demo agent, with the same text as in the screenshots of the web UI.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from drawbridge.tui.bar import Bar
from drawbridge.tui.colors import LIGHT
from tests.page.pictures import PYTHON, Agent
from tests.server.processes import Server, serving
from tests.tui.rig import Person, attached

from .conftest import make_project


async def take(target: Path, *, all_of_them: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="db-") as scratch, tempfile.TemporaryDirectory(prefix="ada-") as home:
        root = Path(home)
        directory = root / "toll-house"
        directory.mkdir()
        (directory / "bridge.py").write_text(PYTHON)
        (root / "blog").mkdir()
        agent = Agent(Path(scratch), directory)
        (Path(scratch) / "sitecustomize.py").write_text(
            "from drawbridge.agents.demo import driver\nimport sys\n"
            f"command = (sys.executable, {str(agent.script)!r})\n"
            "driver.Demo.__init__.__defaults__ = (command, *driver.Demo.__init__.__defaults__[1:])\n"
        )
        path = f"{scratch}:{Path.cwd() / 'src'}"
        async with serving(Path(scratch) / "data", "--no-tls", "--allow", root, PYTHONPATH=path) as server:
            await make_project(server, root / "blog")
            await make_project(server, directory)
            await scenes(server, target, all_of_them=all_of_them)


async def scenes(server: Server, target: Path, *, all_of_them: bool) -> None:
    async with attached(server, "toll-house", size=(100, 38)) as person:
        await person.prompts("The tests of bridge.py fail at ten at night. Why?")
        await person.is_asked()
        shoot(person, target / "attach.svg")
        if not all_of_them:
            return
        async with attached(server, "toll-house", size=(100, 38), palette=LIGHT) as day:
            await day.is_asked()
            shoot(day, target / "attach-light.svg")
        for size in ((80, 24), (40, 24)):
            async with attached(server, "toll-house", size=size) as other:
                await other.is_asked()
                shoot(other, target / f"attach-{size[0]}.svg")
        async with attached(server, None, size=(80, 24)) as other:
            await other.sees("toll-house")
            shoot(other, target / "attach-projects.svg")
        await person.presses("e")
        shoot(person, target / "attach-edit.svg")
        await person.presses("escape", "r")
        shoot(person, target / "attach-reject.svg")
        await person.presses("escape", "a")
        await person.reads("Finished")
        await person.prompts("/ask")
        await person.is_asked()
        shoot(person, target / "attach-ask.svg")
        await person.presses("escape", "question_mark")
        shoot(person, target / "attach-help.svg")


def shoot(person: Person, file: Path) -> None:
    """Saves a screenshot, with a fixed path in the bar and without the fonts that a reader's browser would load from
    another site.
    """
    for bar in person.app.screen.query(Bar):
        bar.show("toll-house", "The demo agent · /home/ada/toll-house", person.app.client.connection)
    person.app.screen.refresh()
    picture = person.app.export_screenshot(title="drawbridge attach toll-house")
    file.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1]).resolve(), all_of_them="--all" in sys.argv))
