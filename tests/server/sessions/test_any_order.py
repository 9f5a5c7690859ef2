"""Rules that hold for every project, run and approval request, in whatever order things happen."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawbridge.agents.base import AgentUnusable, QuestionCancelled, TurnBegun
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.runs.controller import NOBODY_ASKED
from drawbridge.server.sessions.runs.runs import Slot
from tests.server.core_rig import Client, Process, Server, check_list, records, settled
from tests.waiting import until

PEOPLE = "execute|execute|execute again|no queue|kill|interrupt|new session|mode|delete|allow|deny|late answer"
AGENT = "line|begins alone|ask|ask|taken back|turn ends|turn fails|turn interrupted|dies|unusable|slow to start|starts"
AGENT += "|wait|wait"
MACHINE = "busy elsewhere|server restarted|server killed"
STEPS = st.lists(st.sampled_from(f"{PEOPLE}|{AGENT}|{MACHINE}".split("|")), min_size=10, max_size=60)

LIMITS = Limits(runs_at_once=1, queue=3, checkpoints=False)


class Model:
    """What must be true at the end of a test, recorded step by step."""

    def __init__(self) -> None:
        self.accepted: list[str] = []
        self.requests: dict[str, str] = {}
        self.allowed = Counter[str]()
        self.questions = 0
        self.answered: list[str] = []
        """The agent's ids of the questions that were answered before the last restart of the server."""


class World:
    """A server that is restarted on its data or on a copy of the data, and two clients that reconnect each time."""

    def __init__(self, folder: Path) -> None:
        self._folders = [folder]
        self.people = [Client("phone"), Client("page")]
        self.model = Model()
        self.codes: set[str] = set()
        self.choosing: list[asyncio.Task[Any]] = []
        self._slot: Slot | None = None
        self.server = Server(folder, LIMITS)

    async def open(self) -> None:
        await self.server.core.open()
        self.id = await self.server.project(self.people[0])
        await self.server.does(self.people[1], "project_join", self.id)

    @property
    def project(self) -> Any:
        return self.server.core.projects.get(self.id)

    @property
    def process(self) -> Process | None:
        living = [process for process in self.server.agent.processes if not process.ended]
        return living[-1] if living else None

    async def restart(self, *, killed: bool) -> None:
        """Starts another server on the data that is now on the disk: on a copy if ``killed``, as ending the old server
        changes the original. Both clients reconnect and request only the records that they don't have.
        """
        before = self.server
        self.model.answered += answers(before)
        if killed:
            self._folders.append(self._folders[0] / f"life {len(self._folders)}")
            shutil.copytree(before.folder / "data", self._folders[-1] / "data", symlinks=True)
            for person in self.people:
                before.core.remove_client(person)
        await before.core.close("the server is ending")
        self._slot = None
        self.server = Server(self._folders[-1], LIMITS, self._folders[0] / "work")
        await self.server.core.open()
        assert self.project.state == "IDLE"
        for person in self.people:
            answer = await self.server.does(person, "project_join", self.id, after_seq=max(person.seqs, default=0))
            person.received.append(answer)
            snapshot = answer["data"]["data"]
            assert (snapshot["run"], snapshot["queue"], snapshot["open_approvals"]) == (None, [], [])
            assert snapshot["last_seq"] == records(self.server, self.id)[-1]["seq"] if self.model.accepted else True
            await until(lambda person=person: max(person.seqs, default=0) == self.project.history.last_seq)  # type: ignore[misc]

    def busy_elsewhere(self) -> None:
        """Lets another project take the only slot or wait for it. The next call makes it return the slot or stop
        waiting.
        """
        runs = self.server.core.runs
        if self._slot is None:
            self._slot = Slot(runs, lambda: None)
            runs.request(self._slot)
        else:
            self._slot.release()
            self._slot = None

    async def bring_to_an_end(self) -> None:
        """Frees the slot and lets the agent finish its turns. Fails if a run never ends."""
        self.server.agent.may_start.set()
        if self._slot is not None:
            self.busy_elsewhere()

        def has_ended() -> bool:
            if self.process is not None and self.process.turn_open:
                self.process.ends()
            return not self.project.controller.busy

        await until(has_ended, "the end of all runs")


async def step(what: str, world: World) -> None:
    if what in PEOPLE.split("|"):
        await person_does(what, world)
    elif what in AGENT.split("|"):
        agent_does(what, world)
    elif what == "busy elsewhere":
        world.busy_elsewhere()
    else:
        await world.restart(killed=what == "server killed")
    await settled(turns=6 if what == "wait" else 1)


async def person_does(what: str, world: World) -> None:
    server, project, model = world.server, world.id, world.model
    phone, page = world.people
    open_questions = [one.id for one in world.project.approvals]
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
            # The reply can be delayed until an agent has started, so the test doesn't wait for it.
            world.choosing.append(asyncio.create_task(server.does(page, "set_mode", project, mode="plan")))
        case "delete" if world.project.controller.busy:
            await server.does(page, "project_delete", project)
        case "allow" | "deny" if open_questions:
            await server.does(phone, "permission_response", project, approval_id=open_questions[0], decision=what)
            model.allowed[open_questions[0]] += 1
        case "late answer" if model.allowed:
            first = next(iter(model.allowed))
            with pytest.raises(ClientError):
                await server.does(page, "permission_response", project, approval_id=first, decision="allow")


def agent_does(what: str, world: World) -> None:
    agent, model, process = world.server.agent, world.model, world.process
    match what:
        case "line" if process:
            process.says({"type": "assistant"})
        case "ask" if process:
            model.questions += 1
            process.asks(f"q{model.questions}")
        case "begins alone" if process and not process.turn_open:
            process.turn_open = True
            process.emit(TurnBegun())
        case "taken back" if process:
            process.emit(QuestionCancelled(f"q{model.questions}", "moot"))
        case "turn ends" | "turn fails" | "turn interrupted" if process:
            process.ends(ok=what == "turn ends", interrupted=what == "turn interrupted")
        case "dies" if process:
            process.exit(1, "died")
        case "unusable":
            agent.unusable = None if agent.unusable else AgentUnusable("AGENT_TOO_OLD", "too old")
        case "slow to start":
            agent.may_start.clear()
        case "starts":
            agent.may_start.set()


async def play(steps: list[str], folder: Path) -> None:
    world = World(folder)
    await world.open()
    for what in steps:
        try:
            await step(what, world)
        except ClientError as refused:
            world.codes.add(refused.code)
        assert_sound(world)
    await world.bring_to_an_end()
    found, model = records(world.server, world.id), world.model
    assert [one["seq"] for one in found] == list(range(1, len(found) + 1))
    events = [one["message"] for one in found if one["direction"] == "server"]
    finished = Counter(one["message"]["run_id"] for one in events if one["subtype"] == "run_finished")
    alone = Counter(started_alone(events))
    assert finished == Counter(model.accepted) + alone, "each run ends exactly once"
    assert_questions(events, model, model.answered + answers(world.server))
    assert world.codes <= {"PROCESS_ACTIVE", "PROCESS_NOT_FOUND", "RESOURCE_LIMIT"}
    for person in world.people:
        assert person.seqs == list(range(1, len(found) + 1)), "everybody has every record, once, in order"
        assert_states(person)
    await world.server.core.close("the server is ending")
    assert world.process is None, "no process is left"
    for result in await asyncio.gather(*world.choosing, return_exceptions=True):
        # A request that still waits for a thread while the server ends is refused.
        is_refused = isinstance(result, ClientError) and result.code in ("PROJECT_NOT_FOUND", "SHUTTING_DOWN")
        assert isinstance(result, dict) or is_refused, result


def started_alone(events: list[dict[str, Any]]) -> list[str]:
    """The ids of the runs that the agent began without a prompt."""
    return [
        one["message"]["run_id"]
        for one in events
        if one["subtype"] == "run_started" and one["message"].get("unprompted")
    ]


def answers(server: Server) -> list[str]:
    """The agent's ids of the questions for which it was sent a person's decision."""
    sent = [answer for process in server.agent.processes for answer in process.answers]
    return [question for question, decision in sent if decision.message != NOBODY_ASKED]


def assert_sound(world: World) -> None:
    found = world.project
    check_list(world.server)
    assert (found.state == "EXECUTING") == (found.controller.run is not None)
    assert len(found.approvals) == 0 or found.controller.run is not None, "a question without a run"
    assert len([process for process in world.server.agent.processes if not process.ended]) <= 1


def assert_states(person: Client) -> None:
    """Checks each state that the client received against the records that it received before."""
    state, open_runs, snapshot = "IDLE", 0, 0
    for message in person.received:
        what = message["data"].get("update_type") if message["type"] == "update" else message["type"]
        fields = message["data"].get("data", message["data"])
        match what:
            case "accepted":
                open_runs += "seq" in message
            case "agent_message" if fields["direction"] == "client":
                open_runs += 1
            case "run_started":
                open_runs += fields.get("unprompted", False)
                if message.get("seq", snapshot + 1) > snapshot:
                    state = "EXECUTING"
            case "run_finished":
                open_runs -= 1
                if message.get("seq", snapshot + 1) > snapshot:  # replayed records don't count: restarts clear errors
                    state = "ERROR" if fields["outcome"] in ("failed", "timeout") else "IDLE"
            case "session_reset":
                state = "IDLE"
            case "project_joined":
                state, snapshot = fields["state"], fields["last_seq"]
            case "project_state":
                waits = fields["state"] == "EXECUTING" and open_runs > 0  # the run waits for its slot
                assert fields["state"] == state or waits, (fields["state"], state)


def assert_questions(events: list[dict[str, Any]], model: Model, answered: list[str]) -> None:
    def ids(what: str) -> Counter[str]:
        return Counter(one["message"]["approval_id"] for one in events if one["subtype"] == what)

    asked, resolved, withdrawn = ids("permission_request"), ids("permission_resolved"), ids("permission_withdrawn")
    assert resolved + withdrawn == asked, "each question is resolved or withdrawn exactly once"
    assert resolved == model.allowed
    assert len(answered) == len(set(answered)) == sum(resolved.values()), "the agent gets each answer exactly once"


@settings(max_examples=60)
@example(steps=["execute", "unusable", "server restarted", "mode"])
@example(steps=["slow to start", "execute", "wait", "kill", "new session", "execute"])
@given(steps=STEPS)
def test_each_run_and_each_approval_request_ends_once(
    steps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    asyncio.run(play(steps, tmp_path_factory.mktemp("order")))


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=2000)
@given(steps=STEPS)
def test_each_run_ends_once_in_long_sequences(steps: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    asyncio.run(play(steps, tmp_path_factory.mktemp("order")))
