"""The certificate authority of one server: a phone that trusts it accepts every later certificate of this server.

It can only certify this machine's own names, the ``--public-host`` ones and private networks (name constraints, RFC 5280,
4.2.1.10): a device that trusts it accepts nothing else, even if its key were stolen.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from drawbridge.core.private_files import write_private

LIFETIME: Final = timedelta(days=3650)

SPARE: Final = timedelta(days=430)
"""It is replaced this long before it expires, so that none of its certificates outlives it."""

PRIVATE: Final = tuple(
    map(
        ipaddress.ip_network,
        ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "::1/128", "fc00::/7"),
    )
)
"""Loopback, private networks and those of VPNs: a laptop's address changes there, and the phone need not trust a new
authority."""

logger = logging.getLogger("drawbridge.server")


class Authority:
    """``certificate``: its public part, which phones install."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self.key = key

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def made(self, certificate: x509.Certificate) -> bool:
        """Whether the authority has issued this certificate."""
        return issued(certificate, self.certificate)


def own_authority(directory: Path, names: Sequence[str], now: datetime) -> Authority:
    """The authority in ``directory``. Created if it is missing, expires soon, is damaged or can't certify one of the names."""
    found = read_authority(directory)
    if found is not None and _is_good(found.certificate, names, now):
        return found
    if (directory / "ca.pem").exists():
        logger.warning(
            "a new certificate authority was created: devices that trusted the old one have to trust the new one"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    made = Authority(_signed(key, names, now), key)
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


def _is_good(certificate: x509.Certificate, names: Sequence[str], now: datetime) -> bool:
    lasts = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - SPARE
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


def _signed(key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: datetime) -> x509.Certificate:
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
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.NameConstraints(permitted_subtrees=_limits(names), excluded_subtrees=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _limits(names: Sequence[str]) -> list[x509.GeneralName]:
    limits: list[x509.GeneralName] = [x509.IPAddress(network) for network in PRIVATE]
    for name in dict.fromkeys(names):
        kind = general_name(name)
        if isinstance(kind, x509.DNSName):
            limits.append(kind)
        elif not any(_covers(limit, kind) for limit in limits):
            limits.append(x509.IPAddress(ipaddress.ip_network(name)))
    return limits
