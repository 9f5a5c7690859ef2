"""The certificate that the server creates for itself, so that traffic is encrypted from the first start.

Its own authority signs it (``authority``). The key is created once and kept when the certificate is renewed: clients
that pinned the key need not pin it again. A self-signed certificate of an earlier Drawbridge is used until it has to be
renewed.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from drawbridge.core.errors import BadSetting
from drawbridge.core.private_files import make_private_directory, write_private
from drawbridge.server.auth.authority import (
    Authority,
    general_name,
    issued,
    own_authority,
    private_pem,
    read_authority,
)

LIFETIME: Final = timedelta(days=397)
"""The longest lifetime that browsers accept of a server's certificate."""

RENEWAL: Final = timedelta(days=30)
"""A certificate of the server's own is renewed this long before it expires."""

EARLIER: Final = timedelta(hours=24)
"""A certificate is valid from yesterday on, since a phone's clock may be slow."""


class Certificate:
    """A certificate with its key on disk. ``fingerprint``: SHA-256 of the certificate, as browsers show it."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.certificate, self.key = certificate, key
        self.shown: str | None = None
        """The SHA-256, in hexadecimal, of the certificate of new connections. The file may be newer."""

    @property
    def fingerprint(self) -> str:
        return _read(self.certificate).fingerprint(hashes.SHA256()).hex(":").upper()

    def context(self) -> ssl.SSLContext:
        """Loads the certificate and the key. Raises ``BadSetting`` if they can't be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """New connections get this certificate from now on."""
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
            self.shown = _read(self.certificate).fingerprint(hashes.SHA256()).hex()
        except (OSError, ssl.SSLError, ValueError) as error:
            why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
            raise BadSetting(
                f"The certificate {self.certificate} and the key {self.key} can't be used: {why}. Nothing was started."
            ) from None


def own_certificate(directory: Path, names: Sequence[str], now: datetime | None = None) -> Certificate:
    """The certificate in ``directory``. Created if it is missing; renewed if it expires soon, is damaged or lacks a name."""
    make_private_directory(str(directory))
    found = Certificate(directory / "cert.pem", directory / "key.pem")
    now = now or datetime.now(UTC)
    key = _own_key(found.key)
    if _is_good(found.certificate, key, names, now, None):
        return found
    authority = own_authority(directory, names, now)
    if not _is_good(found.certificate, key, names, now, authority):
        signed = _signed(key, names, now, authority).public_bytes(serialization.Encoding.PEM)
        # The authority's certificate follows it, so that clients on this machine can use the file as their trust anchor.
        write_private(str(found.certificate), signed + authority.pem)
    return found


def authority_of(directory: Path) -> bytes | None:
    """The authority's public certificate in ``directory``; None if the server's certificate is self-signed."""
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
    """``authority``: None for a self-signed certificate."""
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


def _no_password() -> str:
    """Prevents OpenSSL from asking at the terminal."""
    raise ValueError("the key is protected by a password")
