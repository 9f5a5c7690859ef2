"""To sign in with an SSH key, the user's own tools sign a challenge that is valid only for this connection and this
server.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import shutil
import ssl
import struct
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA384, SHA512
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from drawbridge.core.errors import BadSetting
from drawbridge.server.app import clients as clients_module
from drawbridge.server.app.clients import DISMISSED
from drawbridge.server.auth import entrance as entrance_module
from drawbridge.server.auth.access import Access, OwnNames
from drawbridge.server.auth.entrance import HANDSHAKES, Entrance
from drawbridge.server.auth.ssh_keys import NAMESPACE, BadSignature, Keys, challenge, entries, verified
from drawbridge.server.auth.tls import own_certificate
from drawbridge.server.protocol.client_errors import ClientError
from tests.programs import missing
from tests.server import processes
from tests.server.auth.rig import OWNER, Server, code_of, serving
from tests.server.processes import refused
from tests.server.wire_client import WireClient, connected
from tests.waiting import PATIENCE, until

PrivateKey = ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

ADA = ed25519.Ed25519PrivateKey.generate()
RSA = rsa.generate_private_key(65537, 2048)
SHORT = rsa.generate_private_key(65537, 1024)
CURVES = [ec.generate_private_key(curve) for curve in (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1())]


def line(key: PrivateKey, comment: str = "ada@laptop") -> str:
    """A line of an authorized_keys file."""
    form = serialization.PublicFormat.OpenSSH
    return f"{key.public_key().public_bytes(serialization.Encoding.OpenSSH, form).decode()} {comment}\n"


def packed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def mpint(number: int) -> bytes:
    return packed(number.to_bytes(number.bit_length() // 8 + 1, "big"))


def signature(
    key: PrivateKey, message: bytes, *, namespace: str = NAMESPACE, algorithm: str = "sha512", sha1: bool = False
) -> str:
    """Signs the message like ``ssh-keygen -Y sign``. Returns the armored signature. Another ``namespace``, an
    ``algorithm`` other than SHA-256 and SHA-512, or ``sha1`` with an RSA key makes it invalid for a login.
    """
    blob = base64.b64decode(line(key).split()[1])
    digest = hashlib.new(algorithm, message).digest()
    head = packed(namespace.encode()) + packed(b"") + packed(algorithm.encode())
    signed = b"SSHSIG" + head + packed(digest)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        inner = packed(b"ssh-ed25519") + packed(key.sign(signed))
    elif isinstance(key, rsa.RSAPrivateKey):
        kind, hashing = (b"ssh-rsa", SHA1()) if sha1 else (b"rsa-sha2-512", SHA512())
        inner = packed(kind) + packed(key.sign(signed, padding.PKCS1v15(), hashing))
    else:
        hashing = {256: SHA256(), 384: SHA384(), 521: SHA512()}[key.curve.key_size]  # type: ignore[assignment]
        r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(hashing)))
        inner = packed(b"ecdsa-sha2-nistp%d" % key.curve.key_size) + packed(mpint(r) + mpint(s))
    whole = b"SSHSIG" + struct.pack(">I", 1) + packed(blob) + head + packed(inner)
    return armoured(whole)


def armoured(whole: bytes) -> str:
    text = base64.b64encode(whole).decode()
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "authorized_keys"
    path.write_text("# of the owner\n\n" + "".join([line(ADA), line(RSA), *map(line, CURVES)]))
    path.chmod(0o600)
    return path


@pytest.fixture
async def server(tmp_path: Path, file: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path, keys=Keys(file)) as server:
        yield server


async def answered(
    client: WireClient, key: PrivateKey, *, host: str = "", certificate: str | None = None, **more: Any
) -> dict[str, Any]:
    """Signs in with a signature for this host and certificate, by default the ones that the server sent. Returns the
    answer.
    """
    asked = (await client.ask("ssh_challenge"))["data"]
    host = host or asked["host"]
    seen = asked["certificate"] if certificate is None else certificate
    signed = signature(key, challenge(host, seen, asked["nonce"]), **more)
    return await client.ask("ssh_auth", {"nonce": asked["nonce"], "host": host, "signature": signed})


async def log_in(client: WireClient, key: PrivateKey, **more: Any) -> str:
    return code_of(await answered(client, key, **more))


# accepted


@pytest.mark.parametrize("key", [ADA, RSA, *CURVES], ids=["ed25519", "rsa", "p256", "p384", "p521"])
async def test_a_key_in_the_file_signs_in_with_full_access(server: Server, key: PrivateKey) -> None:
    async with connected(server.url) as client:
        assert await log_in(client, key) == "auth"
        hello = (await client.ask("hello", {"client": "somebody else"}))["data"]
        assert hello["device"] == {"name": "ada@laptop", "scope": "admin", "projects": None}


async def test_the_signed_text_is_readable(server: Server) -> None:
    async with connected(server.url) as client:
        asked = (await client.ask("ssh_challenge"))["data"]
        assert asked["host"] == f"127.0.0.1:{server.port}"
        assert asked["certificate"] == "-"
        assert asked["text"] == f"drawbridge-login-v2\n127.0.0.1:{server.port}\n-\n{asked['nonce']}\n"


async def test_signing_may_take_longer_than_sending_a_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "AUTH_SECONDS", 0.5)
    monkeypatch.setattr(clients_module, "SIGNING_SECONDS", 0.8)
    began = time.monotonic()
    async with connected(server.url) as client:
        await client.ask("ssh_challenge")
        assert await client.close_code() == 4401
        assert (client.connection.close_reason or "").startswith("the challenge was not signed within ")
        assert time.monotonic() - began > 0.75


# refused


async def test_more_challenges_do_not_extend_the_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "SIGNING_SECONDS", 0.5)
    async with connected(server.url) as client:
        # A request fails once the server has closed the connection.
        with contextlib.suppress(ConnectionClosed, AssertionError):
            async with asyncio.timeout(PATIENCE):
                while True:
                    await client.ask("ssh_challenge")
        assert await client.close_code() == 4401


def test_challenges_count_as_handshakes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance_module, "now", lambda: 1_000.0)
    entrance = Entrance(Access(OWNER, OwnNames(), secure=True, keys=Keys(file)))
    for _ in range(HANDSHAKES[0]):
        entrance.nonce("203.0.113.5")
    with pytest.raises(ClientError) as refused:
        entrance.nonce("203.0.113.5")
    assert refused.value.code == "RATE_LIMITED"
    entrance.nonce("203.0.113.6")
    for _ in range(2 * HANDSHAKES[0]):
        entrance.nonce("127.0.0.1")


async def test_a_key_that_is_not_in_the_file_is_refused(server: Server) -> None:
    for key in (ed25519.Ed25519PrivateKey.generate(), SHORT):
        async with connected(server.url) as client:
            assert await log_in(client, key) == "SIGNATURE_WRONG"
            assert await client.close_code() == 4401
    assert not list(server.clients)


async def test_a_signature_is_valid_once_on_one_connection(server: Server) -> None:
    async with connected(server.url) as client:
        asked = (await client.ask("ssh_challenge"))["data"]
        signed = signature(ADA, challenge(asked["host"], None, asked["nonce"]))
        answer = {"nonce": asked["nonce"], "host": asked["host"], "signature": signed}
        assert code_of(await client.ask("ssh_auth", answer)) == "auth"
        assert code_of(await client.ask("ssh_auth", answer)) == "SIGNATURE_REPLAYED"
    for again in (False, True):
        async with connected(server.url) as thief:
            if again:
                await thief.ask("ssh_challenge")
            assert code_of(await thief.ask("ssh_auth", answer)) == "SIGNATURE_REPLAYED"
            assert await thief.close_code() == 4401


async def test_a_second_identity_is_refused(server: Server) -> None:
    """The error names the field of the command that was sent."""
    async with connected(server.url) as client:
        assert await log_in(client, ADA) == "auth"
        error = (await answered(client, RSA))["data"]
        assert (error["code"], error["field"]) == ("UNAUTHORIZED", "data.signature")


async def test_a_signature_for_another_server_is_refused(server: Server) -> None:
    """An attacker's server forwards the challenge, but the client signs the name of the host that it has
    connected to.
    """
    for host in ("evil.example", "evil.example:8443", "localhost.evil.example"):
        async with connected(server.url) as client:
            assert await log_in(client, ADA, host=host) == "SIGNATURE_FOREIGN"
    async with connected(server.url) as client:
        asked = (await client.ask("ssh_challenge"))["data"]
        signed = signature(ADA, challenge("evil.example", None, asked["nonce"]))
        answer = {"nonce": asked["nonce"], "host": asked["host"], "signature": signed}
        assert code_of(await client.ask("ssh_auth", answer)) == "SIGNATURE_WRONG"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.9:PORT",
        "[::1]:1",
        "[::1]",
        "localhost.:PORT",
        "LOCALHOST:PORT",
        "LOCALHOST.",
        "localhost",
        "localhost:1",
        "127.0.0.1",
        "127.1:PORT",
        "2130706433:PORT",
        "localhost:0PORT",
        "localhost:PORT:PORT",
        "[127.0.0.1]:PORT",
        "[localhost]:PORT",
        "[::ffff:127.0.0.1]:PORT",
        "[0:0:0:0:0:0:0:1]:PORT",
        "::1:PORT",
        "ada@localhost:PORT",
        "localhost:",
        ":PORT",
    ],
)
async def test_a_signature_for_an_odd_host_spelling_is_refused(server: Server, host: str) -> None:
    """On loopback, another port or another address may belong to somebody else."""
    async with connected(server.url) as client:
        assert await log_in(client, ADA, host=host.replace("PORT", str(server.port))) == "SIGNATURE_FOREIGN"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT", "public.example", "public.example:99"]
)
async def test_a_signature_for_any_of_the_servers_names_is_accepted(server: Server, host: str) -> None:
    """The server's own names are accepted only with its port. At a public name, a proxy may use a different port."""
    async with connected(server.url) as client:
        assert await log_in(client, ADA, host=host.replace("PORT", str(server.port))) == "auth"


async def test_a_login_cannot_be_relayed_from_another_port(server: Server) -> None:
    """The client connects to an attacker on another port of localhost, who forwards the challenge and the answer, once
    with the host that the client signed and once with the server's own.
    """
    dialled, own = "localhost:36367", f"localhost:{server.port}"
    for host, code in ((dialled, "SIGNATURE_FOREIGN"), (own, "SIGNATURE_WRONG")):
        async with connected(server.url) as relay:
            nonce = (await relay.ask("ssh_challenge"))["data"]["nonce"]
            signed = signature(ADA, challenge(dialled, None, nonce))
            assert code_of(await relay.ask("ssh_auth", {"nonce": nonce, "host": host, "signature": signed})) == code
            assert await relay.close_code() == 4401


@pytest.fixture
async def secure(tmp_path: Path, file: Path) -> AsyncIterator[Server]:
    """A server with TLS. The fingerprint of its certificate is ``secure.access.certificate()``."""
    (tmp_path / "secure").mkdir()
    made = own_certificate(tmp_path / "tls", ["localhost", "127.0.0.1"])
    context = made.context()
    async with serving(tmp_path / "secure", context, keys=Keys(file), certificate=made) as server:
        yield server


def trusting(directory: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(directory / "tls" / "cert.pem"))


def seen_by(client: WireClient) -> str:
    """The SHA-256 hash, in hexadecimal, of the certificate that this client received on its connection."""
    shown = client.connection.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return hashlib.sha256(shown).hexdigest()


async def test_a_login_contains_the_certificate_the_client_sees(secure: Server, tmp_path: Path) -> None:
    async with connected(secure.url, tls=trusting(tmp_path)) as client:
        assert await log_in(client, ADA, certificate=seen_by(client)) == "auth"
    async with connected(secure.url, tls=trusting(tmp_path)) as client:
        assert (await client.ask("ssh_challenge"))["data"]["certificate"] == seen_by(client)


@pytest.mark.parametrize("certificate", ["ab" * 32, "-", ""])
async def test_a_login_for_another_certificate_is_refused(secure: Server, tmp_path: Path, certificate: str) -> None:
    """The client signs a different certificate if somebody in between terminates TLS with their own."""
    async with connected(secure.url, tls=trusting(tmp_path)) as relay:
        assert await log_in(relay, ADA, certificate=certificate) == "SIGNATURE_WRONG"
        assert await relay.close_code() == 4401


async def test_a_wrong_certificate_in_a_login_is_named_in_the_error(secure: Server, tmp_path: Path) -> None:
    async with connected(secure.url, tls=trusting(tmp_path)) as client:
        asked = (await client.ask("ssh_challenge"))["data"]
        signed = signature(ADA, challenge(asked["host"], "ab" * 32, asked["nonce"]))
        answer = {"nonce": asked["nonce"], "host": asked["host"], "signature": signed, "certificate": "ab" * 32}
        refused = await client.ask("ssh_auth", answer)
        assert code_of(refused) == "SIGNATURE_FOREIGN"
        assert refused["data"]["field"] == "data.certificate"
    async with connected(secure.url, tls=trusting(tmp_path)) as client:
        asked = (await client.ask("ssh_challenge"))["data"]
        signed = signature(ADA, challenge(asked["host"], seen_by(client), asked["nonce"]))
        answer = {"nonce": asked["nonce"], "host": asked["host"], "signature": signed}
        assert code_of(await client.ask("ssh_auth", answer | {"certificate": seen_by(client).upper()})) == "auth"


async def test_a_login_needs_the_certificate_of_its_connection(tmp_path: Path, file: Path) -> None:
    """The certificate is renewed while a client is signing in, for example while the user types a passphrase."""
    (tmp_path / "data").mkdir()
    made = own_certificate(tmp_path / "tls", ["127.0.0.1"])
    context = made.context()
    async with serving(tmp_path / "data", context, keys=Keys(file), certificate=made) as server:
        async with connected(server.url, tls=trusting(tmp_path)) as client:
            before = seen_by(client)
            own_certificate(tmp_path / "tls", ["127.0.0.1", "later.example"])
            made.load_into(context)
            assert made.shown != before
            assert await log_in(client, ADA, certificate=before) == "auth"
        async with connected(server.url, tls=trusting(tmp_path)) as client:
            assert seen_by(client) == made.shown
            assert await log_in(client, ADA, certificate=seen_by(client)) == "auth"


async def test_an_outdated_client_is_asked_to_update(server: Server) -> None:
    async with connected(server.url) as client:
        asked = (await client.ask("ssh_challenge"))["data"]
        signed = signature(ADA, f"drawbridge-login-v1\n{asked['host']}\n{asked['nonce']}\n".encode())
        answer = {"nonce": asked["nonce"], "host": asked["host"], "signature": signed}
        refused = await client.ask("ssh_auth", answer)
        assert code_of(refused) == "SIGNATURE_WRONG"
        assert "Update the client" in refused["data"]["message"]


async def test_a_signature_for_another_purpose_or_with_sha1_is_refused(server: Server) -> None:
    wrong: list[tuple[PrivateKey, dict[str, Any]]] = [
        (ADA, {"namespace": "git"}),
        (ADA, {"namespace": "file"}),
        (ADA, {"algorithm": "sha1"}),
        (RSA, {"sha1": True}),
    ]
    for key, more in wrong:
        async with connected(server.url) as client:
            assert await log_in(client, key, **more) == "SIGNATURE_WRONG"
    async with connected(server.url) as client:
        assert await log_in(client, ADA, algorithm="sha256") == "auth"


async def test_removing_a_key_ends_its_connections(server: Server, file: Path) -> None:
    async with connected(server.url) as ada, connected(server.url) as other, server.client() as owner:
        assert await log_in(ada, ADA) == "auth"
        assert await log_in(other, RSA) == "auth"
        file.write_text(line(RSA))
        assert (await ada.receive("error"))["data"]["code"] == "TOKEN_REVOKED"
        assert await ada.close_code() == DISMISSED
        for client in (other, owner):
            assert (await client.ask("health_check"))["type"] == "health"
    async with connected(server.url) as ada:
        assert await log_in(ada, ADA) == "SIGNATURE_WRONG"


async def test_without_the_setting_no_key_is_accepted(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, connected(server.url) as client:
        assert code_of(await client.ask("ssh_challenge")) == "NOT_SUPPORTED"


async def test_failed_signatures_count_as_failed_logins(server: Server) -> None:
    codes = []
    for _ in range(12):
        async with connected(server.url) as client:
            codes.append(await log_in(client, ADA, namespace="git"))
    assert codes == ["SIGNATURE_WRONG"] * 10 + ["RATE_LIMITED"] * 2
    async with connected(server.url) as client:
        assert await log_in(client, ADA) == "RATE_LIMITED"
    async with server.client(OWNER) as owner:
        assert (await owner.ask("health_check"))["type"] == "health"


# the file


def test_unsupported_lines_are_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    plain = line(ADA)
    text = "".join(
        [
            f'command="/bin/true" {plain}',
            f"restrict {plain}",
            line(SHORT),
            "ssh-dss AAAAB3NzaC1kc3M= old\n",
            "sk-ssh-ed25519@openssh.com AAAA touch\n",
            "ssh-ed25519 rubbish\n",
            "ssh-ed25519\n",
            "ssh-ed25519 \u00e9\n",
            plain.replace(" AAAA", " AAAAB"),
            f"  {plain}",
        ]
    )
    assert [entry.name for entry in entries(text, "keys")] == ["ada@laptop"]
    assert [number for number in range(1, 11) if f"keys, line {number} is ignored" in caplog.text] == list(range(1, 10))


def test_an_unprintable_comment_is_not_used_as_a_name() -> None:
    for comment in ("", "a\x1b[2J", "x" * 61):
        [entry] = entries(line(ADA, comment), "keys")
        assert entry.name == entry.fingerprint
        assert entry.fingerprint.startswith("SHA256:")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
async def test_a_file_that_others_can_write_is_not_used(server: Server, file: Path, mode: int) -> None:
    file.chmod(mode)
    async with connected(server.url) as client:
        assert await log_in(client, ADA) == "SIGNATURE_WRONG"
    with pytest.raises(BadSetting, match="can be written by other users"):
        Keys(file).reload()


async def test_unusable_files_and_refused_signatures_are_logged_once(
    server: Server, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "drawbridge")
    async with connected(server.url) as client:
        assert await log_in(client, RSA, sha1=True) == "SIGNATURE_WRONG"
    assert caplog.text.count("refused a signature: ") == 1
    file.chmod(0o666)
    for _ in range(3):
        async with connected(server.url) as client:
            assert await log_in(client, ADA) == "SIGNATURE_WRONG"
    assert caplog.text.count("SSH keys are not accepted: ") == 1
    file.chmod(0o600)
    async with connected(server.url) as client:
        assert await log_in(client, ADA) == "auth"
    file.chmod(0o666)
    async with connected(server.url) as client:
        assert await log_in(client, ADA) == "SIGNATURE_WRONG"
    assert caplog.text.count("SSH keys are not accepted: ") == 2


async def test_clients_are_served_while_the_key_file_hangs(
    server: Server, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A named pipe stands for a file on a disk that does not respond. The keys that were last read remain valid."""
    async with connected(server.url) as client:
        assert await log_in(client, ADA) == "auth"
    monkeypatch.setattr(entrance_module, "KEYS_SECONDS", 0.1)
    pipe = file.with_name("pipe")
    os.mkfifo(pipe, 0o600)
    os.replace(pipe, file)
    try:
        async with server.client() as owner, connected(server.url) as client:
            await until(lambda: "its disk does not respond" in caplog.text)
            await owner.ask("health_check")
            assert await log_in(client, ADA) == "auth"
    finally:
        os.rename(file, pipe)
        file.write_text("")
        os.close(os.open(pipe, os.O_RDWR))  # ends the thread that waits for the pipe


def test_a_file_of_another_user_is_not_used(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of a file can change its mode, so the server uses only files that belong to root or to its own user."""
    keys = Keys(file)
    keys.reload()
    blob = base64.b64decode(line(ADA).split()[1])
    assert keys.find(blob) is not None
    if os.getuid() == 0:
        os.chown(file, 54_321, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: file.stat().st_uid + 1)
        file.touch()
    with pytest.raises(BadSetting, match="can be written by other users"):
        keys.reload()
    assert keys.find(blob) is None


async def test_a_server_does_not_start_with_a_file_that_cannot_be_used(tmp_path: Path, file: Path) -> None:
    file.chmod(0o666)
    for path, expected in ((file, "can be written by other users"), (tmp_path / "none", "no such file")):
        code, output = await refused("--data-dir", tmp_path / "data", "--port", "0", "--authorized-keys", path)
        assert code == 2
        assert f"--authorized-keys: {path}" in output
        assert expected in output


# any bytes


@given(st.binary(max_size=400))
def test_random_bytes_are_not_a_signature(data: bytes) -> None:
    for text in (data.decode("latin-1"), armoured(data), armoured(b"SSHSIG\0\0\0\1" + data)):
        with pytest.raises(BadSignature):
            verified(text, b"message")


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_signature_with_one_flipped_bit_is_invalid(place: int, bit: int) -> None:
    text = signature(ADA, b"message")
    whole = bytearray(base64.b64decode("".join(text.splitlines()[1:-1])))
    whole[place % len(whole)] ^= 1 << bit
    key = base64.b64decode(line(ADA).split()[1])
    try:
        found = verified(armoured(bytes(whole)), b"message")
    except BadSignature:
        return
    assert found != key, "at least the key is not Ada's"


def test_a_signature_of_other_bytes_is_invalid() -> None:
    verified(signature(ADA, b"message"), b"message")
    with pytest.raises(BadSignature, match="does not match the signed text"):
        verified(signature(ADA, b"message"), b"massage")
    whole = base64.b64decode("".join(signature(ADA, b"m").splitlines()[1:-1]))
    with pytest.raises(BadSignature, match="not an SSH signature"):
        verified(signature(ADA, b"m").replace("\n", "\n\u00e9", 1), b"m")
    with pytest.raises(BadSignature, match="trailing data"):
        verified(armoured(whole + b"\0"), b"m")


# the user's own tools


@pytest.fixture
def ssh_keygen() -> str:
    return shutil.which("ssh-keygen") or missing("ssh-keygen is missing: install openssh-client")


@pytest.fixture
def agent(tmp_path: Path, ssh_keygen: str) -> Iterator[dict[str, str]]:
    """Runs the test's own ssh-agent. Yields the environment variables that point to it."""
    path = str(Path(os.environ["TMPDIR"]) / "agent.sock")
    program = shutil.which("ssh-agent") or missing("ssh-agent is missing: install openssh-client")
    process = subprocess.Popen([program, "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        variables = {**os.environ, "SSH_AUTH_SOCK": path}
        end = time.monotonic() + PATIENCE
        while subprocess.run(["ssh-add", "-l"], env=variables, capture_output=True).returncode == 2:
            assert time.monotonic() < end, "the agent does not answer"
        yield variables
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_a_signature_by_ssh_keygen_is_verified(tmp_path: Path, ssh_keygen: str, kind: str) -> None:
    key = tmp_path / "id"
    bits = ["-b", "2048"] if kind == "rsa" else []
    subprocess.run([ssh_keygen, "-q", "-t", kind, *bits, "-N", "", "-C", "me", "-f", key], check=True)
    message = challenge("agents.example:8443", "ab" * 32, "n0nce")
    command = [ssh_keygen, "-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key)]
    signed = subprocess.run(command, input=message, capture_output=True, check=True).stdout.decode()
    [entry] = entries(key.with_suffix(".pub").read_text(), "keys")
    assert (entry.name, verified(signed, message)) == ("me", entry.blob)
    fingerprint = subprocess.run([ssh_keygen, "-lf", key], capture_output=True, check=True, text=True).stdout
    assert fingerprint.split()[1] == entry.fingerprint


@pytest.fixture
def public(tmp_path: Path, ssh_keygen: str, agent: dict[str, str]) -> Path:
    """The public key file of a key that only the agent has."""
    key = tmp_path / "id"
    subprocess.run([ssh_keygen, "-q", "-t", "ed25519", "-N", "", "-C", "me@home", "-f", key], check=True)
    subprocess.run(["ssh-add", "-q", key], env=agent, check=True)
    key.unlink()
    key.with_suffix(".pub").chmod(0o644)
    return key.with_suffix(".pub")


async def test_a_key_that_only_the_agent_has_signs_in(
    tmp_path: Path, ssh_keygen: str, agent: dict[str, str], public: Path
) -> None:
    command = [ssh_keygen, "-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(public)]

    def sign(text: str) -> str:
        return subprocess.run(command, input=text, capture_output=True, check=True, env=agent, text=True).stdout

    async with serving(tmp_path, keys=Keys(public)) as server, connected(server.url) as client:
        asked = (await client.ask("ssh_challenge"))["data"]
        answer = {"nonce": asked["nonce"], "host": asked["host"], "signature": sign(asked["text"])}
        assert code_of(await client.ask("ssh_auth", answer)) == "auth"
        assert (await client.ask("hello"))["data"]["device"]["name"] == "me@home"


async def test_the_real_server_checks_certificate_and_port(tmp_path: Path, file: Path) -> None:
    async with processes.serving(tmp_path / "data", "--allow", tmp_path, "--authorized-keys", file) as real:
        for certificate, host, code in (
            ("seen", "", "auth"),
            ("ab" * 32, "", "SIGNATURE_WRONG"),
            ("-", "", "SIGNATURE_WRONG"),
            ("seen", "localhost:36367", "SIGNATURE_FOREIGN"),
        ):
            async with connected(real.url, tls=real.tls) as client:
                signed = seen_by(client) if certificate == "seen" else certificate
                assert await log_in(client, ADA, host=host, certificate=signed) == code
