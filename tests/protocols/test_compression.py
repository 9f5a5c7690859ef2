"""Messages are compressed only for clients that can read the shared form, and the decompressed size is limited."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.headers import build_extension, parse_extension
from websockets.protocol import CLIENT, OPEN, Protocol

from drawbridge.protocols.compression import compressed
from drawbridge.protocols.http import Closed, HttpConnection, Message, RequestHead
from drawbridge.protocols.websocket import AT_ONCE, framed
from tests.protocols.bytes_of import frame, more, request, text

HEADER = "Sec-WebSocket-Extensions"
AGREED = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
LIMIT = 100_000


def opened(*offers: str, compress: bool = True, limit: int = LIMIT) -> tuple[HttpConnection, str | None]:
    """Opens a WebSocket with these offers. Returns the connection and the server's answer to them, or None."""
    connection = HttpConnection(message_limit=limit)
    [asked] = connection.receive(request({HEADER: list(offers)} if offers else None))
    assert isinstance(asked, RequestHead)
    assert connection.accept_websocket(compress=compress) == []
    head = b"".join(connection.outgoing()).decode()
    assert head.startswith("HTTP/1.1 101 ")
    answers = [line.partition(": ")[2] for line in head.split("\r\n") if line.lower().startswith(HEADER.lower())]
    assert (connection.websocket is not None and connection.websocket.compressed) is bool(answers)
    return connection, answers[0] if answers else None


def packed(data: bytes) -> bytes:
    maker = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (maker.compress(data) + maker.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\x00\x00\xff\xff")


def sent(data: bytes) -> bytes:
    """Returns a compressed message as a client sends it."""
    return frame(Opcode.TEXT, packed(data), reserved=4)


# negotiation


@pytest.mark.parametrize(
    "offers",
    [
        ["permessage-deflate"],
        ["permessage-deflate; client_max_window_bits"],
        ["permessage-deflate; server_no_context_takeover; client_no_context_takeover"],
        ["x-webkit-deflate-frame, permessage-deflate"],
        ["x-other", "permessage-deflate"],
        ["permessage-deflate; server_max_window_bits=10, permessage-deflate"],
    ],
)
def test_a_suitable_offer_is_accepted(offers: list[str]) -> None:
    assert opened(*offers)[1] == AGREED


@pytest.mark.parametrize(
    "offers",
    [
        [],
        ["x-webkit-deflate-frame"],
        ["permessage-deflate; server_max_window_bits=10"],
        ["permessage-deflate; server_max_window_bits=8"],
        ["permessage-deflate; unknown"],
        ["permessage-deflate; client_max_window_bits=99"],
        ["permessage-deflate; server_no_context_takeover; server_no_context_takeover"],
        [";;;"],
        ["permessage-deflate; ="],
        ["\xff"],
    ],
)
def test_without_a_suitable_offer_nothing_is_compressed(offers: list[str]) -> None:
    """All clients are sent the same bytes, so no client can have a smaller window."""
    assert opened(*offers)[1] is None


def test_no_compression_is_agreed_if_it_is_turned_off() -> None:
    assert opened("permessage-deflate", compress=False)[1] is None


def test_an_offer_of_the_largest_window_is_confirmed() -> None:
    assert opened("permessage-deflate; server_max_window_bits=15")[1] == f"{AGREED}; server_max_window_bits=15"


# sending


def test_the_websockets_library_reads_both_kinds_of_messages() -> None:
    factory = ClientPerMessageDeflateFactory()
    _, answer = opened(build_extension([(factory.name, factory.get_request_params())]))
    [(_, parameters)] = parse_extension(answer or "")
    client = Protocol(CLIENT, state=OPEN, max_size=None)
    client.extensions = [factory.process_response_params(parameters, [])]
    large = json.dumps([{"seq": number, "message": "the same words"} for number in range(2_000)]).encode()
    client.receive_data(framed(b"one") + compressed(large) + framed(b"two") + compressed(large))
    received = [event.data for event in client.events_received() if isinstance(event, Frame)]
    assert received == [b"one", large, b"two", large]
    assert len(compressed(large)) < len(large) / 5


# receiving


def test_each_compressed_message_is_read_on_its_own() -> None:
    connection, _ = opened("permessage-deflate")
    first, second = sent("wörds ".encode() * 100), sent(b'{"type": "hello"}')
    assert connection.receive(first + text("plain") + second) == [
        Message("wörds " * 100),
        Message("plain"),
        Message('{"type": "hello"}'),
    ]


def test_a_compressed_message_may_be_fragmented() -> None:
    connection, _ = opened("permessage-deflate")
    data = packed(b"one two three " * 50)
    parts = [frame(Opcode.TEXT, data[:5], fin=False, reserved=4), more(data[5:9], fin=False), more(data[9:])]
    assert [event for part in parts for event in connection.receive(part)] == [Message("one two three " * 50)]


def test_the_limit_applies_during_decompression() -> None:
    connection, _ = opened("permessage-deflate")
    assert connection.receive(sent(b"a" * LIMIT)) == [Message("a" * LIMIT)]
    assert connection.receive(sent(b"a" * (LIMIT + 1))) == [Closed(1009)]


def test_an_unauthenticated_client_cannot_send_many_messages() -> None:
    """Each message is within the limit for messages, and all arrive at once."""
    connection, _ = opened("permessage-deflate")
    assert connection.websocket is not None
    connection.websocket.limit_unfinished(16_384)
    *messages, end = connection.receive(sent(b"a" * (LIMIT // 2 + 1)) * 50)
    assert len(messages) == 1
    assert end == Closed(1009)


def test_a_few_bytes_cannot_become_hundreds_of_messages() -> None:
    """This also applies to a client with a token, which may be a device that is only allowed to read."""
    connection, _ = opened("permessage-deflate")
    *messages, end = connection.receive(sent(b"a" * LIMIT) * 250)
    assert messages == [Message("a" * LIMIT)] * AT_ONCE
    assert end == Closed(1009)


def test_each_read_may_contain_large_messages() -> None:
    """The limit is for the bytes of one read. Small messages have no limit, and neither have later reads."""
    connection, _ = opened("permessage-deflate")
    for _ in range(3):
        assert len(connection.receive(sent(b"a" * LIMIT) * AT_ONCE)) == AT_ONCE
        assert len(connection.receive(sent(b'{"type": "hello"}') * 1_000)) == 1_000


def test_the_message_right_after_the_token_may_be_large() -> None:
    connection, _ = opened("permessage-deflate")
    assert connection.websocket is not None
    connection.websocket.limit_unfinished(16_384)
    assert len(connection.receive(sent(b'{"type": "auth"}') + sent(b"a" * (LIMIT - 100)))) == 2


def test_compression_without_agreement_ends_the_connection() -> None:
    connection, _ = opened()
    assert connection.receive(sent(b"a")) == [Closed(1002)]


@pytest.mark.parametrize("payload", [b"\xff\xff\xff", b"\x07", packed(b"\xff\xfe")])
def test_damaged_data_ends_the_connection(payload: bytes) -> None:
    connection, _ = opened("permessage-deflate")
    [end] = connection.receive(frame(Opcode.TEXT, payload, reserved=4))
    assert isinstance(end, Closed)
    assert end.code in (1002, 1007)


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 8, 9]), st.binary(max_size=30), st.booleans(), st.sampled_from([0, 4]))
    )
)
def test_any_frames_yield_only_messages_and_closes(frames: list[tuple[int, bytes, bool, int]]) -> None:
    connection, _ = opened("permessage-deflate")
    for opcode, payload, fin, reserved in frames:
        for event in connection.receive(frame(opcode, payload, fin=fin, reserved=reserved)):
            assert isinstance(event, Message | Closed)
