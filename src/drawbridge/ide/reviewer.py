"""The bridge as a reviewer for the agent server of this machine, where one runs: its editor shows what other agents propose,
and what its own agents propose can be answered by the server's clients.

Without a server it costs a look into a directory now and then. One that goes or hangs leaves everything to the bridge.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.port import Accepted, Rejected
from drawbridge.ide.draft import Draft
from drawbridge.ide.review import Reviews
from drawbridge.protocols import local_ipc as wire
from drawbridge.transport import private_socket

LOOK_SECONDS: Final = 2.0
"""Between two looks for a server, or for a newer one."""

RULING_SECONDS: Final = 1.0
"""That a server may take to say who was first; then the editor's decision counts."""

logger = logging.getLogger("drawbridge.reviewer")


class Reviewer:
    """``about``: the editor as the server is to know it. ``known_as``: an agent's process and session, by its connection.

    ``type_prompt``: the editor's.
    """

    def __init__(
        self,
        reviews: Reviews,
        about: Callable[[], wire.Bridge],
        known_as: Callable[[Hashable], tuple[int | None, str]],
        type_prompt: Callable[[int, str], Awaitable[None]],
    ) -> None:
        self._reviews = reviews
        self._about = about
        self._known_as = known_as
        self._type_prompt = type_prompt
        self._writer: asyncio.StreamWriter | None = None
        self._told: wire.Bridge | None = None
        self._open: dict[str, wire.Proposed] = {}
        self._rulings: dict[str, asyncio.Future[bool]] = {}
        self._offered: set[str] = set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            for path in await asyncio.to_thread(private_socket.addresses):
                with contextlib.suppress(OSError):
                    reader, writer = await asyncio.open_unix_connection(path, limit=wire.LINE_BYTES)
                    await self._serve(path, reader, writer)
                    break
            await asyncio.sleep(LOOK_SECONDS)

    def changed(self) -> None:
        """The editor's folders or agents may be others now."""
        about = self._about()
        if self._writer is not None and about != self._told:
            self._told = about
            self._send(about)

    # What its own agents propose.

    def knows(self, id: str) -> bool:
        """A server was told of it."""
        return self._writer is not None and id in self._open

    def proposed(self, id: str, owner: Hashable, agent: str, path: str, drafted: Draft, new_text: str) -> None:
        """The editor shows this; ``new_text`` is what the agent wants, ``drafted`` what would become of it.

        It is kept as long as it is open, for a server that comes later.
        """
        if owner is self:
            return
        pid, session = self._known_as(owner)
        said = wire.Proposed(
            id=id,
            agent=agent,
            session=session,
            path=path,
            old_text=drafted.old_text,
            new_text=drafted.new_text,
            pid=pid,
            agent_text=None if new_text == drafted.new_text else new_text,
            question=uuid.uuid4().hex,
        )
        if len(drafted.old_text) + len(drafted.new_text) + len(new_text) < wire.LINE_BYTES // 8:
            self._open[id] = said
            self._send(said)

    async def may_decide(self, id: str, text: str | None) -> bool:
        """Whether the editor's decision is the first one; ``text`` None: rejected."""
        if not self.knows(id):
            return True
        ruling: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._rulings[id] = ruling
        self._send(wire.EditorDecision(id, text))
        try:
            async with asyncio.timeout(RULING_SECONDS):
                return await ruling
        except TimeoutError:
            return True
        finally:
            self._rulings.pop(id, None)

    def gone(self, id: str, *, settled: bool) -> None:
        if self._open.pop(id, None) is not None:
            self._send(wire.ProposalClosed(id, settled))

    # The server.

    async def _serve(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, self._told = writer, self._about()
        logger.info("connected to the agent server at %s", path)
        tasks = BackgroundTasks(logger)
        tasks.start(self._leave_for_a_newer(path, writer), "looking for a newer agent server")
        try:
            self._send(self._told)
            for proposed in self._open.values():
                self._send(proposed)
            while line := await reader.readline():
                self._heard(wire.decode_from_server(line), tasks)
        except ValueError as error:
            logger.warning("the agent server says what is not understood: %s", error)
        finally:
            await self._lost(tasks)

    async def _leave_for_a_newer(self, path: str, writer: asyncio.StreamWriter) -> None:
        """Hooks tell the newest server, so that is where to be."""
        dead = {path}
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for newer in await asyncio.to_thread(private_socket.addresses):
                if newer in dead:
                    break
                try:
                    _, probe = await asyncio.open_unix_connection(newer)
                except OSError:
                    dead.add(newer)
                    continue
                probe.close()
                writer.close()
                return

    async def _lost(self, tasks: BackgroundTasks) -> None:
        """The connection has ended: the editor alone decides what is open; what the server has offered is closed."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        for ruling in self._rulings.values():
            if not ruling.done():
                ruling.set_result(True)
        await tasks.close()
        self._offered.clear()

    def _send(self, said: wire.FromPeer) -> None:
        if self._writer is not None:
            self._writer.write(wire.encode(said))

    def _heard(self, said: wire.ToBridge, tasks: BackgroundTasks) -> None:
        match said:
            case wire.Offer():
                self._offered.add(said.id)
                task = tasks.start(
                    self._show(said), f"showing {said.path}", lambda _: self._send(wire.OfferDeclined(said.id))
                )
                task.add_done_callback(lambda _: self._offered.discard(said.id))
            case wire.Withdraw(id, written):
                if id in self._offered:
                    self._reviews.take_off(self, id, written=written)
            case wire.ClientDecision(id, by, text):
                self._open.pop(id, None)
                self._reviews.answered(id, by, Rejected() if text is None else Accepted(text))
            case wire.Prompt():
                problem = "Drawbridge failed beside the editor; the log of its bridge says why."
                tasks.start(
                    self._type(said), "typing a prompt", lambda _: self._send(wire.PromptFailed(said.id, problem))
                )
            case wire.DecisionAck(id, won):
                ruling = self._rulings.get(id)
                if ruling is not None and not ruling.done():
                    ruling.set_result(won)

    async def _type(self, prompt: wire.Prompt) -> None:
        try:
            await self._type_prompt(prompt.pid, prompt.text)
        except DrawbridgeError as error:
            logger.info("a prompt was not sent: %s", error)
            self._send(wire.PromptFailed(prompt.id, str(error)))
        else:
            self._send(wire.PromptSent(prompt.id))

    async def _show(self, offer: wire.Offer) -> None:
        """Another agent's change, until it is decided here or elsewhere."""
        title = f"{os.path.basename(offer.path)} ({offer.id[-6:]})"
        try:
            decision = await self._reviews.review(self, offer.agent, offer.path, offer.new_text, title, key=offer.id)
        except DrawbridgeError as error:
            logger.info("%s is not shown: %s", offer.path, error)
            self._send(wire.OfferDeclined(offer.id))
            return
        if isinstance(decision, Accepted):
            self._send(wire.OfferAnswered(offer.id, decision.text))
        elif isinstance(decision, Rejected):
            self._send(wire.OfferAnswered(offer.id, None))
