"""Attacks by a client on the agent server, most of them with the server's token. They are reproducible from one
``Random``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.protocol.messages import MESSAGE_BYTES
from tests.fuzz.attacks import TEXTS, Attacker
from tests.protocols.bytes_of import frame, giant_frame_head, request, text

TYPES = [*(row.name for row in COMMANDS), "", "no_such_type"]
FIELDS = sorted({field for row in COMMANDS for field in row.request.__struct_fields__})


class ServerAttacker(Attacker):
    """Attacks a server as a client. ``projects``: ids of existing projects, so that some requests can be executed."""

    def __init__(self, port: int, token: str, random: Random, projects: list[str], path: str) -> None:
        super().__init__(port, token, random)
        self._projects = [*projects, "nobody", ""]
        self._path = path
        self._ways: list[Callable[[], bytes]] = [
            self._noise,
            self._bent_handshake,
            self._noise_behind_the_handshake,
            self._bent_frames,
            self._calls,
            self._calls,
            self._calls,
            self._calls,
            self._cut_off,
            self._deep,
            self._giant,
            self._storm,
            self._strangers_words,
            self._no_text,
        ]

    def _handshake(self) -> bytes:
        return request({"Authorization": f"Bearer {self._token}"}, line="GET /ws HTTP/1.1")

    def _strangers_words(self) -> bytes:
        """Returns the bytes of a connection without a token in its header. The message that should authenticate it may
        be missing or have an invalid token.
        """
        first = {"type": "auth", "data": {"token": self._random.choice([self._token, "wrong", "", None, 5])}}
        words = [text(json.dumps(first)), *(text(self._message()) for _ in range(5))]
        return request({}, line="GET /ws HTTP/1.1") + b"".join(words[self._random.randrange(2) :])

    def _no_text(self) -> bytes:
        return self._handshake() + self._random.choice([frame(2, b"{}"), text(b"\xff"), frame(3, b""), frame(11, b"")])

    def _deep(self) -> bytes:
        opening = self._random.choice(["[", '{"a":', '{"type":"project_list","data":{"a":['])
        return self._handshake() + text(opening * 50_000)

    def _giant(self) -> bytes:
        sizes = [MESSAGE_BYTES + 1, 2**32, 2**63 - 1, 2**64 - 1]
        return self._handshake() + giant_frame_head(self._random.choice(sizes))

    def _message(self) -> bytes:
        chosen = self._random.choice
        message: dict[str, object] = {"type": chosen(TYPES) if chosen([True] * 9 + [False]) else self._value()}
        if chosen([True] * 7 + [False]):
            message["project_id"] = chosen(self._projects) if chosen([True] * 9 + [False]) else self._value()
        if chosen([True] * 9 + [False]):
            message["data"] = self._data() if chosen([True] * 9 + [False]) else self._value()
        if chosen([True, False]):
            message["request_id"] = chosen(["1", "2", "", None, 5, "x" * 300])
        return json.dumps(message, ensure_ascii=chosen([True, False])).encode("utf-8", "surrogatepass")

    def _data(self) -> dict[str, object]:
        chosen = self._random.choice
        meant: dict[str, object] = {
            "path": chosen([self._path, f"{self._path}/..", "/", "/etc", ""]),
            "prompt": chosen(["/quick", "/lines 300", "/fail", "/crash", "x" * 5_000]),
            "agent": "demo",
            "after_seq": chosen([0, 1, 10, 10**6]),
            "before_seq": chosen([0, 5, 10**6]),
            "limit": chosen([1, 10, 1_000]),
            "topics": chosen([["stats"], ["projects", "approvals"], ["reviews"], []]),
            "approval_id": "appr_1",
            "decision": "deny",
            "blob_id": chosen(["b1", "b2", f"{self._projects[0]}:1", f"{self._projects[0]}:{10**15}"]),
            "offset": chosen([0, 0, 4, 10**9]),
            "data": chosen(["AAAA", "", "?", "A" * 10_000]),
            "last": chosen([True, False]),
            "mode": "plan",
            "model": "m",
            "session_id": "s",
        }
        return {
            field: meant.get(field, self._value()) if chosen([True] * 9 + [False]) else self._value()
            for field in FIELDS
            if field in meant or chosen([False] * 9 + [True])
        }

    def _value(self) -> object:
        if self._random.random() < 0.6:
            return self._random.choice(TEXTS)
        return self._random.choice([None, True, 0, -1, 1.5, 2**70, [], {}, ["a"], {"a": {"b": []}}, [[[[[]]]]]])
