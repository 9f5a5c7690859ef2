"""Sign-in with an SSH key: ``authorized_keys`` in OpenSSH's format, signatures in the format of ``ssh-keygen -Y``.

OpenSSH's own tools create signatures in that format (PROTOCOL.sshsig), from a key file or through ssh-agent. The
format's namespace prevents a signature for Drawbridge from being used for anything else.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from msgspec import Struct

from drawbridge.core.errors import BadSetting
from drawbridge.server.auth.devices import is_name

NAMESPACE: Final = "drawbridge"

MAGIC: Final = b"SSHSIG"
BEGIN, END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"

KINDS: Final = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")

RSA_BITS: Final = 2048
"""The minimum length of an RSA key, in bits. Shorter keys are ignored. RSA signatures with SHA-1 are refused."""

FILE_BYTES: Final = 1024 * 1024

PublicKey: TypeAlias = ed25519.Ed25519PublicKey | rsa.RSAPublicKey | ec.EllipticCurvePublicKey

logger = logging.getLogger("drawbridge.server")


class Entry(Struct, frozen=True):
    """A key in ``authorized_keys``. ``name``: the comment of its line if that is a valid name, otherwise the
    fingerprint."""

    fingerprint: str
    name: str
    blob: bytes


class BadSignature(Exception):
    """A signature or a key is not valid. The text gives the reason, for the log."""


class Keys:
    """The keys in a file, as it was when it was last read. ``reload`` reads it again if it has changed, and raises
    ``BadSetting`` if it can't be used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: Any = None
        self._entries: dict[bytes, Entry] = {}
        self._logged = ""
        """The problem with the file that was logged last. It is logged once, because the file is read often."""

    def reload(self) -> None:
        """Blocking. Another thread may use the keys meanwhile."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid)
            if stamp == self._seen:
                return
            if found.st_mode & 0o022 or found.st_uid not in (0, os.getuid()):
                self._entries, self._seen = {}, None
                raise BadSetting(
                    f"{self._path} can be written by other users: anyone who adds a key could control the agents. "
                    "It must belong to you or root, and only its owner may have write permission."
                )
            with self._path.open("rb") as file:
                text = file.read(FILE_BYTES).decode("utf-8", "replace")
        except OSError as error:
            self._entries, self._seen = {}, None
            raise BadSetting(f"{self._path} can't be read: {(error.strerror or str(error)).lower()}.") from None
        self._entries = {entry.blob: entry for entry in entries(text, str(self._path))}
        self._seen = stamp

    def find(self, blob: bytes) -> Entry | None:
        return self._entries.get(blob)

    def __contains__(self, fingerprint: object) -> bool:
        return any(entry.fingerprint == fingerprint for entry in self._entries.values())

    def refresh(self) -> None:
        """Reads the file again if it has changed. If it can't be used, no key is accepted, which is logged. Blocking."""
        problem = ""
        try:
            self.reload()
        except BadSetting as error:
            problem = str(error)
            if problem != self._logged:
                logger.error("SSH keys are not accepted: %s", problem)
        self._logged = problem


NO_CERTIFICATE: Final = "-"
"""Replaces the SHA-256 of the certificate if the connection does not use TLS."""


def challenge(host: str, certificate: str | None, nonce: str) -> bytes:
    """The text to sign: four lines. ``host`` (with its port) and ``certificate`` (its SHA-256 in hexadecimal; None
    without TLS) describe the connection as the client itself sees it, so that a signature for another server is not
    accepted here.
    """
    return f"drawbridge-login-v2\n{host}\n{certificate or NO_CERTIFICATE}\n{nonce}\n".encode()


def earlier_challenge(host: str, nonce: str) -> bytes:
    """The text that older clients sign, without the certificate. It is recognized only to report a clear error."""
    return f"drawbridge-login-v1\n{host}\n{nonce}\n".encode()


def entries(text: str, where: str) -> Iterator[Entry]:
    """The keys in an ``authorized_keys`` file. A line that is not fully supported is ignored and logged."""
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.strip().split(None, 2)
        if not fields or fields[0].startswith("#"):
            continue
        try:
            if fields[0] not in KINDS:
                raise BadSignature("it has options, or a type of key that is not supported")
            blob = _decoded(fields[1] if len(fields) > 1 else "")
            _public(blob)
        except BadSignature as error:
            logger.warning("%s, line %d is ignored: %s", where, number, error)
            continue
        fingerprint = f"SHA256:{base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip('=')}"
        comment = fields[2] if len(fields) == 3 else ""
        yield Entry(fingerprint, comment if is_name(comment) else fingerprint, blob)


def verified(signature: str, message: bytes) -> bytes:
    """The blob of the key that signed ``message`` in Drawbridge's namespace. Raises ``BadSignature``."""
    fields = _Fields(_unarmoured(signature))
    if fields.read(len(MAGIC)) != MAGIC or fields.read(4) != b"\0\0\0\1":
        raise BadSignature("not an SSH signature of version 1")
    blob, namespace, reserved, algorithm = (fields.text() for _ in range(4))
    inner = _Fields(fields.text())
    fields.end()
    if namespace != NAMESPACE.encode():
        raise BadSignature("it is for another namespace")
    if algorithm not in (b"sha256", b"sha512"):
        raise BadSignature("its hash is not SHA-256 or SHA-512")
    digest = hashlib.new(algorithm.decode(), message).digest()
    signed = MAGIC + b"".join(map(_packed, (namespace, reserved, algorithm, digest)))
    kind, raw = inner.text(), inner.text()
    inner.end()
    try:
        _check(_public(blob), kind, raw, signed)
    except InvalidSignature:
        raise BadSignature("it does not match the signed text") from None
    return blob


def _check(key: PublicKey, kind: bytes, raw: bytes, signed: bytes) -> None:
    if isinstance(key, ed25519.Ed25519PublicKey) and kind == b"ssh-ed25519":
        key.verify(raw, signed)
    elif isinstance(key, rsa.RSAPublicKey) and kind in (b"rsa-sha2-256", b"rsa-sha2-512"):
        key.verify(raw, signed, padding.PKCS1v15(), SHA256() if kind.endswith(b"256") else SHA512())
    elif isinstance(key, ec.EllipticCurvePublicKey) and kind == b"ecdsa-sha2-nistp%d" % key.curve.key_size:
        numbers = _Fields(raw)
        r, s = (int.from_bytes(numbers.text(), "big") for _ in range(2))
        numbers.end()
        hashing = {256: SHA256(), 384: SHA384(), 521: SHA512()}[key.curve.key_size]
        key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashing))
    else:
        raise BadSignature("its type does not match the key's")


def _decoded(key: str) -> bytes:
    try:
        return base64.b64decode(key, validate=True)
    except ValueError:  # also for characters that are not ASCII
        raise BadSignature("the key is not valid base64") from None


def _public(blob: bytes) -> PublicKey:
    kind = _Fields(blob).text()
    try:
        if kind.decode("ascii", "replace") not in KINDS:
            raise BadSignature("the type of key is not supported")
        key = load_ssh_public_key(kind + b" " + base64.b64encode(blob))
    except (ValueError, UnsupportedAlgorithm):
        raise BadSignature("the key is not valid") from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < RSA_BITS:
        raise BadSignature(f"the RSA key has fewer than {RSA_BITS} bits")
    assert isinstance(key, ed25519.Ed25519PublicKey | rsa.RSAPublicKey | ec.EllipticCurvePublicKey)
    return key


def _unarmoured(signature: str) -> bytes:
    lines = signature.strip().splitlines()
    if len(lines) < 3 or lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise BadSignature("not an SSH signature")
    try:
        return base64.b64decode("".join(lines[1:-1]), validate=True)
    except ValueError:  # also for characters that are not ASCII
        raise BadSignature("not an SSH signature") from None


def _packed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


class _Fields:
    """Reads the strings in SSH data (RFC 4251) one after another. Raises ``BadSignature`` if the data is too short or,
    in ``end``, if some of it was not read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, length: int) -> bytes:
        if len(self._data) < length:
            raise BadSignature("it is truncated")
        taken, self._data = self._data[:length], self._data[length:]
        return taken

    def text(self) -> bytes:
        return self.read(int.from_bytes(self.read(4), "big"))

    def end(self) -> None:
        if self._data:
            raise BadSignature("it has trailing data")
