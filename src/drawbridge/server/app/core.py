"""The commands that concern projects and their agents: the only layer between the sockets and the sessions.

Each method for a command returns the answer for the client that sent it, or raises ``ClientError``. What concerns other
clients is sent to them by the project, as one frame for all.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from drawbridge.agents.base import Agent, AgentUnusable, Attachment, Decision, Options
from drawbridge.server.app.blobs import Blobs, json_object
from drawbridge.server.app.joining import Joining
from drawbridge.server.approvals.editors import Editors
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.events import Announced, ApprovalRequested, Bus, Handler, ProjectCreated, ProjectGone
from drawbridge.server.protocol import commands, messages, replies
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import Answer, Subscriber
from drawbridge.server.protocol.replies import OK, Health, Nothing
from drawbridge.server.sessions import conversations
from drawbridge.server.sessions.audience import Audience, Broadcast
from drawbridge.server.sessions.ceilings import Ceilings, check_allowed, checked_mode, checked_model, modes
from drawbridge.server.sessions.context import Context, Limits
from drawbridge.server.sessions.git import GitFailed, NoCheckpoint
from drawbridge.server.sessions.managed import ManagedSession
from drawbridge.server.sessions.metrics import RunMetrics, summary
from drawbridge.server.sessions.projects import Maintenance, Projects, Retention
from drawbridge.server.sessions.run import Order
from drawbridge.server.sessions.session import Sessions
from drawbridge.server.store.log import FsyncPolicy
from drawbridge.server.terminal_sessions.session import TerminalSession
from drawbridge.server.terminal_sessions.sessions import TerminalSessions

logger = logging.getLogger("drawbridge.server")

_NO_WISH = msgspec.structs.asdict(Options())


class Core:
    """One server's projects and agents. ``open`` before the first command, ``close`` after the last."""

    def __init__(
        self,
        data: Path,
        roots: Sequence[Path],
        agents: Mapping[str, Agent],
        blobs: Blobs,
        limits: Limits,
        fsync: FsyncPolicy,
        ceilings: Ceilings,
        retention: Retention = Retention(),  # noqa: B008 - frozen
        *,
        broadcast: Broadcast,
        notices: Handler,
        audit: Handler,
    ) -> None:
        """``broadcast`` sends a frame to many clients. ``notices`` and ``audit`` receive their events."""
        self.audience = Audience(broadcast)
        self.metrics = RunMetrics()
        editors = Editors()
        bus = Bus(
            clients=self.audience.published,
            editors=editors.published,
            notices=notices,
            metrics=self.metrics.published,
            audit=audit,
        )
        self.context = Context(agents, limits, ceilings, data, roots, bus.publish, self.audience, self.metrics, editors)
        self.sessions = Sessions(self.context)
        self.terminal_sessions = TerminalSessions(data, self.context, fsync, self.sessions)
        open_in_terminal = self.terminal_sessions.open_in_terminal
        self.projects = Projects(data, self.context, fsync, self.sessions, open_in_terminal)
        self.maintenance = Maintenance(self.context, self.sessions, self.projects, retention)
        self._blobs = blobs
        self._joining = Joining(self.audience)

    async def open(self) -> None:
        await asyncio.to_thread(self.context.running.end_leftovers)
        await asyncio.to_thread(self.projects.load)
        for project in self.projects:
            project.continuing.look()
        self.terminal_sessions.load()
        self.sessions.rebuild()

    async def close(self, reason: str) -> None:
        """Shuts down: stops the runs, ends the agent processes and closes the histories."""
        await self._joining.close()
        await self.terminal_sessions.close(reason)
        await self.sessions.close()
        await self.projects.close(reason)

    def gone(self, client: Subscriber) -> None:
        """Removes a client that has disconnected. Its runs continue."""
        for session in self.sessions:
            self._joining.leave(session, client)
        self.audience.gone(client)

    def follow(self, topics: Sequence[commands.Topic], client: Subscriber) -> None:
        """Sends ``client`` events about these topics from now on ("stats" is handled elsewhere)."""
        self.audience.follow(topics, client)

    def unfollow(self, topics: Sequence[commands.Topic], client: Subscriber) -> None:
        self.audience.unfollow(topics, client)

    def subscriptions(self) -> int:
        """The number of subscriptions to projects and topics."""
        return len(self.audience)

    def problems(self) -> list[str]:
        """Problems as sentences for people, without paths."""
        return [*self.projects.problems(), *self.context.disk.problems()]

    def states(self) -> dict[str, messages.State]:
        return {project.id: project.state for project in self.projects}

    def health_of(self, whole: Health, sees: Callable[[Path], bool]) -> Health:
        """The part of ``whole`` that a device confined to some projects may see."""
        seen = [project for project in self.projects if sees(project.path)]
        problems = [problem for project in seen if (problem := self.context.places.problem(project.path))]
        return msgspec.structs.replace(
            whole,
            status="degraded" if problems else "ok",
            projects=len(seen),
            running=sum(project.state == "EXECUTING" for project in seen),
            problems=problems,
            subscriptions=sum(len(self.audience.all_joined(project.id)) for project in seen),
            runs=summary(self.metrics.of(project.id) for project in seen),
        )

    def path_of(self, project_id: str) -> Path | None:
        """The session's directory; None if the session does not exist."""
        session = self.sessions.find(project_id)
        return None if session is None else session.path

    def check_sees(self, identity: Identity, project_id: str) -> None:
        """Raises ``ClientError`` (PROJECT_NOT_FOUND) if the client is confined to other projects."""
        if identity.projects is not None and not identity.sees(self.path_of(project_id)):
            raise ClientError("PROJECT_NOT_FOUND", "The project does not exist.", "project_id")

    def question(self, project_id: str, approval_id: str) -> ApprovalRequested | None:
        """The open approval. Raises ``ClientError`` if it is not open."""
        approval = self.sessions.get(project_id).approvals.find(approval_id)
        return approval.request if approval is not None else None

    async def record(self, project_id: str, seq: int) -> bytes:
        """One whole line of a history, which ``messages.history_blob`` refers to."""
        page = await self.sessions.get(project_id).store.read(after_seq=seq - 1, limit=1)
        if not page.records or page.records[0].seq != seq:
            raise ClientError("BLOB_NOT_FOUND", "The history has no such record.", field="data.blob_id")
        return page.records[0].line

    def _in_place(self, project_id: str) -> ManagedSession:
        """A project whose directory may be read and written now. Raises ``ClientError``."""
        project = self.projects.get(project_id)
        self.context.check_place(project.path, "Nothing was done.")
        return project

    # Projects.

    async def project_create(
        self, command: commands.ProjectCreate, client: Subscriber
    ) -> Answer[messages.ProjectState]:
        project = await self.projects.create(command.path, command.agent)
        if command.join:
            self.audience.join(project.id, client)
        # Clients that follow all projects are notified; the one that asked has it in the reply, as the specification shows.
        project.store.announce(ProjectCreated(project.info()), client)
        return messages.updated("project_state", project.shown(), project.id)

    async def project_list(self, command: commands.ProjectList, client: Subscriber) -> Answer[replies.ProjectList]:
        seen = [session.info() for session in self.sessions if client.sees(session.path)]
        return Answer(type="project_list", data=replies.ProjectList(seen))

    async def project_delete(
        self, command: commands.ProjectDelete, client: Subscriber
    ) -> Answer[replies.ProjectDeleted]:
        data = replies.ProjectDeleted(command.project_id, success=True)
        session = self.sessions.get(command.project_id)
        if isinstance(session, TerminalSession):
            await self.terminal_sessions.forget(session)
        else:
            await self._delete(self.projects.get(session.id))
        return Answer(type="project_deleted", project_id=session.id, data=data)

    async def _delete(self, project: ManagedSession) -> None:
        try:
            await self.projects.delete(project)
        finally:
            if self.sessions.find(project.id) is not project:  # even if its data could not be moved
                gone = ProjectGone(project.id, str(project.path))
                self.context.publish(Announced(project.id, project.path, gone))

    async def project_join(self, command: commands.ProjectJoin, client: Subscriber) -> Answer[messages.ProjectJoined]:
        project = self.sessions.get(command.project_id)
        snapshot = self._joining.join(project, client, command.after_seq)
        return messages.updated("project_joined", snapshot, project.id)

    async def project_leave(self, command: commands.ProjectLeave, client: Subscriber) -> Answer[Nothing]:
        self._joining.leave(self.sessions.get(command.project_id), client)
        return OK

    async def get_messages(self, command: commands.GetMessages, client: Subscriber) -> Answer[replies.History]:
        """With ``since`` alone the specification's bare array, if it fits into a frame; otherwise a page."""
        project = self.sessions.get(command.project_id)
        paged = command.after_seq is not None or command.before_seq is not None or command.limit is not None
        page = await project.store.read(
            after_seq=command.after_seq,
            before_seq=command.before_seq,
            since=command.since,
            limit=command.limit or 1_000,
            max_bytes=messages.FRAME_BYTES // 2,
        )
        shown = tuple(messages.history_record(record.line, project.id, record.seq) for record in page.records)
        if not paged and not page.has_more:
            return Answer(type="message_history", project_id=project.id, data=shown)
        backwards = command.before_seq is not None and command.after_seq is None
        end = page.records[0 if backwards else -1].seq if page.records else None
        first = project.history.first_seq
        data = replies.HistoryPage(shown, end if page.has_more else None, page.has_more, first)
        return Answer(type="message_history", project_id=project.id, data=data)

    # Runs.

    async def execute(self, command: commands.Execute, client: Subscriber) -> Answer[replies.Accepted]:
        session = self.sessions.get(command.project_id)
        if isinstance(session, TerminalSession):
            return await self.terminal_sessions.execute(session, command, client, lambda: self._as_a_run(session))
        project = self.projects.get(session.id)
        known = project.accepted_before(command.request_id, command.prompt)
        if known is not None:
            return known
        if command.agent is not None and command.agent not in self.context.agents:
            raise ClientError("AGENT_NOT_FOUND", "The server does not run an agent of that name.", field="data.agent")
        attachments = [
            Attachment(one.media_type, await self._blobs.read(one.blob_id), one.name) for one in command.attachments
        ]
        order = Order(
            run_id=f"run_{uuid.uuid4().hex[:16]}",
            prompt=command.prompt,
            by=client.name,
            request_id=command.request_id,
            agent=command.agent,
            options=self._allowed(command.options, project.data.options, command.agent or project.data.agent),
            attachments=tuple(attachments),
        )
        return project.execute(order, client, queue=command.queue)

    def _as_a_run(self, session: TerminalSession) -> bool:
        """Checks the command line of the agent against the ceilings of a run. Raises ``ClientError`` with the reason."""
        path, now = str(session.path), Options(permission_mode=session.permission_mode or "default")
        return self.context.places.usable(path) and self._allowed(now, Options(), "claude") == self.context.granted(
            path, now
        )

    def _allowed(self, options: Options, usual: Options, agent: str) -> Options:
        """The settings of a run: each as the client requests it, or else the project's default; never above the ceilings."""
        wishes = {name: value for name, value in msgspec.structs.asdict(options).items() if value != _NO_WISH[name]}
        asked = msgspec.structs.replace(usual, **wishes)
        found = self.context.within(asked, agent)
        # Resolved now, so that a link that is changed while the run waits does not lead the run elsewhere.
        return msgspec.structs.replace(found, add_dirs=tuple(str(Path(path).resolve()) for path in found.add_dirs))

    async def agent_kill(self, command: commands.AgentKill, client: Subscriber) -> Answer[messages.ExecutionKilled]:
        return await self.projects.get(command.project_id).kill(client)

    async def agent_interrupt(self, command: commands.AgentInterrupt, client: Subscriber) -> Answer[Nothing]:
        self.projects.get(command.project_id).interrupt()
        return OK

    async def agent_new_session(
        self, command: commands.AgentNewSession, client: Subscriber
    ) -> Answer[messages.SessionReset]:
        return await self.projects.get(command.project_id).new_session(client)

    async def run_changes(self, command: commands.RunChanges, client: Subscriber) -> Answer[replies.RunChanges]:
        project = self._in_place(command.project_id)
        try:
            changes = await project.checkpoints.changes(command.run_id)
        except (NoCheckpoint, GitFailed, OSError) as error:
            raise _no_checkpoint(error) from None
        return Answer(type="run_changes", project_id=project.id, data=changes)

    async def run_revert(self, command: commands.RunRevert, client: Subscriber) -> Answer[messages.RunReverted]:
        try:
            return await self._in_place(command.project_id).revert(command.run_id, client)
        except (NoCheckpoint, GitFailed, OSError) as error:
            raise _no_checkpoint(error) from None

    @property
    def modes(self) -> list[str]:
        """The modes that ``set_mode`` accepts."""
        return modes(self.context.ceilings)

    async def set_mode(self, command: commands.SetMode, client: Subscriber) -> Answer[Nothing]:
        project = self.projects.get(command.project_id)
        own_modes = self.context.has_own_modes(project.data.agent)
        mode = checked_mode(self.context.ceilings, command.mode, "data.mode", own_modes=own_modes)
        await project.set_options(permission_mode=mode)
        return OK

    async def set_model(self, command: commands.SetModel, client: Subscriber) -> Answer[Nothing]:
        project = self.projects.get(command.project_id)
        model = checked_model(self.context.ceilings, command.model, "data.model")
        await project.set_options(model=model)
        return OK

    # Conversations.

    async def session_list(self, command: commands.SessionList, client: Subscriber) -> Answer[replies.SessionList]:
        project = self._in_place(command.project_id)
        agent, current = self.context.agents.get(project.data.agent), project.memory.session_id
        try:
            found = await conversations.listed(agent, project.path, current, command.limit)
        except AgentUnusable as error:
            raise ClientError(error.code, str(error)) from None
        return Answer(type="session_list", project_id=project.id, data=replies.SessionList(found))

    async def session_resume(self, command: commands.SessionResume, client: Subscriber) -> Answer[Nothing]:
        return await self._continue(command.project_id, command.session_id, fork=False)

    async def session_fork(self, command: commands.SessionFork, client: Subscriber) -> Answer[Nothing]:
        project = self.projects.get(command.project_id)
        return await self._continue(project.id, command.session_id or project.memory.session_id, fork=True)

    async def _continue(self, project_id: str, session_id: str, *, fork: bool) -> Answer[Nothing]:
        project = self._in_place(project_id)
        agent = self.context.agents.get(project.data.agent)
        if not await asyncio.to_thread(conversations.known, agent, project.path, session_id):
            raise ClientError("SESSION_NOT_FOUND", "The agent has no such conversation for this directory.")
        if not fork:
            await self._check_unused(project, agent, session_id)
        await project.resume(session_id, fork=fork)
        return OK

    async def _check_unused(self, project: ManagedSession, agent: Agent | None, session_id: str) -> None:
        """Raises ``ClientError`` if another process has the conversation open: both would write the same record."""
        users = await asyncio.to_thread(conversations.used_by, agent, session_id, project.pids)
        others = [other for other in self.sessions if other is not project and other.is_using(session_id)]
        if users or others:
            in_terminal = any(isinstance(other, TerminalSession) for other in others)
            where = "in a terminal" if in_terminal else "in another project" if others else "in another process"
            text = f"This conversation is open {where}. Close it there, or fork it (session_fork). Nothing was changed."
            raise ClientError("SESSION_IN_USE", text, field="data.session_id")

    async def permission_response(
        self, command: commands.PermissionResponse, client: Subscriber
    ) -> Answer[messages.PermissionResolved]:
        updated = None
        if command.updated_input is not None:
            updated = json_object(msgspec.json.encode(command.updated_input), "data.updated_input")
        if command.updated_input_blob is not None:
            updated = json_object(self._blobs.take(command.updated_input_blob), "data.updated_input_blob")
        decision = Decision(command.decision == "allow", command.message, updated, command.remember)
        project = self.sessions.get(command.project_id)
        approval = project.approvals.find(command.approval_id)
        if approval is not None and decision.allow:
            question = approval.request
            check_allowed(
                self.context.ceilings,
                question.tool_name,
                question.suggestions,
                decision.remember,
                self.context.places.usable,
            )
        return project.decide(command.approval_id, decision, client)


def _no_checkpoint(error: NoCheckpoint | GitFailed | OSError) -> ClientError:
    if not isinstance(error, NoCheckpoint):
        logger.error("%s", error)
    text = str(error) if isinstance(error, NoCheckpoint) else "git failed. The server's log has the reason."
    return ClientError("CHECKPOINT_NOT_FOUND", text, field="data.run_id")
