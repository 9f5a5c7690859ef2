"""Real servers, with each fault that could keep a phone from connecting."""

from __future__ import annotations

import asyncio
import http.server
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import replace

from drawbridge.doctor import servers
from drawbridge.transport import private_socket, running
from tests.doctor.conftest import Doctor
from tests.server.processes import serving
from tests.waiting import PATIENCE

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers may answer slowly on a busy machine."""
    monkeypatch.setattr(servers, "SECONDS", PATIENCE)


@pytest.fixture
def data(home: Path) -> Path:
    return home / "data"


def certificate(
    place: Path, *, begins: timedelta = -DAY, ends: timedelta = DAY, address: str = "127.0.0.1"
) -> list[str | Path]:
    """Creates a certificate as the owner could provide it, and returns the flags for it. The times are relative to
    now."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Test")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    (place / "cert").write_bytes(made.public_bytes(encoding))
    (place / "key").write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return ["--cert", place / "cert", "--key", place / "key"]


def trust(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """Makes this process trust the certificate, as if the owner had installed it on the machine."""
    monkeypatch.setenv("SSL_CERT_FILE", str(place / "cert"))


async def test_a_running_server_works(doctor: Doctor, data: Path) -> None:
    async with serving(data) as server:
        output = doctor()
        assert server.token not in output.output
    assert output.one("server-works")["title"].startswith("The server answers at https://127.0.0.1:")
    assert "serve --host 0.0.0.0`" in output.one("server-loopback")["todo"]
    assert output.wrong == []
    assert output.code == 0


def test_a_missing_server_is_reported_as_a_note(doctor: Doctor) -> None:
    assert doctor().one("server-none")["severity"] == "note"


async def test_a_server_without_tls_and_token_works(doctor: Doctor, data: Path) -> None:
    async with serving(data, "--no-tls", "--insecure-no-auth"):
        output = doctor()
    assert output.one("server-works")["title"].startswith("The server answers at http://127.0.0.1:")
    assert output.wrong == []


async def test_a_replaced_token_is_reported(doctor: Doctor, data: Path) -> None:
    async with serving(data):
        (data / "token").write_text("another-token-that-is-long-enough-to-be-one")
        output = doctor()
    assert f"refuses the token in {data / 'token'}." in output.one("server-token")["title"]
    assert "another-token" not in output.output
    assert output.code == 3


async def test_the_token_is_not_sent_to_another_server(data: Path) -> None:
    """Another server answers at the address, or the server's certificate was replaced after the announcement."""
    async with serving(data):
        (data / "token").write_text("another-token-that-is-long-enough-to-be-one")
        [server] = running.announcements()
        assert await asyncio.to_thread(servers.token, server)
        assert not await asyncio.to_thread(servers.token, replace(server, fingerprint="86:EE"))


async def test_the_token_does_not_leave_the_machine_unencrypted(data: Path) -> None:
    async with serving(data, "--no-tls"):
        (data / "token").write_text("another-token-that-is-long-enough-to-be-one")
        [server] = running.announcements()
        assert await asyncio.to_thread(servers.token, server)
        assert not await asyncio.to_thread(
            servers.token, replace(server, url=server.url.replace("127.0.0.1", "0.0.0.0"))
        )


async def test_a_hung_server_is_reported(doctor: Doctor, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "SECONDS", 0.5)
    async with serving(data) as server:
        server.process.send_signal(signal.SIGSTOP)
        try:
            output = doctor()
        finally:
            server.process.send_signal(signal.SIGCONT)
    assert f"(process {server.process.pid}) does not answer" in output.one("server-silent")["title"]
    assert "no answer within 0.5 seconds" in output.one("server-silent")["title"]


@pytest.mark.parametrize(
    ("options", "id"),
    [
        ({"begins": -2 * DAY, "ends": -DAY}, "server-certificate-expired"),
        ({"begins": DAY, "ends": 2 * DAY}, "server-certificate-early"),
        ({"address": "192.0.2.1"}, "server-certificate-name"),
        ({}, None),
    ],
    ids=["expired", "early", "name", "good"],
)
async def test_only_an_invalid_certificate_is_reported(
    doctor: Doctor,
    data: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, timedelta],
    id: str | None,
) -> None:
    flags = certificate(home, **options)  # type: ignore[arg-type]
    trust(monkeypatch, home)
    async with serving(data, *flags):
        output = doctor()
    assert output.wrong == ([id] if id else [])


async def test_an_untrusted_certificate_is_reported(doctor: Doctor, data: Path, home: Path) -> None:
    async with serving(data, *certificate(home)):
        output = doctor()
    assert output.wrong == ["server-certificate-untrusted"]


async def test_a_missing_private_socket_is_reported(doctor: Doctor, data: Path) -> None:
    async with serving(data) as server:
        [path] = private_socket.addresses()
        os.unlink(path)
        output = doctor()
    assert f"(process {server.process.pid}) is gone from" in output.one("server-socket")["title"]


async def test_a_clock_that_was_set_back_is_reported(doctor: Doctor, data: Path) -> None:
    async with serving(data):
        later = time.time() + 7200
        os.utime(data / "token", (later, later))
        output = doctor()
    assert f"{data / 'token'} is dated 2.0 hours in the future" in output.one("clock")["title"]


def test_an_address_that_refuses_connections_is_reported(doctor: Doctor, data: Path) -> None:
    """The connection is refused, as by a firewall or at an address that the machine no longer has."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        port = made.getsockname()[1]
    data.mkdir()
    with running.announced(data, f"ws://127.0.0.1:{port}/ws", (f"http://127.0.0.2:{port}/",), None, loopback=False):
        output = doctor()
    title = f"The server does not answer at http://127.0.0.2:{port}/: connection refused."
    assert output.one("server-unreachable")["title"] == title
    assert output.one("server-silent")["title"].endswith("connection refused.")


def test_a_host_name_that_the_server_rejects_is_reported(doctor: Doctor, data: Path) -> None:
    data.mkdir()
    with refusing() as port, running.announced(data, f"ws://127.0.0.1:{port}/ws", (), None, loopback=False):
        found = doctor().one("server-host")
    assert "serve --public-host 127.0.0.1`" in found["todo"]


@contextmanager
def refusing() -> Iterator[int]:
    """Answers every GET request with 403, like a server that does not accept the request's host name. Yields the
    port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
