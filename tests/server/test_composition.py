"""Each receiver of a server gets its events: clients, editors, notifications, metrics and the audit log."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from drawbridge.protocols import local_ipc as wire
from drawbridge.server import composition
from drawbridge.server.app.core import Core
from drawbridge.server.app.dispatch import Dispatch
from drawbridge.server.app.server_commands import ServerCommands
from drawbridge.server.bus import Receiver
from drawbridge.server.events import Announced, ReviewChanged, RunContinued
from tests.server.core_rig import Client, Server
from tests.server.notifications.service import Service
from tests.waiting import until

SOURCE = Path(composition.__file__).parents[1]

PARTS = (Core, Dispatch, ServerCommands)


class Editor:
    """An editor that shows reviews. ``received`` contains what it was sent."""

    about: wire.Bridge | None = wire.Bridge("Neovim", (), reviews=True)

    def __init__(self) -> None:
        self.received: list[Any] = []

    def introduce(self, about: wire.Bridge) -> None:
        self.about = about

    def send(self, said: wire.ToBridge | wire.HookAnswer) -> None:
        self.received.append(said)


@pytest.fixture
def service() -> Iterator[Service]:
    with Service().up() as service:
        yield service


@pytest.fixture
async def server(tmp_path: Path, service: Service) -> AsyncIterator[Server]:
    server = Server(tmp_path, webhook=service.url)
    await server.built.open()
    yield server
    await server.built.close("the end")


async def test_clients_are_notified_of_a_run(server: Server) -> None:
    phone = Client()
    (await server.running(phone, await server.project(phone))).ends()
    assert [one["outcome"] for one in phone.updates("run_finished")] == ["completed"]


async def test_metrics_count_a_run(server: Server) -> None:
    phone = Client()
    (await server.running(phone, await server.project(phone))).ends()
    assert server.built.monitor.health().runs.ended == {"completed": 1}


async def test_a_notification_is_sent_about_a_run(server: Server, service: Service) -> None:
    phone = Client()
    (await server.running(phone, await server.project(phone))).ends()
    await until(lambda: service.posted, "the notification")
    [(_, body)] = service.posted
    assert body == b"Run finished"


async def test_editors_are_notified_of_a_review(server: Server) -> None:
    editor = Editor()
    server.core.context.editors.add(editor, [])
    changed = ReviewChanged(state="open", files=1, hunks=1, added=1, removed=0, by="Ada")
    server.core.context.publish(Announced("p1", server.root, changed))
    assert editor.received == [wire.ReviewChanged("p1", "Ada", str(server.root))]


async def test_the_audit_log_contains_a_continued_run(server: Server) -> None:
    server.core.context.publish(Announced("p1", server.root, RunContinued("r1", "Ada")))
    assert server.audited() == [{"event": "continued", "by": "Ada", "project_id": "p1", "run_id": "r1"}]


def test_the_list_of_receivers_is_current() -> None:
    assert set(get_args(Receiver)) == {"clients", "metrics", "notices", "editors", "audit"}


def built_in(path: Path) -> set[str]:
    """The parts of a server that the module in ``path`` constructs."""
    text, parts = path.read_text(), {part.__name__ for part in PARTS}
    if not any(f"{part}(" in text for part in parts):
        return set()
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return parts & {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}


def test_servers_are_constructed_in_one_module() -> None:
    """Otherwise a test could pass with a server that nobody runs. The rig in ``app`` has a fake core."""
    root = Path(__file__).parents[2]
    modules = [path for folder in (SOURCE, root / "bench", root / "tests") for path in folder.rglob("*.py")]
    parts = {path: built_in(path) for path in modules}
    assert {path for path in modules if Core.__name__ in parts[path]} == {Path(composition.__file__)}
    assert {path for path in modules if parts[path] >= {"Dispatch", "ServerCommands"}} == {
        Path(composition.__file__),
        root / "tests" / "server" / "app" / "rig.py",
    }
