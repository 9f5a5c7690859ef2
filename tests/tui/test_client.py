"""How the terminal client handles the server's answers."""

from __future__ import annotations

from typing import Any

import pytest

from drawbridge.tui.client import MESSAGE_BYTES, Client
from drawbridge.tui.connection import Message, RequestError
from drawbridge.tui.conversation import Conversation
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


async def test_a_large_answer_reaches_its_project_after_another_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user opens another project while the edited input is being sent in parts."""
    client, answered = Client(_nowhere, "Ada"), []
    client.conversation = Conversation("p")

    async def ask(type: str, *args: Any, **options: Any) -> Message:
        client.conversation = Conversation("q")
        if type == "permission_response":
            answered.append(options["project"])
        return {"data": {}}

    monkeypatch.setattr(client.connection, "ask", ask)
    await client.answer("a", allow=True, input={"content": "x" * MESSAGE_BYTES})
    assert answered == ["p"]
