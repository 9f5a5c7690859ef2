"""The state of a conversation depends only on its messages, not on their order or on how often they arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.tui.conversation import MOST_ITEMS, Conversation, Record, record_of, result_text
from drawbridge.tui.store import Projects

TRANSCRIPTS = sorted((Path(__file__).resolve().parent.parent / "transcripts" / "server").glob("*.jsonl"))
SNAPSHOT: dict[str, Any] = {"last_seq": 0, "run": None, "queue": [], "open_approvals": []}


def said(seq: int, *blocks: dict[str, Any], type: str = "assistant") -> Record:
    return Record(seq, "2026-11-21T09:00:00Z", "claude", {"type": type, "message": {"content": list(blocks)}})


def text(seq: int, words: str = "") -> Record:
    return said(seq, {"type": "text", "text": words or f"words {seq}"})


def event(seq: int, subtype: str, **data: Any) -> Record:
    return Record(seq, "2026-11-21T09:00:00Z", "server", {"type": "system", "subtype": subtype, "message": data})


def joined(last_seq: int = 0, **more: Any) -> Conversation:
    conversation = Conversation("p")
    conversation.join(SNAPSHOT | {"last_seq": last_seq} | more, restart=True)
    return conversation


def texts(conversation: Conversation) -> list[str]:
    return [item.data["text"] for item in conversation.items if item.kind == "text"]


@given(st.lists(st.integers(min_value=1, max_value=12)))
def test_records_are_shown_once_and_in_order(order: list[int]) -> None:
    conversation = joined()
    for seq in order:
        conversation.apply(text(seq))
    there = set(order)
    end = next(seq for seq in range(1, 14) if seq not in there)
    assert texts(conversation) == [f"words {seq}" for seq in range(1, end)]
    assert conversation.cursor == end - 1


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["older", "newer", "live"]), max_size=40))
def test_pages_and_live_records_never_leave_a_gap(steps: list[str]) -> None:
    conversation, newest = joined(5 * MOST_ITEMS), 5 * MOST_ITEMS
    for step in steps:
        if step == "live":
            newest += 1
            conversation.apply(text(newest))
        elif step == "older":
            first = conversation.first
            conversation.prepend([text(seq) for seq in range(max(1, first - 120), first)])
        else:
            last = conversation.last
            conversation.append([text(seq) for seq in range(last + 1, min(newest, last + 120) + 1)])
        assert [item.seq for item in conversation.items] == list(range(conversation.first, conversation.last + 1))
        assert len(conversation.items) <= MOST_ITEMS
        assert conversation.cursor == newest


def report(seq: int, subtype: str, **fields: Any) -> Record:
    return Record(seq, "2026-11-21T09:00:00Z", "claude", {"type": "system", "subtype": subtype, **fields})


def told(conversation: Conversation) -> list[str]:
    return [item.data["text"] for item in conversation.items if item.kind in ("notice", "aside")]


def test_the_end_of_a_background_task_is_shown() -> None:
    """The end of a task that the agent waits for is the result of its call."""
    conversation = joined()
    for seq, id in enumerate(("waits", "background"), 1):
        conversation.apply(said(seq, {"type": "tool_use", "id": id, "name": "Agent", "input": {}}))
    conversation.apply(said(3, {"type": "tool_result", "tool_use_id": "background", "content": "started"}, type="user"))
    for seq, id in enumerate(("waits", "background", "unknown"), 4):
        conversation.apply(report(seq, "task_notification", tool_use_id=id, status="failed", summary=f"{id} failed"))
    conversation.apply(report(7, "task_notification", tool_use_id=["odd"], summary={"odd": 1}))
    assert told(conversation) == ["background failed", "unknown failed"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pre_tokens": 155_400, "post_tokens": 900}, "Conversation compacted (155k to 900 tokens)"),
        ({"pre_tokens": 155_400}, "Conversation compacted (from 155k tokens)"),
        ({"pre_tokens": "odd"}, "Conversation compacted"),
        ("odd", "Conversation compacted"),
    ],
)
def test_a_compaction_is_shown_with_its_sizes(given: Any, words: str) -> None:
    conversation = joined()
    conversation.apply(report(1, "compact_boundary", compact_metadata=given))
    assert told(conversation) == [words]


def test_a_request_withdrawn_before_a_snapshot_is_not_reopened() -> None:
    asked = {"approval_id": "a", "tool_name": "Bash", "input": {}, "created_at": ""}
    conversation = Conversation("p")
    conversation.join(SNAPSHOT, restart=True)
    conversation.joined = False
    conversation.apply(event(1, "permission_request", **asked))
    conversation.apply(event(2, "permission_withdrawn", approval_id="a", reason="the server was restarted"))
    conversation.join(SNAPSHOT | {"last_seq": 2}, restart=False)
    assert conversation.open == {}
    (question,) = conversation.items
    assert question.data["answer"]["reason"] == "the server was restarted"


def test_a_question_is_open_until_it_is_resolved() -> None:
    conversation = joined()
    asked = {"approval_id": "a", "tool_name": "Bash", "input": {}, "created_at": ""}
    conversation.apply(event(1, "permission_request", **asked))
    assert list(conversation.open) == ["a"]
    conversation.apply(event(2, "permission_resolved", approval_id="a", by="Bob", decision="deny"))
    assert conversation.open == {}
    assert conversation.answers["a"]["by"] == "Bob"
    assert conversation.items[0].version == 1


def test_a_result_is_shown_with_its_call_on_an_earlier_page() -> None:
    conversation = joined(2)
    conversation.apply(said(3, {"type": "tool_result", "tool_use_id": "t", "content": "late"}, type="user"))
    conversation.prepend([text(1), said(2, {"type": "tool_use", "id": "t", "name": "Bash", "input": {}})])
    (tool,) = (item for item in conversation.items if item.kind == "tool")
    assert tool.data["result"].text == "late"


@pytest.mark.parametrize("cut", [3, 2, 1])
def test_a_call_is_shown_once_its_page_is_loaded_again(cut: int) -> None:
    """The call was running when the client lost the connection, and was far from the end when it was back."""
    records = [
        said(1, {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}),
        said(2, {"type": "tool_result", "tool_use_id": "t", "content": "late"}, type="user"),
        text(3),
    ]
    conversation = joined()
    conversation.apply(records[0])
    conversation.leave()
    conversation.join(SNAPSHOT | {"last_seq": 3}, restart=True)
    conversation.prepend(records[cut:])
    conversation.prepend(records[:cut])
    (tool,) = (item for item in conversation.items if item.kind == "tool")
    assert tool.data["result"].text == "late"
    assert [item.seq for item in conversation.items] == [1, 3]


def test_nothing_of_a_history_that_was_lost_is_shown_again() -> None:
    """The server had lost the end of the history, and an older part had been deleted before."""
    conversation = joined(1050)
    conversation.prepend([text(1050)], has_more=False)
    conversation.apply(text(1052, "lost"))
    conversation.leave()
    conversation.join(SNAPSHOT | {"last_seq": 1000}, restart=True)
    assert conversation.has_older
    conversation.prepend([text(1000)])
    for seq in range(1001, 1053):
        conversation.apply(text(seq))
    assert texts(conversation) == [f"words {seq}" for seq in range(1000, 1053)]


def test_partial_text_grows_until_its_record_replaces_it() -> None:
    conversation = joined()
    conversation.apply_partial(
        {"type": "stream_event", "event": {"type": "content_block_start", "content_block": {"type": "text"}}}
    )
    for word in ("Hel", "lo"):
        delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": word}}
        conversation.apply_partial({"type": "stream_event", "event": delta})
    assert conversation.live == "Hello"
    conversation.apply(text(1, "Hello"))
    assert (conversation.live, texts(conversation)) == ("", ["Hello"])


def test_a_run_leaves_the_queue_and_reports_its_cost() -> None:
    conversation = joined(queue=[{"run_id": "r", "position": 1, "prompt": "x"}])
    conversation.apply(event(1, "run_started", run_id="r"))
    began = conversation.run
    assert began is not None
    assert began["run_id"] == "r"
    assert conversation.queue == []
    conversation.apply(event(2, "run_finished", run_id="r", outcome="completed", cost_usd=0.25))
    assert (conversation.run is None, conversation.cost) == (True, 0.25)


@pytest.mark.parametrize(
    ("said", "error", "shown"),
    [
        ("API Error: 529.", "API Error: 529", []),
        ("API Error: 529", "The model is not available: API Error: 529. Try again later.", []),
        ("I read the file", "API Error: 529", ["I read the file"]),
    ],
)
def test_an_error_is_shown_once(said: str, error: str, shown: list[str]) -> None:
    conversation = joined()
    conversation.apply(text(1, said))
    conversation.apply(event(2, "run_finished", run_id="r", outcome="failed", error=error))
    assert texts(conversation) == shown
    assert conversation.items[-1].data["error"] == error


def test_an_error_on_the_page_before_its_run_ends_is_shown_once() -> None:
    conversation = joined(2)
    conversation.prepend([event(2, "run_finished", run_id="r", outcome="failed", error="API Error: 529")])
    conversation.prepend([text(1, "API Error: 529")])
    assert (texts(conversation), len(conversation.items)) == ([], 1)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"session_id": "", "fork_from": "s", "agent": "claude", "title": "Fix it"}, ["Forked from “Fix it”"]),
        ({"session_id": "", "fork_from": "s", "agent": "claude"}, ["Forked from an earlier session"]),
        ({"session_id": "s", "agent": "claude", "title": "Fix it"}, ["Resumed “Fix it”"]),
        ({"session_id": "s", "agent": "claude"}, ["Resumed an earlier session"]),
        ({"session_id": "s"}, []),
        ({"session_id": "", "title": "Fix it"}, []),
    ],
)
def test_the_session_that_a_client_has_chosen_is_shown(changed: dict[str, str], words: list[str]) -> None:
    """A change without an agent is the agent's own report about its session."""
    conversation = joined()
    conversation.apply(event(1, "session_changed", **changed))
    assert told(conversation) == words


# Prompts in the queue.


def prompt(seq: int, run_id: str | None, words: str = "", **more: Any) -> Record:
    message = {"type": "user", "message": {"prompt": words or run_id}, "by": "Ada", "run_id": run_id, **more}
    return Record(seq, "2026-11-21T09:00:00Z", "client", message)


TWO_RUNS = [
    prompt(1, "a"),
    event(2, "run_started", run_id="a"),
    prompt(3, "b"),
    text(4, "to a"),
    event(5, "run_finished", run_id="a", outcome="completed"),
    event(6, "run_started", run_id="b"),
    text(7, "to b"),
    event(8, "run_finished", run_id="b", outcome="completed"),
]
IN_ORDER = ["a", "to a", "end of a", "b", "to b", "end of b"]


def read(conversation: Conversation) -> list[str]:
    items = conversation.items
    return [f"end of {item.data['run_id']}" if item.kind == "finished" else item.data["text"] for item in items]


def waiting(conversation: Conversation) -> list[str]:
    return [one["run_id"] for one in conversation.waiting]


def test_a_queued_prompt_is_shown_where_its_run_begins() -> None:
    conversation = joined()
    for record in TWO_RUNS[:5]:
        conversation.apply(record)
    assert (read(conversation), waiting(conversation)) == (["a", "to a", "end of a"], ["b"])
    for record in TWO_RUNS[5:]:
        conversation.apply(record)
    assert (read(conversation), waiting(conversation)) == (IN_ORDER, [])


@pytest.mark.parametrize("cut", range(len(TWO_RUNS) + 1))
def test_the_order_of_the_history_does_not_depend_on_its_pages(cut: int) -> None:
    backwards = joined(8)
    backwards.prepend(TWO_RUNS[cut:])
    backwards.prepend(TWO_RUNS[:cut])
    forwards = joined(8)
    forwards.jump(0)
    forwards.append(TWO_RUNS[:cut])
    forwards.append(TWO_RUNS[cut:])
    for conversation in (backwards, forwards):
        assert read(conversation) == IN_ORDER
        seqs = [item.seq for item in conversation.items]
        assert seqs == sorted(seqs)
        assert len({item.key for item in conversation.items}) == len(seqs)


def test_a_client_that_joins_sees_a_waiting_prompt_once() -> None:
    run = {"run_id": "a", "position": 0, "prompt": "a", "started_at": "2026-11-21T09:00:00Z"}
    conversation = joined(4, run=run, queue=[{"run_id": "b", "position": 1, "prompt": "b"}])
    conversation.prepend(TWO_RUNS[:4])
    assert (read(conversation), waiting(conversation)) == (["a", "to a"], ["b"])
    conversation.queue = []
    for record in TWO_RUNS[4:]:
        conversation.apply(record)
    assert read(conversation) == IN_ORDER


def test_a_prompt_removed_from_the_queue_is_shown_as_removed() -> None:
    conversation = joined()
    removed = event(4, "run_finished", run_id="b", outcome="interrupted", removed_by="Ben")
    for record in [*TWO_RUNS[:3], removed]:
        conversation.apply(record)
    assert read(conversation) == ["a", "end of b"]
    assert conversation.items[1].data["prompt"] == "b"
    assert waiting(conversation) == []


@pytest.mark.parametrize("cut", range(7))
def test_a_prompt_that_was_edited_is_shown_as_it_was_sent(cut: int) -> None:
    edit = event(4, "prompt_edited", run_id="b", prompt="better")
    records = [*TWO_RUNS[:3], edit, *TWO_RUNS[4:6]]
    conversation = joined(6)
    conversation.prepend(records[cut:])
    conversation.prepend(records[:cut])
    assert read(conversation) == ["a", "end of a", "better"]


def test_a_prompt_that_does_not_wait_is_shown_immediately() -> None:
    """A prompt that does not wait is sent into the current run, or has no run."""
    conversation = joined()
    for record in [*TWO_RUNS[:2], prompt(3, "a", "and quickly", steer=True), prompt(4, None, "hello")]:
        conversation.apply(record)
    assert read(conversation) == ["a", "and quickly", "hello"]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_every_recorded_conversation_of_the_real_agent_is_shown(transcript: Path) -> None:
    conversation, seq, spoken, calls = joined(), 0, [], []
    for line in map(json.loads, transcript.read_text().splitlines()[1:]):
        if line["from"] != "claude":
            continue
        message = line["line"]
        agent_message = {"type": "agent_message", "data": {"messages": [message], "direction": "claude"}}
        if message["type"] == "stream_event":
            conversation.apply_partial(message)
            continue
        seq += 1
        record = record_of(agent_message | {"seq": seq})
        assert record is not None
        conversation.apply(record)
        if message["type"] == "assistant":
            blocks = message["message"]["content"]
            spoken += [block["text"] for block in blocks if block["type"] == "text" and block["text"]]
            calls += [block["name"] for block in blocks if block["type"] == "tool_use"]
    assert texts(conversation) == spoken
    assert [item.data["name"] for item in conversation.items if item.kind == "tool"] == calls
    assert conversation.cursor == seq
    assert conversation.live == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "image"}, "odd"], "a\n[image]\n[unknown content]"),
        (None, ""),
        ({"odd": 1}, ""),
    ],
)
def test_any_form_of_a_result_is_converted_to_text(content: Any, words: str) -> None:
    assert result_text(content) == words


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "message", "content", "text", "id", "name", "input"]), inner, max_size=4
        )
    ),
)


@settings(max_examples=60)
@given(st.lists(JSON, max_size=6))
def test_unexpected_lines_of_an_agent_do_no_harm(lines: list[Any]) -> None:
    conversation = joined()
    for seq, line in enumerate(lines, 1):
        conversation.apply(Record(seq, "", "claude", line))
    assert conversation.cursor == len(lines)


# All projects.


def project(id: str, path: str, last_active: str = "1", approvals: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    waiting = [{"approval_id": one, "tool_name": "Edit", "created_at": ""} for one in approvals]
    return {
        "id": id,
        "path": path,
        "last_active": last_active,
        "approvals": waiting,
        "last_seq": 0,
        "state": "IDLE",
        **more,
    }


def known(*projects: dict[str, Any]) -> Projects:
    found = Projects()
    found.apply({"type": "project_list", "data": {"projects": list(projects)}})
    return found


def test_waiting_projects_come_first_then_the_most_recent() -> None:
    found = known(project("a", "/a", "1"), project("b", "/b", "3"), project("c", "/c", "2", ("x",)))
    assert [one["id"] for one in found.sorted()] == ["c", "b", "a"]
    assert found.waiting == 1


def test_a_waiting_request_is_counted_once_until_it_is_resolved() -> None:
    found = known(project("a", "/a"))
    asked = {"approval_id": "x", "tool_name": "Edit", "created_at": ""}
    for _ in range(2):
        found.apply({"type": "permission_request", "project_id": "a", "seq": 4, "data": asked})
    assert found.waiting == 1
    assert found.all["a"]["last_seq"] == 4
    settled = {"update_type": "permission_resolved", "data": {"approval_id": "x"}}
    found.apply({"type": "update", "project_id": "a", "data": settled})
    assert found.waiting == 0


def test_a_new_project_state_replaces_the_previous_one() -> None:
    """A deleted project is removed from the list."""
    found = known(project("a", "/a", desk={"state": "working"}))
    found.apply(
        {"type": "update", "project_id": "a", "data": {"update_type": "project_state", "data": project("a", "/a")}}
    )
    assert "desk" not in found.all["a"]
    gone = {"update_type": "project_deleted", "data": {"project_id": "a"}}
    found.apply({"type": "update", "project_id": "a", "data": gone})
    assert found.all == {}


def test_a_project_is_found_by_id_path_or_end_of_its_path() -> None:
    found = known(project("a", "/x/blog"), project("b", "/y/blog"), project("c", "/y/shop"))
    assert [one["id"] for one in found.named("c", "/")] == ["c"]
    assert [one["id"] for one in found.named(".", "/y/blog")] == ["b"]
    assert [one["id"] for one in found.named("shop", "/nowhere")] == ["c"]
    assert sorted(one["id"] for one in found.named("blog", "/nowhere")) == ["a", "b"]
    assert found.named("nothing", "/nowhere") == []


def test_a_second_line_with_the_same_call_id_completes_the_call() -> None:
    conversation = joined()
    conversation.apply(said(1, {"type": "tool_use", "id": "1", "name": "Terminal", "input": {}}))
    conversation.apply(said(2, {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "ls"}}))
    conversation.apply(said(3, {"type": "tool_result", "tool_use_id": "1", "content": "a"}, type="user"))
    conversation.apply(said(4, {"type": "tool_use", "id": "1", "name": "Bash", "input": {}}))
    assert [(item.data["name"], item.data["input"]) for item in conversation.items] == [
        ("Bash", {"command": "ls"}),
        ("Bash", {}),
    ], "an agent may count its calls from the start again"


@pytest.mark.parametrize(("call", "is_rejected"), [("1", True), ("2", False)])
def test_a_rejected_acp_call_is_recognized_by_its_id(call: str, is_rejected: bool) -> None:
    conversation = joined()
    request = {"approval_id": "p", "tool_name": "execute", "form": "acp", "input": {"toolCallId": "1"}}
    conversation.apply(event(1, "permission_request", **request))
    conversation.apply(event(2, "permission_resolved", approval_id="p", decision="deny", by="ada"))
    conversation.apply(said(3, {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "ls"}}))
    failed = {"type": "tool_result", "tool_use_id": call, "content": "no", "is_error": True}
    conversation.apply(said(4, failed, type="user"))
    [tool] = [item for item in conversation.items if item.kind == "tool"]
    assert tool.data["rejected"] is is_rejected


def test_a_decision_names_its_file() -> None:
    conversation = joined()
    conversation.apply(
        event(1, "review_decided", by="Ada", decision="edit", files=1, hunks=1, left=0, paths=["a.py"], diff="-a\n+b\n")
    )
    [item] = conversation.items
    assert (item.data["text"], item.data["diff"]) == ("edited 1 change in a.py", "-a\n+b\n")


def test_the_outcome_of_an_interrupted_decision_is_shown() -> None:
    conversation = joined()
    about = {"by": "Ada", "decision": "undo", "files": 1, "hunks": 2}
    conversation.apply(event(1, "review_decided", **about, left=0, interrupted=True))
    conversation.apply(event(2, "review_interrupted", **about, result="not_done"))
    conversation.apply(event(3, "review_interrupted", **about | {"decision": "revert"}, result="not_done"))
    assert [(item.kind, item.data["by"], item.data["text"]) for item in conversation.items] == [
        ("notice", "Ada", "undid 2 changes in 1 file (the server was restarted in the meantime)"),
        ("notice", "Ada", "wanted to undo 2 changes in 1 file, but the server was restarted. Nothing was changed."),
        ("notice", "Ada", "wanted to undo the changes to 1 file, but the server was restarted. Nothing was changed."),
    ]
