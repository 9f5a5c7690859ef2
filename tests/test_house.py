"""The rules of docs/design.md, read off the tree: which modules may import which, and what is never written down."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from drawbridge.core import errors

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

IO_LIBRARIES = {"asyncio", "multiprocessing", "select", "selectors", "socket", "ssl", "subprocess", "threading"}
PURE = (
    "protocols",
    "text",
    "editors.port",
    "ide.tools",
    *(f"core.{name}" for name in ("approval", "errors", "privacy")),
    "transport.http_app",
    *(f"server.agents.{name}" for name in ("port", "claude", "framing", "proposals")),
    "server.protocol",
    *(f"server.auth.{name}" for name in ("audited", "rate_limits", "scopes")),
    "server.events",
    *(f"server.approvals.{name}" for name in ("pending", "surfaces")),
    "server.app.frames",
    *(f"server.sessions.{name}" for name in ("audience", "run", "records")),
    *(f"server.terminal_sessions.{name}" for name in ("hook_events", "transcript")),
    *(f"tui.{name}" for name in ("answers", "call_parts", "conversation", "difference", "store", "wording")),
)
JOBS = ("ide", "guard", "server", "tui")
FLOOR = ("core", "protocols", "text", "transport", "editors", "settings")
SERVER_FLOORS = (
    "agents",
    "protocol",
    "events",
    "store",
    "approvals",
    "sessions",
    "auth",
    "terminal_sessions",
    "notifications",
    "app",
)
AGENT_DIALECTS = ("ide.claude", "ide.gemini", "ide.tools", "ide.discovery")
EDITOR_DIALECTS = ("editors.neovim", "editors.folder", "protocols.msgpack_rpc")


@cache
def modules() -> dict[str, Path]:
    """ "protocols.http" → its file, for every module of the package."""
    files = (SRC / "drawbridge").rglob("*.py")
    return {
        ".".join(file.relative_to(SRC / "drawbridge").with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), file.name)


def imports(file: Path) -> Iterator[str]:
    """Full names of what a module imports anywhere in it, inside functions and for types alone too."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative imports hide who knows whom"
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)


@cache
def known(name: str) -> frozenset[str]:
    """The modules of ours that the module imports, by the names that ``modules`` has."""
    ours = (imported.removeprefix("drawbridge.") for imported in imports(modules()[name]))
    return frozenset(ours) & set(modules()) - {name}


def belongs(name: str, groups: tuple[str, ...]) -> bool:
    return any(name == group or name.startswith((group + ".", group + "_")) for group in groups)


def those_in(groups: tuple[str, ...]) -> list[str]:
    return sorted(name for name in modules() if belongs(name, groups))


def reached(name: str) -> set[str]:
    """The module and all that it pulls in, directly or through others."""
    found, ahead = {name}, [name]
    while ahead:
        new = known(ahead.pop()) - found
        found |= new
        ahead += new
    return found


@pytest.mark.parametrize("name", those_in(PURE))
def test_protocols_tools_and_texts_do_no_io(name: str) -> None:
    for module in sorted(reached(name)):
        libraries = {imported.partition(".")[0] for imported in imports(modules()[module])} & IO_LIBRARIES
        assert not libraries, f"{name} gets {', '.join(libraries)} through {module}"


@pytest.mark.parametrize("name", those_in(JOBS))
def test_no_job_knows_another(name: str) -> None:
    others = tuple(job for job in JOBS if not belongs(name, (job,)))
    assert [other for other in reached(name) if belongs(other, others)] == []


@pytest.mark.parametrize("name", those_in(FLOOR))
def test_the_floor_knows_no_job(name: str) -> None:
    assert [other for other in reached(name) if belongs(other, JOBS)] == []


@pytest.mark.parametrize("name", those_in(("protocols",)))
def test_a_protocol_knows_only_protocols_and_errors(name: str) -> None:
    assert [other for other in known(name) if not belongs(other, ("protocols", "core.errors"))] == []


@pytest.mark.parametrize("floor", range(len(SERVER_FLOORS)), ids=SERVER_FLOORS)
def test_a_folder_of_the_server_knows_only_those_below_it(floor: int) -> None:
    below = tuple(f"server.{folder}" for folder in SERVER_FLOORS[: floor + 1])
    for name in those_in((f"server.{SERVER_FLOORS[floor]}",)):
        known_here = [other for other in known(name) if belongs(other, ("server",)) and other != "server"]
        assert [other for other in known_here if not belongs(other, below)] == [], name


def test_agents_and_editors_dialects_never_meet() -> None:
    for name in those_in(AGENT_DIALECTS):
        assert [other for other in reached(name) if belongs(other, EDITOR_DIALECTS)] == [], name
    for name in those_in(EDITOR_DIALECTS):
        assert [other for other in reached(name) if belongs(other, AGENT_DIALECTS)] == [], name


def test_only_the_bridge_puts_an_agent_and_an_editor_together() -> None:
    both = {
        name
        for name in modules()
        if any(belongs(other, AGENT_DIALECTS) for other in known(name))
        and any(belongs(other, EDITOR_DIALECTS) for other in known(name))
    }
    assert both <= {"ide.bridge"}


ASSIGNED_FROM_OUTSIDE = {
    # Plain data that one module makes and changes.
    "server.app.blobs: blob.touched": "when a blob was last used",
    "server.auth.devices: file.devices": "the file of devices while it is changed",
    "server.auth.pairing: file.codes": "the same file",
    "server.auth.rate_limits: bucket.at": "a bucket of the limiter",
    "server.auth.rate_limits: bucket.told": "a bucket of the limiter",
    "server.auth.rate_limits: bucket.tokens": "a bucket of the limiter",
    "server.notifications.push: file.subscriptions": "the file of subscriptions while it is changed",
    "server.protocol.commands: command.project_id": "a command that is being parsed",
    "server.protocol.commands: command.request_id": "a command that is being parsed",
    "server.store.segments: segment.size": "a file of the index while it is read",
    # Of a library.
    "server.auth.tls: context.minimum_version": "ssl has no other way",
    # What a client reports after it has connected, and what it is let in as.
    "server.app.dispatch: client.name": "hello may name the client",
    "server.app.site: client.certificate": "known to the site alone",
    "server.app.site: client.name": "auth may name the client",
    "server.app.site: client.nonce": "of one challenge",
    # The table of commands needs the core and the site needs the table: the commands' slice ends this.
    "server.serve: site.dispatch": "see above",
    "server.serve: site.dispatch.ending": "see above",
}
"""What is assigned to other objects all the same, with the reason."""


def assigned_from_outside(name: str) -> set[str]:
    """Each ``other.attribute = …`` of a module, where ``other`` is neither ``self`` nor ``cls``."""
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


def test_no_object_of_the_server_is_completed_from_outside() -> None:
    """An object works when its constructor returns. What it lacks would be a gap that nobody sees."""
    names = [name for name in those_in(("server",)) if not belongs(name, ("server.agents",))]
    found = set(chain.from_iterable(map(assigned_from_outside, names)))
    assert sorted(found - set(ASSIGNED_FROM_OUTSIDE)) == []
    assert sorted(set(ASSIGNED_FROM_OUTSIDE) - found) == [], "these are not assigned any more"


def error_classes(above: type[errors.DrawbridgeError] = errors.DrawbridgeError) -> list[type[errors.DrawbridgeError]]:
    ours = [cls for cls in above.__subclasses__() if cls.__module__ == errors.__name__]
    return [above, *chain.from_iterable(map(error_classes, ours))]


def test_the_picture_at_the_top_of_the_errors_is_the_tree() -> None:
    drawn = re.findall(r"^ {4}([ │├└─]*)(\w+)", errors.__doc__ or "", re.MULTILINE)
    really = [(len(cls.__mro__) - len(errors.DrawbridgeError.__mro__), cls.__name__) for cls in error_classes()]
    assert [(len(indent) // 4, name) for indent, name in drawn] == really


def test_every_error_code_is_explained_and_no_other() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    explained = re.findall(r"^\| `(\w+)` \| (\d) \|", page, re.MULTILINE)
    assert dict(explained) == {cls.code: str(cls.exit_code) for cls in error_classes()}


def written_files() -> Iterator[Path]:
    """What a person wrote: no lock files, nothing that tools made."""
    folders = ("src", "tests", "tools", "bench", "docs", "lua", "plugin", "doc", "extensions", ".ci")
    for file in chain(ROOT.iterdir(), *((ROOT / folder).rglob("*") for folder in folders)):
        made = (
            {"__pycache__", "node_modules"} & set(file.parts) or file.name == "tags" or file.suffix in {".png", ".gif"}
        )
        if file.is_file() and not made and not file.name.startswith("."):
            yield file


def test_no_file_names_this_machine_or_a_package_registry() -> None:
    hosts = [name + ".org" for name in ("pypi", "pythonhosted", "npmjs", "debian")]
    for file in written_files():
        text = file.read_text(errors="replace")
        found = [host for host in hosts if host in text]
        found += re.findall(
            rf"(?<![\w.~-]){re.escape(str(ROOT))}/", text
        )  # a checkout in /src is not the end of "~/src/"
        assert found == [], file.relative_to(ROOT)


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], ids=lambda page: page.name)
def test_every_link_to_a_page_of_ours_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
