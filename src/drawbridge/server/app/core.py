"""The parts of a server that concern projects and their agents, and the commands on projects and approval requests.

Each method for a command returns the answer for the client that sent it, or raises ``ClientError``. Other clients
receive the events that the command causes. The frame of an event is encoded once for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from drawbridge.agents.base import Agent, Decision
from drawbridge.agents.terminal import TerminalAgent
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.app.blobs import Blobs, json_object
from drawbridge.server.app.joining import Joining
from drawbridge.server.approvals.editors import Editors
from drawbridge.server.approvals.pending import Surface
from drawbridge.server.auth.scopes import Identity, check_answer
from drawbridge.server.bus import Bus, Handler
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git.directory import remove_left_folders
from drawbridge.server.checkpoints.unsaved import FindUnsaved, no_editors
from drawbridge.server.events import Announced, ProjectCreated, ProjectGone
from drawbridge.server.protocol import commands, messages, replies
from drawbridge.server.protocol.answers import Answer, updated
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import OK, Health, Nothing
from drawbridge.server.sessions.audience import Audience, Broadcast
from drawbridge.server.sessions.context import SessionContext
from drawbridge.server.sessions.directories.allowed_directories import AllowedDirectories
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.managed import ManagedSession
from drawbridge.server.sessions.options.ceilings import Ceilings, modes
from drawbridge.server.sessions.options.grants import Grants
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.processes.processes import AgentProcesses
from drawbridge.server.sessions.projects import Maintenance, Projects, Retention
from drawbridge.server.sessions.runs.metrics import RunMetrics, summary
from drawbridge.server.sessions.runs.runs import Runs
from drawbridge.server.sessions.session import Session, Sessions
from drawbridge.server.store.syncing import FsyncPolicy
from drawbridge.server.terminal_sessions.session import TerminalSession
from drawbridge.server.terminal_sessions.sessions import TerminalSessions

logger = logging.getLogger("drawbridge.server")

RECOVERY_SECONDS: Final = 20.0
"""The maximum number of seconds that startup waits for the recovery of interrupted decisions."""


class Decider(Subscriber, Surface, Protocol):
    """A client that has signed in and decides on an approval request."""

    @property
    def known(self) -> Identity:
        """Its identity, with its scope."""
        ...


class Core:
    """One server's projects and agents. Call ``open`` before the first command, and ``close`` after the last."""

    def __init__(
        self,
        data: Path,
        directories: AllowedDirectories,
        agents: Mapping[str, Agent],
        blobs: Blobs,
        limits: Limits,
        fsync: FsyncPolicy,
        ceilings: Ceilings,
        retention: Retention = Retention(),  # noqa: B008 - frozen
        *,
        terminal_agents: Mapping[str, TerminalAgent],
        broadcast: Broadcast,
        notices: Handler,
        audit: Handler,
        find_unsaved: FindUnsaved = no_editors,
    ) -> None:
        """``terminal_agents``: the agents with hooks that report their sessions in terminals, by name. ``broadcast`` sends
        a frame to many clients. ``notices`` and ``audit`` receive the events for notifications and for the audit log.
        """
        self.audience = Audience(broadcast)
        self.metrics = RunMetrics()
        editors = Editors(directories.leads_to)
        bus = Bus(
            clients=self.audience.published,
            editors=editors.published,
            notices=notices,
            metrics=self.metrics.published,
            audit=audit,
        )
        self.context = SessionContext(bus.publish, self.audience, editors, find_unsaved)
        self.disk = Disk(data, limits.sizes, bus.publish)
        self.grants = Grants(agents, ceilings, directories)
        self.runs = Runs(limits.runs_at_once)
        self.processes = AgentProcesses(agents, self.grants.directories, limits, data)
        memory = self.processes.memory
        self.all_sessions = Sessions(self.disk)
        self.terminal_sessions = TerminalSessions(
            data, self.context, self.disk, self.grants, limits, memory, fsync, self.all_sessions, terminal_agents
        )
        self.projects = Projects(
            data,
            self.context,
            self.disk,
            self.grants,
            self.runs,
            self.processes,
            self.metrics,
            fsync,
            self.all_sessions,
            self.terminal_sessions.open_in_terminal,
        )
        self.maintenance = Maintenance(self.disk, self.all_sessions, self.projects, retention)
        self._blobs = blobs
        self._joining = Joining(self.audience)
        self._tasks = BackgroundTasks(logger)

    async def open(self) -> None:
        await asyncio.to_thread(self.processes.running.end_leftovers)
        await asyncio.to_thread(remove_left_folders)
        await asyncio.to_thread(self.projects.load)
        await self.terminal_sessions.load()
        await self._recover()
        for session in self.projects:
            session.continuing.check_schedule()
        self.all_sessions.rebuild()
        self._show_interrupted()

    def _show_interrupted(self) -> None:
        """Updates the reviews of runs that ended with the last server, so that lists show what these runs changed."""
        ended = [session for session in self.all_sessions if session.store.was_interrupted]
        for session in {id(session.recovery): session for session in ended}.values():
            self._tasks.start(self._refresh_review(session), f"{session.id}: updating the review of an interrupted run")

    async def _refresh_review(self, session: Session) -> None:
        with contextlib.suppress(ClientError):  # the directory can't be used now
            await self.check_directory(session)
            await session.refresh_review()

    async def _recover(self) -> None:
        """Recovers the decisions on reviews that were interrupted when the last server ended, before clients are
        accepted. After ``RECOVERY_SECONDS``, recovery continues in the background. If an agent in a terminal is at
        work, files are written after its run."""
        sessions = {id(session.recovery): session for session in self.all_sessions}.values()
        due = await asyncio.to_thread(lambda: [session for session in sessions if session.recovery.is_due()])
        for session in due:
            self._tasks.start(
                self._recover_one(session), f"{session.id}: recovering an interrupted decision, revert or commit"
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RECOVERY_SECONDS):
                await self._tasks.wait()

    async def _recover_one(self, session: Session) -> None:
        try:
            await self.check_directory(session)
            await session.recovery.run()
        except (ClientError, DrawbridgeError, NoCheckpoint, GitFailed, OSError) as error:
            logger.warning(
                "%s: a decision, revert or commit was interrupted when the server ended and can't be recovered yet: %s",
                session.id,
                error,
            )

    async def close(self, reason: str) -> None:
        """Shuts down: stops the runs, ends the agent processes and closes the histories."""
        await self._joining.close()
        await self._tasks.close()
        await self.terminal_sessions.close(reason)
        await self.all_sessions.close()
        await self.projects.close(reason)

    def remove_client(self, client: Subscriber) -> None:
        """Removes a client that has disconnected. Its runs continue."""
        for session in self.all_sessions:
            self._joining.leave(session, client)
        self.audience.remove(client)

    def follow(self, topics: Sequence[commands.Topic], client: Subscriber) -> None:
        """Subscribes ``client`` to events about these topics ("stats" is handled elsewhere)."""
        self.audience.follow(topics, client)

    def unfollow(self, topics: Sequence[commands.Topic], client: Subscriber) -> None:
        self.audience.unfollow(topics, client)

    def subscriptions(self) -> int:
        """The number of subscriptions to sessions and topics, without the "stats" topic."""
        return len(self.audience)

    def problems(self) -> list[str]:
        """The server's problems, as human-readable sentences without paths."""
        return [*self.projects.problems(), *self.disk.problems()]

    def states(self) -> dict[str, messages.State]:
        return {session.id: session.state for session in self.projects}

    def health_of(self, whole: Health, identity: Identity) -> Health:
        """The part of ``whole`` that a device confined to some projects may see."""
        directories = self.grants.directories
        seen = [session for session in self.projects if identity.sees(session.path, directories.leads_to)]
        problems = [problem for session in seen if (problem := directories.last_problem(session.path))]
        return msgspec.structs.replace(
            whole,
            status="degraded" if problems else "ok",
            projects=len(seen),
            running=sum(session.state == "EXECUTING" for session in seen),
            problems=problems,
            subscriptions=sum(len(self.audience.all_joined(session.id)) for session in seen),
            runs=summary(self.metrics.of(session.id) for session in seen),
        )

    def path_of(self, project_id: str) -> Path | None:
        """The session's directory; None if the session does not exist."""
        session = self.all_sessions.find(project_id)
        return None if session is None else session.path

    def leads_to(self, path: Path) -> Path:
        """See ``AllowedDirectories.leads_to``."""
        return self.grants.directories.leads_to(path)

    async def examine(self) -> None:
        """See ``Projects.examine``."""
        await self.projects.examine()

    def sees(self, identity: Identity, project_id: str) -> bool:
        """Whether the client may see the session, based on where the session's directory last led. If the session does
        not exist, True only for a client that may see all projects."""
        return identity.sees(self.path_of(project_id), self.leads_to)

    async def check_sees(self, identity: Identity, project_id: str) -> None:
        """Raises ``ClientError`` (PROJECT_NOT_FOUND) if the client is confined to some projects and this project is not
        among them or does not exist."""
        path = self.path_of(project_id)
        if identity.projects is not None and path is not None:
            await self.grants.directories.examine(path)
        if not self.sees(identity, project_id):
            raise ClientError("PROJECT_NOT_FOUND", "The project does not exist.", "project_id")

    def asks(self, agent: str) -> bool:
        """Whether the agent with this name can ask for approval."""
        return self.grants.asks(agent)

    async def usable_session(self, project_id: str) -> Session:
        """Returns a session of either kind. Raises ``ClientError`` if it does not exist, or its directory may not be
        used now."""
        session = self.all_sessions.get(project_id)
        await self.check_directory(session)
        return session

    async def usable_managed(self, project_id: str) -> ManagedSession:
        """Returns a project. Raises ``ClientError`` if it does not exist, or its directory may not be used now."""
        session = self.projects.get(project_id)
        await self.check_directory(session)
        return session

    async def check_directory(self, session: Session) -> None:
        """Raises ``ClientError`` if the session's directory may not be used now."""
        try:
            await self.grants.check_directory(session.path)
        finally:
            session.directory_examined()

    # Projects.

    async def project_create(
        self, command: commands.ProjectCreate, client: Subscriber
    ) -> Answer[messages.ProjectState]:
        session = await self.projects.create(command.path, command.agent)
        if command.join:
            self.audience.join(session.id, client)
        # Clients that follow all projects are notified. The client that creates the project gets its state in the reply
        # instead, as the specification shows.
        session.store.announce(ProjectCreated(session.summary()), client)
        return updated("project_state", session.shown(), session.id)

    async def project_list(self, command: commands.ProjectList, client: Subscriber) -> Answer[replies.ProjectList]:
        await self.projects.examine()
        seen = [session.info() for session in self.all_sessions if client.sees(session.path)]
        return Answer(type="project_list", data=replies.ProjectList(seen))

    async def project_delete(
        self, command: commands.ProjectDelete, client: Subscriber
    ) -> Answer[replies.ProjectDeleted]:
        data = replies.ProjectDeleted(command.project_id, success=True)
        session = self.all_sessions.get(command.project_id)
        if isinstance(session, TerminalSession):
            await self.terminal_sessions.forget(session)
        else:
            await self._delete(self.projects.get(session.id))
        return Answer(type="project_deleted", project_id=session.id, data=data)

    async def _delete(self, session: ManagedSession) -> None:
        try:
            await self.projects.delete(session)
        finally:
            if self.all_sessions.find(session.id) is not session:  # also true if the project's data could not be moved
                gone = ProjectGone(session.id, str(session.path))
                self.context.publish(Announced(session.id, session.path, gone))

    async def project_join(self, command: commands.ProjectJoin, client: Subscriber) -> Answer[messages.ProjectJoined]:
        await self.all_sessions.get(command.project_id).restore_agent_state()
        session = self.all_sessions.get(command.project_id)  # the session may have been deleted in the meantime
        snapshot = self._joining.join(session, client, command.after_seq)
        return updated("project_joined", snapshot, session.id)

    async def project_leave(self, command: commands.ProjectLeave, client: Subscriber) -> Answer[Nothing]:
        self._joining.leave(self.all_sessions.get(command.project_id), client)
        return OK

    def offers(self, type: str) -> bool:
        """Whether this server accepts messages of this type. Some types are accepted only if the owner allows
        them.
        """
        ceilings = self.grants.ceilings
        return {"review_commit": ceilings.commits, "review_push": ceilings.pushes}.get(type, True)

    @property
    def modes(self) -> list[str]:
        """The modes that ``set_mode`` accepts, in addition to an agent's own modes."""
        return modes(self.grants.ceilings)

    async def permission_response(
        self, command: commands.PermissionResponse, client: Decider
    ) -> Answer[messages.PermissionResolved]:
        """Carries out a decision on an approval request, if it is open and the client's scope allows the decision."""
        edited = await self._edited_input(command, client)
        session = self.all_sessions.get(command.project_id)
        approval = session.approvals.get(command.approval_id)
        decision = Decision(command.decision == "allow", command.message, edited, command.remember)
        check_answer(client.known, decision, approval.request)
        return await session.decide(approval, decision, client)

    async def _edited_input(self, command: commands.PermissionResponse, client: Decider) -> dict[str, Any] | None:
        """The edited input of a decision, from the message or from a blob; None if it has none. Raises
        ``ClientError``."""
        if command.updated_input_blob is not None:
            field = "data.updated_input_blob"
            data = await self._blobs.read(command.updated_input_blob, client.device, field)
            return await asyncio.to_thread(json_object, data, field)
        if command.updated_input is not None:
            commands.check_depth(command.updated_input, "data.updated_input")
        return command.updated_input
