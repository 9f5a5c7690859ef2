"""The commands about files and directories: they list, read and compare the files of a session's directory, and suggest
and create directories for new projects.

Like the handlers in ``core``, each returns the answer for the client that sent the command, or raises ``ClientError``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from drawbridge.agents.base import Confinement
from drawbridge.core.privacy import Privacy
from drawbridge.server.app.core import Core
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.protocol import commands, replies
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.sessions.conversations import conversations
from drawbridge.server.sessions.directories import allowed_directories
from drawbridge.server.sessions.directories.allowed_directories import Suggested
from drawbridge.server.sessions.files import files
from drawbridge.server.sessions.files.file_changes import Comparisons
from drawbridge.server.sessions.files.file_index import FileIndexes, listed, matching
from drawbridge.server.sessions.files.files import Sources
from drawbridge.server.terminal_sessions.session import TerminalSession


class FileCommands:
    """``privacy``: the files that clients do not see. ``confinement``: the limits of the programs that are run. Call
    ``close`` at the end."""

    def __init__(self, core: Core, privacy: Privacy, confinement: Confinement) -> None:
        self._core = core
        self._privacy = privacy
        memory = core.processes.memory
        self._file_indexes = FileIndexes(confinement, memory)
        self._comparisons = Comparisons(confinement, memory)
        self._sources = Sources()

    async def close(self) -> None:
        await self._file_indexes.close()
        await self._comparisons.close()

    async def dir_create(self, command: commands.DirCreate, client: Subscriber) -> Answer[replies.DirectoryCreated]:
        projects = [session.path for session in self._core.projects]
        create = self._core.grants.directories.create
        path = await asyncio.to_thread(create, command.path, command.name, projects, client.sees)
        return Answer(type="dir_created", data=replies.DirectoryCreated(str(path)))

    async def place_list(self, command: commands.PlaceList, client: Subscriber) -> Answer[replies.Places]:
        projects = [session.path for session in self._core.projects]
        in_terminals = [
            (one.path, one.data.last_active) for one in self._core.all_sessions if isinstance(one, TerminalSession)
        ]

        def suggested() -> Suggested:
            deleted = [(Path(one.path), one.last_active) for one in self._core.projects.deleted()]
            stored = conversations.directories(self._core.grants.agents.values(), allowed_directories.MOST_RECENT)
            return allowed_directories.suggested(
                self._core.grants.directories, projects, [*in_terminals, *deleted, *stored], client.sees
            )

        found = await asyncio.to_thread(suggested)
        places = [
            *(replies.Place(path=str(path), source="recent") for path in found.recent),
            *(replies.Place(path=str(path), source="repository") for path in found.repositories),
        ]
        home = None if found.home is None else str(found.home)
        return Answer(type="place_list", data=replies.Places(places=places, home=home, more=found.more))

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

    async def piece(self, blob_id: str, offset: int, length: int, identity: Identity) -> replies.BlobPiece:
        """A part of a file that was read by a client. Raises ``ClientError``."""
        project_id, source = self._sources.of(blob_id) or ("", None)
        if source is None:
            text = "No file with this ID was read recently. Read the file again."
            raise ClientError("BLOB_NOT_FOUND", text, field="data.blob_id")
        await self._core.check_sees(identity, project_id)
        project = await self._files_of(project_id)
        data = await asyncio.to_thread(files.read_again, project, source, offset, length)
        return replies.BlobPiece(blob_id, offset, data, source.size, offset + len(data) >= source.size)

    async def _files_of(self, project_id: str) -> files.Project:
        """The files of a session's directory. Raises ``ClientError`` if they may not be read now."""
        session = await self._core.usable_session(project_id)
        root, data = await asyncio.to_thread(
            lambda: (session.path.resolve(), self._core.grants.directories.data.resolve())
        )
        return files.Project(root, data, self._privacy)
