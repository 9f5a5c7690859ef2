"""The clients of a broadcast, in one process that does as little as possible.

``python -m bench.listeners PORT CLIENTS HELLO [CERT]``

Connects (over TLS if CERT is given), sends HELLO (a JSON text, or "") and reads until the server has closed all
connections. Prints one line of JSON with how long frames took to reach the client that connected last (p50 and p99, in
milliseconds). Each frame contains the time at which it was sent.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import ssl
import statistics
import sys
import time

TIMESTAMP = re.compile(rb'"t":(\d+)')


def handshake(port: int) -> bytes:
    return (
        f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


def text(data: bytes) -> bytes:
    """A masked text frame. Its mask consists of zeros, which leave the data as it is."""
    size = len(data)
    head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0xFE]) + size.to_bytes(2, "big")
    return head + bytes(4) + data


def connect(port: int, hello: bytes, tls: ssl.SSLContext | None) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    if tls is not None:
        client = tls.wrap_socket(client, server_hostname="localhost")
    client.sendall(handshake(port))
    received = b""
    while b"\r\n\r\n" not in received:
        received += client.recv(4096)
    if hello:
        client.sendall(text(hello))
    return client


def main(port: int, count: int, hello: bytes, cert: str | None = None) -> None:
    tls = ssl.create_default_context(cafile=cert) if cert else None
    clients = [connect(port, hello, tls) for _ in range(count)]
    watched = clients[-1]
    selector = selectors.DefaultSelector()
    for client in clients:
        client.setblocking(False)
        selector.register(client, selectors.EVENT_READ, client)
    took: list[float] = []
    buffer = bytearray(1024 * 1024)
    while selector.get_map():
        for key, _ in selector.select(10):
            client = key.data
            try:
                size = client.recv_into(buffer)
            except (ssl.SSLWantReadError, BlockingIOError):
                continue
            except OSError:
                size = 0
            if not size:
                selector.unregister(client)
                client.close()
            elif client is watched:
                now = time.monotonic_ns()
                took += [(now - int(found)) / 1e6 for found in TIMESTAMP.findall(memoryview(buffer)[:size])]
    took.sort()
    print(json.dumps({"p50": statistics.median(took), "p99": took[int(len(took) * 0.99)]} if took else {}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode(), *sys.argv[4:])
