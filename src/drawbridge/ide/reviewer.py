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
        self._offered: dict[str, asyncio.Task[None]] = {}
        self._typing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                for path in private_socket.addresses():
                    with contextlib.suppress(OSError):
                        reader, writer = await asyncio.open_unix_connection(path, limit=wire.LINE_BYTES)
                        await self._serve(path, reader, writer)
                        break
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await self._lost()

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
        self._send(wire.Decided(id, text))
        try:
            async with asyncio.timeout(RULING_SECONDS):
                return await ruling
        except TimeoutError:
            return True
        finally:
            self._rulings.pop(id, None)

    def gone(self, id: str, *, settled: bool) -> None:
        if self._open.pop(id, None) is not None:
            self._send(wire.Gone(id, settled))

    # The server.

    async def _serve(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, self._told = writer, self._about()
        logger.info("connected to the agent server at %s", path)
        watching = asyncio.get_running_loop().create_task(self._leave_for_a_newer(path, writer))
        try:
            self._send(self._told)
            for proposed in self._open.values():
                self._send(proposed)
            while line := await reader.readline():
                self._heard(wire.told_bridge(line))
        except ValueError as error:
            logger.warning("the agent server says what is not understood: %s", error)
        finally:
            watching.cancel()
            await self._lost()

    async def _leave_for_a_newer(self, path: str, writer: asyncio.StreamWriter) -> None:
        """Hooks tell the newest server, so that is where to be."""
        dead = {path}
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for newer in private_socket.addresses():
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

    async def _lost(self) -> None:
        """Nobody is there any more: what is open goes on without."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        for ruling in self._rulings.values():
            if not ruling.done():
                ruling.set_result(True)
        open_tasks = [*self._offered.values(), *self._typing]
        self._offered.clear()
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)

    def _send(self, said: wire.FromPeer) -> None:
        if self._writer is not None:
            self._writer.write(wire.line(said))

    def _heard(self, said: wire.ToBridge) -> None:
        match said:
            case wire.Offer():
                task = self._offered[said.id] = asyncio.get_running_loop().create_task(self._show(said))
                task.add_done_callback(lambda _: self._offered.pop(said.id, None))
            case wire.Withdraw(id, written):
                if id in self._offered:
                    self._reviews.withdraw(self, id, "decided elsewhere", written=written)
            case wire.Answer(id, by, text):
                self._open.pop(id, None)
                self._reviews.answer(id, by, Rejected() if text is None else Accepted(text))
            case wire.Prompt():
                typing = asyncio.get_running_loop().create_task(self._type(said))
                self._typing.add(typing)
                typing.add_done_callback(self._typing.discard)
            case wire.Ruling(id, won):
                ruling = self._rulings.get(id)
                if ruling is not None and not ruling.done():
                    ruling.set_result(won)

    async def _type(self, prompt: wire.Prompt) -> None:
        try:
            await self._type_prompt(prompt.pid, prompt.text)
        except DrawbridgeError as error:
            logger.info("a prompt was not sent: %s", error)
            self._send(wire.Untyped(prompt.id, str(error)))
        else:
            self._send(wire.Typed(prompt.id))

    async def _show(self, offer: wire.Offer) -> None:
        """Another agent's change, until it is decided here or elsewhere."""
        title = f"{os.path.basename(offer.path)} ({offer.id[-6:]})"
        try:
            decision = await self._reviews.review(self, offer.agent, offer.path, offer.new_text, title, key=offer.id)
        except DrawbridgeError as error:
            logger.info("%s is not shown: %s", offer.path, error)
            self._send(wire.Declined(offer.id))
            return
        if isinstance(decision, Accepted):
            self._send(wire.Answered(offer.id, decision.text))
        elif isinstance(decision, Rejected):
            self._send(wire.Answered(offer.id, None))
