"""The commands that start and control the runs of a project, choose its options, and continue the agent's conversations.

Like the handlers in ``core``, each returns the answer for the client that sent the command, or raises ``ClientError``.
"""

from __future__ import annotations

import asyncio
import uuid

import msgspec

from drawbridge.agents import catalog
from drawbridge.agents.base import Agent, AgentUnusable, Attachment, Options
from drawbridge.server.app.blobs import Blobs
from drawbridge.server.app.core import Core
from drawbridge.server.protocol import commands, messages, replies
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import OK, Nothing
from drawbridge.server.sessions.conversations import conversations
from drawbridge.server.sessions.managed import ManagedSession
from drawbridge.server.sessions.options.ceilings import checked_mode, checked_model
from drawbridge.server.sessions.runs.run import Order
from drawbridge.server.terminal_sessions.session import TerminalSession

_NO_WISH = msgspec.structs.asdict(Options())


class RunCommands:
    """``blobs``: the files that clients have uploaded for prompts."""

    def __init__(self, core: Core, blobs: Blobs) -> None:
        self._core = core
        self._blobs = blobs

    async def execute(self, command: commands.Execute, client: Subscriber) -> Answer[replies.Accepted]:
        session = self._core.all_sessions.get(command.project_id)
        if isinstance(session, TerminalSession):
            return await self._core.terminal_sessions.execute(session, command, client, session.within_limits)
        managed = self._core.projects.get(session.id)
        known = managed.prompts.accepted_before(command.request_id, command.prompt)
        if known is not None:
            return known
        await self._core.check_directory(managed)
        if command.steer and (command.agent is not None or command.options != commands.Options()):
            text = "A message to the active run can't change the agent or its options."
            raise ClientError("VALIDATION_FAILED", text, field="data.steer")
        if command.agent is not None and command.agent not in self._core.grants.agents:
            raise ClientError(
                "AGENT_NOT_FOUND", "This server does not have an agent with that name.", field="data.agent"
            )
        attachments = [
            Attachment(one.media_type, await self._blobs.read(one.blob_id, client.device, "data.attachments"), one.name)
            for one in command.attachments
        ]
        if not command.steer:
            await managed.settle()  # may abandon the conversation, and with it the mode that would apply to this prompt
        options = msgspec.structs.asdict(command.options)
        wishes = {name: value for name, value in options.items() if value != _NO_WISH[name]}
        agent = command.agent or managed.data.agent
        # What the client requests, otherwise the project's defaults
        requested = msgspec.structs.replace(managed.options.usual(agent), **wishes)
        order = Order(
            run_id=f"run_{uuid.uuid4().hex[:16]}",
            prompt=command.prompt,
            by=client.name,
            client_id=client.id,
            request_id=command.request_id,
            agent=command.agent,
            options=await self._core.grants.resolved(requested, agent),
            wishes=frozenset(wishes),
            attachments=tuple(attachments),
        )
        if not attachments:
            return await self._execute(managed, order, command, client)
        agent = managed.options.agent if command.steer else agent
        async with managed.attachments.storing:
            in_use = managed.prompts.files_in_use()
            order = await asyncio.to_thread(managed.prompts.with_stored, order, agent, in_use)
            is_used = False
            try:
                answer = await self._execute(managed, order, command, client)
                is_used = command.steer or answer.data.run_id == order.run_id
            finally:
                if not is_used:
                    await asyncio.to_thread(managed.attachments.discard, order)
        return answer

    async def _execute(
        self, session: ManagedSession, order: Order, command: commands.Execute, client: Subscriber
    ) -> Answer[replies.Accepted]:
        if command.steer:
            return session.prompts.steer(order, client)
        await session.settle()  # from here on, nothing may be awaited until the prompt is accepted
        return session.prompts.send(order, client, queue=command.queue)

    async def agent_kill(self, command: commands.AgentKill, client: Subscriber) -> Answer[messages.ExecutionKilled]:
        return await self._core.projects.get(command.project_id).kill(client)

    async def agent_interrupt(self, command: commands.AgentInterrupt, client: Subscriber) -> Answer[Nothing]:
        session = self._core.projects.get(command.project_id)
        if command.schedule and command.all:
            text = (
                "`all` and `schedule` can't be combined: a schedule can be canceled only while nothing is running or "
                "waiting."
            )
            raise ClientError("VALIDATION_FAILED", text, field="data.schedule")
        if command.schedule:
            session.cancel_schedule()
        elif command.all:
            session.interrupt_all(client)
        else:
            session.interrupt()
        return OK

    async def queue_remove(self, command: commands.QueueRemove, client: Subscriber) -> Answer[Nothing]:
        self._core.projects.get(command.project_id).prompts.remove(command.run_id, client)
        return OK

    async def queue_edit(self, command: commands.QueueEdit, client: Subscriber) -> Answer[Nothing]:
        self._core.projects.get(command.project_id).prompts.edit(command.run_id, command.prompt, client)
        return OK

    async def queue_move(self, command: commands.QueueMove, client: Subscriber) -> Answer[Nothing]:
        self._core.projects.get(command.project_id).prompts.move(command.run_id, command.before)
        return OK

    async def queue_send_now(self, command: commands.QueueSendNow, client: Subscriber) -> Answer[Nothing]:
        self._core.projects.get(command.project_id).prompts.send_now(command.run_id)
        return OK

    async def agent_new_session(
        self, command: commands.AgentNewSession, client: Subscriber
    ) -> Answer[messages.SessionReset]:
        return await self._core.projects.get(command.project_id).new_session(client)

    async def set_mode(self, command: commands.SetMode, client: Subscriber) -> Answer[Nothing]:
        session = self._core.projects.get(command.project_id)
        own_modes = self._core.grants.has_own_modes(session.data.agent)
        mode = checked_mode(self._core.grants.ceilings, command.mode, "data.mode", own_modes=own_modes)
        await session.set_options(permission_mode=mode)
        return OK

    async def set_model(self, command: commands.SetModel, client: Subscriber) -> Answer[Nothing]:
        session = self._core.projects.get(command.project_id)
        model = checked_model(self._core.grants.ceilings, command.model, "data.model")
        await session.set_options(model=model)
        return OK

    async def set_effort(self, command: commands.SetEffort, client: Subscriber) -> Answer[Nothing]:
        session = self._core.projects.get(command.project_id)
        session.offers.check_effort(command.effort)
        await session.set_options(effort=command.effort)
        return OK

    # Conversations of the agent.

    async def session_list(self, command: commands.SessionList, client: Subscriber) -> Answer[replies.SessionList]:
        session = await self._core.usable_managed(command.project_id)
        agent, current = self._core.grants.agents.get(session.data.agent), session.recorded.session_id
        try:
            found = await conversations.listed(agent, session.path, command.limit)
        except AgentUnusable as error:
            raise ClientError(error.code, str(error)) from None
        listed = [
            replies.SessionInfo(
                session_id=one.session_id,
                last_active=conversations.time_of(one.last_active),
                title=one.title,
                current=one.session_id == current,
            )
            for one in found
        ]
        return Answer(type="session_list", project_id=session.id, data=replies.SessionList(listed))

    async def session_resume(self, command: commands.SessionResume, client: Subscriber) -> Answer[Nothing]:
        return await self._continue(command.project_id, command.session_id, fork=False)

    async def session_fork(self, command: commands.SessionFork, client: Subscriber) -> Answer[Nothing]:
        session = self._core.projects.get(command.project_id)
        return await self._continue(session.id, command.session_id or session.recorded.session_id, fork=True)

    async def _continue(self, project_id: str, session_id: str, *, fork: bool) -> Answer[Nothing]:
        session = await self._core.usable_managed(project_id)
        agent = self._core.grants.agents.get(session.data.agent)
        if fork and agent is not None and not agent.forks:
            text = f"{catalog.title(agent.name)} can't fork a conversation. Resume the conversation instead."
            raise ClientError("NOT_SUPPORTED", text, field="data.session_id")
        if fork and not session_id:
            raise ClientError("SESSION_NOT_FOUND", "The project does not have a conversation to fork yet.")
        self._core.terminal_sessions.check_agent(session_id, session.data.agent)
        if not await asyncio.to_thread(conversations.known, agent, session.path, session_id):
            raise ClientError("SESSION_NOT_FOUND", "The agent has no such conversation in this directory.")
        if not fork:
            await self._check_unused(session, agent, session_id)
        title = await asyncio.to_thread(conversations.title, agent, session.path, session_id)
        await session.resume(session_id, title, fork=fork)
        return OK

    async def _check_unused(self, session: ManagedSession, agent: Agent | None, session_id: str) -> None:
        """Raises ``ClientError`` if another process or session has the conversation open, because both would write to
        the same transcript."""
        users = await asyncio.to_thread(conversations.used_by, agent, session_id, session.pids)
        others = [other for other in self._core.all_sessions if other is not session and other.is_using(session_id)]
        if users or others:
            in_terminal = any(isinstance(other, TerminalSession) for other in others)
            if others and not in_terminal:
                text = conversations.in_use(agent, "in another project", "Start a new session there")
            else:
                text = conversations.in_use(agent, "in a terminal" if in_terminal else "in another process")
            raise ClientError("SESSION_IN_USE", text, field="data.session_id")
