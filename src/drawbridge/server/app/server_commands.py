"""The commands that concern the server itself: signing in, health, topics, blobs, directories, devices, agents, and
notifications to browsers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from drawbridge.agents import catalog, efforts, modes, registry
from drawbridge.agents.registry import Program
from drawbridge.core.errors import BadArgument
from drawbridge.server.app.blobs import Blobs, piece
from drawbridge.server.app.clients import Client, Clients
from drawbridge.server.app.core import Core
from drawbridge.server.app.file_commands import FileCommands
from drawbridge.server.app.history_commands import HistoryCommands
from drawbridge.server.app.review_commands import ReviewCommands
from drawbridge.server.auth.access import is_local
from drawbridge.server.auth.devices import CODE_LIFETIME, NAME_RULE, Devices, new_code, now, pairing_link, qr_modules
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.scopes import Identity, Scope
from drawbridge.server.auth.ssh_keys import NO_CERTIFICATE, challenge
from drawbridge.server.notifications.web_push import Subscription, Subscriptions
from drawbridge.server.protocol import commands, messages, replies
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.replies import OK, Directories, Nothing
from drawbridge.server.reviews.messages import IMAGE
from drawbridge.server.sessions.directories import allowed_directories
from drawbridge.server.sessions.directories.allowed_directories import allowed
from drawbridge.server.sessions.files.files import PREFIX as FILE_PREFIX
from drawbridge.server.sessions.metadata import instant

logger = logging.getLogger("drawbridge.server")

RECORD_KEPT_SECONDS: Final = 10.0


class ServerCommands:
    """One method for each command, which returns the reply for the client that sent the command, or raises
    ``ClientError``.

    ``agents``: the names of the server's agents, installed or not; ``with_image_input``: those that accept images;
    ``with_forks``: those whose conversations can be forked. ``scopes``: the scope of each command. ``health`` returns
    the server's health. ``push``: None if the server does not send notifications to browsers. ``push_test`` sends a
    test notification, and returns the problem if there is one. ``machine``: the server's host name. ``devices``: None
    if the server does not accept devices. ``addresses`` returns the web UI's addresses for other machines, the best one
    first, and ``programs`` the agents' programs; both may block.
    """

    def __init__(
        self,
        core: Core,
        files: FileCommands,
        reviews: ReviewCommands,
        histories: HistoryCommands,
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
        push_test: Callable[[Subscription], Awaitable[str | None]] | None = None,
        with_image_input: Sequence[str] = (),
        with_forks: Sequence[str] = (),
        devices: Devices | None = None,
        addresses: Callable[[], Sequence[str]] = tuple,
        machine: str = "",
        programs: Callable[[], Mapping[str, Program]] = dict,
    ) -> None:
        self._core = core
        self._files = files
        self._reviews = reviews
        self._histories = histories
        self._blobs = blobs
        self._entrance = entrance
        self._clients = clients
        self._version = version
        self._roots = tuple(roots)
        self._agents = list(agents)
        self._scopes = scopes
        self._health = health
        self._push = push
        self._push_test = push_test
        self._with_image_input = list(with_image_input)
        self._with_forks = list(with_forks)
        self._devices = devices
        self._addresses = addresses
        self._machine = machine
        self._programs = programs
        self._record: tuple[str, bytes] | None = None

    # signing in

    def auth(self, command: commands.Auth, client: Client) -> Answer[replies.Authenticated]:
        identity = self._entrance.by_token(command.token, client.address)
        return self._authenticated(identity, client, command.client, "data.token")

    def ssh_challenge(self, command: commands.SshChallenge, client: Client) -> Answer[replies.SshChallenge]:
        nonce = self._entrance.nonce(client.address)
        client.wait_for_signature(nonce)
        text = challenge(client.host, client.certificate, nonce).decode()
        given = replies.SshChallenge(nonce, client.host, client.certificate or NO_CERTIFICATE, text)
        return Answer(type="ssh_challenge", data=given)

    async def ssh_auth(self, command: commands.SshAuth, client: Client) -> Answer[replies.Authenticated]:
        nonce = client.take_nonce()
        identity = await self._entrance.by_signature(command, nonce, client.certificate, client.address)
        return self._authenticated(identity, client, None, "data.signature")

    async def pair(self, command: commands.Pair, client: Client) -> Answer[replies.Paired]:
        if client.identity is not None:
            text = "This connection is already signed in, so the code was not used. Use it on another device."
            raise ClientError("UNAUTHORIZED", text, "data.code")
        identity, token = await self._entrance.by_code(command.code, command.name, client.address)
        self._clients.let_in(client, identity)
        device = replies.DeviceOf(name=identity.name, scope=identity.scope, projects=identity.projects)
        paired = replies.Paired(client_id=client.id, client=client.name, token=token, device=device)
        return Answer(type="paired", data=paired)

    def _authenticated(
        self, identity: Identity, client: Client, name: str | None, field: str
    ) -> Answer[replies.Authenticated]:
        """Signs a client in. A client that is already signed in keeps its identity. ``name``: the name that the owner's
        client chooses, if any. ``field``: the field that proves the identity, for the error. Raises ``ClientError`` if a
        limit for clients is reached, or if the client is signed in with another identity."""
        if client.identity is None:
            self._clients.let_in(client, identity)
        elif identity != client.identity:
            text = "This connection is already signed in with another identity. Open a new connection to change it."
            raise ClientError("UNAUTHORIZED", text, field)
        if name is not None and identity.is_owner:
            client.rename(name)
        return Answer(type="auth", data=replies.Authenticated(client.id, client.name))

    # the server and its topics

    async def hello(self, command: commands.Hello, client: Client) -> Answer[replies.Hello]:
        """Describes the server, and what the client may do. The owner's own clients choose their names with this
        command. Other clients keep the name of their device or SSH key."""
        identity = client.known
        if command.client is not None and identity.is_owner:
            logger.info("%s at %s is now named %r", client.id, client.address, command.client)
            client.rename(command.client)
        return Answer(
            type="hello",
            data=replies.Hello(
                server="drawbridge",
                version=self._version,
                protocol=commands.VERSION,
                client_id=client.id,
                device=replies.DeviceOf(name=client.name, scope=identity.scope, projects=identity.projects),
                agents=self._agents,
                pictures=self._with_image_input,
                forks=self._with_forks,
                features=sorted(
                    type for type, scope in self._scopes.items() if identity.may(scope) and self._core.offers(type)
                ),
                limits=replies.Limits(),
                modes=self._core.modes,
                mode_offers=modes.OFFERS,
                agent_words=[_in_words(name) for name in dict.fromkeys([*catalog.AGENTS, *self._agents])],
                effort_offers=efforts.OFFERS,
                machine=self._machine,
            ),
        )

    async def health_check(self, command: commands.HealthCheck, client: Client) -> Answer[replies.Health]:
        """The server's health. For a device that is confined to some projects, everything that concerns projects covers
        only its own: the status, the problems, the counts of projects and subscriptions, and the runs."""
        await self._core.examine()
        health = self._health()
        identity = client.known
        if identity.projects is not None:
            health = self._core.health_of(health, identity)
        return Answer(type="health", data=health)

    async def subscribe(self, command: commands.Subscribe, client: Client) -> Answer[replies.Topics]:
        client.topics.update(command.topics)
        self._core.follow(command.topics, client)
        return Answer(type="subscribed", data=replies.Topics(sorted(client.topics)))

    async def unsubscribe(self, command: commands.Unsubscribe, client: Client) -> Answer[replies.Topics]:
        client.topics.difference_update(command.topics)
        self._core.unfollow(command.topics, client)
        return Answer(type="subscribed", data=replies.Topics(sorted(client.topics)))

    # blobs, and directories to choose from

    async def blob_put(self, command: commands.BlobPut, client: Client) -> Answer[replies.BlobStored]:
        stored = await self._blobs.put(command.blob_id, command.offset, command.data, command.last, client.device)
        return Answer(type="blob_stored", data=stored)

    async def blob_get(self, command: commands.BlobGet, client: Client) -> Answer[replies.BlobPiece]:
        length = min(command.length or messages.PIECE_BYTES, messages.PIECE_BYTES)
        if command.blob_id.startswith(FILE_PREFIX):
            part = await self._files.piece(command.blob_id, command.offset, length, client.known)
            return Answer(type="blob", data=part)
        if ":" in command.blob_id:
            data = await self._of_session(command.blob_id, client)
        else:
            data = await self._blobs.read(command.blob_id, client.device)
        return Answer(type="blob", data=piece(command.blob_id, data, command.offset, length))

    async def _of_session(self, blob_id: str, client: Client) -> bytes:
        """A record of a history, an image that a record names, or an image in the review. It is cached for a short
        time, since clients download it in pieces. Raises ``ClientError``."""
        project_id, _, which = blob_id.partition(":")
        await self._core.check_sees(client.known, project_id)
        if self._record is None or self._record[0] != blob_id:
            if which.startswith("img_"):
                data = await self._histories.prompt_image(project_id, which)
            elif which.startswith(IMAGE):
                data = await self._reviews.review_image(project_id, which.removeprefix(IMAGE))
            elif which.isascii() and which.isdigit() and len(which) < 17:
                data = await self._histories.record(project_id, int(which))
            else:
                raise ClientError("BLOB_NOT_FOUND", "There is no blob with this ID.", field="data.blob_id")
            kept = (blob_id, data)
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

        def found() -> Directories:
            seen = [root for root in self._roots if identity.sees(root, Path.resolve)]
            return listed(command.path, list(dict.fromkeys([*seen, *own])))

        return Answer(type="dir_list", data=await asyncio.to_thread(found))

    # devices

    async def device_list(self, command: commands.DeviceList, client: Client) -> Answer[replies.DeviceList]:
        devices, identity = self._managed_by(client), client.known
        connected = {one.known.device_id for one in self._clients}
        at = now()
        listed = [
            replies.DeviceInfo(
                id=device.id,
                name=device.name,
                scope=device.scope,
                state=device.state(at),
                created=instant(device.created) or "",
                last_used=instant(device.last_used),
                expires=instant(device.expires),
                projects=device.projects,
                connected=device.id in connected,
                mine=device.id == identity.device_id,
                made_by=device.made_by,
            )
            for device in await asyncio.to_thread(list, devices)
        ]
        return Answer(type="device_list", data=replies.DeviceList(listed))

    async def device_revoke(self, command: commands.DeviceRevoke, client: Client) -> Answer[replies.DeviceRevoked]:
        devices = self._managed_by(client)
        try:
            revoked = await asyncio.to_thread(devices.revoke, command.device_id, by_name=False)
        except BadArgument:
            text = "No device with this ID has a valid token."
            raise ClientError("DEVICE_NOT_FOUND", text, "data.device_id") from None
        return Answer(type="device_revoked", data=replies.DeviceRevoked(revoked.id, revoked.name))

    async def pair_create(self, command: commands.PairCreate, client: Client) -> Answer[replies.PairCreated]:
        """Creates a pairing code. The token of the device that uses it expires no later than the token of the device
        that creates it."""
        devices, at = self._managed_by(client), now()
        # This is done before a code is stored, because if it failed afterwards, the client would never receive the
        # code.
        page = await self._page(command.origin, client)
        try:
            code = await asyncio.to_thread(new_code, devices, command.scope, command.name, maker=client.known)
        except BadArgument:
            text = f"data.name: it {NAME_RULE}"
            raise ClientError("VALIDATION_FAILED", text, "data.name") from None
        address = pairing_link(page, code, client.certificate)
        made = replies.PairCreated(
            code=code,
            scope=command.scope,
            expires_at=instant(at + CODE_LIFETIME) or "",
            link=address,
            qr=await asyncio.to_thread(qr_modules, address),
            name=command.name,
            loopback=is_local(page),
        )
        return Answer(type="pair_created", data=made)

    async def _page(self, origin: str | None, client: Client) -> str:
        """The address of the web UI for another device. Raises ``ClientError`` if the host or port of ``origin`` is
        invalid."""
        page = origin or f"{'http' if client.certificate is None else 'https'}://{client.host}"
        try:
            local = is_local(page)
        except ValueError:
            text = "data.origin: the web UI's address has a host or port that is not valid."
            raise ClientError("VALIDATION_FAILED", text, "data.origin") from None
        return next(iter(await asyncio.to_thread(self._addresses)), page) if local else page

    def _managed_by(self, client: Client) -> Devices:
        """The devices, for a client that may manage them. Raises ``ClientError`` if the server does not accept devices,
        or if this client is confined to some projects: a pairing code could give more permissions than the client
        itself has."""
        if client.known.projects is not None:
            text = "A device that is limited to some projects can't manage devices."
            raise ClientError("PERMISSION_DENIED", text)
        if self._devices is None:
            raise ClientError(
                "NOT_SUPPORTED", "Devices can't be managed: this server runs without tokens (--insecure-no-auth)."
            )
        return self._devices

    # agents

    async def agent_list(self, command: commands.AgentList, client: Client) -> Answer[replies.AgentList]:
        programs = await asyncio.to_thread(self._programs)
        listed = [self._agent(name, programs.get(name)) for name in self._agents]
        return Answer(type="agent_list", data=replies.AgentList(listed))

    def _agent(self, name: str, program: Program | None) -> replies.AgentInfo:
        """Describes the agent ``name`` to clients. ``program``: None for an agent that does not need a program."""
        title = catalog.title(name)
        installed = program is None or program.path is not None
        remedy = f"Install the program of the {name} agent on the server's machine."
        if name in catalog.AGENTS:
            remedy = f"Install {title} on the server's machine, or start the server with --agent-path {name}=PATH."
        return replies.AgentInfo(
            name=name,
            title=title,
            installed=installed,
            asks=self._core.asks(name),
            pictures=name in self._with_image_input,
            version=program.version if program is not None else None,
            hint=None if installed else remedy,
        )

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

    async def push_test(self, command: commands.PushTest, client: Client) -> Answer[replies.PushTested]:
        subscription = self._subscriptions.own(command.endpoint, client.known)
        if subscription is None or self._push_test is None:
            text = "The server does not have this browser's push subscription. Turn notifications off and on again."
            raise ClientError("VALIDATION_FAILED", text, "data.endpoint")
        problem = await self._push_test(subscription)
        return Answer(type="push_tested", data=replies.PushTested(problem is None, problem))

    @property
    def _subscriptions(self) -> Subscriptions:
        if self._push is None:
            raise ClientError("NOT_SUPPORTED", "This server does not send notifications to browsers.")
        return self._push


MOST: Final = 1_000
"""The maximum number of names in one reply."""


def _in_words(agent: str) -> replies.AgentWords:
    login, tools = catalog.login(agent), registry.tools(agent)
    return replies.AgentWords(
        agent,
        catalog.label(agent),
        replies.Login(*login) if login else None,
        tools.acts,
        tools.tasks,
        catalog.compact(agent),
    )


def listed(path: str, roots: Sequence[Path]) -> Directories:
    """The directories in ``path``; the roots if ``path`` is an empty string. Raises the same ``ClientError`` whether
    the path is missing, is not a directory or is not allowed."""
    if path == "":
        return Directories("", [str(root) for root in roots])
    real = allowed_directories.resolve(allowed_directories.expanded(path), roots, ())
    names: list[str] = []
    try:
        with os.scandir(real) as entries:
            for entry in entries:
                if _is_shown(entry, roots):
                    names.append(entry.name)
                    if len(names) > MOST:
                        break
    except OSError:
        raise ClientError("INVALID_PATH", allowed_directories.NOT_HERE, field="data.path") from None
    names.sort(key=str.casefold)
    return Directories(str(real), names[:MOST], len(names) > MOST)


def _is_shown(entry: os.DirEntry[str], roots: Sequence[Path]) -> bool:
    try:
        if not entry.is_dir():
            return False
        entry.name.encode()  # a name that is not valid UTF-8 can be neither sent nor requested
        real = Path(entry.path).resolve(strict=True) if entry.is_symlink() else Path(entry.path)
        return allowed_directories.allowed(real, roots)
    except (OSError, RuntimeError, UnicodeEncodeError):
        return False
