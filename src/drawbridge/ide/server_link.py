"""The bridge's connection to the agent server on this machine, if one is running.

The editor shows what other agents propose, and the reviews of runs. The server's clients can decide on what the
bridge's own agents propose. Without a server, the bridge looks for one every two seconds by listing a directory. If the
server ends or hangs, the editor alone decides on proposals.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Final

import msgspec

from drawbridge.core.errors import DrawbridgeError, Refused
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.port import Accepted, Level, Rejected
from drawbridge.ide.draft import Draft
from drawbridge.ide.review import Reviews
from drawbridge.protocols import local_ipc as wire
from drawbridge.transport import private_socket

SEARCH_SECONDS: Final = 2.0
"""Seconds between two searches for a server, or for a newer one. No event can replace them: a server that starts does
not know the bridges, and Python can't watch a directory on every system. A search only lists a directory."""

ACK_SECONDS: Final = 1.0
"""Seconds that the server has to acknowledge the editor's decision. After that, the decision counts."""

WELCOME_SECONDS: Final = 5.0
"""Seconds that a server has to welcome a bridge that shows reviews. Servers of older versions never do."""

REVIEW_SECONDS: Final = 60.0
"""The maximum number of seconds to wait for an answer about a review. git looks at all files in a directory."""

RESTART_SECONDS: Final = 20.0
"""Seconds that a restarted server has to welcome the bridge, so that a request can be sent again."""

ANSWERED_LIMIT: Final = 100
"""The maximum number of the latest decisions on the server's proposals that the bridge remembers."""

NO_SERVER: Final = "No agent server is running. Start one with: drawbridge serve"
EARLIER: Final = "The agent server did not respond, or is too old for reviews in editors. Update and restart it."
WITHOUT_SUGGESTIONS: Final = "This needs a newer agent server. Update and restart it."
NO_ANSWER: Final = "The agent server did not answer in time. Run :DrawbridgeChanges to see the current review."
LOST: Final = "The connection to the agent server was lost. Run :DrawbridgeChanges to see the current review."

TOO_LATE: Final = "Your decision came too late. The proposal was already closed."
NOT_ACCEPTED: Final = "Your decision on {file} was not accepted. Decide again."

IN_A_CLIENT: Final = "in the web UI or the agent's terminal"
"""Where the user can answer an agent whose proposal the editor can't show."""

logger = logging.getLogger("drawbridge.server_link")


class ReviewRefused(Refused):
    """The server refused a request about a review. ``reason``: its error code in the client protocol."""

    def __init__(self, reason: str, text: str, details: Any) -> None:
        super().__init__(text)
        self.reason = reason
        self.details: dict[str, Any] = details if isinstance(details, dict) else {}


class NoServer(Refused):
    """No server that has reviews is running."""


class _Lost(Refused):
    """The connection was lost before the server answered."""


class ServerLink:
    """The connection to the server. ``about`` describes the editor to the server. ``known_as`` returns the process
    (None if unknown) and the session ("" if unknown) of an agent's connection. ``type_prompt``: the editor's method of
    that name. ``notify`` shows the user a message in the editor.
    """

    def __init__(
        self,
        reviews: Reviews,
        about: Callable[[], wire.Bridge],
        known_as: Callable[[Hashable], tuple[int | None, str]],
        type_prompt: Callable[[int, str], Awaitable[None]],
        notify: Callable[[str, Level], None],
    ) -> None:
        self._reviews = reviews
        self._about = about
        self._known_as = known_as
        self._type_prompt = type_prompt
        self._notify = notify
        self._writer: asyncio.StreamWriter | None = None
        self._sent_about: wire.Bridge | None = None
        self._open: dict[str, wire.Proposed] = {}
        self._unacknowledged: dict[str, asyncio.Future[bool]] = {}
        self._offered: set[str] = set()
        self._answered: deque[str] = deque(maxlen=ANSWERED_LIMIT)
        """The server's proposals on which the user has decided here. If such a proposal is withdrawn or offered again,
        the decision did not count."""
        self._welcome = asyncio.Event()
        """Set while a server that supports reviews is connected."""
        self._suggests = False
        """Whether the connected server supports suggestions in comments, and resolving comments."""
        self._requests: dict[str, asyncio.Future[wire.ReviewAnswer]] = {}
        self._on_review_changed: Callable[[wire.ReviewChanged | None], None] = lambda _: None

    @property
    def is_connected(self) -> bool:
        """Whether a server that supports reviews is connected."""
        return self._welcome.is_set()

    def watch(self, on_review_changed: Callable[[wire.ReviewChanged | None], None]) -> None:
        """Calls ``on_review_changed`` with each change to a review, and with None when a server connects, because any
        review may have changed."""
        self._on_review_changed = on_review_changed

    def start(self, tasks: BackgroundTasks, failed: Callable[[Exception], None]) -> asyncio.Task[None]:
        """Connects to the newest server, and reconnects, until the task is canceled. An unexpected error ends only the
        current connection. The error is logged, and ``failed`` is called."""
        return tasks.repeat(self._connect, SEARCH_SECONDS, "the connection to the agent server", failed, at_once=True)

    async def _connect(self) -> None:
        """Connects to the newest server that answers. Returns when the connection has ended, or if none answers."""
        for path in await asyncio.to_thread(private_socket.addresses):
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_unix_connection(path, limit=wire.LINE_BYTES)
                await self._serve(path, reader, writer)
                break

    def changed(self) -> None:
        """Informs the server if the editor's folders, agents or terminals have changed."""
        about = self._about()
        if self._writer is not None and about != self._sent_about:
            self._sent_about = about
            self._send(about)

    # Proposals of the bridge's own agents (``review.Arbiter``).

    def knows(self, id: str) -> bool:
        """Whether a server knows about this proposal."""
        return self._writer is not None and id in self._open

    def proposed(self, id: str, owner: Hashable, agent: str, path: str, drafted: Draft, new_text: str) -> None:
        """Reports a proposal that the editor shows. ``new_text``: the agent's text; ``drafted``: that text merged with
        unsaved changes.

        The proposal is stored while it is open, for a server that starts later. A proposal with very long text is
        neither sent nor stored. Proposals that came from the server are ignored.
        """
        if owner is self:
            return
        pid, session = self._known_as(owner)
        message = wire.Proposed(
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
            self._open[id] = message
            self._send(message)

    async def may_decide(self, id: str, text: str | None) -> bool:
        """Whether the editor's decision comes first; also True if no server knows about the proposal, or if the server
        ends or does not answer in time. ``text``: the accepted text; None if the proposal was rejected.
        """
        if not self.knows(id):
            return True
        first: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._unacknowledged[id] = first
        self._send(wire.EditorDecision(id, text))
        try:
            async with asyncio.timeout(ACK_SECONDS):
                return await first
        except TimeoutError:
            return True
        finally:
            self._unacknowledged.pop(id, None)

    def gone(self, id: str, *, settled: bool) -> None:
        if self._open.pop(id, None) is not None:
            self._send(wire.ProposalClosed(id, settled))

    # Reviews.

    async def review(self, *, project: str = "", folder: str = "", path: str = "") -> wire.ReviewAnswer:
        """Sends a ``wire.ReviewRequest`` and returns the review. Raises ``ReviewRefused``, ``NoServer``, or ``Refused``
        if the server does not answer.
        """
        return await self._request(wire.ReviewRequest(uuid.uuid4().hex, project, folder, path))

    async def change_review(
        self, line: wire.ReviewDecision | wire.ReviewComment | wire.ReviewSubmission
    ) -> wire.ReviewAnswer:
        """Sends a change and returns the review after it. If a change was made but the review could not be read after
        it, the answer has no review and ``done`` is set. If the server is restarted in the meantime, a decision or a new
        comment is sent again with the same id, and the server carries it out once. Raises ``ReviewRefused``, or
        ``Refused`` if no server answers."""
        try:
            return await self._request(line)
        except _Lost:
            is_new_comment = isinstance(line, wire.ReviewComment) and line.comment is None
            if not (is_new_comment or isinstance(line, wire.ReviewDecision)):
                raise
            try:
                async with asyncio.timeout(RESTART_SECONDS):
                    await self._welcome.wait()
            except TimeoutError:
                raise _Lost(LOST) from None
            return await self._request(line)

    async def _request(self, line: wire.ReviewLine) -> wire.ReviewAnswer:
        await self._welcomed()
        is_later = isinstance(line, wire.ReviewComment) and (line.suggestion, line.resolved) != (None, None)
        if is_later and not self._suggests:  # an older server would ignore these fields and do something else
            raise Refused(WITHOUT_SUGGESTIONS)
        answer: asyncio.Future[wire.ReviewAnswer] = asyncio.get_running_loop().create_future()
        self._requests[line.id] = answer
        self._send(line)
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                found = await answer
        except TimeoutError:
            raise Refused(NO_ANSWER) from None
        finally:
            del self._requests[line.id]
        if found.code and not found.done:
            raise ReviewRefused(found.code, found.text, msgspec.json.decode(found.details))
        return found

    async def _welcomed(self) -> None:
        """Waits until a running server is connected, because the bridge may have started only a moment ago. Raises
        ``NoServer`` if no server is running, if none answers in time, or if the server is too old for reviews.
        """
        if self._welcome.is_set():
            return
        if self._writer is None and not await asyncio.to_thread(private_socket.addresses):
            raise NoServer(NO_SERVER)
        try:
            async with asyncio.timeout(WELCOME_SECONDS):
                await self._welcome.wait()
        except TimeoutError:
            raise NoServer(NO_SERVER if self._writer is None else EARLIER) from None

    # The server.

    async def _serve(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, self._sent_about = writer, self._about()
        logger.info("connected to the agent server at %s", path)
        tasks = BackgroundTasks(logger)
        leave = partial(self._leave_for_a_newer, writer, {path})
        tasks.repeat(leave, SEARCH_SECONDS, "looking for a newer agent server")
        try:
            self._send(self._sent_about)
            for proposed in self._open.values():
                self._send(proposed)
            while line := await reader.readline():
                self._received(wire.decode_from_server(line), tasks)
        except ValueError as error:
            logger.warning("a message from the agent server is not valid: %s. The bridge will reconnect.", error)
        finally:
            await self._disconnected(tasks)

    async def _leave_for_a_newer(self, writer: asyncio.StreamWriter, passed_over: set[str]) -> None:
        """Disconnects if a newer server has started. Hooks report to the newest one, so the bridge moves there.
        ``passed_over``: the address of the connected server, and newer ones that do not answer."""
        for newer in await asyncio.to_thread(private_socket.addresses):
            if newer in passed_over:
                break
            try:
                _, probe = await asyncio.open_unix_connection(newer)
            except OSError:
                passed_over.add(newer)
                continue
            probe.close()
            writer.close()
            return

    async def _disconnected(self, tasks: BackgroundTasks) -> None:
        """Cleans up after the connection to the server is lost: fails the review requests that wait for an answer, and
        closes the views of the server's proposals. From now on, the editor alone decides on the open proposals of the
        bridge's own agents."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        self._welcome.clear()
        for answer in self._requests.values():
            if not answer.done():
                answer.set_exception(_Lost(LOST))
        for first in self._unacknowledged.values():
            if not first.done():
                first.set_result(True)
        await tasks.close()
        self._offered.clear()

    def _send(self, message: wire.FromPeer) -> None:
        if self._writer is not None:
            self._writer.write(wire.encode(message))

    def _received(self, message: wire.ToBridge, tasks: BackgroundTasks) -> None:
        match message:
            case wire.Offer():
                if message.id in self._answered:
                    self._answered.remove(message.id)
                    self._notify(NOT_ACCEPTED.format(file=os.path.basename(message.path)), "warn")
                self._offered.add(message.id)
                task = tasks.start(
                    self._show(message), f"showing {message.path}", lambda _: self._send(wire.OfferDeclined(message.id))
                )
                task.add_done_callback(lambda _: self._offered.discard(message.id))
            case wire.Withdraw(id, written):
                if id in self._answered:
                    self._answered.remove(id)
                    self._notify(TOO_LATE, "warn")
                elif id in self._offered:
                    self._reviews.withdraw(self, id, "decided elsewhere", written=written)
            case wire.ClientDecision(id, by, text):
                self._open.pop(id, None)
                self._reviews.answer(id, by, Rejected() if text is None else Accepted(text))
            case wire.Prompt():
                problem = "The prompt may not have been sent: the editor's bridge failed. Its log has the reason."
                tasks.start(
                    self._type(message), "typing a prompt", lambda _: self._send(wire.PromptFailed(message.id, problem))
                )
            case wire.Welcome():
                self._suggests = message.suggests
                self._welcome.set()
                self._on_review_changed(None)
            case wire.ReviewChanged():
                self._on_review_changed(message)
            case wire.ReviewAnswer():
                answer = self._requests.get(message.id)
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case wire.DecisionAck(id, won):
                first = self._unacknowledged.get(id)
                if first is not None and not first.done():
                    first.set_result(won)

    async def _type(self, prompt: wire.Prompt) -> None:
        try:
            await self._type_prompt(prompt.pid, prompt.text)
        except DrawbridgeError as error:
            logger.info("a prompt was not sent: %s", error)
            self._send(wire.PromptFailed(prompt.id, str(error)))
        else:
            self._send(wire.PromptSent(prompt.id))

    async def _show(self, offer: wire.Offer) -> None:
        """Shows another agent's change until it is decided, in this editor or elsewhere."""
        title = f"{os.path.basename(offer.path)} ({offer.id[-6:]})"
        try:
            decision = await self._reviews.review(
                self, offer.agent, offer.path, offer.new_text, title, key=offer.id, where=IN_A_CLIENT
            )
        except DrawbridgeError as error:
            logger.info("%s is not shown: %s", offer.path, error)
            self._send(wire.OfferDeclined(offer.id))
            return
        if isinstance(decision, Accepted | Rejected):
            self._answered.append(offer.id)
            self._send(wire.OfferAnswered(offer.id, decision.text if isinstance(decision, Accepted) else None))
