"""The server's own certificate authority, and the certificate that it issues for this machine, so that traffic is
encrypted from the first start.

A phone that trusts the authority accepts every later certificate that it issues for this server. The authority can only
certify this machine's own names, the ``--public-host`` names and private networks (name constraints, RFC 5280,
4.2.1.10). A device that trusts the authority accepts no other names from it, even if the authority's key is stolen.

The key of the server's certificate is created once and kept when the certificate is renewed, so that clients that have
pinned the key don't have to pin it again. A self-signed certificate from an earlier version of Drawbridge is used until
it has to be renewed.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from drawbridge.core.errors import BadSetting
from drawbridge.core.private_files import make_private_directory, write_private

logger = logging.getLogger("drawbridge.server")

AUTHORITY_LIFETIME: Final = timedelta(days=3650)

AUTHORITY_SPARE: Final = timedelta(days=430)
"""The remaining lifetime at which an authority is replaced, so that none of its certificates outlives it."""

PRIVATE_NETWORKS: Final = tuple(
    map(
        ipaddress.ip_network,
        ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "::1/128", "fc00::/7"),
    )
)
"""Loopback, private networks and VPNs. If a laptop's address changes within these, a phone does not need to trust a new
authority.
"""


class Authority:
    """A certificate authority with its private key. ``certificate``: its public part, which phones install."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self.key = key

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def made(self, certificate: x509.Certificate) -> bool:
        """Whether the authority issued this certificate."""
        return issued(certificate, self.certificate)


def own_authority(directory: Path, names: Sequence[str], now: datetime) -> Authority:
    """The authority in ``directory``. A new one is created if it is missing, expires soon, is damaged or can't certify
    one of the names."""
    found = read_authority(directory)
    if found is not None and _authority_is_good(found.certificate, names, now):
        return found
    if (directory / "ca.pem").exists():
        logger.warning(
            "a new certificate authority was created: devices that trusted the old one have to trust the new one"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    made = Authority(_signed_authority(key, names, now), key)
    write_private(str(directory / "ca-key.pem"), private_pem(key))
    write_private(str(directory / "ca.pem"), made.pem)
    return made


def read_authority(directory: Path) -> Authority | None:
    """The stored authority; None if it is missing or unusable."""
    try:
        certificate = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
        key = serialization.load_pem_private_key((directory / "ca-key.pem").read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            return None
        os.chmod(directory / "ca-key.pem", 0o600)
    except (OSError, ValueError, TypeError):
        return None
    return Authority(certificate, key)


def issued(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _authority_is_good(certificate: x509.Certificate, names: Sequence[str], now: datetime) -> bool:
    lasts = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - AUTHORITY_SPARE
    try:
        limits = certificate.extensions.get_extension_for_class(x509.NameConstraints).value.permitted_subtrees or []
    except (ValueError, x509.ExtensionNotFound):
        return False
    return lasts and all(any(_covers(limit, general_name(name)) for limit in limits) for name in names)


def _covers(limit: x509.GeneralName, name: x509.GeneralName) -> bool:
    if isinstance(limit, x509.DNSName) and isinstance(name, x509.DNSName):
        return name.value == limit.value or name.value.endswith(f".{limit.value}")
    network, address = limit.value, name.value
    both = isinstance(network, ipaddress.IPv4Network | ipaddress.IPv6Network) and isinstance(name, x509.IPAddress)
    return both and address in network


def _signed_authority(key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: datetime) -> x509.Certificate:
    public = key.public_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Drawbridge on {socket.gethostname()}"[:64])])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=24))
        .not_valid_after(now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.NameConstraints(permitted_subtrees=_limits(names), excluded_subtrees=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _limits(names: Sequence[str]) -> list[x509.GeneralName]:
    limits: list[x509.GeneralName] = [x509.IPAddress(network) for network in PRIVATE_NETWORKS]
    for name in dict.fromkeys(names):
        kind = general_name(name)
        if isinstance(kind, x509.DNSName):
            limits.append(kind)
        elif not any(_covers(limit, kind) for limit in limits):
            limits.append(x509.IPAddress(ipaddress.ip_network(name)))
    return limits


LIFETIME: Final = timedelta(days=397)
"""The lifetime of the server's certificate. Browsers accept at most 398 days."""

RENEWAL: Final = timedelta(days=30)
"""The remaining lifetime at which the server's own certificate is renewed."""

EARLIER: Final = timedelta(hours=24)
"""The time before its creation from which a certificate is valid, because a phone's clock may be slow."""


class Certificate:
    """A certificate with its key on disk. ``fingerprint``: SHA-256 of the certificate, as browsers show it.

    ``directory`` contains the server's own certificate and the authority that issued it. It is None for a certificate
    that the owner set.
    """

    def __init__(self, certificate: Path, key: Path, directory: Path | None = None) -> None:
        self.certificate, self.key = certificate, key
        self._directory = directory
        self.authority: bytes | None = None
        """The public certificate (PEM) of the server's own authority, as ``check`` last read it; None before that, or
        if that authority did not issue the certificate.
        """
        self.shown: str | None = None
        """The SHA-256, in hexadecimal, of the certificate that new connections get; None before it is loaded. The file
        may be newer."""

    @property
    def fingerprint(self) -> str:
        return _read(self.certificate).fingerprint(hashes.SHA256()).hex(":").upper()

    def context(self) -> ssl.SSLContext:
        """Returns a TLS context with the certificate and the key. Raises ``BadSetting`` if they can't be used."""
        self.check()
        context = _server_context()
        self.load_into(context)
        return context

    def check(self) -> None:
        """Checks the certificate and the key in the files, and reads the authority again. Raises ``BadSetting`` if they
        can't be used. New connections still get the previous certificate.
        """
        self._load(_server_context())
        self.authority = authority_of(self._directory) if self._directory is not None else None

    def load_into(self, context: ssl.SSLContext) -> None:
        """Makes new connections use the files' current contents. Raises ``BadSetting`` if they can't be used."""
        self.shown = self._load(context)

    def _load(self, context: ssl.SSLContext) -> str:
        """Loads the files into ``context``. Returns the SHA-256 of the certificate, in hexadecimal. Raises
        ``BadSetting`` if they can't be used."""
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
            return _read(self.certificate).fingerprint(hashes.SHA256()).hex()
        except (OSError, ssl.SSLError, ValueError) as error:
            raise BadSetting(
                f"The certificate {self.certificate} and the key {self.key} can't be used: {_why(error)}."
            ) from None


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def own_certificate(directory: Path, names: Sequence[str], now: datetime | None = None) -> Certificate:
    """The certificate in ``directory``. It is created if it is missing, and renewed if it expires soon, is damaged,
    does not match the stored key, lacks a name, or is neither self-signed nor issued by the current authority
    (``own_authority``). Raises ``NotPrivate`` if a file can't be written."""
    make_private_directory(str(directory))
    found = Certificate(directory / "cert.pem", directory / "key.pem", directory)
    now = now or datetime.now(UTC)
    key = _own_key(found.key)
    if _is_good(found.certificate, key, names, now, None):
        return found
    authority = own_authority(directory, names, now)
    if not _is_good(found.certificate, key, names, now, authority):
        signed = _signed(key, names, now, authority).public_bytes(serialization.Encoding.PEM)
        # The authority's certificate follows, so that clients on this machine can use the file as their trust anchor.
        write_private(str(found.certificate), signed + authority.pem)
    return found


def authority_of(directory: Path) -> bytes | None:
    """The authority's public certificate in ``directory``; None if the authority did not issue the server's
    certificate, or if one of the two can't be read.
    """
    authority = read_authority(directory)
    try:
        return authority.pem if authority is not None and authority.made(_read(directory / "cert.pem")) else None
    except (OSError, ValueError):
        return None


def _own_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            os.chmod(path, 0o600)
            return key
    except (OSError, ValueError, TypeError):
        pass
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(str(path), private_pem(key))
    return key


def _is_good(
    path: Path, key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: datetime, authority: Authority | None
) -> bool:
    """Whether the certificate in the file ``path`` can still be used. ``authority``: the authority that must have
    issued it; None if it must be self-signed."""
    try:
        certificate = _read(path)
        covered = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        same_key = certificate.public_key() == key.public_key()
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    lasts = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - RENEWAL
    signed = issued(certificate, authority.certificate if authority else certificate)
    return lasts and same_key and signed and set(map(general_name, names)) <= set(covered)


def _signed(
    key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: datetime, authority: Authority
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Drawbridge")])
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    signer = authority.certificate.public_key()
    assert isinstance(signer, ec.EllipticCurvePublicKey)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now - EARLIER + LIFETIME)
        .add_extension(x509.SubjectAlternativeName(list(map(general_name, dict.fromkeys(names)))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def _read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def _why(error: Exception) -> str:
    """Why a certificate and its key could not be loaded."""
    if isinstance(error, ssl.SSLError):
        reason: str | None = getattr(error, "reason", None)
        if reason == "KEY_VALUES_MISMATCH":
            return "the key does not belong to the certificate"
        if reason in (None, "PEM_LIB", "NO_START_LINE"):
            return "one of these files does not contain the expected PEM data"
        return reason
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


def _no_password() -> str:
    """Raises ``ValueError``, which prevents OpenSSL from asking for a password in the terminal."""
    raise ValueError("the key is protected by a password")
