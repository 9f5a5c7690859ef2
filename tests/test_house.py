"""Checks the rules of docs/internals/architecture.md: imports between modules, ownership of tasks, links, and test folders."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from drawbridge.agents import catalog, registry
from drawbridge.agents.acp import tools as acp_tools
from drawbridge.agents.claude import suggestions
from drawbridge.agents.claude import tools as claude_tools
from drawbridge.agents.codex import tools as codex_tools
from drawbridge.core import errors
from drawbridge.setup.agents import AGENTS

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

IO_LIBRARIES = {"asyncio", "multiprocessing", "select", "selectors", "socket", "ssl", "subprocess", "threading"}
TYPES = {"collections.abc", "typing", "typing.Any"}
TYPES |= {f"collections.abc.{name}" for name in ("Iterable", "Mapping", "Sequence")}
"""Names that are imported only for types."""

PURE = (
    "protocols",
    "text",
    "editors.port",
    "ide.accepted_files",
    "ide.tools",
    "ide.workspace",
    *(f"core.{name}" for name in ("approval", "errors", "privacy")),
    "transport.http_app",
    *(
        f"agents.{name}"
        for name in ("base", "catalog", "modes", "output", "proposals", "results", "terminal", "tool_calls")
    ),
    *(
        f"agents.{name}"
        for name in (
            "acp.conversation",
            "acp.listing",
            "claude.conversation",
            "claude.command_line",
            "claude.edits",
            "claude.transcript",
        )
    ),
    "server.protocol",
    *(f"server.auth.{name}" for name in ("audited", "rate_limits", "scopes")),
    "server.bus",
    "server.events",
    "server.store.records",
    "server.updates",
    "server.approvals.pending",
    *(f"server.reviews.{name}" for name in ("change_set", "comments", "intents", "remembered")),
    *(f"server.sessions.{name}" for name in ("audience", "recorded_state", "runs.run", "runs.runs")),
    *(f"server.terminal_sessions.{name}" for name in ("dialog", "questions", "turn", "turns")),
    *(
        f"tui.{name}"
        for name in (
            "answers",
            "asides",
            "call_parts",
            "conversation",
            "difference",
            "review.parts",
            "review.reviews",
            "store",
            "tool_words",
            "wording",
        )
    ),
)
JOBS = ("ide", "guard", "server", "tui")
FLOOR = ("agents", "core", "protocols", "text", "transport", "editors", "settings")
SERVER_FLOORS = (
    "events",
    "bus",
    "store",
    "protocol",
    "updates",
    "approvals",
    "checkpoints",
    "reviews",
    "sessions",
    "auth",
    "terminal_sessions",
    "notifications",
    "app",
)
AGENT_DIALECTS = (
    *("ide.claude", "ide.gemini", "ide.tools", "ide.discovery"),
    *(f"agents.{name}" for name in ("acp", "claude", "codex", "command", "demo", "gemini")),
)
EDITOR_DIALECTS = ("editors.neovim", "editors.folder", "guard.neovim", "guard.vscode", "protocols.msgpack_rpc")
SPEAKS = {"gemini": "acp", "demo": "claude"}
"""Agents that use another agent's protocol and may import its folder: Gemini CLI is an ACP agent, and the demo agent writes
Claude Code's stream."""

LISTS = {
    "PURE": PURE,
    "JOBS": JOBS,
    "FLOOR": FLOOR,
    "SERVER_FLOORS": tuple(f"server.{folder}" for folder in SERVER_FLOORS),
    "AGENT_DIALECTS": AGENT_DIALECTS,
    "EDITOR_DIALECTS": EDITOR_DIALECTS,
    "SPEAKS": tuple(f"agents.{name}" for names in SPEAKS.items() for name in names),
}


@cache
def modules() -> dict[str, Path]:
    """Returns each module of the package, such as "protocols.http", with its file."""
    files = (SRC / "drawbridge").rglob("*.py")
    return {
        ".".join(file.relative_to(SRC / "drawbridge").with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), file.name)


def imports(file: Path) -> Iterator[str]:
    """Yields the full names of everything that a module imports, in functions and only for types as well."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative imports hide which module imports which"
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)


@cache
def known(name: str) -> frozenset[str]:
    """Returns the modules of the package that the module imports, named as in ``modules``."""
    ours = (imported.removeprefix("drawbridge.") for imported in imports(modules()[name]))
    return frozenset(ours) & set(modules()) - {name}


def belongs(name: str, groups: tuple[str, ...]) -> bool:
    return any(name == group or name.startswith(group + ".") for group in groups)


def those_in(groups: tuple[str, ...]) -> list[str]:
    return sorted(name for name in modules() if belongs(name, groups))


def reached(name: str) -> set[str]:
    """Returns the module and all modules that it imports, directly or indirectly."""
    found, ahead = {name}, [name]
    while ahead:
        new = known(ahead.pop()) - found
        found |= new
        ahead += new
    return found


def test_imports_between_modules_have_no_cycles() -> None:
    """Imports in functions and imports only for types count as well. ``CycleError`` names the modules of the cycle."""
    TopologicalSorter({name: known(name) for name in modules()}).prepare()


@pytest.mark.parametrize("name", those_in(PURE))
def test_protocols_tools_and_texts_do_no_io(name: str) -> None:
    for module in sorted(reached(name)):
        libraries = {imported.partition(".")[0] for imported in imports(modules()[module])} & IO_LIBRARIES
        assert not libraries, f"{name} gets {', '.join(libraries)} through {module}"


@pytest.mark.parametrize("name", those_in(JOBS))
def test_no_job_imports_another(name: str) -> None:
    others = tuple(job for job in JOBS if not belongs(name, (job,)))
    assert [other for other in reached(name) if belongs(other, others)] == []


@pytest.mark.parametrize("name", those_in(FLOOR))
def test_shared_modules_import_no_job(name: str) -> None:
    assert [other for other in reached(name) if belongs(other, JOBS)] == []


TELLS_ERRORS_APART = {"core.json_text", "protocols.jsonrpc", "server.protocol.commands", "server.store.lines"}
"""The modules that may catch msgspec's errors by name: the one that lists them, and those that answer each in its own
way."""


def test_undecodable_json_is_caught_as_a_whole() -> None:
    """A text that is not UTF-8 or is nested too deeply is as likely as one that is not JSON (``core.json_text``)."""
    by_name = re.compile(r"msgspec\.(MsgspecError|DecodeError)")
    assert {name for name, file in modules().items() if by_name.search(file.read_text())} == TELLS_ERRORS_APART


def test_only_commands_import_commands() -> None:
    """A module that needs a command's settings imports them from ``drawbridge.settings``, not from the command."""
    others = [name for name in modules() if not belongs(name, ("cli", "__main__"))]
    assert [name for name in others if any(belongs(other, ("cli",)) for other in known(name))] == []


@pytest.mark.parametrize("name", LISTS)
def test_the_lists_name_only_existing_modules(name: str) -> None:
    assert [group for group in LISTS[name] if not those_in((group,))] == []


@pytest.mark.parametrize("name", those_in(("guard",)))
def test_the_guard_imports_only_what_setup_copies(name: str) -> None:
    """The module that the guard loads by an agent's name, ``agents/NAME/hook.py``, imports only types."""
    copied = ("guard", "text", "agents.catalog", *(f"core.{part}" for part in ("errors", "privacy", "terminal_text")))
    assert [other for other in reached(name) - {"agents"} if not belongs(other, copied)] == []


@pytest.mark.parametrize("name", [f"agents.{row.name}.hook" for row in catalog.ROWS if row.hooks])
def test_an_agents_hook_module_imports_only_types(name: str) -> None:
    assert set(imports(modules()[name])) - TYPES <= {"__future__", "__future__.annotations"}


def agent_folders() -> list[str]:
    return sorted({name.split(".")[1] for name in modules() if name.count(".") == 2 and name.startswith("agents.")})


def kernel() -> list[str]:
    """Returns the modules that all agents share. The registry is not one of them, because it imports the drivers."""
    folders = tuple(f"agents.{folder}" for folder in agent_folders())
    return [name for name in those_in(("agents",)) if not belongs(name, (*folders, "agents.registry"))]


@pytest.mark.parametrize("name", kernel())
def test_the_shared_modules_of_the_agents_name_no_agent(name: str) -> None:
    folders = tuple(f"agents.{folder}" for folder in agent_folders())
    assert [other for other in known(name) if belongs(other, folders)] == []
    if name != "agents.catalog":
        assert [word for word in words_of(modules()[name]) if named_agents(word)] == []


@pytest.mark.parametrize("folder", agent_folders())
def test_agents_import_each_other_only_through_shared_modules(folder: str) -> None:
    may = tuple(f"agents.{name}" for name in (folder, SPEAKS.get(folder, folder)))
    for name in those_in((f"agents.{folder}",)):
        others = [other for other in known(name) if belongs(other, ("agents",)) and other not in kernel()]
        assert [other for other in others if not belongs(other, may)] == [], name


@pytest.mark.parametrize("row", catalog.ROWS, ids=lambda row: row.name)
def test_each_row_of_the_catalog_matches_its_folder(row: catalog.Row) -> None:
    promised = ["driver", *(("hook", "hook_settings") if row.hooks else ()), *(("terminal",) if row.terminal else ())]
    promised += ["tools"] if row.asks or row.terminal or row.proposes else []
    assert [name for name in promised if f"agents.{row.name}.{name}" not in modules()] == []
    agent = registry.built_in(row.name, None)
    assert (agent.name, agent.asks, agent.own_modes, agent.sees) == (row.name, row.asks, row.own_modes, row.sees)
    if row.hooks:
        assert AGENTS[row.name].name == row.name
        assert (AGENTS[row.name].ask_mode is not None) == row.ask_mode


@pytest.mark.parametrize("name", those_in(("server",)))
def test_the_server_knows_no_agent(name: str) -> None:
    """It gets all agents from ``agents.registry``."""
    folders = tuple(f"agents.{folder}" for folder in agent_folders())
    assert [other for other in known(name) if belongs(other, folders)] == []


OWN_WORDS = frozenset({*claude_tools.KINDS, *codex_tools.KINDS, *suggestions.KEYS, acp_tools.ARGUMENTS})
"""The names of agents' tools, and the words of the formats in which agents suggest what to remember."""

SERVER_WORDS = {
    "server.approvals.service": {"destination"},  # a field of any tool's input that may contain a path
}


@pytest.mark.parametrize("name", those_in(("server",)))
def test_the_server_knows_no_agents_tools(name: str) -> None:
    """``agents/NAME/tools.py`` describes an agent's calls and suggestions. An entry of ``SERVER_WORDS`` that the module
    no longer contains fails the test as well."""
    assert OWN_WORDS.intersection(strings_of(modules()[name])) == SERVER_WORDS.get(name, set())


def test_no_module_compares_with_an_agents_name() -> None:
    """Differences are properties of the catalog row or functions in the agent's folder. Comparisons with a record's
    ``direction`` are allowed, because it is a wire name.
    """
    folders = tuple(f"agents.{folder}" for folder in agent_folders())
    for name, file in modules().items():
        if not belongs(name, folders):
            assert list(comparisons_with_an_agent(parsed(file))) == [], name


def comparisons_with_an_agent(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            on_the_wire = any(isinstance(side, ast.Attribute) and side.attr == "direction" for side in sides)
            if not on_the_wire and any(isinstance(s, ast.Constant) and s.value in catalog.AGENTS for s in sides):
                yield ast.unparse(node)


def strings_of(file: Path) -> Iterator[str]:
    """Yields the strings in the code of a module, without docstrings."""
    docstrings = {id(node.value) for node in ast.walk(parsed(file)) if isinstance(node, ast.Expr)}
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def words_of(file: Path) -> Iterator[str]:
    """Yields names and strings in the code of a module, without docstrings and comments."""
    yield from strings_of(file)
    for node in ast.walk(parsed(file)):
        yield from (
            getattr(node, field)
            for field in ("id", "attr", "name", "arg")
            if isinstance(getattr(node, field, None), str)
        )


def named_agents(word: str) -> list[str]:
    return [row.name for row in catalog.ROWS if row.program and row.name in word.lower()]


@pytest.mark.parametrize("name", those_in(("protocols",)))
def test_a_protocol_imports_only_protocols_and_errors(name: str) -> None:
    assert [other for other in known(name) if not belongs(other, ("protocols", "core.errors"))] == []


@pytest.mark.parametrize("floor", range(len(SERVER_FLOORS)), ids=SERVER_FLOORS)
def test_a_folder_of_the_server_imports_only_those_below_it(floor: int) -> None:
    below = tuple(f"server.{folder}" for folder in SERVER_FLOORS[: floor + 1])
    for name in those_in((f"server.{SERVER_FLOORS[floor]}",)):
        known_here = [other for other in known(name) if belongs(other, ("server",)) and other != "server"]
        assert [other for other in known_here if not belongs(other, below)] == [], name


EVENTS_AND_FILES = ("server.events", "server.bus", "server.store")


def test_the_client_protocol_is_separate_from_events_and_files() -> None:
    """Otherwise, a change of the protocol could change what is on disk, or the other way around. ``server.updates`` maps
    events to messages."""
    for name in those_in(EVENTS_AND_FILES):
        assert [other for other in reached(name) if belongs(other, ("server.protocol",))] == [], name
    for name in those_in(("server.protocol",)):
        assert [other for other in reached(name) if belongs(other, EVENTS_AND_FILES)] == [], name


def test_agent_and_editor_modules_do_not_import_each_other() -> None:
    for name in those_in(AGENT_DIALECTS):
        assert [other for other in reached(name) if belongs(other, EDITOR_DIALECTS)] == [], name
    for name in those_in(EDITOR_DIALECTS):
        assert [other for other in reached(name) if belongs(other, AGENT_DIALECTS)] == [], name


def test_only_the_bridge_imports_both_agents_and_editors() -> None:
    both = {
        name
        for name in modules()
        if any(belongs(other, AGENT_DIALECTS) for other in known(name))
        and any(belongs(other, EDITOR_DIALECTS) for other in known(name))
    }
    assert both <= {"ide.bridge"}


LOOSE_TASKS: dict[str, set[str]] = {
    "core.tasks": {"create_task"},  # the helper that owns tasks
    # Lets other clients run between two requests from one client. Its requests keep the order of its inbox.
    "server.app.connection": {"sleep(0)"},
    # The frames of one turn of the event loop share one write. A long queue is written in several turns, so that
    # ephemeral frames that are still queued can be left out. The queue is a list, so the frames stay in order.
    "server.app.outbox": {"call_soon"},
}


def task_groups(tree: ast.Module) -> set[str]:
    """Returns each NAME in ``async with asyncio.TaskGroup() as NAME``."""
    items = (item for node in ast.walk(tree) if isinstance(node, ast.AsyncWith) for item in node.items)
    return {
        item.optional_vars.id
        for item in items
        if isinstance(item.optional_vars, ast.Name) and ast.unparse(item.context_expr) == "asyncio.TaskGroup()"
    }


def loose_tasks(tree: ast.Module) -> set[str]:
    """Returns the calls that start tasks without a group or ``BackgroundTasks``, or rely on the order of loop turns."""
    groups, found = task_groups(tree), set[str]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called, owner = node.func.attr, ast.unparse(node.func.value)
        if called in {"create_task", "ensure_future", "call_soon"} and owner not in groups:
            found.add(called)
        elif called == "sleep" and ast.unparse(node) == "asyncio.sleep(0)":
            found.add("sleep(0)")
    return found


@pytest.mark.parametrize("name", sorted(modules()))
def test_every_task_has_an_owner(name: str) -> None:
    """An entry of ``LOOSE_TASKS`` that the module no longer contains fails the test as well, and must be removed."""
    assert loose_tasks(parsed(modules()[name])) == LOOSE_TASKS.get(name, set())


def test_the_exceptions_for_tasks_name_modules_that_exist() -> None:
    assert LOOSE_TASKS.keys() - modules().keys() == set()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("asyncio.create_task(f())", {"create_task"}),
        ("asyncio.get_running_loop().create_task(f())", {"create_task"}),
        ("async def g():\n async with asyncio.TaskGroup() as group:\n  group.create_task(f())", set()),
        ("self._tasks.start(f(), 'f')", set()),
        ("loop.call_soon(f)", {"call_soon"}),
        ("async def g():\n await asyncio.sleep(0)", {"sleep(0)"}),
        ("async def g():\n await asyncio.sleep(0.1)", set()),
    ],
)
def test_tasks_without_an_owner_are_found(code: str, found: set[str]) -> None:
    assert loose_tasks(ast.parse(code)) == found


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

OWN_ROUNDS = {
    "core.tasks: BackgroundTasks._repeat": "repeat itself",
    # Waits for one event, until a deadline or the end of the other side. The caller handles errors.
    "agents.supervisor: kill_all": "until all are dead, for END_SECONDS at most",
    "agents.supervisor: supervise": "until the agent has ended; this process has no event loop",
    "cli.demo_server: _begin.ask": "until the answer to one request; silence for ANSWER_SECONDS ends it",
    "guard.after: _about_diagnostics": "until the editors have diagnostics, for DIAGNOSTICS_SECONDS at most",
    "guard.report: _wait": "until a line has arrived, its deadline has passed, or nobody reads the hook's output",
    "ide.review: _wait_for_write": "until the agent has written one file, for FOLLOW_SECONDS at most",
    "server.auth.devices: Devices._lock": "until the lock is free, for `patience` seconds at most",
    # A deadline that is checked again because it may have moved.
    "server.sessions.runs.continuing: Continuing.check_schedule": "until a run continues; the clock may be adjusted",
    "server.sessions.processes.processes: IdlePool._expire": "keeps an idle process as long as its agent has scheduled a turn",
    "server.sessions.runs.controller: RunController._check_limits": "until the run has ended or reached its time limit",
    "server.sessions.processes.session_process: SessionProcess._check_schedule": "until the last scheduled turn is too late",
    "tui.questions: Questions._take_focus": "until no key was pressed for STILL_SECONDS",
    # Rounds that continue after an error.
    "server.sessions.processes.processes: IdlePool._check_memory": "schedules the next check before its own",
    "server.terminal_sessions.report_queue: ReportQueue._run": "catches every error of a round; reports interrupt its "
    "waits; between them, only the agent's files and process show what no hook reports",
}
"""Loops and timers that wait again and again on their own, each with what ends them or why an error does not."""


def called_name(call: ast.Call) -> str:
    """Returns the last part of the called function's name, such as "sleep"."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_endless(loop: ast.AST) -> bool:
    """Returns whether a loop has no end of its own: ``while True``, ``while not stopped.is_set()``, ``while not
    stopped.wait(5)`` or ``for … in itertools.count()``.
    """
    if isinstance(loop, ast.While):
        flags = {called_name(call) for call in ast.walk(loop.test) if isinstance(call, ast.Call)}
        return bool({"is_set", "wait"} & flags) or (isinstance(loop.test, ast.Constant) and bool(loop.test.value))
    if isinstance(loop, ast.For):
        return any(isinstance(call, ast.Call) and called_name(call) == "count" for call in ast.walk(loop.iter))
    return False


def waits_for_time(call: ast.Call) -> bool:
    """Returns whether the call ends after some time: a sleep, or a wait with a time limit."""
    name, by_asyncio = called_name(call), ast.unparse(call.func).startswith("asyncio.")
    if name in {"sleep", "wait_for"} or (by_asyncio and name in {"timeout", "timeout_at"}):
        return True
    limited = any(keyword.arg == "timeout" for keyword in call.keywords)
    if name == "wait" and not by_asyncio:  # of an event, a condition or a process
        return limited or bool(call.args)
    if name in {"poll", "select"}:
        return limited or len(call.args) == (4 if ast.unparse(call.func) == "select.select" else 1)
    return limited and name in {"acquire", "get", "join", "recv", "result", "wait"}


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, Function]]:
    """Yields each function with its full name, such as "SessionProcess._receive"."""
    for node in ast.iter_child_nodes(tree):
        name = f"{inside}{node.name}" if isinstance(node, Function | ast.ClassDef) else inside.removesuffix(".")
        if isinstance(node, Function):
            yield name, node
        yield from functions(node, f"{name}." if name else "")


def own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields what a function contains, except nested functions."""
    ahead = list(ast.iter_child_nodes(tree))
    while ahead:
        node = ahead.pop()
        if not isinstance(node, Function):
            yield node
            ahead += ast.iter_child_nodes(node)


def own_calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in own_nodes(tree) if isinstance(node, ast.Call)]


def neighbor(node: ast.AST) -> str | None:
    """Returns the NAME of ``self.NAME`` and of ``NAME``; None for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr if isinstance(node.value, ast.Name) and node.value.id == "self" else None
    return node.id if isinstance(node, ast.Name) else None


TIMERS = {"call_at", "call_later", "set_timer", "Timer"}


def timers(function: Function) -> set[str]:
    """Returns the functions that a timer calls later, by the last part of their names."""
    later = (call for call in own_calls(function) if called_name(call) in TIMERS)
    named = (node for call in later for argument in call.args[1:] for node in ast.walk(argument))
    return {name for node in named if (name := neighbor(node)) is not None and name != "self"}


def timers_without_end(tree: ast.Module) -> set[str]:
    """Returns the functions that a timer calls and that, directly or through others in the module, start it again."""
    if not any(isinstance(node, ast.Call) and called_name(node) in TIMERS for node in ast.walk(tree)):
        return set()
    calls: dict[str, set[str]] = {}
    later: dict[str, set[str]] = {}
    for name, function in functions(tree):
        last = name.rpartition(".")[2]
        called = {neighbor(call.func) for call in own_calls(function)} - {None}
        calls[last] = calls.get(last, set()) | {str(one) for one in called}
        later[last] = later.get(last, set()) | timers(function)
    again = set[str]()
    for starter, targets in later.items():
        for target in targets:
            seen, ahead = {target}, [target]
            while ahead:
                found = calls.get(ahead.pop(), set()) - seen
                seen |= found
                ahead += found
            again |= {target} if starter in seen else set()
    return {name for name, _ in functions(tree) if name.rpartition(".")[2] in again}


def periodic_functions(tree: ast.Module) -> set[str]:
    """Returns the functions with an endless loop that waits, or with a timer that starts itself again."""
    loops = [loop for loop in ast.walk(tree) if is_endless(loop)]
    waiting = [
        loop for loop in loops if any(isinstance(node, ast.Call) and waits_for_time(node) for node in ast.walk(loop))
    ]
    named: list[tuple[str, ast.AST]] = [("<module>", tree), *functions(tree)] if waiting else []
    return timers_without_end(tree) | {
        name for name, function in named if any(node in waiting for node in own_nodes(function))
    }


def test_periodic_work_uses_background_tasks() -> None:
    """After an error, ``BackgroundTasks.repeat`` starts the next round. Any other loop would not run again."""
    found = {f"{name}: {function}" for name, file in modules().items() for function in periodic_functions(parsed(file))}
    assert sorted(found - set(OWN_ROUNDS)) == []
    assert sorted(set(OWN_ROUNDS) - found) == [], "these no longer wait on their own"


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("while True:\n  await asyncio.sleep(1)", True),
        ("while True:\n  look()\n  time.sleep(1)", True),
        ("while 1:\n  sleep(1)", True),
        ("while True:\n  stopped.wait(5)", True),
        ("while True:\n  stopped.wait(timeout=5)", True),
        ("while not stopped.wait(5):\n  look()", True),
        ("while not stopped.is_set():\n  time.sleep(1)", True),
        ("while True:\n  await asyncio.wait_for(stopped.wait(), 5)", True),
        ("while True:\n  async with asyncio.timeout(5):\n   await stopped.wait()", True),
        ("while True:\n  await asyncio.wait([task], timeout=5)", True),
        ("while True:\n  calls.get(timeout=5)", True),
        ("while True:\n  select.select([pipe], [], [], 5)", True),
        ("while True:\n  poller.poll(5)", True),
        ("for step in itertools.count():\n  await asyncio.sleep(step)", True),
        ("loop.call_later(5, self.f)", True),
        ("loop.call_at(now + 5, partial(self.f, 1))", True),
        ("threading.Timer(5, self.f).start()", True),
        ("self.again()\ndef again(self):\n loop.call_later(5, self.f)", True),
        ("while True:\n  await stopped.wait()", False),
        ("while True:\n  await asyncio.wait([task])", False),
        ("while True:\n  calls.get()", False),
        ("while time.monotonic() < end:\n  time.sleep(1)", False),
        ("for pause in pauses:\n  time.sleep(pause)", False),
        ("loop.call_later(5, self.g)", False),
        ("self._tasks.repeat(self.g, 5, 'g')", False),
    ],
)
def test_periodic_work_is_found(body: str, *, is_found: bool) -> None:
    assert bool(periodic_functions(ast.parse(f"async def f(self):\n {body}"))) == is_found


RECORDS = {
    "agents.acp.conversation: params": "agents.acp.messages.Params",
    "agents.acp.questions: call": "agents.acp.questions._ToolCall",
    "agents.claude.sessions: head": "agents.claude.sessions._Head",
    "agents.claude.transcript: found": "agents.claude.transcript._Outcome",
    "editors.neovim.reviews: shown": "editors.neovim.reviews._Shown",
    "guard.ask: answer": "guard.ask.Answer",
    "guard.ask: found": "guard.ask._Connection",
    "guard.ask: found.answer": "guard.ask.Answer",
    "guard.ask: late.answer": "guard.ask.Answer",
    "guard.calls: call": "guard.calls.Call",
    "guard.hook: call": "guard.calls.Call",
    "guard.report: call": "guard.calls.Call",
    "guard.rule: found": "guard.ask.Answer",
    "ide.review: review": "ide.review._Review",
    "info.editors: answer": "guard.ask.Answer",
    "server.app.blobs: blob": "server.app.blobs._Blob",
    "server.auth.devices: file": "server.auth.devices.File",
    "server.auth.rate_limits: bucket": "server.auth.rate_limits._Bucket",
    "server.auth.rate_limits: self._bucket(key, now)": "server.auth.rate_limits._Bucket",
    "server.notifications.web_push: file": "server.notifications.web_push._File",
    "server.protocol.commands: command": "server.protocol.commands.InProjects",
    "server.sessions.runs.continuing: self._data": "server.sessions.metadata.Metadata",
    "server.sessions.options.chosen_options: self._data": "server.sessions.metadata.Metadata",
    "server.sessions.managed: self.data": "server.sessions.metadata.Metadata",
    "server.sessions.session: self.data": "server.sessions.metadata.Metadata",
    "server.sessions.session: self.recorded": "server.sessions.recorded_state.RecordedState",
    "server.store.index: segment": "server.store.index.Segment",
    "server.terminal_sessions.processes: known": "server.terminal_sessions.facts.ProcessFacts",
    "server.terminal_sessions.processes: one": "server.terminal_sessions.facts.ProcessFacts",
    "server.terminal_sessions.session: self.data": "server.sessions.metadata.Metadata",
    "server.terminal_sessions.session: self.recorded": "server.sessions.recorded_state.RecordedState",
    "server.terminal_sessions.shared_comments: file": "server.terminal_sessions.shared_comments._File",
    "tui.review.comment_dialogs: one": "tui.review.comments.Writing",
    "tui.review.commenting: one": "tui.review.comments.Writing",
    "tui.review.commit_dialog: self._committing.state": "tui.review.reviews.Commit",
    "tui.review.commit_dialog: state": "tui.review.reviews.Commit",
    "tui.conversation: known": "tui.conversation.Item",
    "tui.conversation: question": "tui.conversation.Item",
    "tui.conversation: tool": "tui.conversation.Item",
    "tui.review.push_dialog: self._pushing.state": "tui.review.reviews.Push",
    "tui.review.push_dialog: state": "tui.review.reviews.Push",
}
"""Objects whose attributes a module assigns because they are plain data, each with its class. Plain data is a struct, a
dataclass, or a class whose only method is its constructor.
"""

LIBRARIES = {
    "cli": dict.fromkeys(("description", "epilog", "formatter_class", "usage"), "argparse.ArgumentParser"),
    "doctor": dict.fromkeys(("check_hostname", "verify_mode"), "ssl.SSLContext"),
    "guard": dict.fromkeys(("commenters", "whitespace_split"), "shlex.shlex"),
    "protocols": {"extensions": "websockets.protocol.Protocol"},
    "server": {"minimum_version": "ssl.SSLContext"},
    "setup": dict.fromkeys(("create_system", "external_attr"), "zipfile.ZipInfo"),
    "transport": dict.fromkeys(("check_hostname", "verify_mode"), "ssl.SSLContext"),
    "tui": {
        **dict.fromkeys(("check_hostname", "verify_mode"), "ssl.SSLContext"),
        **dict.fromkeys(("disabled", "display"), "textual.widget.Widget"),
        **dict.fromkeys(("height", "max_height"), "textual.css.styles.Styles"),
        **dict.fromkeys(("indent_type", "read_only", "tab_behavior"), "textual.widgets.TextArea"),
        "highlighted": "textual.widgets.OptionList",
        "label": "textual.widgets.Button",
        "value": "textual.widgets.Checkbox and RadioButton",
    },
}
"""Attributes that a library defines, by the part of the package that assigns them, each with the library's class."""

ASSIGNED_FROM_OUTSIDE = {
    "server.store.syncing: self._timer.name": "`threading.Timer` takes no name",
}
"""Other assignments to attributes of other objects, each with the reason."""


def assigned(node: ast.AST) -> list[ast.expr]:
    """Returns what a statement assigns to or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        ahead = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor | ast.NamedExpr):
        ahead = [node.target]
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        ahead = [node.optional_vars]
    else:
        return []
    found = []
    while ahead:
        target = ahead.pop()
        if isinstance(target, ast.Tuple | ast.List):
            ahead += target.elts
        else:
            found.append(target.value if isinstance(target, ast.Starred) else target)
    return found


def assigned_from_outside(tree: ast.Module) -> set[tuple[str, str]]:
    """Returns each ``OBJECT.ATTRIBUTE = …`` and ``OBJECT.ATTRIBUTE[…] = …`` where OBJECT is neither ``self`` nor
    ``cls``, as (OBJECT, ATTRIBUTE). OBJECT may itself be an attribute of ``self``.
    """
    found = set()
    for target in chain.from_iterable(map(assigned, ast.walk(tree))):
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) not in ("self", "cls"):
            found.add((ast.unparse(target.value), target.attr))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and called_name(node) == "setattr"):
        if len(call.args) == 3 and ast.unparse(call.args[0]) not in ("self", "cls"):
            found.add((ast.unparse(call.args[0]), ast.unparse(call.args[1])))
    return found


def class_of(full_name: str) -> type:
    module, _, name = full_name.rpartition(".")
    cls = getattr(importlib.import_module(f"drawbridge.{module}"), name)
    assert isinstance(cls, type)
    return cls


def is_plain_data(cls: type) -> bool:
    methods = {name for name, value in vars(cls).items() if callable(value) or isinstance(value, property)}
    return issubclass(cls, msgspec.Struct) or dataclasses.is_dataclass(cls) or methods == {"__init__"}


def has_attribute(cls: type, name: str) -> bool:
    annotated = any(name in vars(one).get("__annotations__", {}) for one in cls.__mro__)
    return annotated or name in getattr(cls, "__slots__", ()) or f"self.{name} " in inspect.getsource(cls)


def test_no_object_gets_attributes_from_outside() -> None:
    """An object is complete when its constructor returns. A part that is set later can be forgotten unnoticed."""
    others, records, of_libraries = set[str](), set[str](), set[tuple[str, str]]()
    for name, file in modules().items():
        for owner, attribute in assigned_from_outside(parsed(file)):
            part = name.partition(".")[0]
            place = f"{name}: {owner}"
            if f"{place}.{attribute}" in ASSIGNED_FROM_OUTSIDE:
                others.add(f"{place}.{attribute}")
            elif place in RECORDS and has_attribute(class_of(RECORDS[place]), attribute):
                records.add(place)
            elif attribute in LIBRARIES.get(part, {}):
                of_libraries.add((part, attribute))
            else:
                others.add(f"{place}.{attribute}")
    assert sorted(others - set(ASSIGNED_FROM_OUTSIDE)) == []
    listed = {(part, attribute) for part, attributes in LIBRARIES.items() for attribute in attributes}
    gone = [set(ASSIGNED_FROM_OUTSIDE) - others, set(RECORDS) - records, listed - of_libraries]
    assert gone == [set(), set(), set()], "these are no longer assigned"


@pytest.mark.parametrize("name", sorted(set(RECORDS.values())))
def test_the_listed_classes_are_plain_data(name: str) -> None:
    assert is_plain_data(class_of(name))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("other.x = 1", {("other", "x")}),
        ("other.x: int = 1", {("other", "x")}),
        ("other.x += 1", {("other", "x")}),
        ("a, (other.x, *other.y) = b", {("other", "x"), ("other", "y")}),
        ("self.other.x = 1", {("self.other", "x")}),
        ("self.others[0].x = 1", {("self.others[0]", "x")}),
        ("self.other.x[key] = 1", {("self.other", "x")}),
        ("other.x[a][b] = 1", {("other", "x")}),
        ("del self.other.x[key]", {("self.other", "x")}),
        ("other().x = 1", {("other()", "x")}),
        ("for other.x in y: pass", {("other", "x")}),
        ("with y as other.x: pass", {("other", "x")}),
        ("setattr(other, 'x', 1)", {("other", "'x'")}),
        ("self.x = cls.x = 1", set()),
        ("self.x[key] = 1", set()),
        ("self.x[key][other] = 1", set()),
        ("x = other[key] = 1", set()),
        ("self.x.append(1)", set()),
    ],
)
def test_assignments_from_outside_are_found(code: str, found: set[tuple[str, str]]) -> None:
    assert assigned_from_outside(ast.parse(code)) == found


class _Whole:
    def __init__(self) -> None:
        self.on_change = print

    def change(self) -> None:
        self.on_change()


class _Plain:
    __slots__ = ("x",)

    def __init__(self) -> None:
        self.x = 1


def test_only_an_object_without_behavior_is_plain_data() -> None:
    assert [is_plain_data(cls) for cls in (_Plain, errors.DrawbridgeError, _Whole)] == [True, False, False]


def error_classes(above: type[errors.DrawbridgeError] = errors.DrawbridgeError) -> list[type[errors.DrawbridgeError]]:
    ours = [cls for cls in above.__subclasses__() if cls.__module__ == errors.__name__]
    return [above, *chain.from_iterable(map(error_classes, ours))]


def test_the_tree_in_the_docstring_of_errors_is_complete() -> None:
    drawn = re.findall(r"^ {4}([ │├└─]*)(\w+)", errors.__doc__ or "", re.MULTILINE)
    really = [(len(cls.__mro__) - len(errors.DrawbridgeError.__mro__), cls.__name__) for cls in error_classes()]
    assert [(len(indent) // 4, name) for indent, name in drawn] == really


def test_the_errors_page_explains_exactly_the_error_codes() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    explained = re.findall(r"^\| `(\w+)` \| (\d) \|", page, re.MULTILINE)
    raised = [cls for cls in error_classes() if len(error_classes(cls)) == 1]
    assert sorted(explained) == sorted((cls.code, str(cls.exit_code)) for cls in raised)


def test_each_group_of_the_errors_page_is_in_alphabetical_order() -> None:
    for group in (ROOT / "docs" / "errors.md").read_text().split("\n## "):
        codes = re.findall(r"^\| `(\w+)` \|", group, re.MULTILINE)
        assert codes == sorted(codes, key=lambda code: code.split("_"))


def written_files() -> Iterator[Path]:
    """Yields the checkout's text files, including the built web UI: no hidden files, bytecode, packages or images."""
    folders = ("src", "tests", "tools", "bench", "docs", "lua", "plugin", "doc", "extensions", "web", ".ci")
    for file in chain(ROOT.iterdir(), *((ROOT / folder).rglob("*") for folder in folders)):
        made = (
            {"__pycache__", "node_modules"} & set(file.parts) or file.name == "tags" or file.suffix in {".png", ".gif"}
        )
        if file.is_file() and not made and not file.name.startswith("."):
            yield file


def test_no_file_contains_the_checkouts_path_or_a_registry() -> None:
    hosts = [name + ".org" for name in ("pypi", "pythonhosted", "npmjs", "debian")]
    for file in written_files():
        text = file.read_text(errors="replace")
        found = [host for host in hosts if host in text]
        # A checkout in /src must not match the end of "~/src/".
        found += re.findall(rf"(?<![\w.~-]){re.escape(str(ROOT))}/", text)
        assert found == [], file.relative_to(ROOT)


def tree_of_the_architecture() -> set[str]:
    """Returns the names of the folders in the tree of docs/internals/architecture.md."""
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    tree = page.split("\nsrc/drawbridge/\n")[1].split("\n```")[0]
    return set(re.findall(r"^ +(\w+)/ ", tree, re.MULTILINE))


def test_every_folder_is_in_the_tree_of_the_architecture() -> None:
    """The direct subfolders of the package and of the server are listed. Deeper folders need not be."""
    package = SRC / "drawbridge"
    folders = {child for child in [*package.iterdir(), *(package / "server").iterdir()] if child.is_dir()}
    # An older checkout leaves bytecode in folders that no longer exist.
    held = {folder.name for folder in folders if {child.name for child in folder.iterdir()} - {"__pycache__"}}
    assert held - {"__pycache__"} - tree_of_the_architecture() == set()


def test_the_tree_of_the_architecture_names_only_what_exists() -> None:
    """A name is a folder or a part of a module's name, such as ``cli``."""
    parts = {part for name in modules() for part in name.split(".")}
    tops = (SRC / "drawbridge", ROOT / "web" / "src")
    folders = {folder.name for top in tops for folder in top.rglob("*") if folder.is_dir()}
    folders |= {child.name for child in (ROOT / "web").iterdir()}
    built = {"page"}  # does not exist before the first build
    assert tree_of_the_architecture() - parts - folders - built == set()


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def without_code(page: Path) -> str:
    """Returns the page's text without fenced code, which is not Markdown."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[tuple[str, str]]:
    """Returns the page's links and images within this repository as (path, anchor). The page's own path is ""."""
    targets = re.findall(r"""(?:\]\(|(?:src|href)=")(?!https?:|mailto:)([^)\s"]+)""", without_code(page))
    return [(path, anchor) for path, _, anchor in (target.partition("#") for target in targets)]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Returns the anchors that a code host generates from the page's headings. A repeated heading gets a number."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} (.+)$", without_code(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(anchor if anchor not in found else f"{anchor}-{found.count(anchor)}")
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_points_to_a_file(page: Path) -> None:
    assert [path for path, _ in links(page) if path and not (page.parent / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_of_a_link_is_a_heading(page: Path) -> None:
    named = [((page.parent / path) if path else page, anchor) for path, anchor in links(page) if anchor]
    assert [f"{to.name}#{anchor}" for to, anchor in named if anchor not in anchors(to.resolve())] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    found, ahead = set(), [ROOT / "docs" / "index.md"]
    while ahead:
        page = ahead.pop().resolve()
        if page not in found and page.suffix == ".md":
            found.add(page)
            ahead += [page.parent / path for path, _ in links(page) if path]
    assert {page for page in PAGES if "docs" in page.relative_to(ROOT).parts} - found == set()


def test_every_page_that_code_and_help_name_exists() -> None:
    """Comments, error messages and the help of the plugin and the extension refer to pages as ``docs/….md``.

    ``docs/hooks`` is a folder of Gemini CLI's own documentation.
    """
    missing = {}
    for file in written_files():
        if file.suffix in {".py", ".lua", ".js", ".ts", ".txt", ".vim", ".sh"}:
            named = re.findall(r"(?<![\w./])docs/(?!hooks/)[\w/.-]+?\.(?:md|json)\b", file.read_text(errors="replace"))
            if gone := [name for name in named if not (ROOT / name).exists()]:
                missing[str(file.relative_to(ROOT))] = gone
    assert missing == {}


TESTS = ROOT / "tests"

OTHER_TESTS = {
    "chaos": "servers that are killed, stopped or overloaded, with real processes",
    "e2e": "real agents and real editors together: claude, gemini, guard",
    "fuzz": "hostile bytes and damaged files against whole programs",
    "nvim": "lua/, plugin/ and doc/: the Neovim plugin",
    "page": "web/, in a real browser",
    "rigs": "no tests: the real programs and stub model APIs that several folders use",
    "tools": "tools/",
    "vscode": "extensions/vscode, in a real VS Code",
}
"""Folders of tests/ without a source folder of the same name, each with what it tests."""

TESTED_ELSEWHERE = {
    "agents/command": "tests/agents/test_one_shot.py",
    "tui/screens": "tests/tui/test_deciding.py",
}
"""Source folders that have no test folder or test file of the same name, each with the file that tests it."""


def folders_with(pattern: str, top: Path) -> set[str]:
    """Returns the folders below ``top`` that contain files matching ``pattern``, relative to ``top``."""
    return {str(file.parent.relative_to(top)) for file in top.rglob(pattern)} - {"."}


def test_the_tests_mirror_the_sources() -> None:
    """Each test folder has the path of the folder or module that it tests, or is listed in ``OTHER_TESTS``."""
    tested = {folder for folder in folders_with("*.py", TESTS) if folder.split("/")[0] not in OTHER_TESTS}
    package = SRC / "drawbridge"
    assert {at for at in tested if not (package / at).is_dir() and not (package / f"{at}.py").is_file()} == set()


def test_every_source_folder_has_tests() -> None:
    package = SRC / "drawbridge"
    sources = folders_with("*.py", package) | folders_with("*.js", package) | folders_with("*.lua", package)
    untested = {
        at
        for at in sources
        if not list((TESTS / at).rglob("test_*.py")) and not (TESTS / at).with_name(f"test_{Path(at).name}.py").exists()
    }
    assert untested == set(TESTED_ELSEWHERE)


def test_the_exceptions_to_the_mirrored_folders_exist() -> None:
    assert [at for at in OTHER_TESTS if not list((TESTS / at).glob("*.py"))] == []
    assert [at for at in TESTED_ELSEWHERE.values() if not (ROOT / at).exists()] == []


LONG = 150
"""A module with more lines than this has its own test file, or is listed below."""

TESTED_WITH_OTHERS = {
    "agents/acp/conversation": ("agents/acp/test_modes.py", "agents/gemini/test_transcripts.py"),
    "agents/acp/opening": ("agents/acp/test_modes.py", "agents/acp/test_reports.py"),
    "agents/base": ("agents/test_every_agent.py", "agents/test_process.py"),
    "agents/catalog": ("agents/test_registry.py", "test_one_more_agent.py"),
    "agents/claude/command_line": ("agents/claude/test_command.py",),
    "agents/claude/results": ("agents/claude/test_conversation.py",),
    "agents/claude/transcript": ("server/terminal_sessions/test_runs.py",),
    "agents/codex/transcript": ("agents/codex/test_terminal.py",),
    "agents/demo/script": ("agents/demo/test_demo.py",),
    "agents/gemini/sessions": ("agents/gemini/test_earlier.py",),
    "agents/memory": ("server/sessions/test_memory_watch.py", "server/checkpoints/test_confined.py"),
    "agents/terminal": ("agents/claude/test_terminal.py", "agents/codex/test_terminal.py"),
    "editors/folder/view": ("editors/folder/test_folder.py",),
    "editors/neovim/neovim": ("editors/neovim/test_session.py", "editors/neovim/test_hunks.py"),
    "editors/neovim/reviews": ("editors/neovim/test_hunks.py", "editors/neovim/test_session.py"),
    "editors/neovim/rpc": ("editors/neovim/test_session.py",),
    "guard/ask": ("guard/test_asking.py",),
    "guard/hook": ("guard/test_bad_input.py", "guard/test_fast_form.py"),
    "guard/neovim": ("guard/test_asking.py", "guard/test_neovim_words.py"),
    "info/editors": ("info/test_info.py",),
    "info/screen": ("info/test_info.py",),
    "protocols/local_ipc": ("ide/test_server_link.py", "server/terminal_sessions/test_bridges.py"),
    "protocols/websocket": ("transport/test_http_terms.py", "server/app/test_requests.py"),
    "server/app/clients": ("server/app/test_requests.py", "server/auth/test_pairing.py"),
    "server/app/command_table": ("server/auth/test_scopes.py", "server/auth/test_new_command.py"),
    "server/app/connection": ("server/app/test_requests.py",),
    "server/app/core": ("server/sessions/runs/test_runs.py", "server/test_composition.py"),
    "server/app/dispatch": ("server/app/test_requests.py", "server/auth/test_new_command.py"),
    "server/app/history_commands": (
        "server/sessions/conversations/test_searching.py",
        "server/sessions/test_conversation_changes.py",
    ),
    "server/app/run_commands": ("server/sessions/runs/test_runs.py", "server/sessions/prompts/test_images.py"),
    "server/app/server_commands": (
        "server/app/test_requests.py",
        "server/app/test_directories.py",
        "server/auth/test_pairing.py",
    ),
    "server/app/stats": ("server/test_serve.py",),
    "server/approvals/pending": ("server/sessions/runs/test_runs.py", "server/approvals/test_service.py"),
    "server/auth/access": ("server/auth/test_pairing.py", "server/auth/test_tokens.py"),
    "server/auth/audited": ("server/auth/test_audit.py", "server/auth/test_new_command.py"),
    "server/auth/devices": ("server/auth/test_pairing.py", "server/auth/test_tokens.py"),
    "server/auth/entrance": ("server/auth/test_pairing.py", "server/auth/test_audit.py"),
    "server/checkpoints/git/git": (
        "server/checkpoints/test_kinds_of_repositories.py",
        "server/reviews/test_pushing.py",
    ),
    "server/checkpoints/private": (
        "server/checkpoints/test_private_repository.py",
        "server/terminal_sessions/test_reviewed_directories.py",
    ),
    "server/device_commands": ("server/auth/test_pairing.py", "server/auth/test_command.py"),
    "server/notifications/send": ("server/notifications/test_notices.py",),
    "server/notifications/web_push": ("server/notifications/test_notices.py",),
    "server/plan": ("server/sessions/test_budgets.py",),
    "server/protocol/client_errors": ("server/app/test_requests.py",),
    "server/protocol/commands": ("server/app/test_requests.py", "server/protocol/test_client_page.py"),
    "server/protocol/messages": ("server/sessions/runs/test_runs.py", "server/protocol/test_client_page.py"),
    "server/protocol/replies": ("server/protocol/test_client_page.py",),
    "server/reviews/messages": ("server/reviews/test_pushing.py", "server/reviews/test_reviews.py"),
    "server/reviews/located_comments": (
        "server/reviews/test_commenting.py",
        "server/terminal_sessions/test_review_comments.py",
    ),
    "server/reviews/publishing": ("server/reviews/test_committing.py", "server/reviews/test_pushing.py"),
    "server/reviews/reviewing": ("server/reviews/test_reviews.py",),
    "server/sessions/runs/continuing": ("server/sessions/test_limited.py",),
    "server/sessions/conversations/exporting": ("server/sessions/conversations/test_searching.py",),
    "server/sessions/managed": ("server/sessions/runs/test_runs.py", "server/sessions/conversations/test_searching.py"),
    "server/sessions/processes/processes": ("server/sessions/runs/test_runs.py", "server/sessions/test_warm.py"),
    "server/sessions/recorded_state": (
        "server/sessions/conversations/test_searching.py",
        "server/sessions/runs/test_runs.py",
    ),
    "server/sessions/session": ("server/sessions/runs/test_runs.py", "server/terminal_sessions/test_runs.py"),
    "server/store/index": ("server/sessions/conversations/test_searching.py", "server/store/test_lost_index.py"),
    "server/store/log": ("server/store/test_faults.py", "server/sessions/conversations/test_searching.py"),
    "server/store/texts": ("server/sessions/conversations/test_searching.py", "server/store/test_search.py"),
    "server/terminal_sessions/approval_requests": (
        "server/terminal_sessions/test_restarts.py",
        "server/terminal_sessions/test_subagents.py",
    ),
    "server/terminal_sessions/continuation": (
        "server/terminal_sessions/test_restarts.py",
        "server/terminal_sessions/test_review_comments.py",
    ),
    "server/terminal_sessions/dialog": ("server/terminal_sessions/test_runs.py",),
    "server/terminal_sessions/directories": (
        "server/terminal_sessions/test_review_comments.py",
        "server/terminal_sessions/test_reviewed_directories.py",
    ),
    "server/terminal_sessions/report_queue": (
        "server/terminal_sessions/test_ending.py",
        "server/terminal_sessions/test_runs.py",
    ),
    "server/terminal_sessions/session": (
        "server/terminal_sessions/test_runs.py",
        "server/terminal_sessions/test_ending.py",
    ),
    "server/terminal_sessions/shared_comments": (
        "server/terminal_sessions/test_review_comments.py",
        "server/terminal_sessions/test_handover.py",
    ),
    "server/terminal_sessions/socket": (
        "server/terminal_sessions/test_bridges.py",
        "server/terminal_sessions/test_runs.py",
    ),
    "server/terminal_sessions/turn": ("server/terminal_sessions/test_turns.py",),
    "settings/serve": ("settings/test_settings.py", "server/sessions/test_budgets.py"),
    "setup/command": ("setup/test_agents.py",),
    "setup/guard": ("setup/test_agents.py",),
    "text/linediff": ("text/test_hunks.py",),
    "text/review_words": ("tui/review/test_parts.py", "test_clients_agree.py"),
    "tui/app": ("tui/test_first_steps.py", "tui/test_deciding.py"),
    "tui/approval_view": ("tui/test_deciding.py",),
    "tui/call_parts": ("tui/test_deciding.py", "tui/test_settled.py"),
    "tui/code": ("tui/test_answers.py",),
    "tui/colors": ("tui/test_answers.py",),
    "tui/command": ("tui/test_finding.py", "tui/review/test_reviewing_a_directory.py"),
    "tui/queue_dialog": ("tui/test_queue.py",),
    "tui/review/comment_dialogs": ("tui/review/test_commenting.py",),
    "tui/review/commit_dialog": ("tui/review/test_commenting.py",),
    "tui/connection": ("tui/test_first_steps.py", "tui/test_deciding.py"),
    "tui/dialogs": ("tui/test_first_steps.py",),
    "tui/diff_view": ("tui/test_deciding.py",),
    "tui/history": ("tui/test_deciding.py", "tui/test_first_steps.py"),
    "tui/review/push_dialog": ("tui/review/test_pushing.py",),
    "tui/question_form": ("tui/test_deciding.py", "tui/test_asked_whole.py"),
    "tui/review/comments": ("tui/review/test_commenting.py",),
    "tui/review/contents": ("tui/review/test_reviewing.py", "tui/review/test_reviewing_what_is_new.py"),
    "tui/review/view": ("tui/review/test_parts.py",),
    "tui/screens/conversation": ("tui/test_deciding.py", "tui/test_first_steps.py"),
    "tui/screens/review": ("tui/review/test_reviewing.py", "tui/review/test_commenting.py"),
    "tui/server_address": ("tui/test_finding.py", "tui/test_answers.py"),
    "tui/wording": ("tui/test_deciding.py", "tui/test_first_steps.py"),
}
"""Long modules without a test file or test folder of their name, each with files in tests/ that run much of it. These are
named after a behavior, or after the module through which they use this one.
"""


def long_modules() -> set[str]:
    """Returns the long modules as paths without a suffix, such as "protocols/http"."""
    package = SRC / "drawbridge"
    long = (file for file in modules().values() if len(file.read_text().splitlines()) > LONG)
    return {str(file.relative_to(package).with_suffix("")).removesuffix("/__init__") for file in long}


def has_own_tests(module: str) -> bool:
    at = TESTS / module
    return at.with_name(f"test_{at.name}.py").is_file() or bool(list(at.rglob("test_*.py")))


def test_every_long_module_has_its_own_tests_or_is_listed() -> None:
    """An entry fails the test as well if its module is gone, is short, or has its own tests by now."""
    without = {module for module in long_modules() if not has_own_tests(module)}
    assert sorted(without - set(TESTED_WITH_OTHERS)) == []
    assert sorted(set(TESTED_WITH_OTHERS) - without) == [], "these need no entry"


def test_the_tests_of_long_modules_exist() -> None:
    named = set(chain.from_iterable(TESTED_WITH_OTHERS.values()))
    assert sorted(name for name in named if not (TESTS / name).is_file()) == []


@pytest.mark.parametrize(
    ("module", "is_tested"),
    [("protocols/http", True), ("server/sessions/disk", True), ("protocols/htt", False), ("protocols/http_", False)],
)
def test_a_modules_own_tests_are_recognized(module: str, *, is_tested: bool) -> None:
    assert has_own_tests(module) == is_tested


def test_a_long_module_is_found() -> None:
    assert {"protocols/http", "server/sessions/managed"} <= long_modules()
    assert not {"__main__", "protocols"} & long_modules()


def helpers() -> set[str]:
    """Returns the paths of fakes, stubs and rigs: all modules in tests/ without tests."""
    files = (file for pattern in ("*.py", "*.js", "*.mjs") for file in TESTS.rglob(pattern))
    ours = (file for file in files if file.stem not in {"__init__", "conftest"} and "node_modules" not in file.parts)
    return {str(f.relative_to(ROOT)) for f in ours if not f.stem.startswith("test_") and ".test." not in f.name}


def test_the_index_of_fakes_and_rigs_is_complete() -> None:
    page = (ROOT / "docs" / "internals" / "testing.md").read_text()
    rows = re.findall(r"^\| `(tests/[\w/.]+\.\w+)` \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(helpers())


def test_the_index_names_the_folders_without_a_source() -> None:
    page = (ROOT / "docs" / "internals" / "testing.md").read_text()
    assert [folder for folder in OTHER_TESTS if f"`tests/{folder}" not in page] == []
