"""The prompts of a managed session: accepts prompts, recognizes repeated requests, and changes waiting prompts.

A prompt is in the history before its sender gets a reply.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from drawbridge.agents import base
from drawbridge.agents.attached import is_text
from drawbridge.core.errors import BadArgument, DrawbridgeError
from drawbridge.server import events
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.sessions.conversations.current_conversation import CurrentConversation
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.options.grants import Grants
from drawbridge.server.sessions.prompts.attachments import PromptAttachments
from drawbridge.server.sessions.prompts.queue import PromptQueue
from drawbridge.server.sessions.runs.continuing import Continuing
from drawbridge.server.sessions.runs.controller import RunController
from drawbridge.server.sessions.runs.run import Order, Run, State
from drawbridge.server.sessions.session import SessionStore
from drawbridge.server.updates import converted


class Prompts:
    def __init__(
        self,
        store: SessionStore,
        disk: Disk,
        grants: Grants,
        most: int,
        queue: PromptQueue,
        attachments: PromptAttachments,
        conversation: CurrentConversation,
        continuing: Continuing,
        controller: RunController,
        show_agent: Callable[[str], None],
        publish_state: Callable[[], None],
    ) -> None:
        """``most``: the maximum number of prompts in the queue. ``show_agent`` is called when the next prompt begins a
        conversation with another agent."""
        self._store = store
        self._disk = disk
        self._grants = grants
        self._most = most
        self._queue = queue
        self._attachments = attachments
        self._conversation = conversation
        self._continuing = continuing
        self._controller = controller
        self._show_agent = show_agent
        self._publish_state = publish_state

    # Prompts that arrive.

    def send(self, order: Order, sender: Subscriber | None, *, queue: bool) -> Answer[Accepted]:
        """Accepts a prompt. It is in the history when this returns. Its run begins after the reply, or later if it has
        to wait. A request with the same ``request_id`` and prompt as an earlier one is not run again. Its reply names
        the earlier run. Raises ``ClientError`` or ``DrawbridgeError``.
        """
        known = self.accepted_before(order.request_id, order.prompt)
        if known is not None:
            return known
        seq = self.accept(order, sender, queue=queue)
        return msgspec.structs.replace(self._accepted(order.run_id, seq, order), then=self._controller.next)

    def steer(self, order: Order, sender: Subscriber | None) -> Answer[Accepted]:
        """Adds a message to the active run. It is in the history when this returns. A repeated request is not sent
        again. Raises ``ClientError`` or ``DrawbridgeError`` without changing anything."""
        known = self.accepted_before(order.request_id, order.prompt)
        if known is not None:
            return known
        run = self._controller.run
        if run is None or run.state not in (State.STARTING, State.RUNNING):
            text = "There is no active run to add the message to. Send it as a prompt."
            raise ClientError("PROCESS_NOT_FOUND", text)
        self._disk.check(self._store.data.id)
        answer: list[Answer[Accepted]] = []

        def record() -> None:
            seq = self._store.write(_recorded(order, run.id, steer=True), sender)
            answer.append(self._accepted(run.id, seq, order))

        try:
            self._controller.steer(order.prompt, order.attachments, record)
        except base.NotAtWork:
            text = (
                "The agent has not begun this run yet, or has just ended it. Try again in a moment, or queue the "
                "message."
            )
            raise ClientError("PROCESS_NOT_FOUND", text, retryable=True) from None
        except base.AgentRefused as error:
            reason = str(error).removesuffix(".")
            text = f"The message could not be added to the current run: {reason}. Queue the message instead."
            raise ClientError("NOT_SUPPORTED", text, field="data.steer") from None
        except BadArgument as error:
            raise ClientError("VALIDATION_FAILED", str(error), field="data.attachments") from None
        self._attachments.make_room(order, self.files_in_use())
        return answer[0]

    def accepted_before(self, request_id: str | None, prompt: str) -> Answer[Accepted] | None:
        """The reply to a repeated request, which is not checked again; None if the request is new."""
        known = self._store.recorded.run_of(request_id or "", prompt)
        return None if known is None else self._accepted(known)

    def accept(self, order: Order, sender: Subscriber | None, *, queue: bool) -> int | None:
        """Adds the prompt to the history and to the queue. The caller has to begin the next run afterwards. Returns
        what ``SessionStore.write`` returns for the reply to ``sender``. If this raises ``ClientError`` or
        ``DrawbridgeError``, the prompt is neither in the history nor in the queue.
        """
        is_busy = self._controller.busy
        if is_busy and not queue:
            text = "The agent is already working in this project. Queue the prompt, or try again when the agent has finished."
            raise ClientError("PROCESS_ACTIVE", text, retryable=True)
        if len(self._queue) >= self._most:
            text = "The queue of this project is full. Try again after the next run."
            raise ClientError("RESOURCE_LIMIT", text, retryable=True)
        self._disk.check(self._store.data.id)
        self._grants.granted(self._store.data.path, base.Options())
        conversation, agent = self._conversation, order.agent or self._store.data.agent
        former = conversation.snapshot(self._store.recorded.shown_title)
        changes = not is_busy and not self._controller.is_held and conversation.is_of_another(agent)
        if changes:
            conversation.change_agent(None)
        try:
            seq = self._store.write(_recorded(order, order.run_id), sender)
        except (ClientError, DrawbridgeError):
            if changes:
                conversation.restore(former)
            raise
        if changes:
            self._show_agent(agent)
        self._attachments.make_room(order, self.files_in_use())
        self._continuing.forget()
        self._queue.add(Run(order, self._store.history.last_seq))
        self._store.save()
        return seq

    def _accepted(self, run_id: str, seq: int | None = None, order: Order | None = None) -> Answer[Accepted]:
        """The reply to an accepted prompt. ``order``: its order if the prompt was accepted just now, otherwise None."""
        position = self._queue.position(run_id, behind_a_run=self._controller.run is not None)
        images = tuple(converted(image, messages.PromptImage) for image in order.images) if order else ()
        files = tuple(converted(file, messages.PromptFile) for file in order.files) if order else ()
        accepted = Accepted(run_id, position, images, files)
        return Answer(type="accepted", project_id=self._store.data.id, seq=seq, data=accepted)

    # Attachments.

    def with_stored(self, order: Order, agent: str, in_use: set[str]) -> Order:
        """Stores the order's attachments that are kept as files or images, for ``agent``. Returns the order with them.
        ``in_use``: what ``files_in_use`` returned. Raises ``ClientError`` without storing anything. Blocking."""
        known = self._grants.agents.get(agent)
        return self._attachments.store(order, known.embeds if known is not None else is_text, in_use)

    def files_in_use(self) -> set[str]:
        """The ids of files that belong to waiting or running prompts."""
        active = self._controller.run
        return {file.id for run in [*([active] if active else []), *self._queue] for file in run.order.files}

    # Prompts that wait.

    def remove(self, run_id: str, sender: Subscriber) -> None:
        """Removes a prompt from the queue. Raises ``ClientError`` if it is not in the queue, like the other methods
        that change the queue."""
        run = self._queue.find(run_id)
        title = self._store.recorded.shown_title
        self._queue.remove(run)
        self._removed(run, sender)
        self._controller.publish_queue()
        self._retitled(title)

    def remove_all(self, sender: Subscriber) -> int:
        """Removes all prompts from the queue. Returns their number."""
        waiting = self._queue.clear()
        for run in waiting:
            self._removed(run, sender)
        self._controller.publish_queue()
        return len(waiting)

    def _removed(self, run: Run, sender: Subscriber) -> None:
        """Ends a run that has not started yet. All clients are notified, including ``sender``."""
        self._controller.drop(run)
        ended = events.RunFinished(
            run_id=run.id, outcome="interrupted", duration_ms=0, removed_by=sender.name, client_id=sender.id
        )
        self._store.record(ended)

    def edit(self, run_id: str, prompt: str, sender: Subscriber) -> None:
        """Changes the text of a prompt in the queue. The new text is in the history when this returns. Raises
        ``ClientError`` or ``DrawbridgeError`` without changing anything."""
        run = self._queue.find(run_id)
        self._disk.check(self._store.data.id)
        title = self._store.recorded.shown_title
        self._store.write(events.PromptEdited(run_id, prompt, sender.name, sender.id))
        self._queue.edit(run, prompt, self._store.history.last_seq)
        self._controller.publish_queue()
        self._retitled(title)

    def move(self, run_id: str, before: str | None) -> None:
        """Moves a prompt before another one in the queue, or to the end."""
        self._queue.move(self._queue.find(run_id), None if before is None else self._queue.find(before))
        self._controller.publish_queue()

    def send_now(self, run_id: str) -> None:
        """Makes the prompt the next one, and interrupts the active run for it. A run that still waits for a slot returns
        to the queue."""
        run = self._queue.find(run_id)
        self._queue.remove(run)
        self._controller.put_back()
        self._queue.add(run, first=True)
        if self._controller.run is not None:
            self._controller.interrupt()
        self._controller.next()

    def _retitled(self, before: str) -> None:
        if self._store.recorded.shown_title != before:
            self._publish_state()


def _recorded(order: Order, run_id: str, *, steer: bool = False) -> events.PromptAccepted:
    """The record of a prompt in the run ``run_id``."""
    return events.PromptAccepted(
        run_id,
        order.prompt,
        order.by,
        order.request_id,
        tuple(attachment.name or attachment.media_type for attachment in order.attachments),
        steer=steer,
        images=order.images,
        files=order.files,
        review=order.review,
        client_id=order.client_id or None,
    )
