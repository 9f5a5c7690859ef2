"""With a bridge and an agent server, the editor shows other agents' proposals, and clients can answer the bridge's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Hashable
from pathlib import Path
from typing import TypeVar

import pytest

from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.port import Accepted, Decided, Decision, Proposal, Rejected, Withdrawn
from drawbridge.ide import server_link
from drawbridge.ide.review import IN_ITS_DIALOG, Reviews
from drawbridge.ide.server_link import ServerLink
from drawbridge.protocols import local_ipc as wire
from drawbridge.transport import private_socket
from tests.editors.memory import MemoryEditor
from tests.waiting import PATIENCE, until

Said = TypeVar("Said")

TEXT, NEW, MINE = "one\ntwo\n", "one\nTWO\n", "one\nzwei\n"
BROKEN, REPAIRED = "one\nTW\udcd6\n", "one\nTW\ufffd\n"
"""A text with a byte that is not UTF-8, as editors pass it on, and as the server receives it."""

ABOUT = wire.Bridge("MemoryEditor", ("/ws",), (812,))


class Server:
    """A fake agent server for one bridge at a time. ``rules`` is whether a decision is confirmed as the first; with
    None, decisions get no reply."""

    def __init__(self) -> None:
        self.messages: list[wire.FromPeer] = []
        self.rules: bool | None = True
        self.connections = 0
        self._writer: asyncio.StreamWriter | None = None

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Server]:
        with private_socket.listening() as listener:
            server = await asyncio.start_unix_server(self._met, sock=listener)
            try:
                yield self
            finally:
                server.close()
                self.hang_up()

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writer = writer
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                self.messages.append(wire.decode_from_peer(line))
                self.received(self.messages[-1])
                if isinstance(self.messages[-1], wire.EditorDecision) and self.rules is not None:
                    self.sends(wire.DecisionAck(self.messages[-1].id, self.rules))
        writer.close()

    def received(self, line: wire.FromPeer) -> None:
        """Does nothing. Subclasses override it to send further replies."""

    def sends(self, message: wire.ToBridge) -> None:
        assert self._writer is not None
        self._writer.write(wire.encode(message))

    def hang_up(self) -> None:
        if self._writer is not None:
            self._writer.close()

    async def receives(self, kind: type[Said], number: int = 1) -> Said:
        """Waits for the ``number``-th message of this kind, and returns it."""
        found: list[Said] = []

        def has_arrived() -> bool:
            found[:] = [message for message in self.messages if isinstance(message, kind)]
            return len(found) >= number

        await until(has_arrived, f"{kind.__name__} {number}")
        return found[number - 1]


class Bridge:
    """The parts of a bridge that these tests need."""

    def __init__(self) -> None:
        self.editor = MemoryEditor()
        self.reviews = Reviews(self.editor)
        self.about = ABOUT
        self.failures: list[Exception] = []
        self.link = ServerLink(
            self.reviews,
            lambda: self.about,
            self._known_as,
            self.editor.type_prompt,
            lambda message, level: self.editor.notices.append((message, level)),
        )
        self.reviews.use_arbiter(self.link)

    def _known_as(self, owner: Hashable) -> tuple[int | None, str]:
        return (812, "") if owner == "claude" else (None, str(owner))

    def propose(self, path: Path, owner: str = "claude") -> asyncio.Task[Decision]:
        return asyncio.create_task(self.reviews.review(owner, "Claude Code", str(path), NEW, "tab"))

    async def shown(self, number: int = 1) -> Proposal:
        await until(lambda: len(self.editor.shown) == number, f"{number} shown")
        return list(self.editor.shown.values())[-1]


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "SEARCH_SECONDS", 0.02)


@pytest.fixture
async def bridge() -> AsyncIterator[Bridge]:
    bridge = Bridge()
    await bridge.editor.start(lambda event: bridge.reviews.decided(event) if isinstance(event, Decided) else None)
    tasks = BackgroundTasks(logging.getLogger("tests.link"))
    bridge.link.start(tasks, bridge.failures.append)
    yield bridge
    await tasks.close()
    await bridge.reviews.stop()
    await bridge.editor.close()


@pytest.fixture
async def server(bridge: Bridge) -> AsyncIterator[Server]:
    async with Server().listening() as server:
        assert await server.receives(wire.Bridge) == ABOUT
        yield server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "a.py"
    file.write_text(TEXT)
    return file


async def decided(task: asyncio.Task[Decision]) -> Decision:
    async with asyncio.timeout(PATIENCE):
        return await task


async def test_an_unexpected_error_is_reported_once_and_retried(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the link would be lost permanently, or would fail repeatedly without anybody noticing."""
    real, calls = private_socket.addresses, 0

    def fails_three_times() -> list[str]:
        nonlocal calls
        calls += 1
        if calls <= 3:
            raise RuntimeError("out of order")
        return real()

    monkeypatch.setattr(private_socket, "addresses", fails_three_times)
    # A search that began before the replacement finds no server as long as none is listening.
    await until(lambda: bool(bridge.failures), "the first failure")
    async with Server().listening() as server:
        assert await server.receives(wire.Bridge) == ABOUT
    assert [str(error) for error in bridge.failures] == ["out of order"]


async def test_a_shown_proposal_is_announced_to_the_server(bridge: Bridge, server: Server, file: Path) -> None:
    """The server is also notified when the proposal is withdrawn."""
    task = bridge.propose(file)
    proposal = await bridge.shown()
    message = await server.receives(wire.Proposed)
    assert message == wire.Proposed(
        proposal.id, "Claude Code", "", str(file), TEXT, NEW, 812, question=message.question
    )
    bridge.reviews.withdraw("claude", "tab", IN_ITS_DIALOG)
    assert isinstance(await decided(task), Withdrawn)
    assert await server.receives(wire.ProposalClosed) == wire.ProposalClosed(proposal.id, settled=True)


async def test_a_prompt_is_typed_into_a_terminal_of_the_editor(bridge: Bridge, server: Server) -> None:
    bridge.editor.open_terminal(812)
    server.sends(wire.Prompt("p1", 812, "Do it"))
    assert await server.receives(wire.PromptSent) == wire.PromptSent("p1")
    assert bridge.editor.terminals == {812: ["Do it"]}
    server.sends(wire.Prompt("p2", 813, "Do it"))
    untyped = await server.receives(wire.PromptFailed)
    assert untyped.id == "p2"
    assert untyped.reason == "The agent's terminal has been closed, so your prompt was not sent."
    bridge.editor.hung = True
    server.sends(wire.Prompt("p3", 812, "Do it"))
    assert (await server.receives(wire.PromptFailed, 2)).id == "p3"
    assert bridge.editor.terminals == {812: ["Do it"]}


async def test_a_server_that_starts_later_gets_the_open_proposals(bridge: Bridge, file: Path) -> None:
    task = bridge.propose(file)
    proposal = await bridge.shown()
    async with Server().listening() as server:
        assert (await server.receives(wire.Proposed)).id == proposal.id
        server.sends(wire.ClientDecision(proposal.id, "phone", NEW))
        assert await decided(task) == Accepted(NEW)


async def test_open_proposals_keep_their_ids_after_a_server_restart(bridge: Bridge, file: Path) -> None:
    another = file.with_name("b.py")
    tasks = [bridge.propose(file, "one"), bridge.propose(another, "two")]
    async with Server().listening() as server:
        first = [await server.receives(wire.Proposed, number) for number in (1, 2)]
    async with Server().listening() as server:
        assert [await server.receives(wire.Proposed, number) for number in (1, 2)] == first
        assert len({message.question for message in first} - {""}) == 2
        for message in first:
            server.sends(wire.ClientDecision(message.id, "phone", None))
        assert [await decided(task) for task in tasks] == [Rejected(), Rejected()]


async def test_unsaved_work_is_in_new_text_but_not_in_agent_text(bridge: Bridge, server: Server, file: Path) -> None:
    bridge.editor.open(str(file))
    bridge.editor.type(str(file), f"zero\n{TEXT}")
    task = bridge.propose(file)
    message = await server.receives(wire.Proposed)
    assert (message.old_text, message.new_text, message.agent_text) == (f"zero\n{TEXT}", f"zero\n{NEW}", NEW)
    bridge.reviews.withdraw_all("claude")
    await task


async def test_bytes_that_are_not_utf8_do_not_end_the_connection(bridge: Bridge, file: Path) -> None:
    """They may be in unsaved work, and in the name of a folder. The proposal is announced to each server."""
    bridge.about = wire.Bridge("MemoryEditor", ("/caf\udce9",))
    bridge.editor.open(str(file))
    bridge.editor.type(str(file), f"\udcfc\n{TEXT}")
    task = bridge.propose(file)
    await bridge.shown()
    for _ in range(2):
        async with Server().listening() as server:
            assert (await server.receives(wire.Bridge)).folders == ("/caf\ufffd",)
            assert (await server.receives(wire.Proposed)).new_text == f"\ufffd\n{NEW}"
            assert server.connections == 1
    bridge.reviews.withdraw_all("claude")
    await decided(task)


async def test_a_canceled_call_leaves_its_proposal_undecided(bridge: Bridge, server: Server, file: Path) -> None:
    """The agent's own dialog can still ask the user."""
    task = bridge.propose(file)
    proposal = await bridge.shown()
    await server.receives(wire.Proposed)
    task.cancel()
    assert await server.receives(wire.ProposalClosed) == wire.ProposalClosed(proposal.id, settled=False)


@pytest.mark.parametrize("decision", [Accepted(MINE), Rejected()])
async def test_the_editors_decision_counts_if_it_is_first(
    bridge: Bridge, server: Server, file: Path, decision: Accepted | Rejected
) -> None:
    task = bridge.propose(file)
    bridge.editor.decide((await bridge.shown()).id, decision)
    assert await decided(task) == decision
    asked = await server.receives(wire.EditorDecision)
    assert asked.text == (decision.text if isinstance(decision, Accepted) else None)


async def test_an_accepted_text_may_have_bytes_that_are_not_utf8(bridge: Bridge, server: Server, file: Path) -> None:
    """Neovim passes such bytes on as lone surrogates, which JSON can't express."""
    task = bridge.propose(file)
    proposal = await bridge.shown()
    await server.receives(wire.Proposed)
    bridge.editor.decide(proposal.id, Accepted(BROKEN))
    assert (await server.receives(wire.EditorDecision)).text == REPAIRED
    assert await decided(task) == Accepted(BROKEN)


async def test_a_decision_that_was_not_passed_on_is_reported(
    bridge: Bridge, server: Server, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view is already closed, so the user has to answer in the agent's terminal."""

    async def fails(id: str, text: str | None) -> bool:
        raise RuntimeError("out of order")

    monkeypatch.setattr(bridge.link, "may_decide", fails)
    task = bridge.propose(file)
    proposal = await bridge.shown()
    await server.receives(wire.Proposed)
    bridge.editor.decide(proposal.id, Accepted(NEW))
    await until(lambda: bridge.editor.notices, "the notice")
    [(notice, _)] = bridge.editor.notices
    assert notice.startswith("Your decision may not have reached the agent")
    assert not task.done()
    bridge.reviews.withdraw("claude", "tab", IN_ITS_DIALOG)
    await decided(task)


async def test_a_late_decision_does_not_count(bridge: Bridge, server: Server, file: Path) -> None:
    server.rules = False
    task = bridge.propose(file)
    proposal = await bridge.shown()
    await server.receives(wire.Proposed)
    bridge.editor.decide(proposal.id, Accepted(NEW))
    await until(lambda: "elsewhere" in str(bridge.editor.notices), "the notice")
    assert not task.done()
    server.sends(wire.ClientDecision(proposal.id, "phone", MINE))
    assert await decided(task) == Accepted(MINE)


@pytest.mark.parametrize("fate", ["it hangs", "it goes"])
async def test_the_editor_decides_if_the_server_does_not_confirm(
    bridge: Bridge, server: Server, file: Path, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server hangs or disconnects before it reports whose decision was first."""
    monkeypatch.setattr(server_link, "ACK_SECONDS", 0.1 if fate == "it hangs" else 60.0)
    server.rules = None
    task = bridge.propose(file)
    proposal = await bridge.shown()
    await server.receives(wire.Proposed)
    bridge.editor.decide(proposal.id, Accepted(NEW))
    await server.receives(wire.EditorDecision)
    if fate == "it goes":
        server.hang_up()
    assert await decided(task) == Accepted(NEW)


@pytest.mark.parametrize(("text", "decision"), [(MINE, Accepted(MINE)), (None, Rejected())])
async def test_a_clients_decision_reaches_the_agent_and_the_editor(
    bridge: Bridge, server: Server, file: Path, text: str | None, decision: Decision
) -> None:
    """The editor closes its view, and the bridge does not report that to the server."""
    task = bridge.propose(file)
    proposal = await bridge.shown()
    await server.receives(wire.Proposed)
    server.sends(wire.ClientDecision(proposal.id, "phone", text))
    assert await decided(task) == decision
    await until(lambda: not bridge.editor.shown, "the view's end")
    assert [message for message in server.messages if isinstance(message, wire.ProposalClosed)] == []


# Proposals from other agents.


def offer(file: Path, id: str = "appr_1", text: str = NEW) -> wire.Offer:
    return wire.Offer(id, "Claude Code", str(file), text)


@pytest.mark.parametrize(
    ("decision", "text"), [(Accepted(MINE), MINE), (Accepted(BROKEN), REPAIRED), (Rejected(), None)]
)
async def test_the_editor_decides_on_proposals_from_the_server(
    bridge: Bridge, server: Server, file: Path, decision: Accepted | Rejected, text: str | None
) -> None:
    """The bridge does not announce such a proposal to the server as its own."""
    server.sends(offer(file))
    proposal = await bridge.shown()
    assert (proposal.agent, proposal.path, proposal.old_text, proposal.new_text) == (
        "Claude Code",
        str(file),
        TEXT,
        NEW,
    )
    bridge.editor.decide(proposal.id, decision)
    assert await server.receives(wire.OfferAnswered) == wire.OfferAnswered("appr_1", text)
    assert [message for message in server.messages if isinstance(message, wire.Proposed)] == []


async def test_a_proposal_decided_elsewhere_is_closed_without_a_report(
    bridge: Bridge, server: Server, file: Path
) -> None:
    server.sends(offer(file))
    await bridge.shown()
    server.sends(wire.Withdraw("appr_1"))
    await until(lambda: not bridge.editor.shown, "the view's end")
    server.sends(wire.Withdraw("appr_1"))
    server.sends(offer(file, "appr_2"))
    await bridge.shown()
    assert [
        message for message in server.messages if isinstance(message, wire.OfferAnswered | wire.OfferDeclined)
    ] == []


@pytest.mark.parametrize("decision", [Accepted(MINE), Rejected()])
async def test_the_user_is_notified_of_a_decision_that_was_too_late(
    bridge: Bridge, server: Server, file: Path, decision: Accepted | Rejected
) -> None:
    """The server closed the proposal before it received the decision. The next decision counts, without a notice."""
    server.sends(offer(file))
    bridge.editor.decide((await bridge.shown()).id, decision)
    await server.receives(wire.OfferAnswered)
    server.sends(wire.Withdraw("appr_1", True))
    await until(lambda: bridge.editor.notices, "the notice")
    server.sends(wire.Withdraw("appr_1", True))
    server.sends(offer(file.with_name("b.py"), "appr_2"))
    bridge.editor.decide((await bridge.shown()).id, decision)
    await server.receives(wire.OfferAnswered, 2)
    assert bridge.editor.notices == [("Your decision came too late. The proposal was already closed.", "warn")]


async def test_the_user_is_notified_of_a_decision_that_was_refused(bridge: Bridge, server: Server, file: Path) -> None:
    """The server offers the proposal again if it can't record the decision."""
    for number in (1, 2):
        server.sends(offer(file))
        bridge.editor.decide((await bridge.shown()).id, Rejected())
        await server.receives(wire.OfferAnswered, number)
    assert bridge.editor.notices == [("Your decision on a.py was not accepted. Decide again.", "warn")]


async def test_a_proposal_that_cannot_be_shown_is_declined(bridge: Bridge, server: Server, file: Path) -> None:
    server.sends(offer(file, text="a\0b"))
    assert await server.receives(wire.OfferDeclined) == wire.OfferDeclined("appr_1")
    await until(lambda: bridge.editor.notices, "the notice")
    assert bridge.editor.notices[0][0].endswith("can't be shown. Answer in the web UI or the agent's terminal.")


async def test_a_servers_proposals_close_when_it_disconnects(bridge: Bridge, server: Server, file: Path) -> None:
    server.sends(offer(file))
    await bridge.shown()
    server.hang_up()
    await until(lambda: not bridge.editor.shown, "the view's end")
    await until(lambda: server.connections == 2, "another connection")
    assert await server.receives(wire.Bridge, 2) == ABOUT


async def test_changes_of_folders_and_agents_are_reported_once(bridge: Bridge, server: Server) -> None:
    bridge.link.changed()
    bridge.about = wire.Bridge("MemoryEditor", ("/ws", "/more"), ())
    bridge.link.changed()
    bridge.link.changed()
    assert await server.receives(wire.Bridge, 2) == bridge.about
    assert len(server.messages) == 2


async def test_the_bridge_reconnects_to_the_newest_server(bridge: Bridge, server: Server) -> None:
    """Hooks connect to the newest server, too."""
    async with Server().listening() as newer:
        await newer.receives(wire.Bridge)
    await until(lambda: server.connections == 2, "the way back")


async def test_an_invalid_line_from_a_server_ends_only_the_connection(
    bridge: Bridge, server: Server, file: Path
) -> None:
    task = bridge.propose(file)
    proposal = await bridge.shown()
    await server.receives(wire.Proposed)
    assert server._writer is not None
    server._writer.write(b"nonsense\n")
    await until(lambda: server.connections == 2, "another connection")
    bridge.editor.decide(proposal.id, Accepted(NEW))
    assert await decided(task) == Accepted(NEW)


async def test_without_a_server_the_bridge_decides_immediately(bridge: Bridge, file: Path) -> None:
    task = bridge.propose(file)
    bridge.editor.decide((await bridge.shown()).id, Accepted(NEW))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert task.done()
