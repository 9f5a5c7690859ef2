"""A new agent needs only one folder and one row of the catalog.

The tests add two agents to a copy of the package and run the real commands of that copy. The server runs Pelican, which
never asks. Heron runs in terminals, and its hooks ask for decisions about tools that no other agent has.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import drawbridge
from drawbridge.server.auth.devices import Devices, new_code
from tests.guard.editors import Editor
from tests.server.processes import serving
from tests.server.wire_client import connected
from tests.waiting import PATIENCE

ROWS = """\
    Row("pelican", "Pelican Code", "Pelican", program="pelican", asks=False, hooks=True),
    Row("heron", "Heron Code", "Heron", program="heron", asks=False, hooks=True, terminal=True),
"""

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
    name, asks, own_modes, sees, forks = ROW.name, ROW.asks, ROW.own_modes, ROW.sees, ROW.forks
    sessions = None
    embeds = staticmethod(is_text)

    def __init__(self, path):
        self._path = path or ROW.program

    async def start(self, launch, emit):
        command = [await process.program(self.name, self._path, os.environ, ROW.title)]
        variables = environment(os.environ, launch.directory, launch.mark)
        dialect = Turn(ROW.title)
        return await process.start(
            ROW.title, command, launch.directory, variables, dialect, emit, launch.confinement, OneShot
        )

def agent(path):
    return Pelican(path)
""",
    "hook.py": """\
EVENTS = {"about_to_act": "before", "did_act": "after"}
TOOLS = {"scribble": ("edit", ("where",))}
ASKS = WATCHES = RESOLVES_DOTS = CALLED_BY_CLIENT = False
WAKES = ""
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

HERON = {
    "__init__.py": '"""Heron Code."""\n',
    "driver.py": FOLDER["driver.py"].replace("pelican", "heron").replace("Pelican", "Heron"),
    "hook.py": """\
EVENTS = {"about_to_act": "before", "wants": "asks"}
TOOLS = {"scrawl": ("edit", ("where",))}
ASKS = WATCHES = RESOLVES_DOTS = CALLED_BY_CLIENT = False
WAKES = ""
NO_CONTEXT = ()
continue_with = None

def session(environ, ancestors):
    return {}

def hides_dialog(payload):
    return False

def paths(value):
    return [value]

def deny(event, reason):
    return {"halt": {"event": event, "because": reason}}

def ask(event, reason):
    return deny(event, reason)
""",
    "hook_settings.py": FOLDER["hook_settings.py"]
    .replace("pelican", "heron")
    .replace("PELICAN", "HERON")
    .replace("scribble", "scrawl")
    .replace("did_act", "wants"),
    "terminal.py": """\
import msgspec
from drawbridge.agents.base import AgentState, Proposal
from drawbridge.agents.terminal import HookEvent, HookPayload, NotItsFile, ProcessState, TerminalAgent

class Payload(HookPayload, frozen=True):
    offers: msgspec.Raw = msgspec.Raw(b"[]")

class Reports:
    state = AgentState()

    def recorded(self, data):
        return None

class Heron(TerminalAgent):
    accepts_changed_input, accepts_typing, reports_tasks, names_turns, reports_mode = True, False, False, True, False

    def event(self, payload):
        found = msgspec.json.decode(payload, type=Payload)
        names = {"about_to_act": "PreToolUse", "wants": "PermissionRequest"}
        return HookEvent(
            names[found.hook_event_name], found.session_id, found.cwd, turn="t1",
            tool_name=found.tool_name, tool_input=found.tool_input, suggestions=found.offers,
        )

    def is_spare(self, event):
        return False

    def answer(self, decision, tool_name, given, suggestions):
        return {"go": decision.allow, "with": decision.updated_input or given, "forever": decision.remember}

    def proposal(self, tool, given, read):
        return Proposal(given["where"], read(given["where"]) or "", given["what"]) if tool == "scrawl" else None

    def hides_dialog(self, asked_by):
        return False

    def asks_people(self, mode):
        return True

    def is_same_call(self, tool, before, after, *, as_run):
        return before == after

    def reports_input(self, tool):
        return True

    def is_command(self, prompt):
        return False

    def words(self, prompt):
        return prompt

    def checked(self, path, session_id, config):
        raise NotItsFile(path)

    def reports(self, state):
        return Reports()

    def last_state(self, lines, session_id):
        return AgentState()

    def process(self, transcript, pid, session_id):
        return ProcessState()

def agent():
    return Heron()
""",
    "tools.py": """\
from drawbridge.agents.tool_calls import Rule, Rules, ToolCall, Tools, decoded

class HeronTools(Tools):
    def call(self, name, given, suggestions, form):
        rules = [Rules(suggestion=number, where="everywhere", saved_in="~/.heron", effect="allow",
                       rules=(Rule(one["forever"], "prefix", one["forever"]),))
                 for number, one in enumerate(decoded(suggestions))]
        match name:
            case "scrawl":
                return ToolCall(kind="overwrite", name="Scrawl", paths=(given["where"],), texts=("what",),
                                editable=("what",), grants=tuple(rules))
            case "shout":
                return ToolCall(kind="command", name="Shout", command="words", grants=tuple(rules))
        return ToolCall(name=name, grants=tuple(rules))

    def changed_text(self, name, given, old_text):
        return given.get("what")

    def with_text(self, name, given, old_text, text):
        return {**given, "what": text}

    def shown_fields(self, name, given, proposal):
        return ("where", "what") if given == {"where": proposal.path, "what": proposal.new_text} else ()

TOOLS = HeronTools()
""",
}

PROGRAM = """\
#!/usr/bin/env python3
import json, sys
print(json.dumps({"type": "assistant", "fish": sys.stdin.read()}))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory that contains a copy of the package to which the agents were added."""
    source = tmp_path_factory.mktemp("source")
    package = source / "drawbridge"
    shutil.copytree(Path(drawbridge.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for agent, folder in (("pelican", FOLDER), ("heron", HERON)):
        (package / "agents" / agent).mkdir()
        for name, text in folder.items():
            (package / "agents" / agent / name).write_text(text)
    catalog = package / "agents" / "catalog.py"
    head, begin, rows = catalog.read_text().partition("ROWS: Final = (\n")
    assert begin
    catalog.write_text(f"{head}{begin}{ROWS}{rows}")
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


async def test_the_server_lists_and_runs_the_new_agent(tmp_path: Path) -> None:
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
        messages = [message["data"]["messages"][0] for message in client.received if message["type"] == "agent_message"]
        assert {"type": "assistant", "fish": "Catch one"} in messages


def test_the_program_of_the_new_agent_can_be_set() -> None:
    problems = run(
        "-c",
        "from drawbridge.agents.registry import AgentPrograms, missing, problems\n"
        "print(problems(AgentPrograms(paths=['pelican=/bin/sh'])))\n"
        "print(missing(AgentPrograms(paths=['pelican=/no/such'])).get('pelican'))",
    )
    assert problems == "[]\n/no/such\n"


def test_setup_offers_the_new_agent_and_installs_its_hooks(home: Path) -> None:
    assert "Protect your unsaved changes from Pelican Code, and report its" in drawbridge_("setup", "pelican", "--help")
    planned = json.loads(drawbridge_("setup", "pelican", "--json", "--dry-run"))
    assert str(home / ".pelican" / "hooks.json") in [step["path"] for step in planned["files"]]
    assert "Done: the guard is set up for Pelican Code." in drawbridge_("setup", "pelican", "--yes")
    assert set(hook_commands(home / ".pelican" / "hooks.json")) == {"about_to_act", "did_act"}
    assert "pelican" in run(
        "-c",
        "from drawbridge import cli; from drawbridge.cli import completion; print(completion.script('bash', cli.parser()))",
    )


def test_info_tests_the_guard_of_the_new_agent() -> None:
    def info() -> tuple[dict[str, Any], list[str]]:
        """Returns the report about the agent's guard and all reported problems."""
        command = [sys.executable, "-m", "drawbridge", "info", "--json"]
        report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False, timeout=120).stdout)
        [found] = [guard for guard in report["guard"] if guard["agent"] == "pelican"]
        return found, report["problems"]

    assert info()[0]["state"] == "absent"
    drawbridge_("setup", "pelican", "--yes")
    found, _ = info()
    assert (found["title"], found["state"], found["problem"]) == ("Pelican Code", "works", "")
    assert found["events"] == ["about_to_act", "did_act"]
    assert info()[1] == [], "the test call above was recorded as a failure"


def test_the_installed_guard_answers_in_the_agents_format(home: Path, tmp_path: Path) -> None:
    sockets = home.parent / "s"
    sockets.mkdir()
    drawbridge_("setup", "pelican", "--yes", "--socket-dir", str(sockets), "--deadline", "3000")
    command = hook_commands(home / ".pelican" / "hooks.json")["about_to_act"]
    call = {"hook_event_name": "about_to_act", "tool_name": "scribble", "tool_input": {"where": "a.py"}, "cwd": "/ws"}

    def answer() -> Any:
        result = subprocess.run(
            ["/bin/sh", "-c", command],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
            input=json.dumps(call),
        )
        return json.loads(result.stdout)

    assert answer() == {}
    kept = {"modified": True, "current": True, "visible": True, "lines": 3}
    with Editor(sockets / f"{'0123456789abcdef' * 4}-{2**22 + 1}.sock", {"/ws/a.py": kept}):
        halt = answer()["halt"]
    assert halt["event"] == "about_to_act"
    assert "/ws/a.py has unsaved changes" in halt["because"]


@contextlib.asynccontextmanager
async def heron_asks(folder: Path, tool: str, given: dict[str, Any], **more: Any) -> AsyncIterator[Process]:
    """Runs Heron's installed hook for a question, and yields its process."""
    command = hook_commands(Path.home() / ".heron" / "hooks.json")["wants"]
    question = {"hook_event_name": "wants", "session_id": "s1", "cwd": str(folder), "tool_name": tool, **more}
    hook = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", f"exec {command}", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert hook.stdin is not None
    hook.stdin.write(json.dumps({**question, "tool_input": given}).encode())
    hook.stdin.close()
    try:
        yield hook
    finally:
        if hook.returncode is None:
            hook.kill()
        await hook.wait()


async def answered(hook: Process) -> Any:
    assert hook.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return json.loads(await hook.stdout.read())["hookSpecificOutput"]["decision"]


async def test_terminal_questions_of_the_new_agent_are_answered(tmp_path: Path) -> None:
    folder = tmp_path / "roots" / "code"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("old\n")
    given = {"where": str(folder / "a.txt"), "what": "new\n"}
    drawbridge_("setup", "heron", "--yes")
    async with (
        serving(tmp_path / "data", "--allow", tmp_path / "roots") as server,
        server.client() as owner,
    ):
        await owner.ask("subscribe", {"topics": ["approvals"]})
        async with heron_asks(folder, "scrawl", given, offers=[{"forever": "scrawl"}]) as hook:
            asked = await owner.receive("permission_request")
            shown = asked["data"]
            assert (shown["kind"], shown["title"]) == (
                "overwrite",
                {"text": "Heron wants to overwrite", "path": "a.txt"},
            )
            assert (shown["editable"], shown["summary"]) == (["what"], "Write a file")
            assert shown["shown_fields"] == ["where", "what"]
            assert shown["proposal"] == {"path": given["where"], "old_text": "old\n", "new_text": "new\n"}
            everywhere = {"text": "Always allow `scrawl …` in all projects", "suggestion": 0, "saved_in": "~/.heron"}
            assert shown["always"] == [everywhere]
            code = await asyncio.to_thread(new_code, Devices(server.data), "approve")
            async with connected(server.url, tls=server.tls) as phone:
                await phone.ask("pair", {"code": code})
                decision = {"approval_id": shown["approval_id"], "decision": "allow"}
                for more in ({"updated_input": {**given, "where": "/etc/motd"}}, {"remember": True}):
                    refused = await phone.ask("permission_response", {**decision, **more}, asked["project_id"])
                    assert refused["data"]["code"] == "OUT_OF_SCOPE"
                edited = {**given, "what": "mine\n"}
                done = await phone.ask(
                    "permission_response", {**decision, "updated_input": edited}, asked["project_id"]
                )
            assert done["data"]["data"]["new_text"] == "mine\n"
            assert await answered(hook) == {"go": True, "with": edited, "forever": False}


async def test_suggestions_of_the_new_agent_have_the_owners_limits(tmp_path: Path) -> None:
    folder = tmp_path / "roots" / "code"
    folder.mkdir(parents=True)
    drawbridge_("setup", "heron", "--yes")
    flags = ("--allow", tmp_path / "roots", "--allow-tool", "shout *")
    async with serving(tmp_path / "data", *flags) as server, server.client() as owner:
        await owner.ask("subscribe", {"topics": ["approvals"]})
        async with heron_asks(folder, "shout", {"words": "sudo ls"}, offers=[{"forever": "scrawl"}]) as hook:
            asked = await owner.receive("permission_request")
            [risk] = asked["data"]["risks"]
            assert (risk["code"], risk["field"], risk["end"]) == ("sudo", "words", 4)
            decision = {"approval_id": asked["data"]["approval_id"], "decision": "allow"}
            refused = await owner.ask("permission_response", {**decision, "remember": True}, asked["project_id"])
            assert (refused["data"]["code"], refused["data"]["field"]) == ("PERMISSION_DENIED", "data.remember")
            await owner.ask("permission_response", decision, asked["project_id"])
            assert await answered(hook) == {"go": True, "with": {"words": "sudo ls"}, "forever": False}


def test_the_catalog_has_the_label_of_the_new_agent() -> None:
    label = run("-c", "from drawbridge.agents import catalog; print(catalog.label('pelican'))")
    assert label == "Pelican\n"
