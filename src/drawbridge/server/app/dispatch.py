"""A client's command, to the one who can do it; whatever goes wrong there, as an error that a client understands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from drawbridge.core.errors import HistoryNotWritten, HistoryUnreadable, WorldError
from drawbridge.server.app import directories
from drawbridge.server.app.blobs import Blobs, no_blob, piece
from drawbridge.server.app.client import Client
from drawbridge.server.auth import audited, scopes
from drawbridge.server.events import ApprovalRequested
from drawbridge.server.notifications.push import Subscriptions
from drawbridge.server.protocol import commands as say
from drawbridge.server.protocol import messages, replies
from drawbridge.server.protocol.client_errors import ClientError, not_written
from drawbridge.server.protocol.messages import Answer
from drawbridge.server.protocol.subscriber import Subscriber
from drawbridge.server.sessions.places import allowed
from drawbridge.server.terminal_sessions.desk import PREFIX

logger = logging.getLogger("drawbridge.server")

correlation: ContextVar[str | None] = ContextVar("correlation", default=None)
"""The request that is being worked on: what its log lines and its error have in common."""

RECORD_KEPT_SECONDS: Final = 10.0

TAKE_LONG: Final = (
    say.AgentKill,
    say.AgentNewSession,
    say.BlobGet,
    say.DirList,
    say.GetMessages,
    say.ProjectDelete,
    say.RunChanges,
    say.RunRevert,
    say.SessionFork,
    say.SessionList,
    say.SessionResume,
    say.SetMode,
    say.SetModel,
)
"""Requests that others of the same client need not wait for."""


class Commands(Protocol):
    """What the core does, one method a message. Each answers with an ``Answer`` (``messages.OK`` where there is nothing to
    tell) or raises ``ClientError``. An answer that stands for a record of the history carries its ``seq``.
    """

    @property
    def modes(self) -> list[str]: ...

    async def project_create(self, command: say.ProjectCreate, client: Subscriber) -> Answer: ...
    async def project_list(self, command: say.ProjectList, client: Subscriber) -> Answer: ...
    async def project_delete(self, command: say.ProjectDelete, client: Subscriber) -> Answer: ...
    async def project_join(self, command: say.ProjectJoin, client: Subscriber) -> Answer: ...
    async def project_leave(self, command: say.ProjectLeave, client: Subscriber) -> Answer: ...
    async def get_messages(self, command: say.GetMessages, client: Subscriber) -> Answer: ...
    async def execute(self, command: say.Execute, client: Subscriber) -> Answer: ...
    async def agent_kill(self, command: say.AgentKill, client: Subscriber) -> Answer: ...
    async def agent_interrupt(self, command: say.AgentInterrupt, client: Subscriber) -> Answer: ...
    async def agent_new_session(self, command: say.AgentNewSession, client: Subscriber) -> Answer: ...
    async def run_changes(self, command: say.RunChanges, client: Subscriber) -> Answer: ...
    async def run_revert(self, command: say.RunRevert, client: Subscriber) -> Answer: ...
    async def set_mode(self, command: say.SetMode, client: Subscriber) -> Answer: ...
    async def set_model(self, command: say.SetModel, client: Subscriber) -> Answer: ...
    async def session_list(self, command: say.SessionList, client: Subscriber) -> Answer: ...
    async def session_resume(self, command: say.SessionResume, client: Subscriber) -> Answer: ...
    async def session_fork(self, command: say.SessionFork, client: Subscriber) -> Answer: ...
    async def permission_response(self, command: say.PermissionResponse, client: Subscriber) -> Answer: ...

    # besides the commands

    def follow(self, topics: Sequence[say.Topic], client: Subscriber) -> None:
        """``client`` hears of these from now on ("stats" is not the core's)."""
        ...

    def unfollow(self, topics: Sequence[say.Topic], client: Subscriber) -> None: ...

    def gone(self, client: Subscriber) -> None:
        """It is connected no more: out of every project and topic."""
        ...

    def path_of(self, project_id: str) -> Path | None:
        """Where a project is; None where there is none."""
        ...

    def question(self, project_id: str, approval_id: str) -> ApprovalRequested | None:
        """One that waits for an answer."""
        ...

    async def record(self, project_id: str, seq: int) -> bytes:
        """The line of the history, whole: what ``messages.history_blob`` names. Raises ``ClientError``."""
        ...

    def health_of(self, whole: replies.Health, sees: Callable[[Path], bool]) -> replies.Health:
        """``whole`` for somebody who may know of some projects alone."""
        ...


class Dispatch:
    """``agents``: names of those that can be run, ``that_see`` of those among them that can be given pictures. ``health`` is
    asked for its numbers. ``push``: browsers that are told.
    """

    def __init__(
        self,
        core: Commands,
        blobs: Blobs,
        roots: Sequence[Path],
        agents: Sequence[str],
        version: str,
        health: Callable[[], replies.Health],
        push: Subscriptions | None = None,
        that_see: Sequence[str] = (),
    ) -> None:
        self.ending = False
        """The server ends: nothing new is begun."""
        self._core = core
        self._blobs = blobs
        self._roots = tuple(roots)
        self._agents = list(agents)
        self._that_see = list(that_see)
        self._version = version
        self._health = health
        self._push_to = push
        self._record: tuple[str, bytes] | None = None
        self._own: Mapping[type[say.Command], Callable[[Any, Client], Awaitable[Answer]]] = {
            say.Hello: self._hello,
            say.Auth: self._log_in,
            say.Pair: self._log_in,
            say.SshChallenge: self._log_in,
            say.SshAuth: self._log_in,
            say.HealthCheck: self._health_check,
            say.Subscribe: self._subscribe,
            say.Unsubscribe: self._unsubscribe,
            say.BlobPut: self._blob_put,
            say.BlobGet: self._blob_get,
            say.DirList: self._dir_list,
            say.PushKey: self._push,
            say.PushSubscribe: self._push,
            say.PushUnsubscribe: self._push,
        }

    async def answer(self, command: say.Command, client: Client, correlation_id: str) -> Answer:
        """Raises ``ClientError`` and nothing else; a fault of ours is in the log under the correlation id."""
        correlation.set(correlation_id)
        name = say.TYPE_OF[type(command)]
        logger.debug("%s", name)
        if self.ending:
            raise ClientError("SHUTTING_DOWN", "The server is ending. Nothing was done; connect again later.")
        try:
            asked = self._check(command, client)
            own = self._own.get(type(command))
            answer: Answer = await (own or getattr(self._core, name))(command, client)
            client.note(audited.done(command, answer, asked))
            return answer
        except ClientError as error:
            client.denied(error, command)
            raise
        except (HistoryNotWritten, HistoryUnreadable) as error:
            logger.error("%s", error)
            raise not_written(error) from None
        except WorldError as error:
            logger.error("%s", error)
            text = "A file of the server's could not be read or written; its log says which. Nothing else was changed."
            raise ClientError("FILE_OPERATION", text) from None
        except Exception:
            logger.exception("a fault of ours in %s", name)
            text = "A fault of the server's own; its log says more under the correlation id."
            raise ClientError("INTERNAL_ERROR", text) from None

    def _check(self, command: say.Command, client: Client) -> ApprovalRequested | None:
        """Whether this client may do this, here: the one place where that is asked. Raises ``ClientError``.

        Gives the question that the command answers, where it is one that waits.
        """
        identity = _identity(client)
        scopes.check(identity, command)
        if isinstance(command, say.ProjectCommand):
            self._check_project(command.project_id, identity)
        if isinstance(command, say.Execute):
            client.count_prompt()
            for index, given in enumerate(command.options.add_dirs):
                if not identity.sees(_real(given)):
                    field = f"data.options.add_dirs[{index}]"
                    raise ClientError("INVALID_PATH", "There is no such directory inside the allowed ones.", field)
        if isinstance(command, say.ProjectCreate) and not identity.sees(_real(command.path)):
            raise ClientError("INVALID_PATH", "There is no such directory inside the allowed ones.", "data.path")
        if not isinstance(command, say.PermissionResponse):
            return None
        asked = self._core.question(command.project_id, command.approval_id)
        if asked is not None and not identity.may(say.Execute):
            scopes.check_answer(identity, command, asked, self._instead(command))
        return asked

    def _check_project(self, project_id: str, identity: scopes.Identity) -> None:
        if identity.projects is not None and not identity.sees(self._core.path_of(project_id)):
            raise ClientError("PROJECT_NOT_FOUND", "There is no such project.", "project_id")

    def _instead(self, command: say.PermissionResponse) -> Mapping[str, Any] | None:
        if command.updated_input_blob is not None:
            return _object(self._blobs.take(command.updated_input_blob))
        return _object(msgspec.json.encode(command.updated_input)) if command.updated_input is not None else None

    async def _hello(self, command: say.Hello, client: Client) -> Answer:
        _name(client, command.client)
        identity = _identity(client)
        return Answer(
            type="hello",
            data=replies.Hello(
                server="drawbridge",
                version=self._version,
                protocol=say.VERSION,
                client_id=client.id,
                device=replies.DeviceOf(name=client.name, scope=identity.scope, projects=identity.projects),
                agents=self._agents,
                pictures=self._that_see,
                features=sorted(name for name, command in say.COMMANDS.items() if identity.may(command)),
                limits=replies.Limits(),
                modes=self._core.modes,
            ),
        )

    async def _log_in(self, command: say.Command, client: Client) -> Answer:
        return client.log_in(command)

    async def _health_check(self, command: say.HealthCheck, client: Client) -> Answer:
        """A device that is confined to some projects is told of those."""
        health = self._health()
        identity = _identity(client)
        if identity.projects is not None:
            health = self._core.health_of(health, identity.sees)
        return Answer(type="health", data=health)

    async def _subscribe(self, command: say.Subscribe, client: Client) -> Answer:
        client.topics.update(command.topics)
        self._core.follow(command.topics, client)
        return Answer(type="subscribed", data=replies.Topics(sorted(client.topics)))

    async def _unsubscribe(self, command: say.Unsubscribe, client: Client) -> Answer:
        client.topics.difference_update(command.topics)
        self._core.unfollow(command.topics, client)
        return Answer(type="subscribed", data=replies.Topics(sorted(client.topics)))

    async def _blob_put(self, command: say.BlobPut, client: Client) -> Answer:
        identity = _identity(client)
        device = identity.device_id or identity.key
        return Answer(
            type="blob_stored",
            data=self._blobs.put(command.blob_id, command.offset, command.data, command.last, device),
        )

    async def _blob_get(self, command: say.BlobGet, client: Client) -> Answer:
        if ":" in command.blob_id:
            data = await self._whole_record(command.blob_id, client)
        else:
            data = self._blobs.take(command.blob_id)
        length = min(command.length or messages.PIECE_BYTES, messages.PIECE_BYTES)
        return Answer(type="blob", data=piece(command.blob_id, data, command.offset, length))

    async def _whole_record(self, blob_id: str, client: Client) -> bytes:
        """Kept for a moment: the next piece of it is asked for soon."""
        self._check_project(blob_id.partition(":")[0], _identity(client))
        if self._record is None or self._record[0] != blob_id:
            project_id, _, seq = blob_id.partition(":")
            if not (seq.isascii() and seq.isdigit() and len(seq) < 17):
                raise no_blob()
            kept = (blob_id, await self._core.record(project_id, int(seq)))
            self._record = kept
            asyncio.get_running_loop().call_later(RECORD_KEPT_SECONDS, self._forget, kept)
            return kept[1]
        return self._record[1]

    def _forget(self, kept: tuple[str, bytes]) -> None:
        if self._record is kept:
            self._record = None

    async def _dir_list(self, command: say.DirList, client: Client) -> Answer:
        identity = _identity(client)
        own = [Path(one) for one in identity.projects or () if allowed(Path(one), self._roots)]
        roots = list(dict.fromkeys([*filter(identity.sees, self._roots), *own]))
        return Answer(type="dir_list", data=await asyncio.to_thread(directories.listed, command.path, roots))

    async def _push(self, command: say.PushCommand, client: Client) -> Answer:
        if self._push_to is None:
            raise ClientError("NOT_SUPPORTED", "This server sends no notices to browsers. Nothing was kept.")
        return self._push_to.answer(command, _identity(client))


def takes_long(command: say.Command) -> bool:
    return isinstance(command, TAKE_LONG) or (
        isinstance(command, say.Execute) and command.project_id.startswith(PREFIX)  # typed into a terminal
    )


def _identity(client: Client) -> scopes.Identity:
    assert client.identity is not None, "who is not known asks nothing"
    return client.identity


def _object(data: bytes) -> Mapping[str, Any]:
    """What is none changes everything, as far as a scope is concerned; that it is none, the core says."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _real(path: str) -> Path | None:
    try:
        return Path(path).resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def _name(client: Client, name: str | None) -> None:
    """What a device is called its owner has said."""
    if name is not None and _identity(client).is_owner:
        logger.info("%s at %s calls itself %r", client.id, client.address, name)
        client.name = name
