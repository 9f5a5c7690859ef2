"""A new agent needs only one folder and one row of the catalog.

The tests add an agent, Pelican, to a copy of the package and run the real commands of that copy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import drawbridge
from tests.guard.editors import Editor
from tests.server.processes import serving
from tests.waiting import PATIENCE

ROW = 'Row("pelican", "Pelican Code", "Pelican", program="pelican", asks=False, hooks=True),'

FOLDER = {
    "__init__.py": '"""Pelican Code."""\n',
    "driver.py": """\
import os
from drawbridge.agents import catalog, process
from drawbridge.agents.attached import is_text
from drawbridge.agents.environment import environment
from drawbridge.agents.one_shot import OneShot, Turn

ROW = catalog.AGENTS["pelican"]

class Pelican:
    name, asks, own_modes, sees = ROW.name, ROW.asks, ROW.own_modes, ROW.sees
    sessions = None
    embeds = staticmethod(is_text)

    def __init__(self, path):
        self._path = path or ROW.program

    async def start(self, launch, heard):
        command = [await process.program(self.name, self._path, os.environ, ROW.title)]
        variables = environment(os.environ, launch.directory, launch.mark)
        dialect = Turn(ROW.title)
        return await process.start(
            ROW.title, command, launch.directory, variables, dialect, heard, launch.confinement, OneShot
        )

def agent(path):
    return Pelican(path)
""",
    "hook.py": """\
EVENTS = {"about_to_act": "before", "did_act": "after"}
TOOLS = {"scribble": ("edit", ("where",))}
ASKS = WATCHES = RESOLVES_DOTS = CALLED_BY_CLIENT = False
NO_CONTEXT = ()
session = None

def paths(value):
    return [value]

def deny(event, reason):
    return {"halt": {"event": event, "because": reason}}

def ask(event, reason):
    return deny(event, reason)
""",
    "hook_settings.py": """\
import shlex
from drawbridge.agents.hook_settings import AgentHooks

def handler(command, timeout, holds):
    return {"type": "command", "command": shlex.join(command), "timeout": timeout}

def switches(path, content):
    return iter(())

SETTINGS = AgentHooks(
    name="pelican",
    home=("PELICAN_HOME", "~/.pelican"),
    user_file="hooks.json",
    project_file=".pelican/hooks.json",
    events={"about_to_act": "scribble", "did_act": "scribble"},
    sample=("about_to_act", "scribble", {"where": "/nonexistent/drawbridge"}),
    handler=handler,
    switches=switches,
    takes_effect="Pelican Code reads it at once.",
)
""",
}

PROGRAM = """\
#!/usr/bin/env python3
import json, sys
print(json.dumps({"type": "assistant", "fish": sys.stdin.read()}))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory that contains a copy of the package to which the agent was added."""
    source = tmp_path_factory.mktemp("source")
    package = source / "drawbridge"
    shutil.copytree(Path(drawbridge.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FOLDER.items():
        (package / "agents" / "pelican" / name).parent.mkdir(exist_ok=True)
        (package / "agents" / "pelican" / name).write_text(text)
    catalog = package / "agents" / "catalog.py"
    head, begin, rows = catalog.read_text().partition("ROWS: Final = (\n")
    assert begin
    catalog.write_text(f"{head}{begin}    {ROW}\n{rows}")
    return source


@pytest.fixture(autouse=True)
def _with_the_copy(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "pelican"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(source))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def run(*words: str, input: str = "") -> str:
    """Runs Python with the copy of the package and returns the output."""
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, input=input).stdout


def drawbridge_(*words: str) -> str:
    return run("-m", "drawbridge", *words)


def hook_commands(settings: Path) -> dict[str, str]:
    hooks = json.loads(settings.read_text())["hooks"]
    return {event: group["hooks"][0]["command"] for event, (group,) in hooks.items()}


async def test_the_server_lists_it_and_runs_it(tmp_path: Path) -> None:
    code = tmp_path / "roots" / "code"
    code.mkdir(parents=True)
    async with (
        serving(tmp_path / "data", "--allow", tmp_path / "roots", "--no-tls") as server,
        server.client() as client,
    ):
        hello = await client.ask("hello")
        assert "pelican" in hello["data"]["agents"]
        project = (await client.ask("project_create", {"path": str(code), "agent": "pelican"}))["project_id"]
        await client.ask("project_join", project_id=project)
        await client.ask("execute", {"prompt": "Catch one"}, project)
        finished = await client.receive("update", "run_finished")
        assert finished["data"]["data"]["outcome"] == "completed"
        said = [message["data"]["messages"][0] for message in client.received if message["type"] == "agent_message"]
        assert {"type": "assistant", "fish": "Catch one"} in said


def test_its_program_can_be_set() -> None:
    problems = run(
        "-c",
        "from drawbridge.agents.registry import Named, missing, problems\n"
        "print(problems(Named(paths=['pelican=/bin/sh'])), missing(Named(paths=['pelican=/no/such'])).get('pelican'))",
    )
    assert problems == "[] /no/such\n"


def test_setup_offers_it_and_installs_its_hooks(home: Path) -> None:
    assert "Protect your unsaved changes from Pelican Code." in drawbridge_("setup", "pelican", "--help")
    planned = json.loads(drawbridge_("setup", "pelican", "--json", "--dry-run"))
    assert str(home / ".pelican" / "hooks.json") in [step["path"] for step in planned["files"]]
    assert "Done: Pelican Code now calls the guard." in drawbridge_("setup", "pelican", "--yes")
    assert set(hook_commands(home / ".pelican" / "hooks.json")) == {"about_to_act", "did_act"}
    assert "pelican" in run(
        "-c",
        "from drawbridge import cli; from drawbridge.cli import completion; print(completion.script('bash', cli.parser()))",
    )


def test_info_tests_its_guard() -> None:
    def info() -> tuple[dict[str, Any], list[str]]:
        """Returns the report about the agent's guard and all reported problems."""
        command = [sys.executable, "-m", "drawbridge", "info", "--json"]
        report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False, timeout=120).stdout)
        [found] = [guard for guard in report["guard"] if guard["agent"] == "pelican"]
        return found, report["problems"]

    assert info()[0]["state"] == "absent"
    drawbridge_("setup", "pelican", "--yes")
    found, _ = info()
    assert (found["state"], found["problem"]) == ("works", "")
    assert found["events"] == ["about_to_act", "did_act"]
    assert info()[1] == [], "the test call above was recorded as a failure"


def test_the_installed_guard_answers_in_the_agents_format(home: Path, tmp_path: Path) -> None:
    sockets = home.parent / "s"
    sockets.mkdir()
    drawbridge_("setup", "pelican", "--yes", "--socket-dir", str(sockets), "--deadline", "3000")
    command = hook_commands(home / ".pelican" / "hooks.json")["about_to_act"]
    call = {"hook_event_name": "about_to_act", "tool_name": "scribble", "tool_input": {"where": "a.py"}, "cwd": "/ws"}

    def answer() -> Any:
        said = subprocess.run(
            ["/bin/sh", "-c", command],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
            input=json.dumps(call),
        )
        return json.loads(said.stdout)

    assert answer() == {}
    kept = {"modified": True, "current": True, "visible": True, "lines": 3}
    with Editor(sockets / f"{'0123456789abcdef' * 4}-{2**22 + 1}.sock", {"/ws/a.py": kept}):
        halt = answer()["halt"]
    assert halt["event"] == "about_to_act"
    assert "/ws/a.py has unsaved changes" in halt["because"]


def test_the_catalog_has_its_label() -> None:
    label = run("-c", "from drawbridge.agents import catalog; print(catalog.label('pelican'))")
    assert label == "Pelican\n"
