"""A phone has to trust the server's certificate authority only once. The authority also signs renewed certificates, but
is not valid for other hosts.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from drawbridge.server.auth import tls as tls_module
from drawbridge.server.auth.access import of_this_machine
from drawbridge.server.auth.tls import (
    Authority,
    Certificate,
    authority_of,
    general_name,
    own_certificate,
    read_authority,
)
from tests.server.auth.rig import OWNER, Server, serving
from tests.server.processes import serving as process_serving
from tests.server.wire_client import connected
from tests.waiting import PATIENCE

NAMES = ["localhost", "127.0.0.1", "::1", "my-laptop", "agents.example", "203.0.113.7"]


@pytest.fixture
def made(tmp_path: Path) -> Certificate:
    return own_certificate(tmp_path / "tls", NAMES)


def authority(made: Certificate) -> Authority:
    found = read_authority(made.certificate.parent)
    assert found is not None
    return found


def trusting_the_authority(made: Certificate) -> ssl.SSLContext:
    """A context that trusts only the authority, like a phone on which its certificate was installed."""
    return ssl.create_default_context(cadata=authority(made).pem.decode())


async def asks_as(server: Server, context: ssl.SSLContext, name: str) -> str:
    async with connected(server.url, OWNER, context, server_hostname=name) as client:
        return str((await client.ask("project_list"))["type"])


async def test_the_authority_is_trusted_before_and_after_a_renewal(tmp_path: Path, made: Certificate) -> None:
    context, phone = made.context(), trusting_the_authority(made)
    async with serving(tmp_path, context) as server:
        for name in ("localhost", "my-laptop", "agents.example", "127.0.0.1"):
            assert await asks_as(server, phone, name) == "project_list"
        before = made.fingerprint
        renewed = own_certificate(tmp_path / "tls", NAMES, datetime.now(UTC) + timedelta(days=380))
        assert renewed.fingerprint != before
        made.certificate.write_bytes(own_certificate(tmp_path / "tls", [*NAMES, "10.9.8.7"]).certificate.read_bytes())
        made.load_into(context)
        assert await asks_as(server, phone, "localhost") == "project_list"


async def test_the_authority_is_not_valid_for_other_hosts(tmp_path: Path, made: Certificate) -> None:
    """A certificate for another host is rejected even if it is signed with the authority's stolen key."""
    theirs = authority(made)
    for number, name in enumerate(["bank.example", "example", "8.8.8.8", "agents.example.evil.example"]):
        key = ec.generate_private_key(ec.SECP256R1())
        forged = tls_module._signed(key, ["localhost", name], datetime.now(UTC), theirs)
        place = tmp_path / str(number)
        place.mkdir()
        (place / "cert.pem").write_bytes(forged.public_bytes(serialization.Encoding.PEM))
        (place / "key.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = Certificate(place / "cert.pem", place / "key.pem").context()
        async with serving(place, context) as server:
            with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
                await asks_as(server, trusting_the_authority(made), name)


def test_the_authority_signs_only_server_certificates(made: Certificate) -> None:
    certificate = authority(made).certificate
    basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)
    assert certificate.extensions.get_extension_for_class(x509.NameConstraints).critical
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]


def test_only_the_owner_can_read_the_authoritys_key(made: Certificate) -> None:
    key = made.certificate.with_name("ca-key.pem")
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o644)
    assert read_authority(key.parent) is not None
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_new_private_address_needs_no_new_authority(tmp_path: Path, made: Certificate) -> None:
    """A subdomain of a host name that the authority covers does not need one either."""
    before = authority(made).pem
    for address in ("192.168.1.20", "10.0.0.9", "172.20.1.1", "100.64.3.2", "fd00::7"):
        own_certificate(tmp_path / "tls", [*NAMES, address])
        assert authority(made).pem == before, address
    own_certificate(tmp_path / "tls", [*NAMES, "sub.agents.example"])
    assert authority(made).pem == before


def test_a_name_outside_the_authority_needs_a_new_one(
    tmp_path: Path, made: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    before = authority(made).pem
    own_certificate(tmp_path / "tls", [*NAMES, "other.example"])
    assert authority(made).pem != before
    assert "have to trust the new one" in caplog.text


@pytest.mark.parametrize("days", [3250, 3700, -5])
def test_the_authority_is_renewed_long_before_it_expires(tmp_path: Path, made: Certificate, days: int) -> None:
    before = authority(made).pem
    own_certificate(tmp_path / "tls", NAMES, datetime.now(UTC) + timedelta(days=days))
    assert authority(made).pem != before
    certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    assert certificate.not_valid_after_utc < authority(made).certificate.not_valid_after_utc


@pytest.mark.parametrize("name", ["ca.pem", "ca-key.pem"])
def test_a_damaged_authority_is_replaced_with_its_certificate(tmp_path: Path, made: Certificate, name: str) -> None:
    (tmp_path / "tls" / name).write_bytes(b"rubbish")
    again = own_certificate(tmp_path / "tls", NAMES)
    assert authority(again).made(x509.load_pem_x509_certificate(again.certificate.read_bytes()))
    again.context()


# certificates from an earlier version


def signs_itself(directory: Path, days: int) -> Certificate:
    """Creates a self-signed certificate as version 0.1.0 did. It is valid for another ``days`` days."""
    directory.mkdir(mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Drawbridge")])
    end = datetime.now(UTC) + timedelta(days=days)
    names = [general_name(one) for one in NAMES]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=397))
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    (directory / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Certificate(directory / "cert.pem", directory / "key.pem")


def test_a_self_signed_certificate_is_used_until_its_renewal(tmp_path: Path) -> None:
    old = signs_itself(tmp_path / "tls", days=200)
    before, key = old.fingerprint, old.key.read_bytes()
    assert own_certificate(tmp_path / "tls", NAMES).fingerprint == before
    assert authority_of(tmp_path / "tls") is None
    later = own_certificate(tmp_path / "tls", NAMES, datetime.now(UTC) + timedelta(days=180))
    assert later.fingerprint != before
    assert later.key.read_bytes() == key, "a client that pinned the key keeps its pin"
    assert authority_of(tmp_path / "tls") is not None


# /ca.crt


def get(port: int, path: str, context: ssl.SSLContext | None) -> tuple[int, str | None, bytes]:
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.headers["Content-Type"], answer.read()
    connection.close()
    return found


async def test_anyone_can_download_the_authority_and_trust_it(tmp_path: Path) -> None:
    async with process_serving(tmp_path / "data", "--host", "0.0.0.0") as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        status, kind, body = await asyncio.to_thread(get, port, "/ca.crt", server.tls)
        assert (status, kind) == (200, "application/x-x509-ca-cert")
        assert b"PRIVATE" not in body
        phone = ssl.create_default_context(cadata=body.decode())
        lan = next(str(one) for one in of_this_machine() if one.version == 4 and not one.is_loopback)
        async with connected(f"wss://{lan}:{port}/ws", server.token, phone) as client:
            assert (await client.ask("project_list"))["type"] == "project_list"
        about = json.loads((server.data / "server.json").read_bytes())
        assert about["authority"] is True


async def test_downloading_a_missing_authority_is_a_404(tmp_path: Path) -> None:
    async with process_serving(tmp_path / "data", "--no-tls") as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        assert (await asyncio.to_thread(get, port, "/ca.crt", None))[0] == 404
    given = own_certificate(tmp_path / "given", ["127.0.0.1"])
    arguments = ("--cert", given.certificate, "--key", given.key)
    async with process_serving(tmp_path / "other", *arguments) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        context = ssl.create_default_context(cafile=str(given.certificate))
        assert (await asyncio.to_thread(get, port, "/ca.crt", context))[0] == 404
        assert not (server.data / "tls").exists()
