"""The commands that concern the server itself: signing in, health, topics, blobs, directories, notifications to browsers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from drawbridge.server.app.blobs import Blobs, no_blob, piece
from drawbridge.server.app.clients import Client, Clients
from drawbridge.server.app.core import Core
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.scopes import Identity, Scope
from drawbridge.server.auth.ssh_keys import NO_CERTIFICATE, challenge
from drawbridge.server.notifications.web_push import Subscriptions
from drawbridge.server.protocol import commands, messages, replies
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import Answer
from drawbridge.server.protocol.replies import OK, Directories, Nothing
from drawbridge.server.sessions import places
from drawbridge.server.sessions.places import allowed

logger = logging.getLogger("drawbridge.server")

RECORD_KEPT_SECONDS: Final = 10.0


class ServerCommands:
    """One method for each command. Each returns the reply for the client that sent it, or raises ``ClientError``.

    ``agents``: names of those that can be run, ``with_image_input`` of those among them that accept pictures. ``scopes``: of
    each command. ``health`` returns the current numbers. ``push``: None if the server sends no notifications to browsers.
    """

    def __init__(
        self,
        core: Core,
        blobs: Blobs,
        entrance: Entrance,
        clients: Clients,
        *,
        version: str,
        roots: Sequence[Path],
        agents: Sequence[str],
        scopes: Mapping[str, Scope],
        health: Callable[[], replies.Health],
        push: Subscriptions | None = None,
        with_image_input: Sequence[str] = (),
    ) -> None:
        self._core = core
        self._blobs = blobs
        self._entrance = entrance
        self._clients = clients
        self._version = version
        self._roots = tuple(roots)
        self._agents = list(agents)
        self._scopes = scopes
        self._health = health
        self._push = push
        self._that_see = list(with_image_input)
        self._record: tuple[str, bytes] | None = None

    # signing in

    def auth(self, command: commands.Auth, client: Client) -> Answer[replies.Authenticated]:
        identity = self._entrance.by_token(command.token, client.address)
        return self._authenticated(identity, client, command.client)

    def ssh_challenge(self, command: commands.SshChallenge, client: Client) -> Answer[replies.SshChallenge]:
        client.nonce = self._entrance.nonce()
        client.wait_for_signature()
        text = challenge(client.host, client.certificate, client.nonce).decode()
        given = replies.SshChallenge(client.nonce, client.host, client.certificate or NO_CERTIFICATE, text)
        return Answer(type="ssh_challenge", data=given)

    def ssh_auth(self, command: commands.SshAuth, client: Client) -> Answer[replies.Authenticated]:
        nonce, client.nonce = client.nonce, None
        identity = self._entrance.by_signature(command, nonce, client.certificate, client.address)
        return self._authenticated(identity, client, None)

    def pair(self, command: commands.Pair, client: Client) -> Answer[replies.Paired]:
        identity, token = self._entrance.by_code(command.code, command.name, client.address)
        if client.identity is None:
            self._clients.let_in(client, identity)
        device = replies.DeviceOf(name=identity.name, scope=identity.scope, projects=identity.projects)
        paired = replies.Paired(client_id=client.id, client=client.name, token=token, device=device)
        return Answer(type="paired", data=paired)

    def _authenticated(self, identity: Identity, client: Client, name: str | None) -> Answer[replies.Authenticated]:
        """A client that has signed in already keeps its identity. ``name``: the one that the owner's client chooses."""
        if client.identity is None:
            self._clients.let_in(client, identity)
        elif identity != client.identity:
            text = "The token belongs to another device. The connection stays signed in as before."
            raise ClientError("UNAUTHORIZED", text, "data.token")
        if name is not None and identity.is_owner:
            client.name = name
        return Answer(type="auth", data=replies.Authenticated(client.id, client.name))

    # the server and its topics

    async def hello(self, command: commands.Hello, client: Client) -> Answer[replies.Hello]:
        """Devices keep the name that their owner gave them; the owner's own clients choose theirs."""
        identity = client.known
        if command.client is not None and identity.is_owner:
            logger.info("%s at %s has taken the name %r", client.id, client.address, command.client)
            client.name = command.client
        return Answer(
            type="hello",
            data=replies.Hello(
                server="drawbridge",
                version=self._version,
                protocol=commands.VERSION,
                client_id=client.id,
                device=replies.DeviceOf(name=client.name, scope=identity.scope, projects=identity.projects),
                agents=self._agents,
                pictures=self._that_see,
                features=sorted(type for type, scope in self._scopes.items() if identity.may(scope)),
                limits=replies.Limits(),
                modes=self._core.modes,
            ),
        )

    async def health_check(self, command: commands.HealthCheck, client: Client) -> Answer[replies.Health]:
        """A device that is confined to some projects receives the health of those."""
        health = self._health()
        identity = client.known
        if identity.projects is not None:
            health = self._core.health_of(health, identity.sees)
        return Answer(type="health", data=health)

    async def subscribe(self, command: commands.Subscribe, client: Client) -> Answer[replies.Topics]:
        client.topics.update(command.topics)
        self._core.follow(command.topics, client)
        return Answer(type="subscribed", data=replies.Topics(sorted(client.topics)))

    async def unsubscribe(self, command: commands.Unsubscribe, client: Client) -> Answer[replies.Topics]:
        client.topics.difference_update(command.topics)
        self._core.unfollow(command.topics, client)
        return Answer(type="subscribed", data=replies.Topics(sorted(client.topics)))

    # large things, and directories to choose from

    async def blob_put(self, command: commands.BlobPut, client: Client) -> Answer[replies.BlobStored]:
        identity = client.known
        device = identity.device_id or identity.key
        stored = self._blobs.put(command.blob_id, command.offset, command.data, command.last, device)
        return Answer(type="blob_stored", data=stored)

    async def blob_get(self, command: commands.BlobGet, client: Client) -> Answer[replies.BlobPiece]:
        if ":" in command.blob_id:
            data = await self._whole_record(command.blob_id, client)
        else:
            data = await self._blobs.read(command.blob_id)
        length = min(command.length or messages.PIECE_BYTES, messages.PIECE_BYTES)
        return Answer(type="blob", data=piece(command.blob_id, data, command.offset, length))

    async def _whole_record(self, blob_id: str, client: Client) -> bytes:
        """Cached briefly, since clients download it in pieces."""
        project_id, _, seq = blob_id.partition(":")
        self._core.check_sees(client.known, project_id)
        if self._record is None or self._record[0] != blob_id:
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

    async def dir_list(self, command: commands.DirList, client: Client) -> Answer[replies.Directories]:
        identity = client.known
        own = [Path(one) for one in identity.projects or () if allowed(Path(one), self._roots)]
        roots = list(dict.fromkeys([*filter(identity.sees, self._roots), *own]))
        return Answer(type="dir_list", data=await asyncio.to_thread(listed, command.path, roots))

    # notifications to browsers

    async def push_key(self, command: commands.PushKey, client: Client) -> Answer[replies.PushKey]:
        subscriptions = self._subscriptions
        public_key = await asyncio.to_thread(lambda: subscriptions.public_key)
        return Answer(type="push_key", data=replies.PushKey(public_key))

    async def push_subscribe(self, command: commands.PushSubscribe, client: Client) -> Answer[Nothing]:
        await asyncio.to_thread(self._subscriptions.subscribe, command, client.known)
        return OK

    async def push_unsubscribe(self, command: commands.PushUnsubscribe, client: Client) -> Answer[Nothing]:
        await asyncio.to_thread(self._subscriptions.unsubscribe, command, client.known)
        return OK

    @property
    def _subscriptions(self) -> Subscriptions:
        if self._push is None:
            raise ClientError("NOT_SUPPORTED", "This server sends no notifications to browsers. Nothing was stored.")
        return self._push


MOST: Final = 1_000
"""Names in one reply."""


def listed(path: str, roots: Sequence[Path]) -> Directories:
    """Raises the same ``ClientError`` whether the path is missing, is not a directory or is not allowed."""
    if path == "":
        return Directories("", [str(root) for root in roots])
    real = places.resolve(path, roots, ())
    names: list[str] = []
    try:
        with os.scandir(real) as entries:
            for entry in entries:
                if _is_shown(entry, roots):
                    names.append(entry.name)
                    if len(names) > MOST:
                        break
    except OSError:
        raise ClientError(
            "INVALID_PATH", "The allowed directories do not contain this directory.", field="data.path"
        ) from None
    names.sort(key=str.casefold)
    return Directories(str(real), names[:MOST], len(names) > MOST)


def _is_shown(entry: os.DirEntry[str], roots: Sequence[Path]) -> bool:
    try:
        if not entry.is_dir():
            return False
        entry.name.encode()  # a name that is not valid UTF-8 can be neither sent nor requested
        real = Path(entry.path).resolve(strict=True) if entry.is_symlink() else Path(entry.path)
        return places.allowed(real, roots)
    except (OSError, RuntimeError, UnicodeEncodeError):
        return False
