"""Every event has its receivers, and looks the same to clients whether it is sent live or read from the history."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import asdict

from drawbridge.agents.base import (
    AgentOffers,
    AgentState,
    AskedBy,
    Offer,
    OffersReported,
    Proposal,
    StateReported,
    Todo,
)
from drawbridge.server import events
from drawbridge.server.events import (
    KINDS,
    RECEIVERS,
    TOPICS,
    AgentLine,
    Announced,
    ApprovalRequested,
    ApprovalResolved,
    Bus,
    DiskWarning,
    DoneInEditor,
    Event,
    ProjectCreated,
    ProjectGone,
    PromptAccepted,
    Receiver,
    Recorded,
    RunContinued,
    StateChanged,
    Stored,
)
from drawbridge.server.protocol.commands import PermissionResponse
from drawbridge.server.protocol.messages import (
    ChangedFile,
    ExecutionKilled,
    PermissionWithdrawn,
    ProjectState,
    PromptEdited,
    QueueChanged,
    ReviewChanged,
    ReviewComment,
    ReviewCommented,
    ReviewCommitted,
    ReviewDecided,
    ReviewInterrupted,
    ReviewPushed,
    RunFinished,
    RunInfo,
    RunReverted,
    RunStarted,
    SessionChanged,
    SessionDeleted,
    SessionRenamed,
    SessionReset,
    Submission,
)
from drawbridge.server.sessions.audience import frame, replayed
from drawbridge.server.sessions.records import Memory
from drawbridge.server.store.lines import compose, timestamp
from tests.server.app.rig import info

PATH = Path("/home/ada/blog")
NOON = datetime(2026, 11, 21, 12, 0, 0, 123_456, tzinfo=UTC)

COMMENT = ReviewComment(
    comment_id="comment_1",
    by="phone",
    path="a.py",
    side="new",
    line=2,
    end_line=3,
    quote="a\nb\n",
    blob="5f3c",
    text="Why?",
    suggestion="c\n",
)

RECORDED: list[Recorded] = [
    AgentLine(b'{ "type":"assistant", "session_id":"s1", "odd": 1.0e3,  "text":"\xc3\xa9" }', "s1"),
    AgentLine(b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s2","update":{}}}', "s2"),
    AgentLine(b'{"type":"assistant"}'),
    PromptAccepted("run_1", "Fix the typo", "phone", "typo-1", ("a.png",)),
    PromptAccepted("run_1", "Fix it", "desk", uuid="u1"),
    RunStarted("run_1", "s1", "claude"),
    RunStarted("run_2", "s1", "claude", unprompted=True),
    RunFinished(run_id="run_1", outcome="failed", duration_ms=5, cost_usd=0.25, error="no", code="EXECUTION_FAILED"),
    RunReverted("run_1", "phone", (ChangedFile("a.py", "changed"),)),
    ReviewDecided(by="phone", decision="keep", files=1, hunks=2, left=3, client_id="c1"),
    ReviewInterrupted(by="phone", decision="undo", files=1, hunks=2, result="unknown", changed=("a.py",)),
    ReviewCommented(comment_id="comment_1", by="phone", comment=COMMENT, client_id="c1"),
    ReviewCommented(comment_id="comment_1", by="phone"),
    ReviewCommitted(commit="5f3c", branch="main", files=("a.py",), output="1 file changed", by="phone", created=True),
    ReviewPushed(
        commit="5f3c", remote="origin", branch="main", output="", by="phone", pull_request="https://a.example/pull/1"
    ),
    PromptAccepted("run_1", "Address it", "phone", "submit-1", review=Submission("key", ("comment_1",))),
    ExecutionKilled("p1", "IDLE", "run_1"),
    ApprovalRequested("appr_1", "run_1", "Bash", Raw(b'{"command": "ls"}'), Raw(b"[]")),
    ApprovalRequested(
        "appr_2",
        "run_1",
        "Write",
        Raw(b"{}"),
        Raw(b"[ ]"),
        Proposal("/a", "x", "y"),
        known_as="q",
        link_targets={"/a": "/b"},
        asked_by=AskedBy("a1"),
        reason="why",
    ),
    ApprovalResolved("appr_1", "phone", "deny", "no", client_id="c1"),
    ApprovalResolved("appr_1", "phone", "allow", updated_input=Raw(b'{"a":1}'), edited=True),
    PermissionWithdrawn("appr_1", "the run was stopped"),
    SessionChanged("s1"),
    SessionChanged("", "s1", "claude"),
    SessionRenamed("s1", "Bridge", "phone"),
    SessionDeleted("s1", "phone", agent_copy=True),
    SessionReset("s1", "", "p1"),
    PromptEdited("run_1", "Fix both", "phone", "c1"),
]

INFO = info("p1", str(PATH))
ANNOUNCED: list[Event] = [
    StateChanged(ProjectState(**asdict(INFO))),
    ProjectCreated(INFO),
    ProjectGone("p1", str(PATH)),
    DiskWarning("disk", 1, 2, "nearly full"),
    RunContinued("run_1", "phone"),
    QueueChanged((RunInfo(run_id="run_2", position=1, prompt="next"),)),
    ReviewChanged(state="open", files=1, hunks=2, added=3, removed=4),
    StateReported(AgentState(model="opus", todos=(Todo("Fix it", "pending"),))),
    OffersReported(AgentOffers(commands=(Offer("compact"),), steer=True)),
    DoneInEditor("Neovim", PermissionResponse(project_id="p1", approval_id="perm_1", decision="allow")),
]


def name(event: object) -> str:
    return type(event).__name__


def stored(event: Recorded, seq: int = 7) -> tuple[Stored, bytes]:
    """The event as ``SessionStore`` stores it, and the line of its record."""
    direction, message = events.written(event)
    record = compose(seq, NOON, direction, message)
    return Stored("p1", PATH, event, seq=seq, timestamp=timestamp(record), message=message), record.line


def test_every_event_has_declared_receivers() -> None:
    assert set(RECEIVERS) == set(get_args(Event))
    assert set(TOPICS) <= set(RECEIVERS)
    assert {receiver for receivers in RECEIVERS.values() for receiver in receivers} == set(get_args(Receiver))


def test_every_event_for_clients_has_a_name_on_the_wire() -> None:
    for_clients = {kind for kind, receivers in RECEIVERS.items() if "clients" in receivers}
    assert for_clients == {*KINDS, AgentLine, PromptAccepted}


def test_every_event_is_tried_here() -> None:
    assert {type(event) for event in RECORDED} == set(get_args(Recorded))
    assert {type(event) for event in [*RECORDED, *ANNOUNCED]} == set(get_args(Event))


def test_a_bus_needs_all_of_its_receivers() -> None:
    receivers = {receiver: (lambda announced: None) for receiver in get_args(Receiver)}
    Bus(**receivers)
    for forgotten in receivers:
        with pytest.raises(TypeError, match=forgotten):
            Bus(**{receiver: handle for receiver, handle in receivers.items() if receiver != forgotten})


@pytest.mark.parametrize("event", [*RECORDED, *ANNOUNCED], ids=name)
def test_an_event_reaches_its_receivers_in_their_order(event: Event) -> None:
    reached: list[str] = []
    bus = Bus(**{one: (lambda announced, one=one: reached.append(one)) for one in get_args(Receiver)})
    bus.publish(Announced("p1", PATH, event))
    assert tuple(reached) == RECEIVERS[type(event)]


def test_a_failing_receiver_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """The publisher gets no error either, since a recorded decision must still reach the agent."""

    def fails(announced: Announced) -> None:
        raise RuntimeError("a defect")

    reached: list[str] = []
    receivers = {one: (lambda announced, one=one: reached.append(one)) for one in get_args(Receiver)}
    bus = Bus(**(receivers | {"clients": fails}))
    bus.publish(Announced("p1", PATH, ApprovalResolved("appr_1", "phone", "allow")))
    assert reached == ["notices", "editors"]
    assert "p1: clients failed to handle an event of type ApprovalResolved" in caplog.text


@pytest.mark.parametrize("event", RECORDED, ids=name)
def test_clients_see_the_same_live_and_in_a_replay(event: Recorded) -> None:
    happened, record = stored(event)
    assert frame(happened) == replayed("p1", record)


@pytest.mark.parametrize("event", RECORDED, ids=name)
def test_what_is_remembered_is_the_same_after_a_restart(event: Recorded) -> None:
    live, read_back = (Memory(unfinished={"run_1": "phone"}, approvals={"appr_1": "run_1"}) for _ in range(2))
    happened, record = stored(event)
    live.apply(event, NOON, happened.seq)
    seq, moment, found = events.read(record)
    read_back.apply(found, moment, seq)
    assert read_back == live
    assert live.seq == 7


def test_records_of_older_versions_can_be_read() -> None:
    finished = b'{"type":"system","subtype":"run_finished","message":{"run_id":"r","outcome":"completed","cost_usd":1}}'
    found = events.read(compose(1, NOON, "server", finished).line).event
    assert isinstance(found, RunFinished)
    assert (found.run_id, found.cost_usd) == ("r", 1.0)


@pytest.mark.parametrize("cost", ["-1", "1e300", '"1"'])
def test_a_record_with_an_impossible_cost_is_invalid(cost: str) -> None:
    fields = f'{{"run_id":"r","outcome":"completed","cost_usd":{cost}}}'
    record = f'{{"type":"system","subtype":"run_finished","message":{fields}}}'.encode()
    with pytest.raises(msgspec.ValidationError):
        events.read(compose(1, NOON, "server", record).line)


def test_a_title_is_the_prompt_that_the_agent_was_given() -> None:
    memory = Memory()
    prompts: list[PromptAccepted | PromptEdited] = [
        PromptAccepted("r1", "walnuts", "phone"),
        PromptEdited("r1", "figs", "phone", "c1"),
        PromptAccepted("r2", "pears", "phone"),
        PromptEdited("r2", "plums", "phone", "c1"),
    ]
    for seq, event in enumerate(prompts, 1):
        memory.apply(event, NOON, seq)
    assert memory.title == "figs"
    memory.apply(RunFinished(run_id="r1", outcome="interrupted", duration_ms=0, removed_by="phone"), NOON, 5)
    memory.apply(PromptAccepted("r3", "dates", "phone"), NOON, 6)
    assert memory.title == "dates"
