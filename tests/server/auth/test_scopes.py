"""A device may do only what its scope allows. Everything else is refused and has no effect."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from drawbridge.agents import registry
from drawbridge.agents.base import Decision, Proposal
from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.approvals.pending import with_call
from drawbridge.server.auth.scopes import SCOPES, Identity, Scope, check_answer
from drawbridge.server.events import ApprovalRequested
from drawbridge.server.notifications.send import Notifier
from drawbridge.server.protocol import commands as say
from drawbridge.server.protocol.client_errors import ClientError
from tests.server.auth.rig import Server, code_of, serving
from tests.server.examples import EXAMPLES
from tests.server.wire_client import WireClient

PAGE = Path(__file__).resolve().parent.parent.parent.parent / "docs" / "protocols" / "client.md"

# the table


def test_the_docs_list_the_current_scope_of_each_command() -> None:
    rows = re.findall(r"^\| `(view|approve|run|admin)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    shown = {scope: set(re.findall(r"`(\w+)`", text)) for scope, text in rows}
    assert shown == {scope: {row.name for row in COMMANDS if row.scope == scope} for scope in SCOPES}


ALLOWED_IN_WORDS: dict[Scope, dict[str, str]] = {
    "view": {
        "projects": "project_list project_join project_leave agent_list health_check",
        "conversations": "get_messages sessions session_messages session_export search blob_get",
        "changes": "run_changes review_get file_changes",
        "files": "file_list file_read",
        "usage and cost": "usage",
    },
    "approve": {
        "answer approval requests": "permission_response",
        "edit the text of a proposed file": "blob_put",
        "comment on changes": "review_comment",
        "stop runs": "agent_kill agent_interrupt",
    },
    "run": {
        "send prompts and comments to the agent": "execute review_submit review_withdraw",
        "change the queue": "queue_remove queue_edit queue_move queue_send_now",
        "list the conversations that the agent stores": "session_list",
        "start, resume, fork, rename and delete conversations": "agent_new_session session_resume session_fork "
        "session_rename session_delete",
        "decide on changes in a review": "review_decide",
        "undo a run": "run_revert",
        "choose mode, model and effort": "set_mode set_model set_effort",
    },
    "admin": {
        "commit what was kept in a review": "review_commit",
        "push the branch and create pull requests": "review_push",
        "see and create directories for projects": "dir_list dir_create place_list",
        "add and delete projects": "project_create project_delete",
        "list, pair and revoke devices": "device_list pair_create device_revoke",
    },
}
"""Phrases of docs/access.md and docs/security.md, with the commands that they stand for."""

OWN_CONNECTION = {"hello", "subscribe", "unsubscribe", "push_key", "push_subscribe", "push_unsubscribe", "push_test"}
"""Commands about the device's own connection and notifications, which the pages do not list."""


@pytest.mark.parametrize("page", ["access.md", "security.md"])
@pytest.mark.parametrize("scope", SCOPES)
def test_the_docs_describe_what_each_scope_allows(scope: Scope, page: str) -> None:
    lines = (PAGE.parents[1] / page).read_text().splitlines()
    [row] = [line for line in lines if line.startswith(f"| `{scope}` |")]
    said = ALLOWED_IN_WORDS[scope]
    assert [words for words in said if words not in row] == []
    commands = {row.name for row in COMMANDS if row.scope == scope and not row.signs_in} - OWN_CONNECTION
    assert set(" ".join(said.values()).split()) == commands


@pytest.mark.parametrize("scope", SCOPES)
async def test_each_command_is_refused_only_below_its_scope(server: Server, owner: WireClient, scope: Scope) -> None:
    project = await server.project(owner)
    async with server.client(server.token("pad", scope)) as client:
        features = set((await client.ask("hello"))["data"]["features"])
        for row in COMMANDS:
            name, within = row.name, SCOPES.index(row.scope) <= SCOPES.index(scope)
            # Nobody is offered a commit or a push unless the owner of the server allows them.
            assert (name in features) is (within and name not in ("review_commit", "review_push")), name
            if name != "project_delete" or not within:
                about = project if issubclass(row.request, say.ProjectCommand) else None
                answer = await client.ask(name, EXAMPLES.get(name), about)
                assert (code_of(answer) == "OUT_OF_SCOPE") is not within, name
                if not within:
                    assert answer["data"]["details"] == {"scope": scope, "needed": row.scope}
    [shown] = (await owner.ask("project_list"))["data"]["projects"]
    assert bool(shown["last_seq"]) is (scope in ("run", "admin")), "refused commands leave no records"


async def test_an_approver_cannot_remove_prompts_of_others(server: Server, owner: WireClient) -> None:
    project = await server.project(owner)
    async with server.client(server.token("pad", "approve")) as pad, server.client(server.token("pc", "run")) as pc:
        await owner.ask("execute", {"prompt": "/slow 600"}, project)
        await owner.ask("execute", {"prompt": "/quick"}, project)
        answer = await pad.ask("agent_interrupt", {"all": True}, project)
        assert (code_of(answer), answer["data"]["field"]) == ("OUT_OF_SCOPE", "data.all")
        assert answer["data"]["details"] == {"scope": "approve", "needed": "run"}
        joined = await owner.ask("project_join", project_id=project)
        assert [run["prompt"] for run in joined["data"]["data"]["queue"]] == ["/quick"]
        assert code_of(await pc.ask("agent_interrupt", {"all": True}, project)) == "ok"
        joined = await owner.ask("project_join", project_id=project)
        assert joined["data"]["data"]["queue"] == []


# answers


@contextlib.asynccontextmanager
async def asking(server: Server, owner: WireClient, prompt: str = "please change") -> AsyncIterator[dict[str, Any]]:
    """Creates a project and yields an approval request from the demo agent. Kills the agent at the end."""
    project = await server.project(owner)
    await owner.ask("project_join", project_id=project)
    await owner.ask("execute", {"prompt": prompt}, project)
    yield await owner.receive("permission_request")
    await owner.ask("agent_kill", project_id=project)


IN_NOTIFICATION = "drawbridge_answer_for-one-question"


async def test_a_notifications_token_decides_one_request_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notified").mkdir()
    only: list[Identity] = []

    def notified(notifier: Notifier, token: str) -> Identity | None:
        return only[0] if only and token == IN_NOTIFICATION else None

    monkeypatch.setattr(Notifier, "identify", notified)
    async with (
        serving(tmp_path / "notified") as server,
        server.client() as owner,
        asking(server, owner) as question,
    ):
        project, approval = question["project_id"], question["data"]["approval_id"]
        only.append(Identity(name="phone", scope="approve", only=(project, approval)))
        answer = {"approval_id": approval, "decision": "allow"}
        async with server.client(IN_NOTIFICATION) as worker:
            for row in COMMANDS:
                about = project if issubclass(row.request, say.InProjects) else None
                refused = await worker.ask(row.name, EXAMPLES.get(row.name), about)
                assert code_of(refused) == "OUT_OF_SCOPE", row.name
            for name, value in (("remember", True), ("updated_input", {}), ("updated_input_blob", "b")):
                refused = await worker.ask("permission_response", {**answer, name: value}, project)
                assert code_of(refused) == "OUT_OF_SCOPE", name
            refused = await worker.ask("permission_response", answer, "another")
            assert code_of(refused) == "OUT_OF_SCOPE"
            decided = await worker.ask("permission_response", answer, project)
            assert decided["data"]["update_type"] == "permission_resolved"
            again = await worker.ask("permission_response", answer, project)
            assert code_of(again) == "APPROVAL_RESOLVED"
        resolved = await owner.receive("update", "permission_resolved")
        assert resolved["data"]["data"]["decision"] == "allow"


async def test_a_decision_is_recorded_under_the_devices_name(server: Server, owner: WireClient) -> None:
    async with asking(server, owner) as question, server.client(server.token("Ada's phone", "approve")) as phone:
        await phone.ask("hello", {"client": "the owner"})
        given = {"approval_id": question["data"]["approval_id"], "decision": "allow"}
        answer = await phone.ask("permission_response", given, question["project_id"])
        assert answer["data"]["data"]["by"] == "Ada's phone"
        assert (await owner.receive("update", "permission_resolved"))["data"]["data"]["by"] == "Ada's phone"
        page = await owner.ask("get_messages", {"limit": 100}, question["project_id"])
        [kept] = [one for one in page["data"]["messages"] if one["message"].get("subtype") == "permission_resolved"]
        assert kept["message"]["message"]["by"] == "Ada's phone"


async def test_a_viewer_sees_a_request_and_cannot_answer_it(server: Server, owner: WireClient) -> None:
    async with asking(server, owner) as question, server.client(server.token("tv", "view")) as viewer:
        await viewer.ask("subscribe", {"topics": ["approvals"]})
        joined = await viewer.ask("project_join", project_id=question["project_id"])
        assert len(joined["data"]["data"]["open_approvals"]) == 1
        given = {"approval_id": question["data"]["approval_id"], "decision": "allow"}
        assert code_of(await viewer.ask("permission_response", given, question["project_id"])) == "OUT_OF_SCOPE"
        [shown] = (await viewer.ask("project_list"))["data"]["projects"]
        assert len(shown["approvals"]) == 1, "the request is still waiting"


async def test_an_approver_may_edit_the_text_but_not_the_path(server: Server, owner: WireClient) -> None:
    async with asking(server, owner) as question, server.client(server.token("phone", "approve")) as phone:
        before = question["data"]["input"]
        given = {"approval_id": question["data"]["approval_id"], "decision": "allow"}

        async def answered(**more: Any) -> str:
            return code_of(await phone.ask("permission_response", {**given, **more}, question["project_id"]))

        elsewhere = {**before, "file_path": str(server.roots / "elsewhere.py")}
        assert await answered(updated_input=elsewhere) == "OUT_OF_SCOPE"
        assert await answered(updated_input={**before, "more": 1}) == "OUT_OF_SCOPE"
        assert await answered(updated_input={}) == "OUT_OF_SCOPE"
        assert await answered(remember=True) == "OUT_OF_SCOPE"
        for blob, data in (("no-json", "bm8="), ("a-list", "W10=")):
            await phone.ask("blob_put", {"blob_id": blob, "offset": 0, "data": data, "last": True})
            assert await answered(updated_input_blob=blob) == "VALIDATION_FAILED"
        moved = base64.b64encode(json.dumps(elsewhere).encode()).decode()
        await phone.ask("blob_put", {"blob_id": "moved", "offset": 0, "data": moved, "last": True})
        assert await answered(updated_input_blob="moved") == "OUT_OF_SCOPE"
        word = "content" if "content" in before else "new_string"
        assert await answered(updated_input={**before, word: "my own text\n"}) == "update"


def allowed(updated_input: dict[str, Any]) -> Decision:
    return Decision(allow=True, updated_input=updated_input)


def asked(tool: str, given: bytes, proposal: Proposal | None = None, agent: str = "claude") -> ApprovalRequested:
    request = ApprovalRequested("appr_1", "run_1", tool, Raw(given), Raw(b"[]"), proposal)
    return with_call(request, registry.tools(agent))


@pytest.mark.parametrize(
    ("tool", "given", "updated", "fine"),
    [
        ("Bash", b'{"command":"ls"}', {"command": "rm -r x"}, False),
        ("Bash", b'{"command":"ls"}', {"command": "ls"}, True),
        ("Bash", b'{"command":"ls"}', {"command": "ls", "content": ""}, False),
        ("mcp__db__run", b'{"content":"select"}', {"content": "drop"}, False),
        ("AskUserQuestion", b'{"questions":[]}', {"questions": [], "answers": {"a": "b"}}, True),
        ("AskUserQuestion", b'{"questions":[]}', {"questions": [1], "answers": {}}, False),
        ("Bash", b"[1]", {}, False),
        ("Bash", b'{"n":1}', {"n": True}, False),
        ("Bash", b'{"n":0}', {"n": False}, False),
        ("Bash", b'{"n":true}', {"n": 1}, False),
        ("Bash", b'{"n":false}', {"n": 0.0}, False),
        ("Bash", b'{"n":null}', {}, False),
        ("Bash", b'{"n":[{"a":1}]}', {"n": [{"a": True}]}, False),
        ("Bash", b'{"n":[1,2]}', {"n": [1]}, False),
        ("Bash", b'{"n":{"a":1}}', {"n": {"a": 1, "b": 1}}, False),
        ("Bash", b'{"n":' + b"[" * 600 + b"]" * 600 + b"}", {"n": []}, False),
        ("Bash", b'{"n":1.0,"m":[1,{"a":true}]}', {"n": 1, "m": [1, {"a": True}]}, True),
    ],
)
def test_an_approver_cannot_edit_a_command(tool: str, given: bytes, updated: dict[str, Any], fine: bool) -> None:
    phone = Identity(name="phone", scope="approve", device_id="1")
    with contextlib.nullcontext() if fine else pytest.raises(ClientError, match="requires the run scope"):
        check_answer(phone, allowed(updated), asked(tool, given))


@pytest.mark.parametrize(
    ("tool", "field", "agent", "fine"),
    [
        ("Write", "content", "claude", True),
        ("Edit", "new_string", "claude", True),
        ("MultiEdit", "edits", "claude", True),
        ("NotebookEdit", "new_source", "claude", True),
        ("Write", "content", "gemini", True),
        ("Write", "file_path", "claude", False),
        ("Write", "file_path", "gemini", False),
        ("Write", "new_string", "claude", False),
        ("mcp__files__write", "content", "claude", False),
        ("apply_patch", "patch", "codex", False),
    ],
)
def test_an_approver_may_change_only_the_text_of_a_proposal(tool: str, field: str, agent: str, fine: bool) -> None:
    phone = Identity(name="phone", scope="approve", device_id="1")
    request = asked(tool, json.dumps({field: "old"}).encode(), Proposal("/p/a", "", "old"), agent)
    with contextlib.nullcontext() if fine else pytest.raises(ClientError, match="requires the run scope"):
        check_answer(phone, allowed({field: "new"}), request)


def test_an_approver_cannot_edit_a_request_of_unknown_form() -> None:
    phone = Identity(name="phone", scope="approve", device_id="1")
    unread = ApprovalRequested("a", "r", "Write", Raw(b'{"content":"old"}'), Raw(b"[]"), Proposal("/p/a", "", "old"))
    with pytest.raises(ClientError, match="requires the run scope"):
        check_answer(phone, allowed({"content": "new"}), unread)


def test_an_input_that_is_too_deep_to_compare_is_refused() -> None:
    phone = Identity(name="phone", scope="approve", device_id="1")
    given = asked("Bash", b'{"n":' + b"[" * 900 + b"]" * 900 + b"}")
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(ClientError, match="requires the run scope"):
        check_answer(phone, allowed({"n": deep}), given)


# projects


@pytest.fixture
async def two(server: Server, owner: WireClient) -> tuple[str, str]:
    """The ids of a project that the confined device below may see, and of one that it may not."""
    return await server.project(owner, "mine"), await server.project(owner, "secret")


@pytest.fixture
async def confined(server: Server) -> AsyncIterator[WireClient]:
    async with server.client(server.token("pad", "admin", projects=[str(server.roots / "mine")])) as client:
        yield client


async def test_a_project_replaced_by_a_link_cannot_be_reached(
    server: Server, owner: WireClient, two: tuple[str, str], confined: WireClient
) -> None:
    """The device doesn't see it either, even if it joined the project before or follows all projects."""
    mine, _ = two
    for client in (owner, confined):
        await client.ask("project_join", project_id=mine)
    await confined.ask("subscribe", {"topics": ["projects", "approvals"]})
    (server.roots / "mine").rename(server.roots / "was mine")
    (server.roots / "mine").symlink_to(server.roots / "secret")
    for name, data in (("execute", {"prompt": "/quick"}), ("sessions", {}), ("file_list", {})):
        assert code_of(await confined.ask(name, data, mine)) == "PROJECT_NOT_FOUND"
    assert (await confined.ask("project_list"))["data"]["projects"] == []
    await owner.ask("execute", {"prompt": "/quick"}, mine)
    await owner.receive("update", "run_finished")
    await confined.ask("hello")
    seen = [message for message in confined.passed() if "request_id" not in message]
    assert [message for message in seen if message["data"].get("update_type") != "stats"] == []


async def test_a_confined_device_reaches_only_its_own_projects(
    server: Server, owner: WireClient, two: tuple[str, str], confined: WireClient
) -> None:
    mine, secret = two
    await owner.ask("project_join", project_id=secret)
    await owner.ask("execute", {"prompt": "/quick"}, secret)
    await owner.receive("update", "run_finished")
    assert (await confined.ask("hello"))["data"]["device"]["projects"] == [str(server.roots / "mine")]
    assert [one["id"] for one in (await confined.ask("project_list"))["data"]["projects"]] == [mine]
    assert (await confined.ask("health_check"))["data"]["projects"] == 1
    for row in COMMANDS:
        name = row.name
        if issubclass(row.request, say.InProjects):
            unknown = await confined.ask(name, EXAMPLES.get(name), "nobody")
            answer = await confined.ask(name, EXAMPLES.get(name), secret)
            assert code_of(answer) == "PROJECT_NOT_FOUND", name
            assert answer["data"]["message"] == unknown["data"]["message"], (
                "the error does not reveal that the project exists"
            )
    assert code_of(await confined.ask("blob_get", {"blob_id": f"{secret}:1"})) == "PROJECT_NOT_FOUND"
    assert (await owner.ask("search", {"query": "quick"}))["data"]["results"]
    assert (await confined.ask("search", {"query": "quick"}))["data"]["results"] == []
    assert (await owner.ask("sessions"))["data"]["sessions"]
    assert (await confined.ask("sessions"))["data"]["sessions"] == []
    assert code_of(await confined.ask("project_join", project_id=mine)) == "update"
    assert len((await owner.ask("project_list"))["data"]["projects"]) == 2


def test_a_device_does_not_see_paths_that_only_begin_alike() -> None:
    device = Identity(name="phone", scope="view", device_id="1", projects=("/code/site",))
    assert [device.sees(Path(path), Path) for path in ("/code/site", "/code/site/inner")] == [True, True]
    others = ("/code/site2", "/code/site-old", "/code/site.d/x", "/code", "/code/sit", "/", "/x/code/site")
    assert [path for path in others if device.sees(Path(path), Path)] == []


async def test_a_confined_device_cannot_see_sibling_projects(server: Server, owner: WireClient) -> None:
    site, _ = await server.project(owner, "site"), await server.project(owner, "site2")
    async with server.client(server.token("pad", "run", projects=[str(server.roots / "site")])) as device:
        assert [one["id"] for one in (await device.ask("project_list"))["data"]["projects"]] == [site]


async def test_a_confined_device_sees_its_own_projects_health(
    server: Server, owner: WireClient, two: tuple[str, str], confined: WireClient
) -> None:
    mine, secret = two
    for project, times in ((secret, 2), (mine, 1)):
        await owner.ask("project_join", project_id=project)
        for _ in range(times):
            await owner.ask("execute", {"prompt": "/quick"}, project)
            await owner.receive("update", "run_finished")
    health = (await confined.ask("health_check"))["data"]
    assert health["runs"]["ended"] == {"completed": 1}
    assert (health["projects"], health["running"], health["subscriptions"]) == (1, 0, 1)
    assert health["runs"]["cost_usd"] == next(iter(server.core.projects)).recorded.cost_usd
    assert server.core.metrics.total.runs.total() == 3


async def test_a_confined_device_sees_only_its_projects_problems(
    server: Server, owner: WireClient, two: tuple[str, str], confined: WireClient
) -> None:
    (server.roots / "secret").rmdir()
    assert (await confined.ask("health_check"))["data"]["problems"] == []
    assert (await confined.ask("health_check"))["data"]["status"] == "ok"
    (server.roots / "mine").rmdir()
    health = (await confined.ask("health_check"))["data"]
    assert (health["status"], len(health["problems"])) == ("degraded", 1)


async def test_a_confined_device_receives_nothing_about_other_projects(
    server: Server, owner: WireClient, two: tuple[str, str], confined: WireClient
) -> None:
    mine, secret = two
    await confined.ask("subscribe", {"topics": ["projects", "approvals", "stats"]})
    for project in (secret, mine):
        await owner.ask("project_join", project_id=project)
        await owner.ask("execute", {"prompt": "please change"}, project)
        question = await owner.receive("permission_request")
        given = {"approval_id": question["data"]["approval_id"], "decision": "deny"}
        await owner.ask("permission_response", given, project)
        await owner.receive("update", "run_finished")
    await server.monitor.report(server.clients)
    stats = (await confined.receive("update", "stats"))["data"]["data"]
    await owner.ask("project_delete", project_id=secret)
    assert (await confined.ask("project_list"))["type"] == "project_list", "all earlier messages have arrived"
    assert stats["project_states"] == {mine: "IDLE"}
    assert stats["projects"] == 1
    assert any(message["type"] == "permission_request" for message in confined.received)
    assert [message for message in confined.received if secret in str(message)] == []
    assert [message for message in confined.received if str(server.roots / "secret") in str(message)] == []


async def test_a_confined_device_adds_projects_only_in_its_directory(
    server: Server, owner: WireClient, confined: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine/inner", "secret/inner"):
        (server.roots / name).mkdir(parents=True)
    (server.roots / "mine" / "link").symlink_to(server.roots / "secret")
    for path in (server.roots / "secret", server.roots / "mine" / "link", server.roots / "mine/../secret", "/x\0y"):
        assert code_of(await confined.ask("project_create", {"path": str(path)})) == "INVALID_PATH", path
    # the server was started in the device's directory, and "~" is a different directory
    monkeypatch.setenv("HOME", str(server.roots))
    monkeypatch.chdir(server.roots / "mine")
    assert code_of(await confined.ask("project_create", {"path": "~/secret"})) == "INVALID_PATH"
    assert (await confined.ask("dir_list", {"path": ""}))["data"]["directories"] == [str(server.roots / "mine")]
    assert code_of(await confined.ask("dir_list", {"path": str(server.roots)})) == "INVALID_PATH"
    for path in (server.roots, server.roots / "secret", server.roots / "mine" / "link"):
        assert code_of(await confined.ask("dir_create", {"path": str(path), "name": "new"})) == "INVALID_PATH", path
    assert sorted(one.name for one in (server.roots / "secret").iterdir()) == ["inner"]
    assert (await confined.ask("dir_list", {"path": str(server.roots / "mine")}))["data"]["directories"] == ["inner"]
    assert code_of(await confined.ask("project_create", {"path": str(server.roots / "mine" / "inner")})) == "update"
    assert [one["path"] for one in (await owner.ask("project_list"))["data"]["projects"]] == [
        str(server.roots / "mine" / "inner")
    ]


async def test_a_confined_device_cannot_add_other_directories(
    server: Server, two: tuple[str, str], confined: WireClient
) -> None:
    mine, _ = two
    beside = {"prompt": "/quick", "options": {"add_dirs": [str(server.roots / "mine"), str(server.roots / "secret")]}}
    refused = await confined.ask("execute", beside, mine)
    assert code_of(refused) == "INVALID_PATH"
    assert refused["data"]["field"] == "data.options.add_dirs[1]"
    assert (await confined.ask("project_list"))["data"]["projects"][0]["last_seq"] == 0
