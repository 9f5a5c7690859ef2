"""``drawbridge attach`` finds the server automatically. If it can't, it reports clearly why."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from drawbridge.core.errors import BadSetting, NoServer
from drawbridge.core.own_command import own_command
from drawbridge.tui.bar import _trouble
from drawbridge.tui.client import Client
from drawbridge.tui.command import ambiguous_words, begin
from drawbridge.tui.connection import Connection, RequestError
from drawbridge.tui.server_address import Finder, ServerAddress, fingerprint_of
from tests import programs
from tests.ide.processes import run
from tests.rigs.tmux import Pane, Tmux, wait_until
from tests.server.processes import Server, serving
from tests.waiting import until

from .conftest import make_directory, make_project


async def connects(finder: Finder, project: str | None = None, directory: str = "") -> Client:
    """Connects as the command does, and disconnects. Raises the errors that the command shows to the user."""
    client = Client(finder.find, "Ada")
    try:
        await begin(client, project, directory)
    finally:
        await client.connection.close()
    return client


@pytest.fixture
async def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server with TLS, in the data directory that this user's settings name."""
    monkeypatch.setenv("DRAWBRIDGE_SERVE_DATA_DIR", str(tmp_path / "data"))
    directory = make_directory(tmp_path / "work" / "blog")
    async with serving(tmp_path / "data", "--allow", directory.parent) as server:
        await make_project(server, directory)
        yield server


async def test_the_server_of_this_machine_is_found_without_an_argument(secured: Server, tmp_path: Path) -> None:
    client = await connects(Finder(), "blog")
    assert [one["path"] for one in client.projects.all.values()] == [str(tmp_path / "work" / "blog")]


@pytest.mark.thorough
async def test_without_server_json_the_server_settings_are_used(
    secured: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client connects to the port that is set for ``drawbridge serve``."""
    (secured.data / "server.json").unlink()
    with pytest.raises(NoServer, match=r"No server answers at wss://127.0.0.1:8443/ws"):
        await connects(Finder())
    monkeypatch.setenv("DRAWBRIDGE_SERVE_PORT", secured.url.split(":")[2].removesuffix("/ws"))
    await connects(Finder(), "blog")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENETUNREACH, "Connect call failed ('2001:db8::1', 443)"), "network is unreachable"),
        (OSError("Multiple exceptions: [Errno 111] …, [Errno 101] …"), "none of the host's addresses can be reached"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name or service not known"),
    ],
)
async def test_the_reason_why_no_server_answers_has_no_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setenv("DRAWBRIDGE_SERVE_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fails)
    with pytest.raises(NoServer, match=rf"No server answers at .*: {reason}\. Start a server"):
        await connects(Finder())


async def test_the_only_server_is_found_in_any_data_directory(tmp_path: Path) -> None:
    """If several servers are running, the user must choose one with ``--url``."""
    directory = make_directory(tmp_path / "work" / "blog")
    async with serving(tmp_path / "one", "--allow", directory.parent) as one:
        await make_project(one, directory)
        with pytest.raises(NoServer, match="No server answers"):
            await connects(Finder(), "blog")
        finder = Finder(elsewhere=True)
        await connects(finder, "blog")
        async with serving(tmp_path / "two") as two:
            with pytest.raises(BadSetting, match=r"2 servers are running: .* Choose one with --url") as error:
                await connects(Finder(elsewhere=True), "blog")
            assert one.url in str(error.value)
            assert two.url in str(error.value)
            await connects(finder, "blog")  # the finder keeps using the server that it found
    with pytest.raises(NoServer, match="No server answers"):
        await connects(finder, "blog")


async def test_a_project_is_selected_by_name_path_or_id(secured: Server, tmp_path: Path) -> None:
    directory = str(tmp_path / "work" / "blog")
    client = await connects(Finder(), "blog")
    (id,) = client.projects.all
    await connects(Finder(), id)
    await connects(Finder(), directory)
    await connects(Finder(), ".", directory)
    with pytest.raises(BadSetting, match=f"no project nowhere. Its projects are {directory}"):
        await connects(Finder(), "nowhere")


def test_projects_with_the_same_path_are_told_apart_by_id() -> None:
    """All terminal sessions in a directory have the same path."""
    words = ambiguous_words("blog", [("proj_1", "/a/blog"), ("proj_2", "/b/blog")])
    assert words == "blog is ambiguous: the server has /a/blog, /b/blog. Choose one by its path."
    words = ambiguous_words(".", [("proj_1", "/a/blog"), ("desk_2", "/a/blog")])
    assert words == ". is ambiguous: the server has proj_1 (/a/blog), desk_2 (/a/blog). Choose one by its ID."
    words = ambiguous_words(".", [(f"desk_{number}", "/a/blog") for number in range(12)])
    assert words.endswith("desk_9 (/a/blog) and 2 more. Choose one by its ID.")


async def test_the_address_of_the_web_ui_can_be_used_to_connect(secured: Server) -> None:
    """The certificate can be verified by its fingerprint or with a CA file."""
    page = secured.url.replace("wss:", "https:").removesuffix("ws")
    token = str(secured.data / "token")
    await connects(Finder(page))
    await connects(Finder(page, token, fingerprint=secured.ready["fingerprint"].lower().replace(":", "")))
    await connects(Finder(page, token, ca=str(secured.data / "tls" / "cert.pem")))


@contextlib.asynccontextmanager
async def impostor(server: Server) -> AsyncIterator[tuple[str, list[str | bytes]]]:
    """Runs another WebSocket server with the certificate of ``server``. Yields its address and the messages that it
    received."""
    received: list[str | bytes] = []

    async def listen(client: ServerConnection) -> None:
        async for message in client:
            received.append(message)
            await client.send('{"type": "auth"}')

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.data / "tls" / "cert.pem", server.data / "tls" / "key.pem")
    async with serve(listen, "127.0.0.1", 0, ssl=context) as other:
        yield f"wss://127.0.0.1:{next(iter(other.sockets)).getsockname()[1]}", received


async def test_a_server_that_cannot_be_verified_gets_no_token(secured: Server, tmp_path: Path) -> None:
    """The server has another fingerprint, or its certificate was not signed by the given CA."""
    token = str(secured.data / "token")
    fingerprint = str(secured.ready["fingerprint"])
    async with serving(tmp_path / "other") as other:
        ca = str(other.data / "tls" / "cert.pem")
    async with impostor(secured) as (url, received):
        with pytest.raises(NoServer, match="could not be verified: its certificate has the fingerprint") as refusal:
            await connects(Finder(url, token, fingerprint="AB:" * 31 + "CD"))
        assert fingerprint in str(refusal.value)
        assert "The token was not sent" in str(refusal.value)
        with pytest.raises(NoServer, match="could not be verified"):
            await connects(Finder(url, token, ca=ca))
        assert received == []
        connecting = asyncio.ensure_future(connects(Finder(url, token, fingerprint=fingerprint)))
        await until(lambda: received, "the token")
        assert secured.token in str(received[0]), "it would have been received"
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)


async def test_the_fingerprint_is_that_of_the_servers_own_certificate(secured: Server) -> None:
    shown = (secured.data / "tls" / "cert.pem").read_text()
    own = shown[: shown.index("-----END") + 26]  # the certificate that signed it follows in the file
    assert fingerprint_of(ssl.PEM_cert_to_DER_cert(own)) == secured.ready["fingerprint"]


async def test_a_rejected_or_missing_token_is_reported(secured: Server, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("x" * 43)
    with pytest.raises(BadSetting, match=r"The server at wss://.* did not accept the token: .* --token-file"):
        await connects(Finder(secured.url, str(tmp_path / "wrong")))
    (secured.data / "token").unlink()
    with pytest.raises(
        BadSetting, match=r"requires a token, but .* does not contain one or does not exist\. Use --token-file"
    ):
        await connects(Finder())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"url": "ftp://x"}, "is not a valid server address"),
        ({"url": "wss://host:99999"}, "is not a valid server address"),
        ({"url": "ws://example.net:1", "token_file": "x"}, "would send the token over the network unencrypted"),
        ({"url": "wss://example.net:1"}, "so a token is required"),
        ({"fingerprint": "ab:cd"}, "--fingerprint must be the SHA-256"),
        ({"fingerprint": "AB" * 32, "ca": "x"}, "can't be combined"),
        ({"token_file": "/nowhere/token"}, "The token file /nowhere/token does not exist"),
        ({"token_file": "/"}, "The token can't be read from /"),
        ({"ca": "/nowhere.pem"}, "/nowhere.pem can't be read: no such file or directory"),
        ({"ca": __file__}, "does not contain a PEM certificate"),
    ],
)
def test_invalid_flags_are_reported_before_anything_is_sent(flags: dict[str, str], words: str) -> None:
    with pytest.raises(BadSetting, match=words):
        Finder(**flags, elsewhere=False).find()


async def test_an_address_without_a_drawbridge_server_is_reported() -> None:
    """Nothing listens on the port, or another program does."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        advice = re.escape(f"nothing listens there. Start a server with `{own_command()} serve`")
        with pytest.raises(NoServer, match=advice):
            await connects(Finder(f"ws://127.0.0.1:{port}"))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as web:
        port = web.sockets[0].getsockname()[1]
        with pytest.raises(NoServer, match="is not a Drawbridge server"):
            await connects(Finder(f"ws://127.0.0.1:{port}"))


async def test_a_server_without_tls_is_reported() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as web:
        port = web.sockets[0].getsockname()[1]
        with pytest.raises(
            NoServer, match=r"The TLS connection to wss://.* failed: (?!operation).*, use ws:// in --url"
        ):
            await connects(Finder(f"wss://127.0.0.1:{port}"))


@pytest.mark.parametrize("words", ["not JSON", '{"type": 5}', "[]", '{"type": "error"}'])
async def test_another_kind_of_websocket_server_is_reported(words: str) -> None:
    async def answer(socket: ServerConnection) -> None:
        await socket.send(words)

    async with serve(answer, "127.0.0.1", 0) as other:
        port = next(iter(other.sockets)).getsockname()[1]
        with pytest.raises(NoServer, match="is not a Drawbridge server"):
            await connects(Finder(f"ws://127.0.0.1:{port}"))


async def test_the_reason_why_a_server_refuses_the_connection_is_shown() -> None:
    words = "Too many failed sign-in attempts. Try again in 5 s."

    async def answer(socket: ServerConnection) -> None:
        await socket.send(json.dumps({"type": "error", "data": {"code": "RATE_LIMITED", "message": words}}))
        await socket.wait_closed()

    async with serve(answer, "127.0.0.1", 0) as other:
        port = next(iter(other.sockets)).getsockname()[1]
        with pytest.raises(NoServer, match=rf"The server at ws://.* refused the connection: {re.escape(words)}$"):
            await connects(Finder(f"ws://127.0.0.1:{port}"))


async def test_a_closing_reason_is_never_mistaken_for_a_missing_one() -> None:
    """A server may close the connection with the words that stand for a missing reason."""

    async def answer(socket: ServerConnection) -> None:
        await socket.close(1013, "it closed the connection")

    async with serve(answer, "127.0.0.1", 0) as other:
        port = next(iter(other.sockets)).getsockname()[1]
        with pytest.raises(NoServer, match=r"closed the connection: it closed the connection\. Try again\.$"):
            await connects(Finder(f"ws://127.0.0.1:{port}"))


@pytest.mark.parametrize("problem", ["The token has expired.", "The token has expired"])
async def test_a_refused_token_is_described_in_sentences(problem: str) -> None:
    connection = Connection(
        lambda: ServerAddress("ws://127.0.0.1:1", "x", Path("token"), None, None),
        "Ada",
        on_message=lambda message: None,
        on_state=lambda: None,
        on_open=lambda: None,
    )
    connection.state, connection.problem = "refused", problem
    words = "Disconnected: The token has expired. To use another token, quit and restart with --token-file."
    with pytest.raises(RequestError) as refusal:
        await connection.ask("execute", lasting=True)
    assert (str(refusal.value), _trouble(connection)) == (words, words)


async def test_other_commands_do_not_import_textual() -> None:
    look = "import sys, drawbridge.cli as cli; cli.parser(); sys.exit('textual' in sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", look)
    assert await process.wait() == 0


async def test_without_a_terminal_the_command_reports_an_error() -> None:
    code, output, errors = await run("attach", "blog")
    assert (code, output) == (2, "")
    assert errors == (
        "drawbridge attach: requires a terminal for its input and output. Run it without pipes and redirections. Over "
        "SSH, use `ssh -t`.\n"
    )


async def test_the_command_works_in_a_real_terminal(secured: Server, tmp_path: Path) -> None:
    programs.tmux()
    await asyncio.to_thread(at_a_terminal, tmp_path / "work" / "blog")
    assert "It rains" in (tmp_path / "work" / "blog" / "notes.md").read_text()


def at_a_terminal(directory: Path) -> None:
    """Runs the command in the project's directory, in a real terminal, and types as a person does."""
    command = [sys.executable, "-m", "drawbridge", "attach", "."]
    with Tmux.server(columns=80, rows=24) as tmux:
        pane = tmux.start("attach", command, cwd=directory, environment=os.environ)
        pane.wait_for("blog +Connected", "Tell the agent what to do")
        pane.type("It rains")
        pane.press("Enter")
        pane.wait_for("wants to edit notes.md", r"\+ > You said: It rains", "a Accept")
        pane.press("Escape")
        pane.wait_for("m mode")
        wait_until(lambda: is_accepted(pane))  # keys are ignored until the request has been shown for a moment
        pane.wait_for("Finished")
        pane.press("C-q")
        assert pane.wait_for_exit() == 0


def is_accepted(pane: Pane) -> bool | None:
    pane.press("a")
    return "✓ Accepted by" in pane.screen or None
