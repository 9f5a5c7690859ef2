"""A server's core with its private socket. The test sends the messages of hooks and bridges."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.terminal_sessions.socket import private_socket as opened
from drawbridge.transport import private_socket
from tests.server.core_rig import Client, Server, serving
from tests.waiting import PATIENCE, until

Message = dict[str, Any]


class Line:
    """One connection to the private socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[Line]:
        line = cls(*await asyncio.open_unix_connection(private_socket.addresses()[0], limit=2**26))
        try:
            yield line
        finally:
            await line.close()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def send(self, **message: Any) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    def end(self) -> None:
        """Closes the sending side of the connection."""
        self._writer.write_eof()

    async def receive(self) -> Message | None:
        """Returns the next message, or None if the server has closed the connection."""
        async with asyncio.timeout(PATIENCE):
            line = await self._reader.readline()
        return json.loads(line) if line else None

    async def receives_nothing(self) -> bool:
        """Waits a moment. Returns whether no line has arrived and the connection is still open."""
        await asyncio.sleep(0.05)
        return not self._reader._buffer and not self._reader.at_eof()  # type: ignore[attr-defined]


class Session:
    """A ``claude`` in a terminal, as its hooks report it. ``pid`` must be the id of a running process. The default is
    the test's process.
    """

    def __init__(self, rig: SocketRig, cwd: Path | None = None, pid: int | None = None) -> None:
        self.id = str(uuid.uuid4())
        self.project = f"desk_{self.id}"
        self.pid = pid or os.getpid()
        self.cwd = cwd or rig.folder
        self.turn = str(uuid.uuid4())
        self.config = ""
        self.agent: Message = {}
        """The field that names the agent. The hooks of earlier versions, which only Claude Code called, do not send
        it."""
        self._rig = rig
        config = Path(os.environ["CLAUDE_CONFIG_DIR"])
        self.transcript = config / "projects" / "-ws" / f"{self.id}.jsonl"

    def at(self, rig: SocketRig) -> Session:
        """Connects the session to a server that was started later. Returns the session."""
        self._rig = rig
        return self

    def payload(self, event: str, **more: Any) -> Message:
        known = {"session_id": self.id, "cwd": str(self.cwd), "transcript_path": str(self.transcript)}
        return {**known, "permission_mode": "default", "prompt_id": self.turn, "hook_event_name": event, **more}

    async def reports(self, event: str, *, background: bool = False, **more: Any) -> None:
        """Sends the report of a hook that does not wait, and returns once the server has processed it."""
        async with Line.open() as line:
            payload = self.payload(event, **more)
            line.send(
                type="hook", pid=self.pid, payload=payload, background=background, config=self.config, **self.agent
            )
            line.end()
            assert await line.receive() is None
        await self._rig.idle()

    @contextlib.asynccontextmanager
    async def asks(
        self, tool: str = "Bash", *, more: Message | None = None, **given: Any
    ) -> AsyncIterator[tuple[Line, Message]]:
        """Opens a hook that waits. Yields its connection, and its request as the client received it. ``more``: further
        fields of the hook's report.
        """
        before = len(self._rig.questions)
        async with Line.open() as line:
            payload = self.payload("PermissionRequest", tool_name=tool, tool_input=given, **(more or {}))
            line.send(type="hook", pid=self.pid, payload=payload, **self.agent)
            await until(lambda: len(self._rig.questions) > before, "the question")
            yield line, self._rig.questions[-1]

    @contextlib.asynccontextmanager
    async def question_of(self, agent: Message, **given: Any) -> AsyncIterator[Line]:
        """Opens the hook of an agent that asks about a command. Yields its connection, without waiting for a client
        to receive the request.
        """
        async with Line.open() as line:
            payload = self.payload("PermissionRequest", tool_name="Bash", tool_input=given, **agent)
            line.send(type="hook", pid=self.pid, payload=payload, **self.agent)
            yield line

    def describes_itself(self, **facts: object) -> None:
        """Writes the file in which the CLI describes its process."""
        sessions = self.transcript.parent.parent.parent / "sessions"
        sessions.mkdir(parents=True, exist_ok=True)
        (sessions / f"{self.pid}.json").write_text(json.dumps({"pid": self.pid, "sessionId": self.id, **facts}))

    def writes(self, *lines: Message) -> None:
        """Appends lines to the file of the session's conversation."""
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        with self.transcript.open("a") as file:
            for line in lines:
                file.write(json.dumps({"uuid": str(uuid.uuid4()), "promptId": self.turn, **line}) + "\n")


class SocketRig:
    """The core, a client that follows all projects and approval requests, and the directory in which agents work."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.folder = server.root
        self.client = Client()
        server.core.follow(["projects", "approvals"], self.client)

    @property
    def questions(self) -> list[Message]:
        return [one["data"] for one in self.client.of_type("permission_request")]

    async def does(self, type: str, project: str | None = None, **data: Any) -> Message:
        return await self.server.does(self.client, type, project, **data)

    async def answers(self, question: Message, decision: str = "allow", **more: Any) -> Message:
        project = next(
            one for one in self.server.core.terminal_sessions if one.approvals.find(question["approval_id"])
        ).id
        return await self.does(
            "permission_response", project, approval_id=question["approval_id"], decision=decision, **more
        )

    async def is_open(self, question: Message) -> bool:
        return any(one.approvals.find(question["approval_id"]) for one in self.server.core.terminal_sessions)

    def withdrawn(self, question: Message) -> list[str]:
        """The reasons that clients were given for the request's withdrawal."""
        updates = self.client.updates("permission_withdrawn")
        return [one["reason"] for one in updates if one["approval_id"] == question["approval_id"]]

    async def info(self, session: Session) -> Message:
        projects = (await self.does("project_list"))["data"]["projects"]
        return next(one for one in projects if one["id"] == session.project)

    async def idle(self) -> None:
        """Returns once all reports have been processed."""
        for session in self.server.core.terminal_sessions:
            async with asyncio.timeout(PATIENCE):
                await self.server.core.terminal_sessions._reports[session].processed()

    async def refusal(self, type: str, project: str, **data: Any) -> ClientError:
        try:
            await self.does(type, project, **data)
        except ClientError as error:
            return error
        raise AssertionError(f"{type} was done")


@contextlib.asynccontextmanager
async def socket_rig(folder: Path, limits: Limits | None = None) -> AsyncIterator[SocketRig]:
    async with serving(folder, limits) as server:
        core = server.core
        async with opened(core.terminal_sessions, core.context.editors, core, server.built.reviews):
            yield SocketRig(server)


def in_editors(rig: SocketRig) -> list[tuple[str, str, dict[str, Any]]]:
    """All entries in the audit log about what was done in Neovim: the event, the editor, and the other fields except the
    session's id."""
    return [
        (entry.pop("event"), entry.pop("by"), {name: value for name, value in entry.items() if name != "project_id"})
        for entry in rig.server.audited()
        if entry["by"] == "Neovim"
    ]
