"""Every event looks the same to clients whether it is sent live or read from the history."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from msgspec import Raw

from drawbridge.agents.base import (
    AgentLine,
    AgentOffers,
    AgentState,
    AskedBy,
    Offer,
    OffersReported,
    Proposal,
    StateReported,
    Todo,
)
from drawbridge.server.events import (
    Always,
    Answered,
    ApprovalRequested,
    ApprovalResolved,
    ChangedFile,
    CommentedOnReview,
    CommittedFromReview,
    DecidedOnReview,
    DiskWarning,
    Event,
    ExecutionKilled,
    PermissionWithdrawn,
    ProjectCreated,
    ProjectGone,
    PromptAccepted,
    PromptEdited,
    PromptFile,
    PromptImage,
    QueueChanged,
    Recorded,
    RevertedRun,
    ReviewChanged,
    ReviewComment,
    ReviewCommented,
    ReviewCommitted,
    ReviewDecided,
    ReviewInterrupted,
    ReviewPushed,
    Risk,
    RunContinued,
    RunFinished,
    RunInfo,
    RunReverted,
    RunStarted,
    SessionChanged,
    SessionDeleted,
    SessionRenamed,
    SessionReset,
    StateChanged,
    Stored,
    Submission,
    SubmittedReview,
    Title,
)
from drawbridge.server.sessions.audience import frame, replayed
from drawbridge.server.sessions.recorded_state import RecordedState
from drawbridge.server.store import records
from drawbridge.server.store.lines import compose, timestamp
from tests.server.app.rig import summary

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
    state="resolved",
    run_id="run_1",
    resolved_by="Ada",
    outdated=True,
)

RECORDED: list[Recorded] = [
    AgentLine(b'{ "type":"assistant", "session_id":"s1", "odd": 1.0e3,  "text":"\xc3\xa9" }', "s1"),
    AgentLine(b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s2","update":{}}}', "s2"),
    AgentLine(b'{"type":"assistant"}'),
    PromptAccepted("run_1", "Fix the typo", "phone", "typo-1", ("a.png",)),
    PromptAccepted("run_1", "Fix it", "desk", uuid="u1"),
    PromptAccepted(
        "run_1",
        "See these",
        "phone",
        attachments=("a.png", "b.pdf"),
        steer=True,
        images=(PromptImage("img_1", "image/png", 7, "a.png"),),
        files=(PromptFile("file_1", 8),),
    ),
    RunStarted("run_1", "s1", "claude"),
    RunStarted("run_2", "s1", "claude", unprompted=True),
    RunFinished(run_id="run_1", outcome="failed", duration_ms=5, cost_usd=0.25, error="no", code="EXECUTION_FAILED"),
    RunFinished(
        run_id="run_1",
        outcome="interrupted",
        duration_ms=0,
        retry_at="2026-11-21T13:00:00.000Z",
        removed_by="phone",
        client_id="c1",
        input_tokens=1,
        output_tokens=2,
        directory="/tmp/work",
    ),
    RunReverted("run_1", "phone", (ChangedFile("a.py", "changed"),)),
    ReviewDecided(by="phone", decision="keep", files=1, hunks=2, left=3, client_id="c1"),
    ReviewCommented(comment_id="comment_1", by="phone", comment=COMMENT, client_id="c1"),
    ReviewCommented(comment_id="comment_1", by="phone"),
    ReviewCommitted(commit="5f3c", branch="main", files=("a.py",), output="1 file changed", by="phone", created=True),
    ReviewPushed(commit="5f3c", remote="r", branch="b", output="", by="Ada", client_id="c1", problem="none"),
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
        blocked_path="/etc",
        kind="edit",
        title=Title("Claude wants to edit", "a"),
        risks=(Risk("sudo", "Runs as root", "command", 1, 5), Risk("link", "A link")),
        always=(Always("Allow", 0, "settings.json"), Always("Allow edits", 1)),
        editable=("content",),
        summary="Edit a file",
        changeable=False,
        form="acp",
    ),
    ApprovalResolved("appr_1", "phone", "deny", "no", client_id="c1"),
    ApprovalResolved("appr_1", "phone", "allow", updated_input={"a": 1}, edited=True),
    ApprovalResolved("appr_1", "phone", "allow", remember=True, edited=True, new_text="z"),
    PermissionWithdrawn("appr_1", "the run was stopped"),
    SessionChanged("s1"),
    SessionChanged("", "s1", "claude", "The nuts"),
    SessionRenamed("s1", "Bridge", "phone"),
    SessionDeleted("s1", "phone", agent_copy=True),
    SessionReset("s1", "", "p1"),
    PromptEdited("run_1", "Fix both", "phone", "c1"),
    ReviewDecided(by="phone", decision="undo", files=1, hunks=2, left=3, interrupted=True),
    ReviewInterrupted(by="phone", decision="undo", files=1, hunks=2, result="unknown", changed=("a.py",)),
    PromptAccepted("run_1", "Fix it", "phone", client_id="c1"),
    RunReverted("run_1", "phone", (ChangedFile("a.py", "changed"),), "c1"),
    ReviewDecided(
        by="phone", decision="edit", files=1, hunks=1, left=0, paths=("a.py",), diff="-a\n+b\n", diff_truncated=True
    ),
    ApprovalRequested(
        "appr_1",
        "run_1",
        "Write",
        Raw(b'{"file_path":"/a","content":"y"}'),
        Raw(b"[]"),
        Proposal("/a", "x", "y"),
        shown_fields=("file_path", "content"),
    ),
]

SUMMARY = summary("p1", str(PATH))
ANNOUNCED: list[Event] = [
    StateChanged(SUMMARY),
    ProjectCreated(SUMMARY),
    ProjectGone("p1", str(PATH)),
    DiskWarning("disk", 1, 2, "nearly full"),
    RunContinued("run_1", "phone"),
    QueueChanged((RunInfo(run_id="run_2", position=1, prompt="next"),)),
    ReviewChanged(state="open", files=1, hunks=2, added=3, removed=4),
    StateReported(AgentState(model="opus", todos=(Todo("Fix it", "pending"),))),
    OffersReported(AgentOffers(commands=(Offer("compact"),), steer=True)),
    Answered({"by": "Neovim"}, ApprovalRequested("appr_1", "run_1", "Bash", Raw(b"{}"), Raw(b"[]")), "allow"),
    DecidedOnReview({"by": "Neovim"}, "keep", hunks=1, files=1),
    CommentedOnReview({"by": "Neovim"}, "comment_1", "a.py"),
    SubmittedReview({"by": "VS Code"}, "run_1"),
    CommittedFromReview({"by": "phone"}, "9f2c", "main"),
    RevertedRun({"by": "phone"}, "run_1"),
]


def name(event: object) -> str:
    return type(event).__name__


def stored(event: Recorded, seq: int = 7) -> tuple[Stored, bytes]:
    """The event as ``SessionStore`` stores it, and the line of its record."""
    direction, message = records.written(event)
    record = compose(seq, NOON, direction, message)
    return Stored("p1", PATH, event, seq=seq, timestamp=timestamp(record)), record.line


def test_every_event_has_an_example() -> None:
    assert {type(event) for event in RECORDED} == set(get_args(Recorded))
    assert {type(event) for event in [*RECORDED, *ANNOUNCED]} == set(get_args(Event))


@pytest.mark.parametrize("event", RECORDED, ids=name)
def test_clients_get_the_same_message_live_and_in_a_replay(event: Recorded) -> None:
    happened, record = stored(event)
    assert frame(happened) == replayed("p1", record)


@pytest.mark.parametrize("event", RECORDED, ids=name)
def test_the_recorded_state_is_the_same_after_a_restart(event: Recorded) -> None:
    live, read_back = (RecordedState(unfinished={"run_1": "phone"}, approvals={"appr_1": "run_1"}) for _ in range(2))
    happened, record = stored(event)
    live.apply(event, NOON, happened.seq)
    seq, moment, found = records.read(record)
    read_back.apply(found, moment, seq)
    assert read_back == live
    assert live.seq == 7


def test_a_title_is_the_prompt_that_the_agent_was_given() -> None:
    recorded = RecordedState()
    prompts: list[PromptAccepted | PromptEdited] = [
        PromptAccepted("r1", "walnuts", "phone"),
        PromptEdited("r1", "figs", "phone", "c1"),
        PromptAccepted("r2", "pears", "phone"),
        PromptEdited("r2", "plums", "phone", "c1"),
    ]
    for seq, event in enumerate(prompts, 1):
        recorded.apply(event, NOON, seq)
    assert recorded.title == "figs"
    recorded.apply(RunFinished(run_id="r1", outcome="interrupted", duration_ms=0, removed_by="phone"), NOON, 5)
    recorded.apply(PromptAccepted("r3", "dates", "phone"), NOON, 6)
    assert recorded.title == "dates"
