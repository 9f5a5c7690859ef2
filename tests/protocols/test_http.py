"""One server connection without a socket: how it handles bytes, valid or not, in pieces of any size."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, OPEN
from websockets.protocol import Protocol as Frames

from drawbridge.protocols.gate import Refusal
from drawbridge.protocols.http import (
    HEAD_LIMIT,
    MESSAGE_LIMIT,
    Body,
    Closed,
    Event,
    HttpConnection,
    HungUp,
    Message,
    RequestHead,
)
from tests.protocols.bytes_of import ACCEPT, close, frame, giant_frame_head, more, ping, request, text


def answer(connection: HttpConnection) -> bytes:
    return b"".join(connection.outgoing())


def status(connection: HttpConnection) -> int:
    return int(answer(connection).split()[1])


def ask(data: bytes) -> tuple[HttpConnection, RequestHead]:
    connection = HttpConnection()
    [asked] = connection.receive(data)
    assert isinstance(asked, RequestHead)
    return connection, asked


def open_websocket(*, limit: int = MESSAGE_LIMIT) -> HttpConnection:
    connection = HttpConnection(message_limit=limit)
    [asked] = connection.receive(request())
    assert isinstance(asked, RequestHead)
    assert connection.accept_websocket() == []
    assert answer(connection).startswith(b"HTTP/1.1 101 ")
    return connection


def feed(connection: HttpConnection, pieces: Iterable[bytes]) -> list[Event]:
    return [event for piece in pieces for event in connection.receive(piece)]


def frames_of(data: bytes) -> list[Frame]:
    """Returns the frames that a client reads from the server's bytes."""
    client = Frames(CLIENT, state=OPEN, max_size=None)
    client.receive_data(data)
    assert client.parser_exc is None
    return [event for event in client.events_received() if isinstance(event, Frame)]


def closed_with(connection: HttpConnection) -> int:
    """Returns the code in the close frame, which must be the last frame sent."""
    last = frames_of(answer(connection))[-1]
    assert last.opcode is Opcode.CLOSE
    return int.from_bytes(last.data[:2], "big")


@contextlib.contextmanager
def memory_kept() -> Iterator[list[int]]:
    """Yields a list. At the end of the block, the number of bytes that it allocated and not freed is appended."""
    kept: list[int] = []
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield kept
        kept.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()


# the head


def test_a_head_is_read_whole_and_in_order() -> None:
    _, asked = ask(request({"X-Name": ["one", "two"]}, line="GET /mcp?x=1 HTTP/1.1"))
    assert asked.upgrade
    assert (asked.head.method, asked.head.target, asked.head.path) == ("GET", "/mcp?x=1", "/mcp")
    assert asked.head.all("x-name") == ["one", "two"]
    assert asked.head.one("x-name") is None
    assert asked.head.one("host") == "127.0.0.1:12345"


def test_a_head_that_arrives_byte_by_byte_is_read() -> None:
    whole = request({"X-Name": "\xff\xe4"})
    _, at_once = ask(whole)
    connection = HttpConnection()
    assert feed(connection, (whole[at : at + 1] for at in range(len(whole)))) == [at_once]


def test_no_request_is_reported_before_the_head_is_complete() -> None:
    connection = HttpConnection()
    assert connection.receive(request()[:-1]) == []
    assert answer(connection) == b""
    assert not connection.finished


@pytest.mark.parametrize("size", [HEAD_LIMIT + 100, 200_000])
@pytest.mark.parametrize("pieces", ["in one piece", "in many pieces"])
def test_a_head_over_the_limit_is_refused(size: int, pieces: str) -> None:
    data = request({"X-Filler": "x" * size})
    step = len(data) if pieces == "in one piece" else 1_000
    connection = HttpConnection()
    assert feed(connection, (data[at : at + step] for at in range(0, len(data), step))) == []
    assert status(connection) == 431
    assert connection.finished


def test_a_head_just_under_the_limit_is_read() -> None:
    room = HEAD_LIMIT - len(request({"X-Filler": ""}))
    _, asked = ask(request({"X-Filler": "x" * room}))
    assert asked.head.one("x-filler") == "x" * room


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # a TLS handshake
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        request({"Host": None}),
        request({"Host": ["localhost", "localhost"]}),
        request({"Content-Length": ["1", "2"]}),
        request({"Content-Length": "-1"}),
        request({"Bad Name": "x"}),
        request()[:-2] + b"X: a\nb\x00c\r\n\r\n",
    ],
)
def test_an_invalid_request_gets_400_and_the_connection_ends(data: bytes) -> None:
    connection = HttpConnection()
    assert connection.receive(data) == []
    assert status(connection) == 400
    assert connection.finished
    assert connection.receive(request()) == []
    assert answer(connection) == b""


def test_an_end_in_the_middle_of_a_head_ends_the_connection() -> None:
    connection = HttpConnection()
    assert feed(connection, [request()[:40], b""]) == []
    assert connection.finished


def test_a_connection_without_data_ends_without_an_answer() -> None:
    connection = HttpConnection()
    assert connection.receive(b"") == []
    assert connection.finished
    assert answer(connection) == b""


@pytest.mark.parametrize(
    "headers",
    [{"Content-Length": "5"}, {"Content-Length": str(10**18)}, {"Transfer-Encoding": "chunked"}],
)
@pytest.mark.parametrize("body", [b"", b"{", b"zzzz\r\n" * 10, b"5\r\nhello\r\n0\r\n\r\n"])
def test_a_request_is_checked_before_its_body_is_read(headers: dict[str, str], body: bytes) -> None:
    """The body of a refused request is never parsed, however broken it is, and a handshake must not have a body."""
    connection, asked = ask(request({**headers}, body=body))
    connection.refuse(Refusal(401, "no"))
    assert asked.upgrade
    assert status(connection) == 401
    assert connection.finished

    connection, _ = ask(request({**headers}, body=body))
    assert connection.accept_websocket() == []
    assert not connection.is_websocket
    assert status(connection) == 400
    assert connection.finished


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "OPTIONS", "CONNECT", "BREW"])
@pytest.mark.parametrize("upgrade", ["websocket", None])
def test_any_method_can_be_refused(method: str, upgrade: str | None) -> None:
    connection, _ = ask(request({"Upgrade": upgrade}, line=f"{method} / HTTP/1.1"))
    connection.refuse(Refusal(403, "Requests from web pages are not accepted."))
    sent = answer(connection)
    assert sent.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"Connection: close\r\n" in sent
    assert sent.endswith(b"accepted.\n") == (method != "HEAD")
    assert connection.finished


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("headers", "version", "expected"),
    [
        ({"Transfer-Encoding": "chunked"}, "1.0", 400),
        ({"Content-Length": "5", "Transfer-Encoding": "chunked"}, "1.1", 400),
        ({"X-Filler": "x" * HEAD_LIMIT}, "1.1", 431),
    ],
    ids=["chunked in HTTP/1.0", "two lengths", "too long"],
)
def test_an_unacceptable_head_is_refused_for_any_method(
    method: str, headers: dict[str, str], version: str, expected: int
) -> None:
    connection = HttpConnection()
    assert connection.receive(request({**headers}, line=f"{method} / HTTP/{version}")) == []
    sent = answer(connection)
    assert int(sent.split()[1]) == expected
    assert sent.endswith(b"\r\n\r\n") == (method == "HEAD"), "an answer to HEAD has no body"
    assert connection.finished


def test_a_second_request_on_the_connection_is_not_answered() -> None:
    connection, _ = ask(request({"Upgrade": None}) * 2)
    connection.refuse(Refusal(401, "no"))
    assert answer(connection).count(b"HTTP/1.1") == 1
    assert connection.receive(request()) == []
    assert answer(connection) == b""


# accepted plain requests


def post(body: bytes, **headers: str) -> bytes:
    fields = {"Host": "localhost", "Content_Length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value]
    return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + body


CHUNKED = {"Content_Length": "", "Transfer_Encoding": "chunked"}


@pytest.mark.parametrize(
    "data",
    [post(b"hello"), post(b"5\r\nhello\r\n0\r\n\r\n", **CHUNKED), post(b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", **CHUNKED)],
)
def test_a_body_is_passed_on_whole_in_any_pieces(data: bytes) -> None:
    for step in (1, len(data)):
        connection = HttpConnection()
        events: list[Event] = []
        for at in range(0, len(data), step):
            new = connection.receive(data[at : at + step])
            events += [*new, *connection.read_body()] if new and not events else new
        [asked, body] = events
        assert isinstance(asked, RequestHead)
        assert body == Body(asked.head, b"hello")


def let_in(data: bytes, *, limit: int = MESSAGE_LIMIT) -> tuple[HttpConnection, list[Event]]:
    connection = HttpConnection(message_limit=limit)
    [asked] = connection.receive(data)
    assert isinstance(asked, RequestHead)
    return connection, list(connection.read_body())


def test_requests_on_one_connection_are_answered_in_order() -> None:
    connection, [body] = let_in(post(b"one") + post(b"two"))
    assert isinstance(body, Body)
    [asked] = connection.answer(200, b"first")
    assert isinstance(asked, RequestHead)
    [body] = connection.read_body()
    assert isinstance(body, Body)
    assert body.data == b"two"
    assert connection.answer(202) == []
    assert answer(connection).count(b"HTTP/1.1 20") == 2
    assert not connection.finished
    [asked] = connection.receive(post(b"three"))
    assert isinstance(asked, RequestHead)


def test_100_continue_is_sent_only_after_the_request_is_accepted() -> None:
    connection, _ = ask(post(b"", Content_Length="5", Expect="100-continue"))
    assert answer(connection) == b""
    assert connection.read_body() == []
    assert answer(connection).startswith(b"HTTP/1.1 100 ")
    [body] = connection.receive(b"hello")
    assert isinstance(body, Body)


def test_a_body_announced_over_the_limit_is_refused_immediately() -> None:
    connection, events = let_in(post(b"", Content_Length="11", Expect="100-continue"), limit=10)
    assert events == []
    assert status(connection) == 413


def test_a_body_over_the_limit_ends_the_connection() -> None:
    connection, events = let_in(post(b"x" * 11), limit=10)
    assert events == []
    assert status(connection) == 413
    assert connection.finished
    connection, [body] = let_in(post(b"x" * 10), limit=10)
    assert isinstance(body, Body)


def test_a_broken_body_ends_the_exchange() -> None:
    connection, events = let_in(post(b"zzz\r\n", **CHUNKED))
    assert events == [HungUp()]
    assert status(connection) == 400
    assert connection.finished


def test_a_disconnect_during_a_request_is_reported_once() -> None:
    connection, _ = let_in(post(b"one"))
    assert connection.receive(b"") == [HungUp()]
    assert connection.receive(b"") == []
    assert connection.finished


def test_a_stream_is_sent_piece_by_piece_and_ends_once() -> None:
    connection, _ = let_in(post(b"one"))
    connection.begin_stream([("Content-Type", "text/event-stream")])
    assert b"Content-Type: text/event-stream\r\n" in answer(connection)
    connection.stream(b"data: 1\n\n")
    assert b"data: 1\n\n" in answer(connection)
    connection.end_stream()
    assert answer(connection) == b"0\r\n\r\n"
    connection.stream(b"too late")
    connection.end_stream()
    assert answer(connection) == b""
    assert not connection.finished


def test_data_sent_before_an_answer_ends_uses_bounded_memory() -> None:
    connection, _ = let_in(post(b"one"))
    connection.begin_stream([])
    with memory_kept() as kept:
        for _ in range(100):
            connection.receive(b"x" * 65_536)
    assert kept[0] < 1_000_000
    assert connection.finished


# the handshake


def test_a_handshake_is_answered_as_in_the_standard() -> None:
    connection, _ = ask(request())
    assert connection.accept_websocket("mcp") == []
    sent = answer(connection).decode()
    assert sent.startswith("HTTP/1.1 101 Switching Protocols\r\n")
    assert f"Sec-WebSocket-Accept: {ACCEPT}\r\n" in sent
    assert "Upgrade: websocket\r\n" in sent
    assert "Connection: Upgrade\r\n" in sent
    assert "Sec-WebSocket-Protocol: mcp\r\n" in sent
    assert "Sec-WebSocket-Extensions" not in sent
    assert connection.is_websocket


def test_subprotocol_and_compression_are_off_unless_accepted() -> None:
    connection, _ = ask(request({"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}))
    connection.accept_websocket()
    sent = answer(connection)
    assert b"Sec-WebSocket-Protocol" not in sent
    assert b"Sec-WebSocket-Extensions" not in sent


@pytest.mark.parametrize(
    "headers", [{"Upgrade": "WebSocket"}, {"Connection": "keep-alive, Upgrade"}, {"Upgrade": "h2c, websocket"}]
)
def test_upgrade_headers_may_vary_in_case_and_contain_lists(headers: dict[str, str]) -> None:
    connection, asked = ask(request({**headers}))
    assert asked.upgrade
    connection.accept_websocket()
    assert connection.is_websocket


@pytest.mark.parametrize(
    ("headers", "line", "expected", "hint"),
    [
        ({"Upgrade": None}, "GET / HTTP/1.1", 426, b"Upgrade: websocket"),
        ({"Connection": "keep-alive"}, "GET / HTTP/1.1", 426, b"Upgrade: websocket"),
        ({"Upgrade": "h2c"}, "GET / HTTP/1.1", 426, b"Upgrade: websocket"),
        ({"Sec-WebSocket-Version": "8"}, "GET / HTTP/1.1", 426, b"Sec-WebSocket-Version: 13"),
        ({"Sec-WebSocket-Version": None}, "GET / HTTP/1.1", 426, b"Sec-WebSocket-Version: 13"),
        ({"Sec-WebSocket-Version": ["13", "13"]}, "GET / HTTP/1.1", 426, b"Sec-WebSocket-Version: 13"),
        ({"Sec-WebSocket-Key": None}, "GET / HTTP/1.1", 400, b""),
        ({"Sec-WebSocket-Key": "short"}, "GET / HTTP/1.1", 400, b""),
        ({"Sec-WebSocket-Key": "dG9vIHNob3J0"}, "GET / HTTP/1.1", 400, b""),
        ({"Sec-WebSocket-Key": "????????????????????????"}, "GET / HTTP/1.1", 400, b""),
        ({"Sec-WebSocket-Key": ["dGhlIHNhbXBsZSBub25jZQ=="] * 2}, "GET / HTTP/1.1", 400, b""),
        ({}, "POST / HTTP/1.1", 400, b""),
        ({}, "GET / HTTP/1.0", 400, b""),
    ],
)
def test_an_invalid_handshake_opens_nothing(
    headers: dict[str, str | list[str] | None], line: str, expected: int, hint: bytes
) -> None:
    connection, _ = ask(request(headers, line=line))
    assert connection.accept_websocket() == []
    sent = answer(connection)
    assert int(sent.split()[1]) == expected
    assert hint in sent
    assert not connection.is_websocket
    assert connection.finished


def test_messages_right_after_the_handshake_are_not_lost() -> None:
    connection, _ = ask(request(body=text("one") + text("two")[:4]))
    assert connection.accept_websocket() == [Message("one")]
    assert connection.receive(text("two")[4:]) == [Message("two")]


def test_a_message_after_the_handshake_may_exceed_the_head_limit() -> None:
    """The message arrives together with the handshake."""
    long = "x" * (3 * HEAD_LIMIT)
    connection, _ = ask(request(body=text(long)))
    assert connection.accept_websocket() == [Message(long)]


# messages


def test_text_and_binary_are_messages_alike() -> None:
    connection = open_websocket()
    assert connection.receive(text("grün") + frame(Opcode.BINARY, "🌉".encode())) == [Message("grün"), Message("🌉")]


def test_a_character_may_be_split_between_fragments() -> None:
    euro = "€".encode()
    connection = open_websocket()
    assert connection.receive(text(euro[:1], fin=False) + more(euro[1:2], fin=False)) == []
    assert connection.receive(more(euro[2:])) == [Message("€")]


def test_a_ping_between_fragments_is_answered_immediately() -> None:
    connection = open_websocket()
    assert connection.receive(text("a", fin=False) + ping(b"still there?")) == []
    [pong] = frames_of(answer(connection))
    assert (pong.opcode, bytes(pong.data)) == (Opcode.PONG, b"still there?")
    assert connection.receive(frame(Opcode.PONG) + more("b")) == [Message("ab")]


def test_an_empty_message_is_a_message() -> None:
    assert open_websocket().receive(text("")) == [Message("")]


def test_thousands_of_empty_fragments_use_no_memory() -> None:
    connection = open_websocket()
    connection.receive(text("a", fin=False))
    empty = more("", fin=False) * 1_000
    with memory_kept() as kept:
        for _ in range(20):
            assert connection.receive(empty) == []
    assert kept[0] < 10_000
    assert connection.receive(more("b")) == [Message("ab")]


def test_64_mb_messages_are_accepted_and_one_more_byte_is_not() -> None:
    payload = b"x" * MESSAGE_LIMIT
    connection = open_websocket()
    half = MESSAGE_LIMIT // 2
    [message] = connection.receive(text(payload[:half], fin=False) + more(payload[half:]))
    assert isinstance(message, Message)
    assert len(message.text) == MESSAGE_LIMIT == 64 * 1024 * 1024

    connection = open_websocket()
    assert connection.receive(text(payload[:half], fin=False)) == []
    assert connection.receive(more(payload[half:] + b"x")) == [Closed(1009)]
    assert closed_with(connection) == 1009
    assert connection.finished


def test_a_giant_declared_length_is_refused_immediately() -> None:
    for length in (MESSAGE_LIMIT + 1, 2**32, 2**63 - 1, 2**64 - 1):
        connection = open_websocket()
        assert connection.receive(giant_frame_head(length)) == [Closed(1009)]
        assert closed_with(connection) == 1009


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(Opcode.TEXT, b"x", masked=False), 1002),
        (frame(Opcode.TEXT, b"x", reserved=4), 1002),  # compression that was not agreed
        (frame(Opcode.TEXT, b"x", reserved=1), 1002),
        (frame(3, b"x"), 1002),
        (frame(15, b"x"), 1002),
        (more("out of nowhere"), 1002),
        (text("a", fin=False) + text("b"), 1002),
        (frame(Opcode.PING, b"x" * 126), 1002),
        (frame(Opcode.PING, fin=False), 1002),
        (frame(Opcode.CLOSE, b"\x03"), 1002),
        (close(1005), 1002),
        (close(999), 1002),
        (frame(Opcode.CLOSE, b"\x03\xe8\xff"), 1007),
        (text(b"\xff"), 1007),
        (frame(Opcode.BINARY, b"\xff"), 1007),
        (text("€".encode()[:2]), 1007),
        (text(b"\xed\xa0\x80"), 1007),  # a surrogate
        (text("€".encode()[:2], fin=False) + more("x"), 1007),
    ],
)
def test_a_broken_frame_ends_the_connection_with_the_right_code(data: bytes, code: int) -> None:
    connection = open_websocket()
    assert connection.receive(text("before") + data + text("after")) == [Message("before"), Closed(code)]
    assert closed_with(connection) == code
    assert connection.finished
    assert connection.receive(text("later")) == []
    assert connection.receive(b"") == []
    connection.send_text(b"unheard")
    assert answer(connection) == b""


# the end


def test_the_peers_close_is_echoed_and_reported_once() -> None:
    connection = open_websocket()
    assert connection.receive(close(1001, "bye") + text("after")) == [Closed(1001)]
    assert closed_with(connection) == 1001
    assert connection.finished
    assert connection.receive(b"") == []


def test_a_close_without_a_code_is_reported_as_1005() -> None:
    connection = open_websocket()
    assert connection.receive(close(None)) == [Closed(1005)]
    [echo] = frames_of(answer(connection))
    assert (echo.opcode, bytes(echo.data)) == (Opcode.CLOSE, b"")


def test_our_close_is_complete_when_the_peer_has_answered() -> None:
    connection = open_websocket()
    connection.close_websocket(1001, "the editor is closing")
    assert closed_with(connection) == 1001
    assert not connection.finished
    connection.send_text(b"too late")
    connection.close_websocket(1000)
    assert answer(connection) == b""
    assert connection.receive(close(1001)) == [Closed(1001)]
    assert connection.finished


def test_a_reason_that_is_too_long_for_a_close_frame_is_cut() -> None:
    """It is cut to at most 123 bytes, between two characters."""
    for reason in ("x" * 500, "é" * 500):
        connection = open_websocket()
        connection.close_websocket(4401, reason)
        [frame] = frames_of(answer(connection))
        assert frame.data[:2] == (4401).to_bytes(2, "big")
        assert 120 <= len(bytes(frame.data[2:]).decode().encode()) <= 123
        assert reason.startswith(bytes(frame.data[2:]).decode())


def test_messages_after_our_close_are_ignored() -> None:
    connection = open_websocket()
    connection.close_websocket(1000, "replaced")
    assert connection.receive(text("one") + text("two", fin=False) + more("x")) == []
    assert connection.receive(text(b"\xff") + close(1000)) == [Closed(1000)]


def test_an_end_without_a_close_frame_is_reported_as_1006() -> None:
    connection = open_websocket()
    assert connection.receive(text("half")[:-1]) == []
    assert connection.receive(b"") == [Closed(1006)]
    assert connection.finished
    assert answer(connection) == b""


# any conversation, in pieces of any size


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    """Returns ``data`` cut at these positions (modulo its length). Empty data is one empty piece."""
    places = sorted({cut % max(len(data), 1) for cut in cuts} - {0})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


MESSAGES = st.lists(st.text(max_size=40) | st.integers(0, 70_000).map(lambda size: "é" * size), max_size=6)
CUTS = st.lists(st.integers(0, 2**20), max_size=30)


@given(MESSAGES, st.data())
def test_every_message_arrives_once_and_in_order(messages: list[str], data: st.DataObject) -> None:
    """The client of the ``websockets`` library sends messages in any fragments and pieces. The server echoes them."""
    client = Frames(CLIENT, state=OPEN, max_size=None)
    for message in messages:
        payload = message.encode()
        fragments = pieces_of(payload, data.draw(CUTS))
        client.send_text(fragments[0], fin=len(fragments) == 1)
        for number, fragment in enumerate(fragments[1:], 2):
            if data.draw(st.booleans()):
                client.send_ping(b"")
            client.send_continuation(fragment, fin=number == len(fragments))

    connection = HttpConnection()
    received: list[Event] = []
    for piece in pieces_of(request() + b"".join(client.data_to_send()), data.draw(CUTS)):
        events = connection.receive(piece)
        if any(isinstance(event, RequestHead) for event in events):
            events = connection.accept_websocket()
        for event in events:
            assert isinstance(event, Message)
            connection.send_text(event.text.encode())
        received += events
    assert received == [Message(message) for message in messages]

    back = answer(connection)
    for piece in pieces_of(back[back.index(b"\r\n\r\n") + 4 :], data.draw(CUTS)):
        client.receive_data(piece)
    echoed = [event for event in client.events_received() if isinstance(event, Frame) and event.opcode is Opcode.TEXT]
    assert [bytes(frame.data).decode() for frame in echoed] == messages

    client.send_close(1000)
    ends = [event for piece in client.data_to_send() for event in connection.receive(piece)]
    assert ends == [Closed(1000)]
    client.receive_data(answer(connection))
    client.receive_eof()
    assert client.close_code == 1000


@given(st.lists(st.binary(max_size=200), max_size=20), st.booleans())
def test_no_bytes_raise_an_exception(pieces: list[bytes], greeted: bool) -> None:
    connection = open_websocket() if greeted else HttpConnection()
    closed = 0
    for piece in [*pieces, b""]:
        for event in connection.receive(piece):
            assert not isinstance(event, RequestHead) or not greeted
            closed += isinstance(event, Closed)
    assert closed == greeted
    assert connection.finished
