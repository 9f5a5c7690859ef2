"""Damaged logs, and logs of other programs, do not break the history reader or a server that starts with them.

``make test`` runs a short campaign, ``make slow`` a long one. A failing campaign reports its seed
(``DRAWBRIDGE_TEST_SEED``).
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import msgspec
import pytest

from drawbridge.server.sessions.audience import replayed
from drawbridge.server.sessions.recorded_state import RecordedState
from drawbridge.server.store import records
from drawbridge.server.store.lines import compose, parse
from drawbridge.server.store.log import Direction, History
from tests.chaos.rig import seeded
from tests.server.core_rig import Client, serving
from tests.server.store.rig import NOON, open_history

NOISE = [b"", b"\n", b"\x00", b"\xff\xfe", b"{}", b"[" * 600, b'"', b"}", b'{"seq":1}', b"\r\n", b"\xe2\x80\xa8"]
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**53,
    2**70,
    1.5,
    "",
    "x",
    "\ud800",
    [],
    {},
    [1],
    {"a": 1},
    "9" * 400,
    "claude",
]
TIMES = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-11-21t07:00:00z", "2026-11-21T07:00:00+14:00"]

EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("run_started", {"run_id": "r", "session_id": "s", "agent": "claude"}),
    ("run_finished", {"run_id": "r", "outcome": "completed", "duration_ms": 5, "cost_usd": 0.5}),
    ("permission_request", {"approval_id": "a", "run_id": "r", "tool_name": "Edit", "input": {}, "suggestions": []}),
    ("permission_resolved", {"approval_id": "a", "by": "phone", "decision": "allow"}),
    ("permission_withdrawn", {"approval_id": "a", "reason": "so"}),
    ("session_changed", {"session_id": "s", "agent": "claude"}),
    ("session_reset", {"old_session_id": "s", "new_session_id": "", "project_id": "p"}),
]


def messages() -> list[tuple[Direction, dict[str, Any]]]:
    """Returns the direction and message of one record of each kind."""
    prompt = {"type": "user", "message": {"prompt": "Hi"}, "run_id": "r", "by": "phone", "request_id": "q"}
    line = {"type": "assistant", "message": {"content": [{"type": "text", "text": "Hello ✓"}]}, "session_id": "s"}
    of_server: list[tuple[Direction, dict[str, Any]]] = [
        ("server", {"type": "system", "subtype": what, "message": fields}) for what, fields in EVENTS
    ]
    return [("client", prompt), ("claude", line), *of_server]


def whole() -> list[bytes]:
    kinds = messages() * 4
    return [
        compose(number, NOON, direction, json.dumps(message).encode()).line
        for number, (direction, message) in enumerate(kinds, 1)
    ]


def bent(value: Any, random: Random) -> Any:
    """Returns the JSON value with one part of it replaced or removed."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        name = random.choice(list(value))
        rest = {key: part for key, part in value.items() if key != name}
        return rest if random.random() < 0.15 else {**value, name: bent(value[name], random)}
    return random.choice(VALUES + TIMES)


def bent_line(line: bytes, random: Random) -> bytes:
    return json.dumps(bent(json.loads(line), random)).encode()


def damaged(data: bytes, random: Random, *, by_hand: bool = True) -> bytes:
    """Returns ``data`` with damage. ``by_hand`` is whether this includes edits that no disk causes, such as valid lines
    in the wrong order.
    """
    for _ in range(random.randrange(1, 4)):
        at, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
        data = random.choice(BY_HAND + BY_DISK if by_hand else BY_DISK)(
            data, at, min(end, at + random.choice([1, 10, 3_000])), random
        )
    return data


def _shuffled(data: bytes, at: int, end: int, random: Random) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(random.sample(lines, len(lines)))


Way: TypeAlias = Callable[[bytes, int, int, Random], bytes]

BY_DISK: list[Way] = [
    lambda data, at, end, random: data[:at] + data[end:],
    lambda data, at, end, random: data[:at] + random.choice(NOISE) + data[at:],
    lambda data, at, end, random: data[:at],
    lambda data, at, end, random: data[:at] + random.randbytes(end - at) + data[end:],
]

BY_HAND: list[Way] = [
    _shuffled,
    lambda data, at, end, random: data[:at] + data[at:end] * 2 + data[end:],
    lambda data, at, end, random: _bend_one(data, random),
]


def _bend_one(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    which = random.randrange(len(lines))
    if parse(lines[which]) is not None:
        lines[which] = bent_line(lines[which], random)
    return b"\n".join(lines)


def one_line(random: Random, lines: list[bytes]) -> None:
    """Damages one line. If it can still be parsed, showing it to a client and applying it to the stored memory raise no
    errors except those in ``NOT_OURS``.
    """
    line = random.choice(lines)
    line = bent_line(line, random) if random.random() < 0.5 else damaged(line, random)
    record = parse(line)
    if record is None or b"\n" in line:
        return
    with contextlib.suppress(*records.NOT_OURS):
        shown = replayed("p", line)
        assert shown.seq == record.seq
        json.loads(shown.data)
    recorded = RecordedState(session_id="s", unfinished={"r": "phone"}, approvals={"a": "r"})
    with contextlib.suppress(*records.NOT_OURS):
        seq, moment, event = records.read(line)
        recorded.apply(event, moment, seq)
    kept = msgspec.json.encode(recorded)
    assert msgspec.json.encode(msgspec.json.decode(kept, type=RecordedState)) == kept, (
        "the stored memory reads back differently"
    )


def one_file(directory: Path, random: Random, data: bytes) -> None:
    """Checks that a damaged file can be opened, read and appended to.

    A file with damage that a disk can cause is read the same way every time. After edits by hand, an append may change
    which lines are accepted.
    """
    file = directory / "messages_2026-11-21_12-00-00.jsonl"
    for old in directory.iterdir():
        old.unlink()
    if random.random() < 0.5:  # the index of the undamaged file was already stored
        file.write_bytes(data)
        open_history(directory).close()
    by_hand = random.random() < 0.5
    file.write_bytes(damaged(data, random, by_hand=by_hand))
    history = open_history(directory)
    found = read(history)
    assert found == sorted(set(found))
    added = history.append("server", b'{"type":"system","subtype":"x","message":{}}', NOON)
    assert added.seq > max(found, default=0)
    then = read(history)
    history.close()
    again = open_history(directory)
    for seen in (then, read(again)):
        assert seen == sorted(set(seen))
        assert seen[-1] == added.seq == again.last_seq
        assert by_hand or seen == [*found, added.seq]
    again.close()


def read(history: History) -> list[int]:
    """Returns the sequence numbers of all records, read forward in pages. Checks that a backward read gives the same."""
    found: list[int] = []
    page = history.read(limit=7)
    found += [record.seq for record in page.records]
    while page.has_more:
        page = history.read(after_seq=found[-1], limit=7)
        found += [record.seq for record in page.records]
    back = history.read(before_seq=2**60, limit=10_000)
    assert [record.seq for record in back.records] == found
    return found


def campaign(directory: Path, lines: int, files: int) -> None:
    good = whole()
    data = b"\n".join(good) + b"\n"
    with seeded() as random:
        for _ in range(lines):
            one_line(random, good)
        for _ in range(files):
            one_file(directory, random, data)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Hides the warnings about damaged parts, since there are thousands of them."""
    caplog.set_level(logging.CRITICAL, "drawbridge")


def test_a_few_damaged_logs(tmp_path: Path) -> None:
    campaign(tmp_path, lines=5_000, files=150)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_million_damaged_lines_and_thousands_of_files(tmp_path: Path) -> None:
    campaign(tmp_path, lines=1_000_000, files=20_000)


async def test_a_server_starts_with_a_few_damaged_logs(tmp_path: Path) -> None:
    await starts(tmp_path, 15)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_a_server_starts_with_a_thousand_damaged_logs(tmp_path: Path) -> None:
    await starts(tmp_path, 1_000)


async def starts(directory: Path, count: int) -> None:
    """Starts a server twice with each of ``count`` damaged logs. The second start reads what the first one has
    stored.
    """
    data = b"\n".join(whole()) + b"\n"
    async with serving(directory) as server:
        project = await server.project(Client())
    logs = directory / "data" / "projects" / project / "logs"
    saved = (logs.parent / "metadata.json").read_bytes()
    with seeded() as random:
        for _ in range(count):
            for old in logs.iterdir():
                old.unlink()
            (logs / "messages_2026-11-21_12-00-00.jsonl").write_bytes(damaged(_bend_one(data, random), random))
            (logs.parent / "metadata.json").write_bytes(saved)
            for _ in range(2):
                async with serving(directory) as server:
                    assert [one.id for one in server.core.projects] == [project], "the project was treated as damaged"
                    history = server.core.projects.get(project).history
                    answer = await server.does(Client(), "get_messages", project, after_seq=0, limit=1_000)
                    assert [one["seq"] for one in answer["data"]["messages"]] == read(history)
                    process = await server.running(Client(), project)
                    process.ends()
