"""How the terminal client handles the server's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drawbridge.tui.client import MESSAGE_BYTES, Client
from drawbridge.tui.connection import Message, RequestError
from drawbridge.tui.conversation import Conversation, record_in
from drawbridge.tui.server_address import ServerAddress


def _nowhere() -> ServerAddress:
    raise AssertionError("nothing connects here")


async def _answering(details: Message, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Returns a client that had the id client_1 and, after it has reconnected, has client_2. Each of its decisions is
    too late: ``details`` describes the decision that the server recorded."""
    client = Client(_nowhere, "Ada")
    ids = iter(("client_1", "client_2"))

    async def ask(type: str, *args: Any, **options: Any) -> Message:
        if type == "permission_response":
            raise RequestError("APPROVAL_RESOLVED", "It is already answered.", details)
        device = {"name": "Ada"}
        return {
            "data": {"client_id": next(ids), "device": device, "features": [], "agents": []} if type == "hello" else {}
        }

    monkeypatch.setattr(client.connection, "ask", ask)
    await client.begin()
    await client.begin()
    client.conversation = Conversation("p")
    return client


async def test_an_answer_from_a_client_of_the_same_name_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    namesake = {"by": "Ada", "decision": "allow", "client_id": "client_9"}
    client = await _answering(namesake, monkeypatch)
    with pytest.raises(RequestError, match="already answered"):
        await client.answer("a", allow=True, input={"content": "my version"})


async def test_an_answer_that_was_sent_again_counts_as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision reached the server before the connection broke, and is sent again on the next connection."""
    client = await _answering({"by": "Ada", "decision": "allow", "client_id": "client_1"}, monkeypatch)
    await client.answer("a", allow=True)
    with pytest.raises(RequestError, match="already answered"):
        await client.answer("a", allow=False)


async def test_a_large_answer_reaches_its_project_after_it_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user opens another project while the edited input is being sent in parts."""
    client = Client(_nowhere, "Ada")
    answered: list[str] = []
    client.conversation = Conversation("p")

    async def ask(type: str, *args: Any, **options: Any) -> Message:
        client.conversation = Conversation("q")
        if type == "permission_response":
            answered.append(options["project"])
        return {"data": {}}

    monkeypatch.setattr(client.connection, "ask", ask)
    await client.answer("a", allow=True, input={"content": "x" * MESSAGE_BYTES})
    assert answered == ["p"]


def _line(seq: int) -> Message:
    words = {"type": "assistant", "message": {"content": f"words {seq}"}}
    return {"seq": seq, "timestamp": "2026-11-21T09:00:00Z", "direction": "claude", "message": words}


def _snapshot(last: int, **more: Any) -> Message:
    return {"last_seq": last, "run": None, "queue": [], "open_approvals": [], **more}


class _History:
    """Answers the requests of ``client`` as a server does whose history of the project ``p`` contains the records from
    ``first`` to ``last``. The client shows that project, and has the last of the records up to 100 in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: int = 1, last: int = 100, **snapshot: Any) -> None:
        self.first, self.last = first, last
        self.snapshot = snapshot
        self.joins: list[Message] = []
        """The data of each request to join the project."""
        self.before_answer: Callable[[], None] = lambda: None
        """Called after a page was requested, and before it is sent."""
        self.client = Client(_nowhere, "Ada")
        self.conversation = Conversation("p")
        self.conversation.join(_snapshot(100, **snapshot), restart=True)
        self.conversation.prepend(record_in(_line(seq)) for seq in range(51, 101))
        self.client.conversation = self.conversation
        self.client.projects.all["p"] = {"id": "p", "first_seq": first, "last_seq": last, "approvals": []}
        monkeypatch.setattr(self.client.connection, "ask", self._ask)

    @property
    def shown(self) -> list[int]:
        """The numbers of the records that the client shows."""
        assert self.client.conversation is not None
        return [item.seq for item in self.client.conversation.items]

    async def _ask(self, type: str, data: Message | None = None, **options: Any) -> Message:
        match type:
            case "hello":
                return {"data": {"client_id": "c", "device": {"name": "Ada"}, "features": [], "agents": []}}
            case "project_join":
                self.joins.append(data or {})
                return {"data": {"data": _snapshot(self.last, **self.snapshot)}}
            case "get_messages":
                assert data is not None
                begin = max(self.first, data["before_seq"] - data["limit"])
                self.before_answer()
                lines = [_line(seq) for seq in range(begin, data["before_seq"])]
                return {"data": {"messages": lines, "has_more": begin > self.first}}
        return {"data": {}}


async def test_a_client_that_is_a_little_behind_requests_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    history = _History(monkeypatch, last=150)
    await history.client.begin()
    assert history.joins == [{"after_seq": 100}]
    assert history.shown == [*range(51, 101)], "what is in memory stays"


@pytest.mark.parametrize(("first", "last"), [(1, 90), (151, 200)], ids=["without its end", "without its beginning"])
async def test_a_history_with_lost_records_is_loaded_again(
    first: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server lost the last records in a crash, or has deleted old ones that this client had not received yet."""
    history = _History(monkeypatch, first, last)
    await history.client.begin()
    assert history.joins == [{}]
    assert history.shown == [*range(first, last + 1)]
    asked = {"approval_id": "a", "tool_name": "Bash", "created_at": ""}
    history.client._received({"type": "permission_request", "project_id": "p", "seq": last + 1, "data": asked})
    assert list(history.conversation.open) == ["a"], "a new request is shown"


async def test_the_conversation_stays_until_its_end_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier part is in memory, and the connection breaks when the user wants to see the end."""
    history = _History(monkeypatch, last=200, open_approvals=[{"approval_id": "a"}])
    client, conversation, ask = history.client, history.conversation, history.client.connection.ask
    conversation.jump(50)
    await client.older()
    earlier = {item.key for item in conversation.items}

    async def fail(*args: Any, **options: Any) -> Message:
        raise RequestError("OFFLINE", "You’re disconnected.")

    monkeypatch.setattr(client.connection, "ask", fail)
    with pytest.raises(RequestError):
        await client.latest()
    assert history.shown == [*range(1, 51)]
    assert client.conversation is not None
    assert list(client.conversation.open) == ["a"], "the request is not closed"
    monkeypatch.setattr(client.connection, "ask", ask)
    await client.latest()
    assert history.shown == [*range(81, 201)]
    assert not earlier & {item.key for item in client.conversation.items}, "no item is taken for an earlier one"


async def test_a_page_that_arrives_after_a_jump_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    history = _History(monkeypatch)
    history.before_answer = lambda: history.conversation.jump(80)
    await history.client.older()
    assert history.shown == []
    assert (history.conversation.first, history.conversation.last) == (81, 80)


def _texts(client: Client) -> list[str]:
    assert client.conversation is not None
    return [item.data["text"] for item in client.conversation.items]


def _accepting(client: Client, run: str, seq: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the server accept each prompt of ``client`` for ``run``, with this number in the history."""

    async def ask(type: str, *args: Any, **options: Any) -> Message:
        accepted = {"type": "accepted", "project_id": "p", "request_id": options["id"], "seq": seq}
        answer = {**accepted, "data": {"run_id": run, "position": 0}}
        client._received(answer)
        return answer

    monkeypatch.setattr(client.connection, "ask", ask)


async def test_a_prompt_added_to_a_run_is_not_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run began so long ago that its beginning is not in memory."""
    client = Client(_nowhere, "Ada")
    client.conversation = Conversation("p")
    run = {"run_id": "r", "prompt": "P", "started_at": "2026-11-21T09:00:00Z"}
    client.conversation.join(_snapshot(500, run=run), restart=True)
    _accepting(client, "r", 501, monkeypatch)
    await client.execute("Only odd ones", steer=True)
    assert _texts(client) == ["Only odd ones"]
    assert client.conversation.waiting == []


async def test_a_prompt_added_to_a_run_is_shown_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt with which the run began was edited in the queue."""
    client = Client(_nowhere, "Ada")
    client.conversation = Conversation("p")
    client.conversation.join(_snapshot(0), restart=True)
    events = (("prompt_edited", {"run_id": "r", "prompt": "Better"}), ("run_started", {"run_id": "r"}))
    lines: list[tuple[str, Message]] = [
        ("client", {"type": "user", "message": {"prompt": "First"}, "run_id": "r"}),
        *(("server", {"type": "system", "subtype": name, "message": data}) for name, data in events),
    ]
    for seq, (direction, message) in enumerate(lines, 1):
        client.conversation.apply(record_in(_line(seq) | {"direction": direction, "message": message}))
    _accepting(client, "r", 4, monkeypatch)
    await client.execute("Only odd ones", steer=True)
    assert _texts(client) == ["Better", "Only odd ones"]
