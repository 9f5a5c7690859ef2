"""Whatever people and the agent do, in whatever order: what holds for every run and every question."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.server.agents.port import AgentUnusable, QuestionGone
from drawbridge.server.client_errors import ClientError
from drawbridge.server.house import Limits

from .twin import Client, Process, Server, records, serving, settled

PEOPLE = "execute|execute again|no queue|kill|interrupt|new session|mode|delete|allow|deny|late answer"
AGENT = "line|ask|ask|taken back|turn ends|turn fails|turn interrupted|dies|unusable|wait|wait"
STEPS = st.lists(st.sampled_from(f"{PEOPLE}|{AGENT}".split("|")), max_size=60)


class Model:
    """What must be true at the end, gathered on the way."""

    def __init__(self) -> None:
        self.accepted: list[str] = []
        self.requests: dict[str, str] = {}
        self.allowed = Counter[str]()
        self.questions = 0


async def step(what: str, server: Server, project: str, people: list[Client], model: Model) -> None:
    phone, page = people
    process: Process | None = server.agent.processes[-1] if server.agent.processes else None
    if process is not None and process.ended:
        process = None
    open_questions = [one.approval.id for one in server.core.projects.get(project).questions]
    match what:
        case "execute" | "no queue" | "execute again":
            request = "same" if what == "execute again" else f"r{len(model.accepted)}"
            answer = await server.does(
                phone, "execute", project, prompt=what, request_id=request, queue=what != "no queue"
            )
            run = answer["data"]["run_id"]
            if what == "execute again" and "same" in model.requests:
                assert run == model.requests["same"]
            else:
                model.accepted.append(run)
                model.requests[request] = run
        case "kill" | "interrupt" | "new session":
            await server.does(page, f"agent_{what.replace(' ', '_')}", project)
        case "mode":
            await server.does(page, "set_mode", project, mode="plan")
        case "delete" if server.core.projects.get(project).busy:
            await server.does(page, "project_delete", project)
        case "line" if process:
            process.says({"type": "assistant"})
        case "ask" if process:
            model.questions += 1
            process.asks(f"q{model.questions}")
        case "allow" | "deny" if open_questions:
            await server.does(phone, "permission_response", project, approval_id=open_questions[0], decision=what)
            model.allowed[open_questions[0]] += 1
        case "late answer" if model.allowed:
            first = next(iter(model.allowed))
            with pytest.raises(ClientError):
                await server.does(page, "permission_response", project, approval_id=first, decision="allow")
        case "taken back" if process:
            process.heard(QuestionGone(f"q{model.questions}", "moot"))
        case "turn ends" | "turn fails" | "turn interrupted" if process:
            process.ends(ok=what == "turn ends", interrupted=what == "turn interrupted")
        case "dies" if process:
            process.exit(1, "died")
        case "unusable":
            server.agent.unusable = None if server.agent.unusable else AgentUnusable("AGENT_TOO_OLD", "too old")
        case _:
            await settled(turns=6)


async def play(steps: list[str], folder: Path) -> None:
    people, model = [Client("phone"), Client("page")], Model()
    codes: list[str] = []
    async with serving(folder, Limits(runs_at_once=1, queue=3, checkpoints=False)) as server:
        project = await server.project(people[0])
        await server.does(people[1], "project_join", project)
        for what in steps:
            try:
                await step(what, server, project, people, model)
            except ClientError as refused:
                codes.append(refused.code)
            assert_sound(server, project)
        answered = [question for process in server.agent.processes for question, _ in process.answers]
    found = records(server, project)
    assert [one["seq"] for one in found] == list(range(1, len(found) + 1))
    events = [one["message"] for one in found if one["direction"] == "server"]
    finished = Counter(one["message"]["run_id"] for one in events if one["subtype"] == "run_finished")
    assert finished == Counter(model.accepted), "each accepted run ends exactly once"
    assert_questions(events, model, answered)
    assert set(codes) <= {"PROCESS_ACTIVE", "PROCESS_NOT_FOUND", "RESOURCE_LIMIT"}
    for person in people:
        assert sorted(person.seqs) == list(range(1, len(found) + 1)), "everybody knows every record, once"


def assert_sound(server: Server, project: str) -> None:
    found = server.core.projects.get(project)
    assert (found.state == "EXECUTING") == (found.run is not None)
    assert len(found.questions) == 0 or found.run is not None, "a question without a run"
    living = [process for process in server.agent.processes if not process.ended]
    assert len(living) <= 1


def assert_questions(events: list[dict[str, Any]], model: Model, answered: list[str]) -> None:
    def ids(what: str) -> Counter[str]:
        return Counter(one["message"]["approval_id"] for one in events if one["subtype"] == what)

    asked, resolved, withdrawn = ids("permission_request"), ids("permission_resolved"), ids("permission_withdrawn")
    assert resolved + withdrawn == asked, "each question is settled exactly once"
    assert resolved == model.allowed
    assert len(answered) == len(set(answered)) == sum(resolved.values()), "the agent hears each answer exactly once"


@settings(max_examples=150)
@given(steps=STEPS)
def test_each_run_ends_once_and_each_question_is_settled_once(
    steps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    asyncio.run(play(steps, tmp_path_factory.mktemp("order")))


@pytest.mark.slow
@settings(max_examples=3000)
@given(steps=STEPS)
def test_the_same_for_long(steps: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    asyncio.run(play(steps, tmp_path_factory.mktemp("order")))
