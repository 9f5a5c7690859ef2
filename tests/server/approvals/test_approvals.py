"""An agent sends an approval request. The first decision counts, all clients see it, and the agent gets it once."""

from __future__ import annotations

import contextlib
import json
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw

from drawbridge.agents.base import Proposal, Question
from drawbridge.server.events import Announced, ApprovalResolved
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import FRAME_BYTES
from drawbridge.server.sessions.audience import frame
from drawbridge.server.updates import permission_resolved
from tests.server.core_rig import Client, Server, records, serving, settled
from tests.waiting import until


async def asked(server: Server, phone: Client, project: str) -> str:
    process = await server.running(phone, project)
    process.asks("q1")
    return str(phone.of_type("permission_request")[-1]["data"]["approval_id"])


async def test_an_approval_request_shows_the_proposed_change(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await asked(server, phone, project)
        (request,) = phone.of_type("permission_request")
        assert request["data"]["tool_name"] == "Write"
        assert request["data"]["proposal"] == {"path": "/p/a.py", "old_text": "old\n", "new_text": "new\n"}
        assert request["seq"] == request["data"]["seq"] == records(server, project)[-1]["seq"]
        [listed] = (await server.does(Client(), "project_list"))["data"]["projects"]
        [waiting] = listed["approvals"]
        assert (waiting["approval_id"], waiting["tool_name"]) == (request["data"]["approval_id"], "Write")
        assert waiting["summary"] == request["data"]["summary"] != ""
        assert listed["last_seq"] == request["seq"]
        joined = (await server.does(Client(), "project_join", project))["data"]["data"]
        [shown] = joined["open_approvals"]
        assert shown == request["data"] | {"created_at": waiting["created_at"]}
        server.agent.latest.ends()


async def test_a_client_that_decides_late_sees_who_decided_first(tmp_path: Path) -> None:
    """The agent receives only the first decision."""
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        approval = await asked(server, phone, project)
        await server.does(phone, "permission_response", project, approval_id=approval, decision="allow")
        with pytest.raises(ClientError) as late:
            await server.does(page, "permission_response", project, approval_id=approval, decision="deny")
        assert late.value.code == "APPROVAL_RESOLVED"
        assert late.value.details == {"by": "phone", "decision": "allow", "client_id": phone.id}
        assert [(question, answer.allow) for question, answer in server.agent.latest.answers] == [("q1", True)]
        (resolved,) = page.updates("permission_resolved")
        assert (resolved["by"], resolved["decision"], resolved["client_id"]) == ("phone", "allow", phone.id)
        assert "edited" not in resolved
        server.agent.latest.ends()


async def test_a_late_answer_gets_the_decision_after_a_restart(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        answered = await asked(server, phone, project)
        await server.does(phone, "permission_response", project, approval_id=answered, decision="deny")
        server.agent.latest.asks("q2")
        waiting = str(phone.of_type("permission_request")[-1]["data"]["approval_id"])
    async with serving(tmp_path) as server:
        denied = {"by": "phone", "decision": "deny", "client_id": phone.id}
        expected = {answered: denied, waiting: {"reason": "the server is ending"}}
        for approval, details in expected.items():
            with pytest.raises(ClientError) as late:
                await server.does(page, "permission_response", project, approval_id=approval, decision="allow")
            assert (late.value.code, late.value.details) == ("APPROVAL_RESOLVED", details)


async def test_an_edited_input_and_remember_reach_the_agent(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        approval = await asked(server, phone, project)
        await server.does(
            phone, "permission_response", project,
            approval_id=approval, decision="allow", updated_input={"content": "mine"}, remember=True,
        )  # fmt: skip
        ((_, decision),) = server.agent.latest.answers
        assert decision.updated_input == {"content": "mine"}
        assert decision.remember
        server.agent.latest.ends()


EDITED = [
    ({"file_path": "/p/a.py", "content": "mine\n"}, {"edited": True, "new_text": "mine\n"}),
    ({"file_path": "/p/a.py", "content": "new\n", "extra": 1}, {}),
    ({"file_path": "/p/a.py", "content": "x" * 200_000}, {"edited": True}),
]


@pytest.mark.parametrize(("given", "expected"), EDITED, ids=["another text", "the same text", "a large text"])
async def test_an_edited_answer_is_marked_for_every_client(
    tmp_path: Path, given: dict[str, object], expected: dict[str, object]
) -> None:
    """The mark reaches the client that answers, another connected client, and one that reads the history later."""
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        approval = await asked(server, phone, project)
        answer = {"approval_id": approval, "decision": "allow", "updated_input": given}
        replied = (await server.does(phone, "permission_response", project, **answer))["data"]["data"]
        later = Client()
        await server.does(later, "project_join", project, after_seq=0)
        await until(lambda: later.updates("permission_resolved"), what="the replay")
        for resolved in (replied, *page.updates("permission_resolved"), *later.updates("permission_resolved")):
            found = {name: resolved[name] for name in ("edited", "new_text", "updated_input") if name in resolved}
            assert found == expected
        server.agent.latest.ends()


@pytest.mark.parametrize(
    ("letters", "is_shown"), [(50_000, True), (800_000, False)], ids=["both fit", "only the message fits"]
)
async def test_an_answer_fits_into_a_frame(tmp_path: Path, letters: int, is_shown: bool) -> None:
    """Each control character takes six bytes in JSON. The agent gets the complete answer, even if it is too
    long for the clients."""
    phone, page = Client("phone"), Client("page")
    edited, message = "\x01" * 149_000, "m" * letters
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        approval = await asked(server, phone, project)
        answer = {"approval_id": approval, "decision": "allow", "message": message}
        given = {"file_path": "/p/a.py", "content": edited}
        replied = await server.does(phone, "permission_response", project, updated_input=given, **answer)
        later = Client()
        await server.does(later, "project_join", project, after_seq=0)
        await until(lambda: later.updates("permission_resolved"), what="the replay")
        expected = {"edited": True, "message": message} | ({"new_text": edited} if is_shown else {})
        for resolved in (
            replied["data"]["data"],
            *(client.updates("permission_resolved")[0] for client in (page, later)),
        ):
            assert {name: resolved[name] for name in ("edited", "message", "new_text") if name in resolved} == expected
        assert max(len(frame.data) for frame in page.frames + later.frames) <= FRAME_BYTES
        [(_, decision)] = server.agent.latest.answers
        assert decision.updated_input == given
        server.agent.latest.ends()


def test_a_message_that_is_too_long_is_cut() -> None:
    resolved = ApprovalResolved(approval_id="a", by="phone", decision="deny", message="m" * FRAME_BYTES)
    shown = permission_resolved(resolved)
    assert shown.message is not None
    assert shown.message.endswith("…")
    assert len(frame(Announced("p", Path("/p"), resolved)).data) <= FRAME_BYTES


async def test_clients_see_an_edited_command(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(Question("q1", "Bash", Raw(b'{"command":"ls","n":1}'), Raw(b"[]")))
        approval = phone.of_type("permission_request")[-1]["data"]["approval_id"]
        answer = {"approval_id": approval, "decision": "allow", "updated_input": {"command": "ls -a", "n": 1}}
        resolved = (await server.does(phone, "permission_response", project, **answer))["data"]["data"]
        assert resolved["edited"] is True
        assert resolved["updated_input"] == {"command": "ls -a", "n": 1}
        process.ends()


async def test_the_target_of_a_link_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target is sent for a file, for a file in a linked directory, and for a file that does not exist yet."""
    phone = Client()
    (tmp_path / "data").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "README.md").symlink_to(tmp_path / ".bashrc")
    (tmp_path / "code" / "vendor").symlink_to(tmp_path)
    (tmp_path / "code" / "my notes.md").symlink_to(tmp_path / ".bashrc")
    spaced = f"{tmp_path}/code/my%20notes.md"
    monkeypatch.setattr(pwd, "getpwnam", {"ada": SimpleNamespace(pw_dir=str(tmp_path / "code"))}.__getitem__)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "link").symlink_to(tmp_path / ".bashrc")
    plain, link, inside = (str(tmp_path / "code" / name) for name in ("plain.md", "README.md", "vendor/new.md"))
    async with serving(tmp_path / "data") as server:
        project = await server.project(phone)
        (server.root / "one" / "README.md").symlink_to(tmp_path / ".bashrc")
        (server.root / "one" / "vendor").symlink_to(tmp_path / "code")
        (server.root / "one" / "~literal").symlink_to(tmp_path / "code")
        process = await server.running(phone, project)
        content = [{"type": "diff", "path": link, "newText": "x"}, {"type": "diff", "path": inside, "newText": "y"}]
        for given, targets in (
            ({"file_path": plain}, None),
            ({"file_path": link}, {link: str(tmp_path / ".bashrc")}),
            ({"notebook_path": inside}, {inside: str(tmp_path / "new.md")}),
            (
                {"toolCallId": "t", "content": content},
                {link: str(tmp_path / ".bashrc"), inside: str(tmp_path / "new.md")},
            ),
            ({"file_path": "/a\0b"}, None),
            ({"command": link, "path": 5, "content": None}, None),
            ({"path": "README.md"}, {"README.md": str(tmp_path / ".bashrc")}),
            ({"path": "./" * 600 + "README.md"}, {"./" * 600 + "README.md": str(tmp_path / ".bashrc")}),
            ({"target": "./vendor/../README.md"}, {"./vendor/../README.md": str(tmp_path / "README.md")}),
            ({"path": "~/link"}, {"~/link": str(tmp_path / ".bashrc")}),
            ({"path": "~ada/README.md"}, {"~ada/README.md": str(tmp_path / ".bashrc")}),
            ({"path": "~nobody/README.md"}, None),
            ({"path": "~literal/x.md"}, {"~literal/x.md": str(tmp_path / "code" / "x.md")}),
            ({"uri": f"file://{link}"}, {f"file://{link}": str(tmp_path / ".bashrc")}),
            ({"uri": f"file://localhost{spaced}"}, {f"file://localhost{spaced}": str(tmp_path / ".bashrc")}),
            ({"uri": f"file://{plain}"}, None),
            ({"uri": f"file://elsewhere{link}"}, None),
            ({"uri": f"https://example.org{link}"}, None),
            ({"uri": "file:///%00%ff"}, None),
            ({"a": [{"b": [{"c": [{"path": link}]}]}]}, {link: str(tmp_path / ".bashrc")}),
            ({"paths": [plain, inside]}, {inside: str(tmp_path / "new.md")}),
            ({"content": "README.md and more"}, None),
        ):
            process.emit(Question(f"q{len(phone.received)}", "Write", Raw(json.dumps(given).encode()), Raw(b"[]")))
            assert phone.of_type("permission_request")[-1]["data"].get("link_targets") == targets
        asked = Raw(b'{"command":"cat config"}')
        process.emit(Question("blocked", "Bash", asked, Raw(b"[]"), blocked_path=inside))
        assert phone.of_type("permission_request")[-1]["data"]["link_targets"] == {inside: str(tmp_path / "new.md")}
        process.ends()


async def test_a_large_edited_input_is_sent_as_a_blob(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.asks("q1")
        (asked,) = phone.of_type("permission_request")
        answer = {"approval_id": asked["data"]["approval_id"], "decision": "allow"}
        await server.upload("a list", b"[1]")
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "permission_response", project, **answer, updated_input_blob="a list")
        assert (refused.value.code, refused.value.field) == ("VALIDATION_FAILED", "data.updated_input_blob")
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "permission_response", project, **answer, updated_input_blob="none")
        assert (refused.value.code, refused.value.field) == ("BLOB_NOT_FOUND", "data.updated_input_blob")
        assert process.answers == []
        given = {"file_path": "/p/a.py", "content": "x" * 2_000_000}
        await server.upload("large", json.dumps(given).encode())
        await server.does(phone, "permission_response", project, **answer, updated_input_blob="large")
        [(_, decision)] = process.answers
        assert decision.updated_input == given
        process.ends()


async def test_a_decision_is_audited_though_its_session_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is closed in a thread, so it may be closed just after the decision was written."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        approval = await asked(server, phone, project)
        history = server.core.projects.get(project).history
        append = history.append

        def closes(*given: Any, **more: Any) -> Any:
            record = append(*given, **more)
            patched.setattr(history, "closed", True)
            return record

        with monkeypatch.context() as patched:
            patched.setattr(history, "append", closes)
            await server.does(phone, "permission_response", project, approval_id=approval, decision="deny")
        assert [(entry["event"], entry["decision"]) for entry in server.audited()] == [("answered", "deny")]


async def test_an_approval_request_may_contain_a_huge_number(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        given = Raw(b'{"file_path":"/p/a.py","content":"new\\n","n":1e999}')
        process.emit(Question("q1", "Write", given, Raw(b"[]"), Proposal("/p/a.py", "old\n", "new\n")))
        [request] = phone.of_type("permission_request")
        approval = request["data"]["approval_id"]
        [waiting] = (await server.does(Client(), "project_join", project))["data"]["data"]["open_approvals"]
        assert waiting["seq"] == request["seq"]
        await server.does(phone, "permission_response", project, approval_id=approval, decision="allow")
        assert [entry["path"] for entry in server.audited()] == ["/p/a.py"]
        assert [(question, decision.allow) for question, decision in process.answers] == [("q1", True)]
        process.ends()


@pytest.mark.parametrize("given", ['{"n":1e999}', '{"n":' + "1" * 5_000 + "}", '{"n":' + "[" * 600 + "]" * 600 + "}"])
@pytest.mark.parametrize("how", ["updated_input", "updated_input_blob"])
async def test_an_invalid_edited_input_leaves_the_request_open(tmp_path: Path, given: str, how: str) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        approval = await asked(server, phone, project)
        await server.upload("b", given.encode())
        before = records(server, project)
        value = given if how == "updated_input" else '"b"'
        data = f'{{"approval_id":"{approval}","decision":"allow","{how}":{value}}}'
        text = f'{{"type":"permission_response","project_id":"{project}","data":{data}}}'

        async def decide() -> None:
            command = commands.parse(text, {"permission_response": commands.PermissionResponse})
            assert isinstance(command, commands.PermissionResponse)
            await server.core.permission_response(command, phone)

        with pytest.raises(ClientError) as refused:
            await decide()
        assert (refused.value.code, refused.value.field) == ("VALIDATION_FAILED", f"data.{how}")
        assert (records(server, project), server.agent.latest.answers) == (before, [])
        await server.does(phone, "permission_response", project, approval_id=approval, decision="allow")
        assert len(server.agent.latest.answers) == 1
        server.agent.latest.ends()


@pytest.mark.parametrize("how", ["updated_input", "updated_input_blob"])
async def test_an_edited_input_may_be_nested_to_a_limit(tmp_path: Path, how: str) -> None:
    """At the limit, the agent receives it, and it is in the history. Beyond the limit, the request stays open."""

    def nested(levels: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads('{"n":' * levels + "1" + "}" * levels)
        return found

    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        answer = {"approval_id": await asked(server, phone, project), "decision": "allow"}
        for levels in (commands.DEEPEST + 1, commands.DEEPEST):
            await server.upload(f"b{levels}", json.dumps(nested(levels)).encode())
            given = nested(levels) if how == "updated_input" else f"b{levels}"
            refused = levels > commands.DEEPEST
            with pytest.raises(ClientError, match="nested too deeply") if refused else contextlib.nullcontext():
                await server.does(phone, "permission_response", project, **answer, **{how: given})
        [(_, decision)] = server.agent.latest.answers
        assert decision.updated_input == nested(commands.DEEPEST)
        assert records(server, project)[-1]["message"]["message"]["updated_input"] == nested(commands.DEEPEST)
        server.agent.latest.ends()


async def test_an_agent_that_does_not_support_edits_gets_none(tmp_path: Path) -> None:
    """An edited answer is refused: the agent would ignore the edit and act on its own input."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(Question("q1", "edit", Raw(b'{"title":"x"}'), Raw(b"[]"), changeable=False, form="acp"))
        [request] = phone.of_type("permission_request")
        answer = {"approval_id": request["data"]["approval_id"], "decision": "allow"}
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "permission_response", project, **answer, updated_input={"title": "y"})
        assert (refused.value.code, refused.value.field) == ("NOT_SUPPORTED", "data.updated_input")
        assert process.answers == []
        await server.does(phone, "permission_response", project, **answer)
        assert len(process.answers) == 1
        process.ends()


@pytest.mark.parametrize("more", [{}, {"questions": []}, {"answers": {}}, {"answers": "Right"}], ids=str)
async def test_questions_cannot_be_approved_without_answers(tmp_path: Path, more: dict[str, Any]) -> None:
    """Claude Code 2.1.329 would ignore an approval without answers, or continue as if nobody had answered."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(Question("q1", "AskUserQuestion", Raw(b'{"questions":[{"question":"Which?"}]}'), Raw(b"[]")))
        [request] = phone.of_type("permission_request")
        answer = {"approval_id": request["data"]["approval_id"], "decision": "allow"}
        changed = {"updated_input": more} if more else {}
        with pytest.raises(ClientError, match="answers to the questions are missing") as refused:
            await server.does(phone, "permission_response", project, **answer, **changed)
        assert (refused.value.code, refused.value.field) == ("VALIDATION_FAILED", "data.updated_input")
        assert process.answers == []
        answered = {"questions": [{"question": "Which?"}], "answers": {"Which?": "Right"}}
        await server.does(phone, "permission_response", project, **answer, updated_input=answered)
        assert len(process.answers) == 1
        process.ends()


async def test_an_approval_request_canceled_by_the_agent_is_withdrawn(tmp_path: Path) -> None:
    from drawbridge.agents.base import QuestionCancelled

    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        approval = await asked(server, phone, project)
        server.agent.latest.emit(QuestionCancelled("q1", "answered elsewhere"))
        assert phone.updates("permission_withdrawn") == [{"approval_id": approval, "reason": "answered elsewhere"}]
        with pytest.raises(ClientError) as late:
            await server.does(phone, "permission_response", project, approval_id=approval, decision="allow")
        assert late.value.code == "APPROVAL_RESOLVED"
        assert server.agent.latest.answers == []
        server.agent.latest.ends()


@pytest.mark.parametrize("end", ["ends", "dies", "killed", "interrupted"])
async def test_approval_requests_are_withdrawn_when_their_run_ends(end: str, tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await asked(server, phone, project)
        match end:
            case "ends":
                server.agent.latest.ends()
            case "dies":
                server.agent.latest.exit(1)
            case "killed":
                await server.does(phone, "agent_kill", project)
            case "interrupted":
                await server.does(phone, "agent_interrupt", project)
                server.agent.latest.ends(interrupted=True)
        await settled()
        assert len(phone.updates("permission_withdrawn")) == 1
        info = (await server.does(phone, "project_list"))["data"]["projects"][0]
        assert info["approvals"] == []


async def test_an_approval_request_between_two_runs_is_denied(tmp_path: Path) -> None:
    """An agent may start a turn on its own when a background command has ended. Without an answer, it would wait
    forever.
    """
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await settled()
        process.asks("q1")
        [(question, decision)] = process.answers
        assert (question, decision.allow) == ("q1", False)
        assert decision.message is not None
        assert "approved between runs" in decision.message
        assert phone.of_type("permission_request") == []


async def test_an_approval_request_does_not_delay_the_next_prompt(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(phone, "execute", project, prompt="next")
        process.ends()
        process.asks("q1")
        await settled(lambda: process.prompts == ["go", "next"])
        assert process.prompts == ["go", "next"]
        assert len(phone.of_type("permission_request")) == 1
        process.ends()


async def test_followers_see_approvals_of_other_projects(tmp_path: Path) -> None:
    phone, watch = Client("phone"), Client("watch")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        server.core.follow(("approvals",), watch)
        approval = await asked(server, phone, project)
        assert [one["data"]["approval_id"] for one in watch.of_type("permission_request")] == [approval]
        await server.does(watch, "permission_response", project, approval_id=approval, decision="deny", message="no")
        ((_, decision),) = server.agent.latest.answers
        assert (decision.allow, decision.message) == (False, "no")
        server.agent.latest.ends()


async def test_an_unknown_approval_id_is_refused_without_effect(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        before = records(server, project)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "permission_response", project, approval_id="appr_x", decision="allow")
        assert refused.value.code == "APPROVAL_NOT_FOUND"
        assert records(server, project) == before
