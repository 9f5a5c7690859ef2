"""A server opens the data of an older version without losing anything, and leaves the data of a newer version alone.

``data_of_0`` was written before formats had numbers. It contains two projects of the demo agent, and the server was
killed with ``kill -9`` while one of them waited for a decision. ``data_of_1`` was written by the server as it was
before issue 13, and that server was killed in the same way. It contains three projects of the demo agent (answers with
and without edits, a failed, a crashed and an interrupted run, a reset, a fork, a prompt in the queue), a terminal
session with a waiting approval request, and a device. ``answers_of_1.json`` contains what that server answered when it
was started with this data again.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.auth.devices import Devices
from drawbridge.server.sessions.metadata import VERSION
from drawbridge.server.upgrade import FORMAT
from tests.server.core_rig import Client, serving, settled
from tests.server.processes import refused
from tests.server.processes import serving as running
from tests.setup.conftest import everything_below

OLD = Path(__file__).with_name("data_of_0")
OLD_1 = Path(__file__).with_name("data_of_1")
ANSWERS_1 = Path(__file__).with_name("answers_of_1.json")
BLOG, SHOP = "proj_4db17dc6d5e74691", "proj_319c27dbac084df5"
SESSION = "1f0d5a98-71ee-4147-8d52-4ead5eff1fb6"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD, tmp_path / "data", symlinks=True))


def metadata(data: Path, project: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((data / "projects" / project / "metadata.json").read_text())
    return found


async def test_projects_of_an_older_server_continue(data: Path, tmp_path: Path) -> None:
    """In the data, the projects' directories are below ``/home/ada``; the test replaces these paths with its own."""
    work = tmp_path / "work"
    for project, name in ((BLOG, "blog"), (SHOP, "shop")):
        (work / name).mkdir(parents=True)
        file = data / "projects" / project / "metadata.json"
        file.write_text(file.read_text().replace(f"/home/ada/{name}", f"{work}/{name}"))
    async with serving(tmp_path) as server:
        phone = Client()
        listed = {one["id"]: one for one in (await server.does(phone, "project_list"))["data"]["projects"]}
        assert {id: (one["path"], one["state"]) for id, one in listed.items()} == {
            BLOG: (f"{work}/blog", "IDLE"),
            SHOP: (f"{work}/shop", "IDLE"),
        }
        history = await server.does(phone, "get_messages", BLOG, after_seq=0)
        assert [one["seq"] for one in history["data"]["messages"]] == list(range(1, 24))
        known = await server.does(phone, "execute", SHOP, prompt="Fix the typo", request_id="typo-1")
        assert known["data"]["run_id"] == "run_8b27fe1d08684838"
        server.core.grants.agents["demo"] = server.agent  # type: ignore[index]
        process = await server.running(phone, BLOG)
        assert (process.launch.session_id, process.launch.resume) == (SESSION, True)
        assert process.launch.options.permission_mode == "plan"
        process.ends(cost=0.5)
        await settled()
    saved = metadata(data, BLOG)
    assert saved["version"] == VERSION
    assert saved["memory"]["cost_usd"] == pytest.approx(0.5028)
    assert sum(saved["memory"]["days"].values()) == 0.5
    *_, withdrawn, ended = (data / "projects" / SHOP / "logs" / "latest.jsonl").read_text().splitlines()
    assert "permission_withdrawn" in withdrawn
    assert '"outcome":"interrupted"' in ended


async def test_the_sessions_of_an_older_server_are_listed_and_found(tmp_path: Path) -> None:
    shutil.copytree(OLD_1, tmp_path / "data", symlinks=True)
    phone = Client()
    async with serving(tmp_path) as server:
        found = (await server.does(phone, "sessions"))["data"]
        assert {one["project_id"] for one in found["sessions"]} == {session.id for session in server.core.all_sessions}
        assert all(one["title"] and one["prompts"] for one in found["sessions"])
        assert "building" not in found
        for one in found["sessions"]:
            about = {"session_id": one["session_id"], "kinds": ["prompt"]}
            outline = (await server.does(phone, "search", one["project_id"], **about))["data"]["results"]
            assert len(outline) == one["prompts"]


async def test_the_server_records_the_format_of_data_it_has_opened(data: Path) -> None:
    async with running(data, "--no-tls") as server:
        assert json.loads((data / "format.json").read_text())["format"] == FORMAT
        async with server.client() as client:
            assert len((await client.ask("project_list"))["data"]["projects"]) == 2
    before = (data / "format.json").stat().st_mtime_ns
    async with running(data, "--no-tls"):
        pass
    assert (data / "format.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("content", "reason", "words"),
    [
        (f'{{"format": {FORMAT + 1}, "drawbridge": "9.1.0"}}', "newer Drawbridge (9.1.0)", "Install that version"),
        pytest.param(
            '{"format": 99}', "newer Drawbridge (of an unknown version)", "--data-dir", marks=pytest.mark.thorough
        ),
        pytest.param("not json", "can't be read", "Nothing was changed", marks=pytest.mark.thorough),
    ],
)
async def test_data_from_a_newer_server_is_refused_and_unchanged(
    data: Path, content: str, reason: str, words: str
) -> None:
    (data / "format.json").write_text(content)
    before = everything_below(data)
    exit_code, output = await refused("--no-tls", "--port", "0", "--data-dir", data)
    assert exit_code == 3
    assert reason in output
    assert words in output
    assert output.rstrip().endswith("[DATA_TOO_NEW]") == ("newer" in reason)
    assert everything_below(data) == before


async def test_a_project_from_a_newer_server_is_left_unchanged(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other projects are served, and the log contains the reason."""
    file = data / "projects" / BLOG / "metadata.json"
    file.write_text(json.dumps(metadata(data, BLOG) | {"version": VERSION + 1, "new": "thing"}))
    before = everything_below(data / "projects" / BLOG)
    async with serving(tmp_path) as server:
        listed = await server.does(Client(), "project_list")
        assert [one["id"] for one in listed["data"]["projects"]] == [SHOP]
    assert f"the project in {BLOG} can't be read at the moment: it was written by a newer Drawbridge" in caplog.text
    assert everything_below(data / "projects" / BLOG) == before
    assert list((data / "quarantine").iterdir()) == []


async def answers(data: Path, root: Path) -> dict[str, Any]:
    """What a server reports about its projects after its start: the list, snapshots, histories, and how late answers to
    approval requests are refused.
    """
    found: dict[str, Any] = {}
    async with running(data, "--no-tls", "--allow", root) as server, server.client() as client:
        found["list"] = (await client.ask("project_list"))["data"]["projects"]
        for id in [one["id"] for one in found["list"]]:
            history = (await client.ask("get_messages", {"after_seq": 0}, id))["data"]["messages"]
            asked = [
                one["message"]["message"]["approval_id"]
                for one in history
                if one["direction"] == "server" and one["message"]["subtype"] == "permission_request"
            ]
            waiting = [one["approval_id"] for info in found["list"] for one in info["approvals"]]
            late = [
                await client.ask("permission_response", {"approval_id": approval, "decision": "allow"}, id)
                for approval in asked
                if approval not in waiting
            ]
            replayed = len(client.received)
            joined = await client.ask("project_join", {"after_seq": 0}, id)
            # The project's state may arrive after the last record, since the title is read from the history in the meantime.
            while max(one.get("seq") or 0 for one in client.received[replayed:]) < joined["data"]["data"]["last_seq"]:
                await client.next()
            found[id] = {
                "joined": joined,
                "history": history,
                "late": [[one["data"]["code"], one["data"]["details"]] for one in late],
                "replayed": [one for one in client.received[replayed:] if "seq" in one],
            }
    return found


def lasting(found: Any, root: Path) -> Any:
    """Returns ``found`` without what differs at each start (times, ids of requests and connections), and without what
    older versions did not report: a session's title, the start of its run, what its agent has reported, and the summary
    and kind of a request. ``root`` is replaced with ``/home/ada``.
    """
    varying = {
        "created_at",
        "last_active",
        "timestamp",
        "last_message_time",
        "correlation_id",
        "request_id",
        "message_time",
        "title",
        "started_at",
        "agent_state",
        "summary",
        "kind",
    }
    if isinstance(found, dict):
        return {name: lasting(value, root) for name, value in found.items() if name not in varying}
    if isinstance(found, list):
        return [lasting(value, root) for value in found]
    return found.replace(str(root), "/home/ada") if isinstance(found, str) else found


@pytest.mark.parametrize("remembered", [True, False], ids=["as saved", "from the records alone"])
async def test_data_of_the_previous_version_is_read_the_same_way(tmp_path: Path, remembered: bool) -> None:
    data, root = tmp_path / "data", tmp_path / "home"
    shutil.copytree(OLD_1, data, symlinks=True)
    for file in [*data.rglob("metadata.json"), *data.rglob("messages_*.jsonl")]:
        file.write_text(file.read_text().replace("/home/ada", str(root)))
    for file in data.rglob("metadata.json") if not remembered else ():
        saved = json.loads(file.read_text())
        del saved["memory"]
        file.write_text(json.dumps(saved))
    for name in ("blog", "shop", "bench"):
        (root / name).mkdir(parents=True)
    assert [device.name for device in Devices(data)] == ["Ada's phone"]
    assert lasting(await answers(data, root), root) == json.loads(ANSWERS_1.read_text())
