"""Checks the rules of docs/internals/architecture.md: imports between modules, ownership of tasks, links, and test folders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

from drawbridge.agents import catalog, registry
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
    "ide.tools",
    "ide.workspace",
    *(f"core.{name}" for name in ("approval", "errors", "privacy")),
    "transport.http_app",
    *(
        f"agents.{name}"
        for name in ("base", "catalog", "modes", "output", "proposals", "results", "suggestions", "terminal")
    ),
    *(
        f"agents.{name}"
        for name in (
            "acp.conversation",
            "acp.listing",
            "claude.conversation",
            "claude.command_line",
            "claude.transcript",
        )
    ),
    "server.protocol",
    *(f"server.auth.{name}" for name in ("audited", "rate_limits", "scopes")),
    "server.events",
    "server.approvals.pending",
    *(f"server.reviews.{name}" for name in ("change_set", "comments", "remembered")),
    *(f"server.sessions.{name}" for name in ("audience", "run", "records")),
    *(
        f"tui.{name}"
        for name in (
            "answers",
            "call_parts",
            "conversation",
            "difference",
            "review_parts",
            "reviews",
            "store",
            "wording",
        )
    ),
)
JOBS = ("ide", "guard", "server", "tui")
FLOOR = ("agents", "core", "protocols", "text", "transport", "editors", "settings")
SERVER_FLOORS = (
    "protocol",
    "events",
    "store",
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
    return any(name == group or name.startswith((group + ".", group + "_")) for group in groups)


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


def words_of(file: Path) -> Iterator[str]:
    """Yields names and strings in the code of a module, without docstrings and comments."""
    docstrings = {id(node.value) for node in ast.walk(parsed(file)) if isinstance(node, ast.Expr)}
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
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
    # The frames of one turn of the event loop share one write; a long queue is written in several turns, so that
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
def test_what_counts_as_a_task_without_an_owner(code: str, found: set[str]) -> None:
    assert loose_tasks(ast.parse(code)) == found


def endless_loops(tree: ast.Module) -> list[int]:
    """Returns the line number of each ``while True`` loop that sleeps."""
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.While) and ast.unparse(node.test) == "True")
    sleeps = "asyncio.sleep"
    return [
        loop.lineno
        for loop in loops
        if any(isinstance(node, ast.Call) and ast.unparse(node.func) == sleeps for node in ast.walk(loop))
    ]


@pytest.mark.parametrize("name", those_in(("server",)))
def test_the_server_has_no_endless_loops_that_sleep(name: str) -> None:
    """After an error, ``BackgroundTasks.repeat`` starts the next round; any other loop would not run again."""
    assert endless_loops(parsed(modules()[name])) == []


ASSIGNED_FROM_OUTSIDE = {
    # Plain data that one module creates and changes.
    "server.app.blobs: blob.touched": "when a blob was last used",
    "server.auth.devices: file.devices": "the file of devices while it is changed",
    "server.auth.devices: file.codes": "the same file",
    "server.auth.rate_limits: bucket.at": "a bucket of the limiter",
    "server.auth.rate_limits: bucket.reported": "a bucket of the limiter",
    "server.auth.rate_limits: bucket.tokens": "a bucket of the limiter",
    "server.notifications.web_push: file.subscriptions": "the file of subscriptions while it is changed",
    "server.protocol.commands: command.project_id": "a command that is being parsed",
    "server.protocol.commands: command.request_id": "a command that is being parsed",
    "server.store.index: segment.size": "a file of the index while it is read",
    "server.terminal_sessions.processes: known.background": "what an agent's process has reported",
    "server.terminal_sessions.processes: known.config": "the same",
    "server.terminal_sessions.processes: known.transcript": "the same",
    "server.terminal_sessions.processes: one.permission_mode": "the same",
    # Objects of a library.
    "server.auth.tls: context.minimum_version": "ssl has no other way",
    # What a client reports after it has connected, and its sign-in.
    "server.app.server_commands: client.name": "auth may name the client",
    "server.app.server_commands: client.nonce": "of one challenge",
}
"""Allowed assignments to attributes of other objects, each with the reason."""


def assigned_from_outside(name: str) -> set[str]:
    """Returns each ``other.attribute = …`` in a module where ``other`` is neither ``self`` nor ``cls``."""
    found = set()
    for node in ast.walk(parsed(modules()[name])):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else targets
        for target in chain.from_iterable(t.elts if isinstance(t, ast.Tuple) else [t] for t in targets):
            root = target
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(target, ast.Attribute) and isinstance(root, ast.Name) and root.id not in ("self", "cls"):
                found.add(f"{name}: {ast.unparse(target)}")
    return found


def test_no_server_object_gets_attributes_from_outside() -> None:
    """An object is complete when its constructor returns. A part that is set later can be forgotten unnoticed."""
    found = set(chain.from_iterable(map(assigned_from_outside, those_in(("server",)))))
    assert sorted(found - set(ASSIGNED_FROM_OUTSIDE)) == []
    assert sorted(set(ASSIGNED_FROM_OUTSIDE) - found) == [], "these are no longer assigned"


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
def test_every_link_leads_to_a_file(page: Path) -> None:
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


def test_the_exceptions_of_the_mirror_exist() -> None:
    assert [at for at in OTHER_TESTS if not list((TESTS / at).glob("*.py"))] == []
    assert [at for at in TESTED_ELSEWHERE.values() if not (ROOT / at).exists()] == []


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
