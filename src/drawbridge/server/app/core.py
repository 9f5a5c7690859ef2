"""The parts of a server that concern projects and their agents, and the commands on them, except those about reviews.

Each method for a command returns the answer for the client that sent it, or raises ``ClientError``. Other clients
receive the events that the command causes. The frame of an event is encoded once for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.agents import catalog
from drawbridge.agents.base import Agent, AgentUnusable, Attachment, Decision, Options
from drawbridge.agents.terminal import TerminalAgent
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.privacy import Privacy
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.app.blobs import Blobs, json_object, no_blob
from drawbridge.server.app.joining import Joining
from drawbridge.server.approvals.editors import Editors
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.bus import Bus, Handler
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git_directory import remove_left_folders
from drawbridge.server.checkpoints.unsaved import FindUnsaved, no_editors
from drawbridge.server.events import Announced, ApprovalRequested, ProjectCreated, ProjectGone
from drawbridge.server.protocol import commands, frames, messages, replies
from drawbridge.server.protocol.answers import Answer, updated
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import OK, Health, Nothing
from drawbridge.server.sessions import allowed_directories, conversations, exporting, files, timeline
from drawbridge.server.sessions.allowed_directories import AllowedDirectories
from drawbridge.server.sessions.audience import Audience, Broadcast
from drawbridge.server.sessions.ceilings import Ceilings, check_allowed, checked_mode, checked_model, day_of, modes
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.file_changes import Comparisons
from drawbridge.server.sessions.file_index import FileIndexes, listed, matching
from drawbridge.server.sessions.files import Sources
from drawbridge.server.sessions.grants import Grants
from drawbridge.server.sessions.limits import Limits
from drawbridge.server.sessions.managed import ManagedSession
from drawbridge.server.sessions.metrics import RunMetrics, summary
from drawbridge.server.sessions.processes import AgentProcesses
from drawbridge.server.sessions.projects import Maintenance, Projects, Retention
from drawbridge.server.sessions.run import Order
from drawbridge.server.sessions.runs import Runs
from drawbridge.server.sessions.searching import Searching, no_session
from drawbridge.server.sessions.session import Session, Sessions
from drawbridge.server.sessions.surfaces import Surfaces
from drawbridge.server.store.search import Part
from drawbridge.server.store.syncing import FsyncPolicy
from drawbridge.server.terminal_sessions.session import TerminalSession
from drawbridge.server.terminal_sessions.sessions import TerminalSessions

logger = logging.getLogger("drawbridge.server")

RECOVERY_SECONDS: Final = 20.0
"""The maximum number of seconds that startup waits for the recovery of interrupted decisions."""

COUNTING_SECONDS: Final = 2.0
"""The maximum number of seconds that the ``usage`` command waits for the runs in older histories to be counted."""

_NO_WISH = msgspec.structs.asdict(Options())


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
        privacy: Privacy = Privacy(),  # noqa: B008 - never changed
        broadcast: Broadcast,
        notices: Handler,
        audit: Handler,
        find_unsaved: FindUnsaved = no_editors,
    ) -> None:
        """``terminal_agents``: the agents with hooks that report their sessions in terminals, by name. ``privacy``: the
        files that clients do not see. ``broadcast`` sends a frame to many clients. ``notices`` and ``audit`` receive
        the events for notifications and for the audit log."""
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
        self.surfaces = Surfaces(bus.publish, self.audience, editors, find_unsaved)
        self.disk = Disk(data, limits.sizes, bus.publish)
        self.grants = Grants(agents, ceilings, directories)
        self.runs = Runs(limits.runs_at_once)
        self.processes = AgentProcesses(agents, self.grants.directories, limits, data)
        memory = self.processes.memory
        self.all_sessions = Sessions(self.disk)
        self.terminal_sessions = TerminalSessions(
            data, self.surfaces, self.disk, self.grants, limits, memory, fsync, self.all_sessions, terminal_agents
        )
        self.projects = Projects(
            data,
            self.surfaces,
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
        self.searching = Searching(self.all_sessions)
        self._blobs = blobs
        self._joining = Joining(self.audience)
        self._file_indexes = FileIndexes(limits.confinement, memory)
        self._comparisons = Comparisons(limits.confinement, memory)
        self._sources = Sources()
        self._privacy = privacy
        self._tasks = BackgroundTasks(logger)
        self._counting: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await asyncio.to_thread(self.processes.running.end_leftovers)
        await asyncio.to_thread(remove_left_folders)
        await asyncio.to_thread(self.projects.load)
        self.terminal_sessions.load()
        await self._recover()
        for session in self.projects:
            session.continuing.check_schedule()
        self.all_sessions.rebuild()

    async def _recover(self) -> None:
        """Recovers the decisions on reviews that were interrupted when the last server ended, before clients are
        accepted. After ``RECOVERY_SECONDS``, recovery continues in the background. If an agent in a terminal is at
        work, files are written after its run."""
        sessions = {id(session.recovery): session for session in self.all_sessions}.values()
        due = await asyncio.to_thread(lambda: [session for session in sessions if session.recovery.is_due()])
        for session in due:
            self._tasks.start(self._recover_one(session), f"{session.id}: recovering a decision")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RECOVERY_SECONDS):
                await self._tasks.wait()

    async def _recover_one(self, session: Session) -> None:
        try:
            await self.check_directory(session)
            await session.recovery.run()
        except (ClientError, DrawbridgeError, NoCheckpoint, GitFailed, OSError) as error:
            logger.warning("%s: a decision was interrupted, and can't be recovered now: %s", session.id, error)

    async def close(self, reason: str) -> None:
        """Shuts down: stops the runs, ends the agent processes and closes the histories."""
        await self._joining.close()
        await self._file_indexes.close()
        await self._comparisons.close()
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

    def approval_request(self, project_id: str, approval_id: str) -> ApprovalRequested | None:
        """The approval request with this id; None if it is not open. Raises ``ClientError`` if the project does not
        exist."""
        approval = self.all_sessions.get(project_id).approvals.find(approval_id)
        return approval.request if approval is not None else None

    async def record(self, project_id: str, seq: int) -> bytes:
        """The complete line of one record in a history. Clients request it with the id from ``frames.history_blob``.
        Raises ``ClientError``."""
        page = await self.all_sessions.get(project_id).store.read(after_seq=seq - 1, limit=1)
        if not page.records or page.records[0].seq != seq:
            raise ClientError("BLOB_NOT_FOUND", "The history does not contain this record.", field="data.blob_id")
        return page.records[0].line

    async def prompt_image(self, project_id: str, id: str) -> bytes:
        """An image that is referred to by a prompt in the history. Raises ``ClientError``."""
        data = await asyncio.to_thread(self.projects.get(project_id).attachments.images.read, id)
        if data is None:
            raise ClientError("BLOB_NOT_FOUND", "The history no longer contains this image.", field="data.blob_id")
        return data

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
            if isinstance(session, ManagedSession):
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
            if self.all_sessions.find(session.id) is not session:  # also if its data could not be moved
                gone = ProjectGone(session.id, str(session.path))
                self.surfaces.publish(Announced(session.id, session.path, gone))

    async def project_join(self, command: commands.ProjectJoin, client: Subscriber) -> Answer[messages.ProjectJoined]:
        await self.all_sessions.get(command.project_id).restore_agent_state()
        session = self.all_sessions.get(command.project_id)  # it may have been deleted in the meantime
        snapshot = self._joining.join(session, client, command.after_seq)
        return updated("project_joined", snapshot, session.id)

    async def project_leave(self, command: commands.ProjectLeave, client: Subscriber) -> Answer[Nothing]:
        self._joining.leave(self.all_sessions.get(command.project_id), client)
        return OK

    async def get_messages(self, command: commands.GetMessages, client: Subscriber) -> Answer[replies.History]:
        """If only ``since`` or no field is set, returns the bare array that the specification defines, unless there are
        too many records for one reply. Otherwise, returns a page.
        """
        session = self.all_sessions.get(command.project_id)
        paged = command.after_seq is not None or command.before_seq is not None or command.limit is not None
        page = await session.store.read(
            after_seq=command.after_seq,
            before_seq=command.before_seq,
            since=command.since,
            limit=command.limit or 1_000,
            max_bytes=messages.FRAME_BYTES // 2,
        )
        shown = tuple(frames.history_record(record.line, session.id, record.seq) for record in page.records)
        if not paged and not page.has_more:
            return Answer(type="message_history", project_id=session.id, data=shown)
        backwards = command.before_seq is not None and command.after_seq is None
        end = page.records[0 if backwards else -1].seq if page.records else None
        first = session.history.first_seq
        data = replies.HistoryPage(shown, end if page.has_more else None, page.has_more, first)
        return Answer(type="message_history", project_id=session.id, data=data)

    # The sessions in the histories.

    def _searched(self, project_id: str, client: Subscriber) -> list[Session]:
        """The sessions with histories that a command from this client covers: one, or all that the client may see."""
        if project_id:
            return [self.all_sessions.get(project_id)]
        return [session for session in self.all_sessions if client.sees(session.path)]

    async def sessions(self, command: commands.Sessions, client: Subscriber) -> Answer[replies.SessionsFound]:
        found = await self.searching.entries(self._searched(command.project_id, client), command.limit)
        return Answer(type="sessions", project_id=command.project_id or None, data=found)

    async def search(self, command: commands.Search, client: Subscriber) -> Answer[replies.SearchResults]:
        found = await self.searching.search(self._searched(command.project_id, client), command)
        return Answer(type="search", project_id=command.project_id or None, data=found)

    async def session_messages(
        self, command: commands.SessionMessages, client: Subscriber
    ) -> Answer[replies.SessionMessagesPage]:
        session = self.all_sessions.get(command.project_id)
        agent, parts = await self._conversation(session, command.session_id, client)
        page = await timeline.page(session, parts, agent, command.session_id, command.before, command.limit)
        return Answer(type="session_messages", project_id=session.id, data=page)

    async def _conversation(
        self, session: Session, key: str, client: Subscriber
    ) -> tuple[Agent | None, Sequence[Part]]:
        """The session's agent (None for a terminal session, or if the client may not see what the agent itself has
        stored), and the parts of the whole history. Raises ``ClientError`` if neither contains the conversation
        ``key``."""
        # The history of a terminal session is already a copy of the agent's transcript.
        shows_more = client.runs and not isinstance(session, TerminalSession)
        agent = self.grants.agents.get(session.data.agent) if shows_more else None
        parts = await self.searching.all_parts(session)
        if not any(part.key == key for part in parts) and not await asyncio.to_thread(
            conversations.stored, agent, session.path, key
        ):
            raise no_session()
        return agent, parts

    async def session_export(self, command: commands.SessionExport, client: Subscriber) -> Answer[replies.SessionPiece]:
        session = self.all_sessions.get(command.project_id)
        if command.session_id is None:
            agent, stretches = None, [timeline.Stretch("", Part(1, session.history.last_seq))]
        else:
            agent, parts = await self._conversation(session, command.session_id, client)
            stretches = timeline.stretches(parts, command.session_id)
        waited = await self.searching.waited(session) if command.format == "markdown" else {}
        piece = await exporting.piece(session, stretches, agent, waited, command.format, command.after)
        return Answer(type="session_export", project_id=session.id, data=piece)

    async def session_rename(
        self, command: commands.SessionRename, client: Subscriber
    ) -> Answer[messages.SessionRenamed]:
        session = self.all_sessions.get(command.project_id)
        if command.session_id != session.recorded.session_key:
            await self.searching.parts(session, command.session_id)
        session.store.check_there()
        return session.rename(command.session_id, command.name, client)

    async def session_delete(
        self, command: commands.SessionDelete, client: Subscriber
    ) -> Answer[messages.SessionDeleted]:
        session = self.projects.get(command.project_id)
        session.check_at_rest()
        agent = self.grants.agents.get(session.data.agent)
        kept = await asyncio.to_thread(conversations.stored, agent, session.path, command.session_id)
        every = await self.searching.all_parts(session)
        parts = [part for part in every if part.key == command.session_id]
        if not parts:
            if not kept:
                raise no_session()
            text = (
                "The session can't be deleted: only the agent has a record of it, and Drawbridge does not delete the "
                "records of agents."
            )
            raise ClientError("NOT_SUPPORTED", text, "data.session_id")
        trash = await asyncio.to_thread(self.projects.trash_file, session)
        is_current = parts[-1] is every[-1]
        return await session.delete_session(parts, client, trash, is_current=is_current, agent_copy=kept)

    async def dir_create(self, command: commands.DirCreate, client: Subscriber) -> Answer[replies.DirectoryCreated]:
        projects = [session.path for session in self.projects]
        create = self.grants.directories.create
        path = await asyncio.to_thread(create, command.path, command.name, projects, client.sees)
        return Answer(type="dir_created", data=replies.DirectoryCreated(str(path)))

    async def place_list(self, command: commands.PlaceList, client: Subscriber) -> Answer[replies.Places]:
        projects = [session.path for session in self.projects]
        in_terminals = [
            (one.path, one.data.last_active) for one in self.all_sessions if isinstance(one, TerminalSession)
        ]

        def suggested() -> replies.Places:
            deleted = [(Path(one.path), one.last_active) for one in self.projects.deleted()]
            stored = conversations.directories(self.grants.agents.values(), allowed_directories.MOST_RECENT)
            return allowed_directories.suggested(
                self.grants.directories, projects, [*in_terminals, *deleted, *stored], client.sees
            )

        return Answer(type="place_list", data=await asyncio.to_thread(suggested))

    async def usage(self, command: commands.Usage, client: Subscriber) -> Answer[replies.Usage]:
        since = day_of(datetime.now(UTC) - timedelta(days=command.days - 1))
        uncounted = [session for session in self.projects if not session.recorded.usage_complete]
        if uncounted and self._counting is None:
            self._counting = self._tasks.start(_count_usage(uncounted), "counting the runs of older histories")
            self._counting.add_done_callback(lambda _: self._counted())
        if self._counting is not None:
            await asyncio.wait([self._counting], timeout=COUNTING_SECONDS)
        rows = [
            replies.UsageRow(day=day, project_id=session.id, path=str(session.path), **msgspec.structs.asdict(used))
            for session in self.projects
            if client.sees(session.path)
            for day, used in session.recorded.usage.items()
            if day >= since
        ]
        rows.sort(key=lambda row: (row.day, row.cost_usd), reverse=True)
        return Answer(type="usage", data=replies.Usage(since, rows, complete=self._counting is None))

    def _counted(self) -> None:
        self._counting = None

    # Files.

    async def file_list(self, command: commands.FileList, client: Subscriber) -> Answer[replies.FileEntries]:
        project = await self._files_of(command.project_id)
        if command.query is None:
            found = await listed(project, command.path, self._file_indexes)
        else:
            found = await matching(project, command.path, command.query, command.limit, self._file_indexes)
        return Answer(type="file_list", project_id=command.project_id, data=found)

    async def file_read(self, command: commands.FileRead, client: Subscriber) -> Answer[replies.FileContent]:
        project = await self._files_of(command.project_id)
        kept = partial(self._sources.kept, command.project_id)
        content = await asyncio.to_thread(files.read, project, command.path, kept)
        return Answer(type="file_read", project_id=command.project_id, data=content)

    async def file_changes(self, command: commands.FileChanges, client: Subscriber) -> Answer[replies.FileChanges]:
        project = await self._files_of(command.project_id)
        changes = await self._comparisons.of(project, command.path)
        return Answer(type="file_changes", project_id=command.project_id, data=changes)

    async def file_piece(self, blob_id: str, offset: int, length: int, identity: Identity) -> replies.BlobPiece:
        """A part of a file that was read by a client. Raises ``ClientError``."""
        project_id, source = self._sources.of(blob_id) or ("", None)
        if source is None:
            raise no_blob()
        await self.check_sees(identity, project_id)
        project = await self._files_of(project_id)
        data = await asyncio.to_thread(files.read_again, project, source, offset, length)
        return replies.BlobPiece(blob_id, offset, data, source.size, offset + len(data) >= source.size)

    async def _files_of(self, project_id: str) -> files.Project:
        """The files of a session's directory. Raises ``ClientError`` if they may not be read now."""
        session = await self.usable_session(project_id)
        root, data = await asyncio.to_thread(lambda: (session.path.resolve(), self.grants.directories.data.resolve()))
        return files.Project(root, data, self._privacy)

    # Runs.

    async def execute(self, command: commands.Execute, client: Subscriber) -> Answer[replies.Accepted]:
        session = self.all_sessions.get(command.project_id)
        if isinstance(session, TerminalSession):
            return await self.terminal_sessions.execute(session, command, client, session.within_limits)
        managed = self.projects.get(session.id)
        known = managed.prompts.accepted_before(command.request_id, command.prompt)
        if known is not None:
            return known
        await self.check_directory(managed)
        if command.steer and (command.agent is not None or command.options != commands.Options()):
            text = "A message to the active run can't change the agent or its options."
            raise ClientError("VALIDATION_FAILED", text, field="data.steer")
        if command.agent is not None and command.agent not in self.grants.agents:
            raise ClientError(
                "AGENT_NOT_FOUND", "This server does not have an agent with that name.", field="data.agent"
            )
        attachments = [
            Attachment(one.media_type, await self._blobs.read(one.blob_id, client.device), one.name)
            for one in command.attachments
        ]
        if not command.steer:
            await managed.settle()  # this may abandon a conversation, and with it the mode that applies to this prompt
        options = msgspec.structs.asdict(command.options)
        wishes = {name: value for name, value in options.items() if value != _NO_WISH[name]}
        order = Order(
            run_id=f"run_{uuid.uuid4().hex[:16]}",
            prompt=command.prompt,
            by=client.name,
            client_id=client.id,
            request_id=command.request_id,
            agent=command.agent,
            options=await self.allowed_options(wishes, managed, command.agent or managed.data.agent),
            wishes=frozenset(wishes),
            attachments=tuple(attachments),
        )
        if not attachments:
            return await self._execute(managed, order, command, client)
        agent = managed.options.agent if command.steer else command.agent or managed.data.agent
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

    async def allowed_options(self, wishes: Mapping[str, Any], session: ManagedSession, agent: str) -> Options:
        """The settings of a run: what the client requests, otherwise the project's defaults; always within the
        ceilings. Raises ``ClientError`` as ``ceilings.within`` does."""
        asked = msgspec.structs.replace(session.options.usual(agent), **wishes)
        if not asked.add_dirs:
            return self.grants.within(asked, agent)

        def resolved() -> Options:
            found = self.grants.within(asked, agent)
            # Resolved now, so that a link that is changed while the run waits does not lead the run elsewhere.
            return msgspec.structs.replace(found, add_dirs=tuple(str(Path(path).resolve()) for path in found.add_dirs))

        return await asyncio.to_thread(resolved)

    async def agent_kill(self, command: commands.AgentKill, client: Subscriber) -> Answer[messages.ExecutionKilled]:
        return await self.projects.get(command.project_id).kill(client)

    async def agent_interrupt(self, command: commands.AgentInterrupt, client: Subscriber) -> Answer[Nothing]:
        session = self.projects.get(command.project_id)
        if command.schedule and command.all:
            text = "`all` and `schedule` can't be combined: a schedule is canceled only while nothing runs or waits."
            raise ClientError("VALIDATION_FAILED", text, field="data.schedule")
        if command.schedule:
            session.cancel_schedule()
        elif command.all:
            session.interrupt_all(client)
        else:
            session.interrupt()
        return OK

    async def queue_remove(self, command: commands.QueueRemove, client: Subscriber) -> Answer[Nothing]:
        self.projects.get(command.project_id).prompts.remove(command.run_id, client)
        return OK

    async def queue_edit(self, command: commands.QueueEdit, client: Subscriber) -> Answer[Nothing]:
        self.projects.get(command.project_id).prompts.edit(command.run_id, command.prompt, client)
        return OK

    async def queue_move(self, command: commands.QueueMove, client: Subscriber) -> Answer[Nothing]:
        self.projects.get(command.project_id).prompts.move(command.run_id, command.before)
        return OK

    async def queue_send_now(self, command: commands.QueueSendNow, client: Subscriber) -> Answer[Nothing]:
        self.projects.get(command.project_id).prompts.send_now(command.run_id)
        return OK

    async def agent_new_session(
        self, command: commands.AgentNewSession, client: Subscriber
    ) -> Answer[messages.SessionReset]:
        return await self.projects.get(command.project_id).new_session(client)

    async def review_image(self, project_id: str, blob: str) -> bytes:
        """A version of an image that the review shows. Raises ``ClientError``."""
        session = await self.usable_session(project_id)
        with git_errors():
            data = await session.review_image(blob, files.LARGEST_IMAGE)
        if files.image_type(data[:64]) is None:
            text = "The file can't be shown: it has an image's file extension but is not an image."
            raise ClientError("FILE_UNSUPPORTED", text, field="data.blob_id")
        return data

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

    async def set_mode(self, command: commands.SetMode, client: Subscriber) -> Answer[Nothing]:
        session = self.projects.get(command.project_id)
        own_modes = self.grants.has_own_modes(session.data.agent)
        mode = checked_mode(self.grants.ceilings, command.mode, "data.mode", own_modes=own_modes)
        await session.set_options(permission_mode=mode)
        return OK

    async def set_model(self, command: commands.SetModel, client: Subscriber) -> Answer[Nothing]:
        session = self.projects.get(command.project_id)
        model = checked_model(self.grants.ceilings, command.model, "data.model")
        await session.set_options(model=model)
        return OK

    async def set_effort(self, command: commands.SetEffort, client: Subscriber) -> Answer[Nothing]:
        session = self.projects.get(command.project_id)
        session.offers.check_effort(command.effort)
        await session.set_options(effort=command.effort)
        return OK

    # Conversations.

    async def session_list(self, command: commands.SessionList, client: Subscriber) -> Answer[replies.SessionList]:
        session = await self.usable_managed(command.project_id)
        agent, current = self.grants.agents.get(session.data.agent), session.recorded.session_id
        try:
            found = await conversations.listed(agent, session.path, current, command.limit)
        except AgentUnusable as error:
            raise ClientError(error.code, str(error)) from None
        return Answer(type="session_list", project_id=session.id, data=replies.SessionList(found))

    async def session_resume(self, command: commands.SessionResume, client: Subscriber) -> Answer[Nothing]:
        return await self._continue(command.project_id, command.session_id, fork=False)

    async def session_fork(self, command: commands.SessionFork, client: Subscriber) -> Answer[Nothing]:
        session = self.projects.get(command.project_id)
        return await self._continue(session.id, command.session_id or session.recorded.session_id, fork=True)

    async def _continue(self, project_id: str, session_id: str, *, fork: bool) -> Answer[Nothing]:
        session = await self.usable_managed(project_id)
        agent = self.grants.agents.get(session.data.agent)
        if fork and agent is not None and not agent.forks:
            text = f"{catalog.title(agent.name)} can't fork a conversation. Resume it instead."
            raise ClientError("NOT_SUPPORTED", text, field="data.session_id")
        self.terminal_sessions.check_agent(session_id, session.data.agent)
        if not await asyncio.to_thread(conversations.known, agent, session.path, session_id):
            raise ClientError("SESSION_NOT_FOUND", "The agent does not have this conversation for this directory.")
        if not fork:
            await self._check_unused(session, agent, session_id)
        title = await asyncio.to_thread(conversations.title, agent, session.path, session_id)
        await session.resume(session_id, title, fork=fork)
        return OK

    async def _check_unused(self, session: ManagedSession, agent: Agent | None, session_id: str) -> None:
        """Raises ``ClientError`` if another process or session has the conversation open, because both would write to
        the same transcript."""
        users = await asyncio.to_thread(conversations.used_by, agent, session_id, session.pids)
        others = [other for other in self.all_sessions if other is not session and other.is_using(session_id)]
        if users or others:
            in_terminal = any(isinstance(other, TerminalSession) for other in others)
            where = "in a terminal" if in_terminal else "in another project" if others else "in another process"
            raise ClientError("SESSION_IN_USE", conversations.in_use(agent, where), field="data.session_id")

    async def with_input(self, command: commands.PermissionResponse, client: Subscriber) -> commands.PermissionResponse:
        """The decision with its ``updated_input``, checked, in place of the blob that contains it. Nobody can replace
        it between the scope check and the decision. Raises ``ClientError``."""
        if command.updated_input_blob is None:
            if command.updated_input is not None:
                commands.check_depth(command.updated_input, "data.updated_input")
            return command
        data = await self._blobs.read(command.updated_input_blob, client.device)
        edited = await asyncio.to_thread(json_object, data, "data.updated_input_blob")
        return msgspec.structs.replace(command, updated_input=edited, updated_input_blob=None)

    async def permission_response(
        self, command: commands.PermissionResponse, client: Subscriber
    ) -> Answer[messages.PermissionResolved]:
        """Carries out a decision on an approval request. ``command`` is the result of ``with_input``."""
        assert command.updated_input_blob is None, "the agent would receive its own input"
        decision = Decision(command.decision == "allow", command.message, command.updated_input, command.remember)
        session = self.all_sessions.get(command.project_id)
        approval = session.approvals.find(command.approval_id)
        if approval is not None and decision.allow:
            check = partial(
                check_allowed, self.grants.ceilings, approval.call, decision.remember, self.grants.directories.usable
            )
            if decision.remember:  # it may name directories
                await asyncio.to_thread(check)
            else:
                check()
        return session.decide(command.approval_id, decision, client)


async def _count_usage(projects: Sequence[ManagedSession]) -> None:
    for session in projects:
        try:
            await session.store.count_usage()
        except (ClientError, DrawbridgeError) as error:
            logger.warning("the runs of %s can't be counted: %s", session.id, error)


@contextlib.contextmanager
def git_errors(field: str | None = None) -> Iterator[None]:
    """Turns an error of git or of the disk, and a missing checkpoint, into a ``ClientError``. ``field``: the field of
    the command that names the checkpoint; None if it names none."""
    try:
        yield
    except (NoCheckpoint, GitFailed, OSError) as error:
        if not isinstance(error, NoCheckpoint):
            logger.error("%s", error)
        what = "git" if isinstance(error, GitFailed) else "A file operation"
        text = str(error) if isinstance(error, NoCheckpoint) else f"{what} failed. See the server's log for the reason."
        raise ClientError("CHECKPOINT_NOT_FOUND", text, field=field) from None
