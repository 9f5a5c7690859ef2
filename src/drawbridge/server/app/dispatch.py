"""Executes a client's command: checks whether the client may send it, calls the handler, writes to the audit log and
reports errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import Struct

from drawbridge.core.errors import BadSetting, HistoryNotWritten, HistoryUnreadable, WorldError
from drawbridge.server.app.clients import AUTH_BYTES, Client
from drawbridge.server.app.core import Core
from drawbridge.server.auth import audited, scopes
from drawbridge.server.auth.audited import AuditEntry
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.scopes import Identity, Scope
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError, internal_error, not_written, shutting_down
from drawbridge.server.protocol.commands import Command, parse
from drawbridge.server.protocol.replies import Reply
from drawbridge.server.sessions.directories.allowed_directories import expanded

Owner = TypeVar("Owner")
C = TypeVar("C", bound=Command)
R = TypeVar("R")

logger = logging.getLogger("drawbridge.server")

correlation: ContextVar[str | None] = ContextVar("correlation", default=None)
"""The correlation id of the request that is being executed, for its log lines."""


class Row(Struct, Generic[Owner, C, R], frozen=True):
    """The definition of one command. The rows are in ``command_table``."""

    name: str
    """The command's ``type`` in messages."""
    request: type[C]
    """The type into which the ``data`` of its message is decoded."""
    scope: Scope
    """The scope that a device needs to send the command."""
    owner: type[Owner]
    handler: Callable[[Owner, C, Client], Answer[R] | Awaitable[Answer[R]]]
    """The method of ``owner`` that executes the command and returns the answer, or raises ``ClientError``."""
    reply: Reply[R]
    audit: AuditEntry[C, R] | None = None
    """The audit log entry about the command, which is written once it is done; None if the command is not audited."""
    aside: bool | Callable[[C], bool] = False
    """Whether the command runs concurrently with the client's next requests, instead of delaying them. If this is
    a function, it decides for each request."""
    signs_in: bool = False
    """Whether the command is accepted before the client has signed in. Requests that the client sends right after it
    wait until it is done."""


AnyRow = Row[Any, Any, Any]


class Dispatch:
    """Executes the commands of all clients. ``rows``: the commands that the server accepts. ``owners``: the objects
    with the handlers of these rows. Each row's ``owner`` is the type of one of these objects."""

    def __init__(self, rows: Iterable[AnyRow], core: Core, owners: Sequence[object], entrance: Entrance) -> None:
        self._ending = False
        self._core = core
        self._entrance = entrance
        self._rows: Mapping[type[Command], AnyRow] = {row.request: row for row in rows}
        self._requests: Mapping[str, type[Command]] = {row.name: row.request for row in self._rows.values()}
        self._owners = {
            request: next(owner for owner in owners if isinstance(owner, row.owner))
            for request, row in self._rows.items()
        }

    def end(self) -> None:
        """Refuses all further commands of signed-in clients (SHUTTING_DOWN), because the server is shutting down."""
        self._ending = True

    def parse(self, text: str) -> Command:
        """The command in a message. Raises ``ClientError`` if the message is not valid."""
        return parse(text, self._requests)

    def is_aside(self, command: Command) -> bool:
        aside = self._rows[type(command)].aside
        return aside if isinstance(aside, bool) else aside(command)

    async def sign_in(self, text: str, client: Client) -> tuple[Command, Answer[Any]]:
        """Executes a command from a client that has not signed in. Returns the command and its answer. Raises
        ``ClientError`` if the client must be disconnected."""
        try:
            command = self.parse(text)
        except ClientError:
            command = Command()
        row = self._rows.get(type(command))
        if row is None or not row.signs_in:
            first = f"a valid `auth`, `pair` or `ssh_challenge` message of at most {AUTH_BYTES:,} bytes"
            raise ClientError("UNAUTHORIZED", f"Not signed in. First send {first}.")
        answer = await _answered(row, self._owners[row.request], command, client)
        assert answer.then is None, f"{row.name} signs in, so its answer can't have a `then`"
        return command, answer

    async def answer(
        self, command: Command, client: Client, correlation_id: str, after_reply: contextlib.ExitStack
    ) -> Answer[Any]:
        """Executes a command. Raises only ``ClientError``: an unexpected error is logged under the correlation id and
        becomes INTERNAL_ERROR.

        ``after_reply`` receives the answer's ``then``. The caller closes it once the reply or the error has been sent.
        """
        correlation.set(correlation_id)
        row = self._rows[type(command)]
        logger.debug("%s", row.name)
        if self._ending:
            raise shutting_down()
        try:
            await self._check(row, command, client)
            answer = await _answered(row, self._owners[row.request], command, client)
            # This comes first, because the command is done, even if something fails from here on.
            if answer.then is not None:
                after_reply.callback(answer.then)
            if row.audit is not None and not row.audit.by_bus:
                fields = audited.done(row.audit, command, answer)
                self._entrance.note(row.audit.event, **client.audited, **fields)
            return answer
        except ClientError as error:
            self.denied(error, command, client)
            raise
        except (HistoryNotWritten, HistoryUnreadable) as error:
            logger.error("%s", error)
            raise not_written(error) from None
        except (WorldError, BadSetting) as error:  # BadSetting: the file with the devices is damaged
            logger.error("%s", error)
            text = "The server could not read or write one of its files. See the server's log for the reason."
            raise ClientError("FILE_OPERATION", text) from None
        except Exception:
            logger.exception("internal error in %s", row.name)
            raise internal_error() from None

    def denied(self, error: ClientError, command: Command | None, client: Client) -> None:
        """Writes a refusal to the log and the audit log, if its code is in ``audited.SECURITY``. ``command``: None if
        the message could not be parsed."""
        name = None if command is None else self._rows[type(command)].name
        fields = audited.refused(error, name, command)
        if fields is not None:
            self._entrance.denied(client.known, **client.audited, **fields)

    async def _check(self, row: AnyRow, command: Command, client: Client) -> None:
        """Raises ``ClientError`` if the client's scope, projects or rate limits do not allow this command. Prompts and
        audited commands count against the rate limits."""
        identity = client.known
        scopes.check_only(identity, command, row.name)
        scopes.check(identity, row.scope, row.name)
        if isinstance(command, commands.InProjects) and command.project_id:
            await self._core.check_sees(identity, command.project_id)
        if isinstance(command, commands.AgentInterrupt) and command.all and not identity.may(scopes.RUNS):
            raise scopes.out_of_scope(identity, scopes.RUNS, f"{row.name} with all", "data.all")
        if isinstance(command, commands.Execute | commands.ReviewSubmit):
            self._entrance.count_prompt(identity, client.address)
        elif row.audit is not None:
            self._entrance.count_change(identity, client.address)
        if isinstance(command, commands.Execute):
            for index, given in enumerate(command.options.add_dirs):
                await _check_directory(identity, given, f"data.options.add_dirs[{index}]")
        if isinstance(command, commands.ProjectCreate):
            await _check_directory(identity, expanded(command.path), "data.path")


async def _answered(row: AnyRow, owner: Any, command: Command, client: Client) -> Answer[Any]:
    """Calls the handler, which may be a coroutine function, and returns its answer."""
    answer = row.handler(owner, command, client)
    return answer if isinstance(answer, Answer) else await answer


async def _check_directory(identity: Identity, given: str, field: str) -> None:
    """Raises ``ClientError`` (INVALID_PATH) if the client may not see a project in the directory ``given``."""
    if not await asyncio.to_thread(lambda: identity.sees(_real(given), Path.resolve)):
        raise ClientError("INVALID_PATH", "The directory was not found, or this server does not allow it.", field)


def _real(path: str) -> Path | None:
    try:
        return Path(path).resolve()
    except (OSError, ValueError, RuntimeError):
        return None
