"""Devices and the one-time codes with which a person pairs a device. Each device has a name, a scope and its own token,
which can be revoked separately.

``devices.json`` (0600) in the data directory keeps a hash of each secret, never the secret. The owner's commands and
the running server both write the file, under the same lock. The server reads the file again when a command has changed
it.

A pairing code is short, and valid for ten minutes and one device. Guesses are limited (``entrance``), so 40 bits are
enough.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from drawbridge.core.errors import BadArgument, BadSetting, DrawbridgeError, NotPrivate
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import PRIVATE_FILE, make_private_directory, write_private
from drawbridge.server.auth.scopes import Identity, Scope
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import TERMINAL_NAME

logger = logging.getLogger("drawbridge.server")

FILE: Final = "devices.json"

COPY: Final = "devices.copy.json"
"""A copy of the file with everything except the latest times of use. It is synced to disk, and is read if a power
failure has left ``FILE`` empty or with zeros: the times of use are written without a sync, because the event loop can't
wait for one."""

TOKEN: Final = re.compile(r"drawbridge_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
"""Matches a device's token: the device's id, which is also in the file, and the secret, which only the device keeps."""

NAME: Final = re.compile(r"\S(.{0,58}\S)?")

NAME_RULE: Final = "must be 1 to 60 printable characters long, and must not begin or end with a space."
"""Describes the names that ``is_name`` accepts, for errors."""

USED_EVERY: Final = timedelta(minutes=1)
"""The minimum time between two updates of a device's last use in the file."""

REMEMBERED: Final = timedelta(days=90)
"""The time for which a revoked device stays in the list, so that the refusal of its token can give the reason."""

NO_HASH: Final = "0" * 64
"""The hash to compare with if the device does not exist, so that the reply takes as long as any other."""


CODE_LIFETIME: Final = timedelta(minutes=10)

CODE_REMEMBERED: Final = timedelta(days=1)
"""The time for which a code is remembered after it has expired, to report that it was used or has expired."""

CODE_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Letters and digits, except those that are easily confused."""

CODE_LENGTH: Final = 8

UNNAMED: Final = "device"


class Device(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A device and its token. ``hash``: the SHA-256 of the secret, which has 256 random bits, so that a slower hash is
    not needed. ``made_by`` is as in ``Code``, with whose code the device was paired."""

    id: str
    name: str
    scope: Scope
    hash: str
    created: datetime
    projects: tuple[str, ...] | None = None
    last_used: datetime | None = None
    expires: datetime | None = None
    revoked: datetime | None = None
    made_by: str | None = None

    def state(self, now: datetime) -> Literal["valid", "expired", "revoked"]:
        """The state of its token in one word, for the list."""
        return "revoked" if self.revoked else "expired" if self.expires and self.expires <= now else "valid"

    @property
    def identity(self) -> Identity:
        return Identity(name=self.name, scope=self.scope, device_id=self.id, projects=self.projects)


class Code(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A pairing code, which can be turned into a device once. ``lifetime``: seconds for which the device's token is
    valid; None without a limit. ``expires``: when the token of the device that made the code expires (None if it does
    not, or no device made the code). The new device's token expires no later.

    ``made_by``: the id of the device, or the fingerprint of the SSH key, that made the code; None for the owner. A code
    is valid only as long as its maker's token or key is.
    """

    hash: str
    scope: Scope
    until: datetime
    name: str | None = None
    projects: tuple[str, ...] | None = None
    lifetime: float | None = None
    used: bool = False
    made_by: str | None = None
    expires: datetime | None = None


class File(Struct, omit_defaults=True):
    devices: list[Device] = []
    codes: list[Code] = []


class Devices:
    """The devices of one data directory. If their file is damaged, connected devices stay connected, and no others are
    accepted.

    The methods for the server don't wait for another process. The methods for the owner's commands do (``changed``), so
    the server calls them in a thread.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / FILE
        self._copy = directory / COPY
        self._read_at: tuple[Any, Mapping[str, Device]] = (None, {})
        """The file's time, size and inode when it was last read, and its devices."""
        self._damaged: str | None = None

    def __iter__(self) -> Iterator[Device]:
        self.reload()
        return iter(tuple(self._devices.values()))

    def reload(self) -> None:
        """Reads the file again if it has changed. Raises ``BadSetting`` if it can't be read or is damaged."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            stamp = None
        if stamp != self._read_at[0]:
            # Both are set in a single assignment, because several threads use this object, and an old list must not get
            # a new stamp.
            self._read_at = stamp, {device.id: device for device in self._read().devices}
            self._damaged = None

    def open(self) -> None:
        """Reads the file at the start of the server, and makes its copy if it has none, because an earlier version
        wrote it. Raises ``BadSetting`` as ``reload`` does."""
        self.reload()
        if self._devices and not self._copy.exists():
            try:
                with self.changed():
                    pass
            except (DrawbridgeError, OSError) as error:
                # The next change tries again. A full disk must not keep the server from starting.
                logger.error("the list of devices could not be copied: %s", error)

    @property
    def _devices(self) -> Mapping[str, Device]:
        return self._read_at[1]

    # for the owner's commands

    def add(
        self, name: str, scope: Scope, projects: Sequence[str] | None = None, lifetime: timedelta | None = None
    ) -> tuple[Device, str]:
        """Adds a device. Returns it and its token, which is not stored. Raises ``BadArgument`` if the name is not valid
        or is taken, and the errors of ``changed``."""
        with self.changed() as file:
            return added(file, name, scope, projects, now() + lifetime if lifetime else None)

    def revoke(self, which: str, *, by_name: bool = True) -> Device:
        """Revokes a device by its id or, with ``by_name``, its name, and the pairing codes that it made. Raises
        ``BadArgument`` if the device does not exist or its token was already revoked, and the errors of ``changed``."""
        with self.changed() as file:
            for index, device in enumerate(file.devices):
                if which in (device.id, device.name if by_name else None) and device.revoked is None:
                    file.codes = [code for code in file.codes if code.used or code.made_by != device.id]
                    file.devices[index] = msgspec.structs.replace(device, revoked=now())
                    return file.devices[index]
            text = f"no device with the name or ID {which!r} has a token. See `drawbridge token list`."
            raise BadArgument("NAME", text)

    # for the server

    def identify(self, token: str) -> Identity:
        """The identity of a token's device. Raises ``ClientError``. Only a client that has the secret learns that the
        token was revoked or has expired. If the devices file can't be used, the error's code is RESOURCE_LIMIT."""
        parts = TOKEN.fullmatch(token)
        if not self._is_whole() and parts is not None:
            # The token is not reported as wrong, because clients forget wrong tokens, and it may be valid.
            text = (
                "The token can't be checked: the server can't read its list of devices. Try again later. "
                "The server's log has details."
            )
            raise ClientError("RESOURCE_LIMIT", text)
        device = self._devices.get(parts[1]) if parts else None
        right = same(hashed(parts[2] if parts else ""), device.hash if device else NO_HASH)
        if device is None or not right:
            raise wrong_token()
        refusal = self.refusal(device.id)
        if refusal is not None:
            raise refusal
        self._used(device)
        return device.identity

    def refusal(self, device_id: str) -> ClientError | None:
        """The reason why a connected device may not stay connected; None if it may stay."""
        self._is_whole()
        return refusal_of(self._devices.get(device_id))

    def identity_of(self, device_id: str) -> Identity | None:
        """The identity of a device; None if its token is not valid."""
        self._is_whole()
        device = self._devices.get(device_id)
        return device.identity if device is not None and refusal_of(device) is None else None

    def _is_whole(self) -> bool:
        """Reads the file again if it has changed. Returns False if it can't be used, which is logged once."""
        try:
            self.reload()
        except BadSetting as error:
            if self._damaged != str(error):
                self._damaged = str(error)
                logger.error("device tokens are not accepted: %s", error)
            return False
        return True

    def _used(self, device: Device) -> None:
        at = now()
        if device.last_used is not None and at - device.last_used < USED_EVERY:
            return
        try:
            with self.changed(lasting=False, patience=0) as file:
                for index, one in enumerate(file.devices):
                    if one.id == device.id:
                        file.devices[index] = msgspec.structs.replace(one, last_used=at)
        except (DrawbridgeError, OSError) as error:
            # The device signs in anyway, for example if the disk is read-only, does not support locks, or the process
            # has too many open files.
            logger.error("the time of a device's last use could not be stored: %s", error)

    # the file

    def _lock(self, lock: int, patience: float) -> None:
        end = time.monotonic() + patience
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    text = f"{self._path} is being changed by another process. Try again."
                    raise NotPrivate(text) from None
                time.sleep(0.01)

    def _read(self) -> File:
        try:
            data = self._path.read_bytes()
            if (not data or b"\0" in data) and self._copy.exists():
                logger.warning("%s is empty or incomplete, so the devices are read from %s", self._path, COPY)
                data = self._copy.read_bytes()
        except FileNotFoundError:
            return File([], [])
        except OSError as error:
            raise BadSetting(f"{self._path} can't be read: {(error.strerror or 'unknown reason').lower()}.") from None
        try:
            return msgspec.json.decode(data, type=File)
        except UNDECODABLE:
            text = f"{self._path} is damaged. Replace it with {COPY}, or remove it and give each device a new token."
            raise BadSetting(text) from None

    @contextlib.contextmanager
    def changed(self, *, lasting: bool = True, patience: float = 5.0) -> Iterator[File]:
        """Yields the file's contents, and writes them when the block ends without an error. ``lasting``: whether the
        file and its copy are synced to disk, so that a revoked device is not valid again after a power failure; False
        for a time of use. ``patience``: seconds to wait for another process's lock. Raises ``NotPrivate`` if that takes
        longer or the file can't be written, and ``BadSetting`` as ``reload`` does.
        """
        make_private_directory(str(self._directory))
        lock = os.open(self._directory / "devices.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            self._lock(lock, patience)
            file = self._read()
            yield file
            at = now()
            file.devices = [one for one in file.devices if one.revoked is None or at - one.revoked < REMEMBERED]
            data = msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"
            # The copy is written first. Otherwise, a power failure in between, after which a time of use is stored,
            # could restore an older list, in which a revoked device is valid.
            if lasting:
                write_private(str(self._copy), data, synced=True)
            write_private(str(self._path), data, synced=lasting)
            if lasting:
                _sync(self._path)
        finally:
            os.close(lock)


def hashed(secret: str) -> str:
    return hashlib.sha256(_bytes(secret)).hexdigest()


def same(left: str, right: str) -> bool:
    """Whether two secrets are equal. The comparison takes constant time."""
    return hmac.compare_digest(_bytes(left), _bytes(right))


def _bytes(secret: str) -> bytes:
    """Encodes any text, because a token that a stranger sends may contain surrogates, which UTF-8 can't encode."""
    return secret.encode("utf-8", "surrogatepass")


def is_name(text: str) -> bool:
    return bool(NAME.fullmatch(text)) and text.isprintable()


def valid_names(file: File) -> set[str]:
    at = now()
    return {device.name for device in file.devices if device.state(at) == "valid"}


def paired_by(devices: Iterable[Device], device_id: str) -> list[Device]:
    """The devices with a valid token that a device paired, directly or through other devices. ``devices``: all devices,
    in the order in which they were added."""
    makers, at = {device_id}, now()
    found: list[Device] = []
    for device in devices:
        if device.made_by in makers:
            makers.add(device.id)
            if device.state(at) == "valid":
                found.append(device)
    return found


def wrong_token() -> ClientError:
    return ClientError("UNAUTHORIZED", "The token is missing or wrong.")


def refusal_of(device: Device | None) -> ClientError | None:
    """The reason why the token of a device is not accepted; None if it is accepted. ``device``: None if the list no
    longer contains it."""
    if device is None or device.revoked:
        text = "This device's token was revoked. Ask the owner for a new one."
        return ClientError("TOKEN_REVOKED", text, details={"device": device.name} if device else None)
    if device.expires is not None and device.expires <= now():
        text = "This device's token has expired. Ask the owner for a new one."
        return ClientError("TOKEN_EXPIRED", text, details={"device": device.name})
    return None


def added(
    file: File,
    name: str,
    scope: Scope,
    projects: Sequence[str] | None,
    expires: datetime | None,
    made_by: str | None = None,
) -> tuple[Device, str]:
    if not is_name(name):
        raise BadArgument("NAME", NAME_RULE)
    if name == TERMINAL_NAME:
        raise BadArgument("NAME", f"{name!r} is reserved for the user at an agent's terminal. Choose another name.")
    at = now()
    if name in valid_names(file):
        raise BadArgument(
            "NAME", f"a device named {name!r} already exists. Choose another name, or revoke its token first."
        )
    secret = secrets.token_urlsafe(32)
    device = Device(
        id=secrets.token_hex(4),
        name=name,
        scope=scope,
        hash=hashed(secret),
        created=at,
        projects=tuple(projects) if projects else None,
        expires=expires,
        made_by=made_by,
    )
    file.devices.append(device)
    return device, f"drawbridge_{device.id}_{secret}"


def _sync(path: Path) -> None:
    for one in (path, path.parent):
        file = os.open(one, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


# Pairing codes.


def new_code(
    devices: Devices,
    scope: Scope,
    name: str | None = None,
    projects: Sequence[str] | None = None,
    lifetime: timedelta | None = None,
    maker: Identity | None = None,
) -> str:
    """Creates a pairing code and returns it. ``name``: the device's name; None if the device chooses it. ``maker``: the
    client that requests the code; None if the server itself or one of the owner's commands creates it. The device's
    token expires no later than the maker's.

    Raises ``BadArgument`` if the name is not valid, ``ClientError`` if the maker's own token is no longer valid, and
    the errors of ``Devices.changed``.
    """
    if name is not None and not is_name(name):
        raise BadArgument("--name", NAME_RULE)
    code = "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
    at = now()
    own = maker.device_id if maker is not None else None
    with devices.changed() as file:
        file.codes = [one for one in file.codes if at - one.until < CODE_REMEMBERED]
        device = _device(file, own)
        # The maker may have been revoked since the request arrived.
        if own is not None and (refusal := refusal_of(device)) is not None:
            raise refusal
        seconds = lifetime.total_seconds() if lifetime else None
        until = at + CODE_LIFETIME
        file.codes.append(
            Code(
                hash=hashed(code),
                scope=scope,
                until=until,
                name=name,
                projects=tuple(projects) if projects else None,
                lifetime=seconds,
                made_by=own or (maker.key if maker is not None else None),
                expires=device.expires if device is not None else None,
            )
        )
    return f"{code[:4]}-{code[4:]}"


def redeem(devices: Devices, given: str, name: str | None, keys: Container[str] = ()) -> tuple[Device, str]:
    """Turns a code into a device. Returns the device and its token. Raises ``ClientError`` without changing the code,
    and the errors of ``Devices.changed``.

    ``keys``: the fingerprints of the SSH keys that are authorized now.

    Blocks while another process has the lock, but for at most half a second, because the client that pairs has only a
    few seconds to sign in.
    """
    if name is not None and not is_name(name):
        raise ClientError("VALIDATION_FAILED", f"data.name: it {NAME_RULE}", "data.name")
    with devices.changed(patience=0.5) as file:
        index, code = _code_of(file, hashed(given.upper().replace("-", "").replace(" ", "")), keys)
        ends = [now() + timedelta(seconds=code.lifetime)] if code.lifetime is not None else []
        ends += [code.expires] if code.expires is not None else []
        file.codes[index] = msgspec.structs.replace(code, used=True)
        chosen = _free_name(file, code.name or name or UNNAMED)
        return added(file, chosen, code.scope, code.projects, min(ends, default=None), code.made_by)


def _device(file: File, device_id: str | None) -> Device | None:
    return next((device for device in file.devices if device.id == device_id), None)


def _has_valid_maker(file: File, code: Code, keys: Container[str]) -> bool:
    """Whether the maker of the code is the owner, an authorized SSH key, or a device that was not revoked. A device
    that has expired counts as valid here, because the code's ``expires`` is checked instead."""
    if code.made_by is None or code.made_by in keys:
        return True
    maker = _device(file, code.made_by)
    return maker is not None and maker.revoked is None


def _code_of(file: File, given: str, keys: Container[str]) -> tuple[int, Code]:
    """The index of the unused code with the hash ``given``, and the code. All codes are compared, so that the time
    taken reveals nothing. Raises ``ClientError``.
    """
    hits = [(index, code) for index, code in enumerate(file.codes) if same(given, code.hash)]
    if not hits or not (hits[0][1].used or _has_valid_maker(file, hits[0][1], keys)):
        raise ClientError(
            "PAIRING_WRONG",
            "The pairing code is not valid. Check the code and try again.",
            "data.code",
        )
    if hits[0][1].used:
        raise ClientError("PAIRING_USED", "This code has already been used. Ask the owner for a new one.", "data.code")
    at = now()
    if hits[0][1].until <= at or (hits[0][1].expires or hits[0][1].until) <= at:
        raise ClientError("PAIRING_EXPIRED", "This code has expired. Ask the owner for a new one.", "data.code")
    return hits[0]


def _free_name(file: File, name: str) -> str:
    """The name; if a device with a valid token already has it, or it is reserved, its first 56 characters and a number."""
    taken = valid_names(file) | {TERMINAL_NAME}
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name[:56].rstrip()} {number}"
    return found


def pairing_link(page: str, code: str, fingerprint: str | None) -> str:
    """The address of the web UI with the code after the ``#``. Browsers do not send that part, so it is not logged.
    ``fingerprint``: the SHA-256 of the server's certificate; None without TLS."""
    shown = f"&fp={fingerprint.replace(':', '').lower()}" if fingerprint else ""
    return f"{page.removesuffix('/')}/#pair={code.replace('-', '')}{shown}"


def qr_modules(text: str) -> list[str]:
    """The QR code of the text, row by row: "1" for a dark module, without the quiet zone."""
    import segno  # importing this module takes a third of the server's startup time

    made = segno.make(text, error="l", micro=False)
    return ["".join("1" if module else "0" for module in row) for row in made.matrix]
