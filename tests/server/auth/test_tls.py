"""The server's TLS certificate, which it creates or is given: its names, lifetime, key and use."""

from __future__ import annotations

import hashlib
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from drawbridge.core.errors import BadSetting
from drawbridge.server.auth.tls import Certificate, own_certificate
from tests.server.app.rig import TOKEN, serving
from tests.server.wire_client import connected

NAMES = ["localhost", "127.0.0.1", "::1", "my-laptop", "192.0.2.7"]


@pytest.fixture
def made(tmp_path: Path) -> Certificate:
    return own_certificate(tmp_path / "tls", NAMES)


def trusting(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate.certificate))


async def test_the_certificate_is_valid_for_each_name_of_the_server(tmp_path: Path, made: Certificate) -> None:
    async with serving(tmp_path, tls=made.context()) as server:
        for name in ("127.0.0.1", "localhost"):
            async with connected(server.url, TOKEN, trusting(made), server_hostname=name) as client:
                assert (await client.ask("project_list"))["type"] == "project_list"
        with pytest.raises(ssl.SSLCertVerificationError):
            async with connected(server.url, TOKEN, trusting(made), server_hostname="other.example"):
                pass
        with pytest.raises(ssl.SSLCertVerificationError):
            async with connected(server.url, TOKEN, ssl.create_default_context()):
                pass


async def test_plain_text_and_old_tls_versions_are_refused(tmp_path: Path, made: Certificate) -> None:
    async with serving(tmp_path, tls=made.context()) as server:
        with pytest.raises(Exception, match=r"valid HTTP|closed|reset"):
            async with connected(server.url.replace("wss:", "ws:"), TOKEN):
                pass
        context = trusting(made)
        assert made.context().minimum_version >= ssl.TLSVersion.TLSv1_2
        async with connected(server.url, TOKEN, context) as client:
            assert (await client.ask("project_list"))["type"] == "project_list"


async def test_large_messages_and_slow_readers_work_with_tls(tmp_path: Path, made: Certificate) -> None:
    async with serving(tmp_path, tls=made.context()) as server, connected(server.url, TOKEN, trusting(made)) as client:
        await client.ask("project_create", {"path": "/a"})
        await client.ask("project_join", project_id="p1")
        for seq in range(1, 31):
            server.core.say_line(b'{"type":"assistant","text":"' + b"x" * 200_000 + b'"}', seq)
        for seq in range(1, 31):
            assert (await client.receive("agent_message"))["seq"] == seq


def test_the_certificate_contains_all_names_and_lasts_a_year(made: Certificate) -> None:
    certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "my-laptop"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1", "192.0.2.7"]
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert timedelta(days=365) < lifetime <= timedelta(days=398)
    assert certificate.not_valid_before_utc < datetime.now(UTC) - timedelta(hours=1), "a phone's clock may be late"


def test_only_the_owner_can_read_the_key(made: Certificate) -> None:
    assert made.key.stat().st_mode & 0o777 == 0o600
    assert made.key.parent.stat().st_mode & 0o777 == 0o700


def test_the_fingerprint_matches_what_a_client_sees(made: Certificate, tmp_path: Path) -> None:
    first, end, _ = made.certificate.read_text().partition("-----END CERTIFICATE-----")
    der = ssl.PEM_cert_to_DER_cert(first + end)
    assert made.fingerprint.replace(":", "").lower() == hashlib.sha256(der).hexdigest()
    assert len(made.fingerprint) == 95


def test_the_certificate_stays_the_same_after_a_restart(made: Certificate, tmp_path: Path) -> None:
    before = made.fingerprint
    assert own_certificate(tmp_path / "tls", NAMES).fingerprint == before
    assert own_certificate(tmp_path / "tls", ["localhost"]).fingerprint == before


@pytest.mark.parametrize("days", [368, 400, -5])
def test_an_expiring_certificate_is_renewed_with_its_key(made: Certificate, tmp_path: Path, days: int) -> None:
    before, key = made.fingerprint, made.key.read_bytes()
    renewed = own_certificate(tmp_path / "tls", NAMES, datetime.now(UTC) + timedelta(days=days))
    assert renewed.fingerprint != before
    assert renewed.key.read_bytes() == key
    renewed.context()


def test_a_certificate_is_not_renewed_too_early(made: Certificate, tmp_path: Path) -> None:
    before = made.fingerprint
    assert own_certificate(tmp_path / "tls", NAMES, datetime.now(UTC) + timedelta(days=360)).fingerprint == before


def test_a_new_name_needs_a_new_certificate(made: Certificate, tmp_path: Path) -> None:
    before = made.fingerprint
    assert own_certificate(tmp_path / "tls", [*NAMES, "phone.example"]).fingerprint != before


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff" * 100])
def test_a_damaged_file_is_replaced(made: Certificate, tmp_path: Path, content: bytes) -> None:
    before = made.fingerprint
    made.certificate.write_bytes(content)
    assert own_certificate(tmp_path / "tls", NAMES).fingerprint != before
    made.key.write_bytes(content)
    again = own_certificate(tmp_path / "tls", NAMES)
    again.context()
    assert again.key.stat().st_mode & 0o777 == 0o600


def test_a_key_of_another_certificate_is_detected(made: Certificate, tmp_path: Path) -> None:
    other = own_certificate(tmp_path / "other", NAMES)
    os.replace(other.key, made.key)
    own_certificate(tmp_path / "tls", NAMES).context()


# a certificate that the owner provides


def test_only_a_matching_certificate_and_key_are_accepted(made: Certificate, tmp_path: Path) -> None:
    Certificate(made.certificate, made.key).context()
    other = own_certificate(tmp_path / "other", NAMES)
    for certificate, key, why in [
        (made.certificate, other.key, "the key does not belong to the certificate"),
        (tmp_path / "missing", made.key, "no such file or directory"),
        (made.certificate, tmp_path / "missing", "no such file or directory"),
        (made.key, made.certificate, ".+"),  # the reason depends on the version of OpenSSL
    ]:
        with pytest.raises(BadSetting, match=rf"can't be used: {why}\.$"):
            Certificate(certificate, key).context()


def test_a_tls_key_that_needs_a_password_is_refused(made: Certificate, tmp_path: Path) -> None:
    """The server must not ask for the password in the terminal."""
    key = serialization.load_pem_private_key(made.key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    encryption = serialization.BestAvailableEncryption(b"secret")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    with pytest.raises(BadSetting, match="password"):
        Certificate(made.certificate, locked).context()


async def test_new_connections_get_a_renewed_certificate(tmp_path: Path, made: Certificate) -> None:
    context = made.context()
    async with serving(tmp_path, tls=context) as server, connected(server.url, TOKEN, trusting(made)) as old:
        renewed = own_certificate(tmp_path / "tls", [*NAMES, "new.example"])
        renewed.load_into(context)
        async with connected(server.url, TOKEN, trusting(renewed), server_hostname="new.example") as new:
            assert (await new.ask("project_list"))["type"] == "project_list"
        assert (await old.ask("project_list"))["type"] == "project_list"
