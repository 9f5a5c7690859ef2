"""Whatever happens to a history, and in whatever order, it returns what a plain list of the messages would."""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from drawbridge.core.errors import BadMessage
from drawbridge.server.store import index
from drawbridge.server.store import log as module
from drawbridge.server.store.log import Direction, Page
from tests.server.store.rig import NOON, files, message, open_history, read_independently

DIRECTIONS = st.sampled_from(["client", "claude", "server"])
SECONDS = st.one_of(st.integers(0, 3), st.integers(-100_000, 100_000))


class Kept(NamedTuple):
    seq: int
    time: datetime
    direction: Direction
    message: bytes


def is_not_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return True
    return False


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for owner, name, value in (
            (module, "MOST_RECORDS", 7),
            (module, "LARGEST_FILE", 2_500),
            (module, "CHECKPOINT_RECORDS", 4),
            (index, "BLOCK_RECORDS", 3),
            (index, "BLOCK_BYTES", 600),
        ):
            self.patch.setattr(owner, name, value)
        self.directory = Path(tempfile.mkdtemp())
        self.logs = self.directory / "logs"
        self.history = open_history(self.logs)
        self.kept: list[Kept] = []
        self.given = 0
        self.next = 1
        self.damaged = False
        self.now = NOON
        self.old_index: bytes | None = None

    def teardown(self) -> None:
        self.history.close()
        self.patch.undo()
        shutil.rmtree(self.directory)

    def kill(self) -> None:
        """Closes the files as the kernel does for a killed process, and does nothing else."""
        self.history._let_go()

    def keep(self, record: Kept) -> None:
        self.kept.append(record)
        self.given = record.seq
        self.next = record.seq + 1

    def reopen(self) -> None:
        self.history = open_history(self.logs)

    @property
    def index(self) -> Path:
        return self.logs / "index.json"

    # what a server does

    @rule(direction=DIRECTIONS, seconds=SECONDS, size=st.sampled_from([0, 0, 0, 50, 400, 3_000]))
    def append(self, direction: Direction, seconds: int, size: int) -> None:
        self.now += timedelta(seconds=seconds)
        data = message(f"{self.next} é", size)
        record = self.history.append(direction, data, self.now)
        assert record.seq == self.next
        self.keep(Kept(self.next, self.now, direction, data))

    @rule(bad=st.one_of(st.binary(max_size=5).filter(is_not_json), st.just(b'{"a":')))
    def append_an_invalid_message(self, bad: bytes) -> None:
        with pytest.raises(BadMessage):
            self.history.append("claude", bad, self.now)

    @rule()
    def restart(self) -> None:
        self.history.close()
        self.reopen()

    @rule()
    def kill_and_restart(self) -> None:
        self.kill()
        self.reopen()

    @rule(share=st.floats(0, 1), size=st.sampled_from([0, 500]))
    def kill_while_it_writes(self, share: float, size: int) -> None:
        """The last record is written only up to some byte, or completely. The index, which is written later, is not
        updated.
        """
        before = {path.name: path.stat().st_size for path in self.logs.glob("messages_*")}
        index = self.index.read_bytes() if self.index.exists() else None
        data = message("torn", size)
        record = self.history.append("claude", data, self.now)
        self.kill()
        if index is None:
            self.index.unlink(missing_ok=True)
        else:
            self.index.write_bytes(index)
        [path] = [path for path in self.logs.glob("messages_*") if path.stat().st_size != before.get(path.name)]
        written = round(share * (len(record.line) + 1))
        with path.open("r+b") as file:
            file.truncate(before.get(path.name, 0) + written)
        if written >= len(record.line):  # all of it, or all but the line break
            self.keep(Kept(self.next, self.now, "claude", data))
        self.reopen()

    # what happens to its files in the meantime

    @rule()
    def keep_the_index_for_later(self) -> None:
        if self.index.exists():
            self.old_index = self.index.read_bytes()

    @rule(how=st.sampled_from(["missing", "empty", "torn", "old"]))
    def damage_the_index(self, how: str) -> None:
        self.history.close()
        if self.damaged:  # without the index, it is unknown which numbers the damaged lines had
            self.given = max((kept.seq for kept in self.kept), default=0)
        if self.index.exists():
            data = self.index.read_bytes()
            if how == "missing":
                self.index.unlink()
            elif how == "old" and self.old_index is not None:
                self.index.write_bytes(self.old_index)
            else:
                self.index.write_bytes(b"" if how == "empty" else data[: len(data) // 2])
        self.reopen()

    @precondition(lambda self: len(self.kept) > 3)
    @rule(data=st.data(), by=st.sampled_from([b"\0", b"x", b"\xff", b" "]), while_open=st.booleans())
    def damage_a_line(self, data: st.DataObject, by: bytes, while_open: bool) -> None:
        record = data.draw(st.sampled_from(self.kept))
        if not while_open:
            self.history.close()
        for name in files(self.logs):
            path = self.logs / name
            lines = path.read_bytes().split(b"\n")
            for number, line in enumerate(lines):
                if line.startswith(b'{"seq":%d,' % record.seq):
                    lines[number] = by * len(line)
                    path.write_bytes(b"\n".join(lines))
        self.kept.remove(record)
        self.damaged = True
        if not while_open:
            self.reopen()

    # what it returns

    def expect(self, page: Page, matching: list[Kept], limit: int, *, from_the_end: bool = False) -> None:
        expected = matching[-limit:] if from_the_end else matching[:limit]
        assert [(record.seq, record.time, record.direction) for record in page.records] == [
            kept[:3] for kept in expected
        ]
        for record, kept in zip(page.records, expected, strict=True):
            assert record.line.endswith(b',"message":' + kept.message + b"}")
        assert page.has_more == (len(matching) > limit)

    @rule(after=st.integers(0, 60), limit=st.integers(1, 20))
    def read_after(self, after: int, limit: int) -> None:
        matching = [kept for kept in self.kept if kept.seq > after]
        self.expect(self.history.read(after_seq=after, limit=limit), matching, limit)

    @rule(before=st.integers(1, 60), limit=st.integers(1, 20))
    def read_before(self, before: int, limit: int) -> None:
        matching = [kept for kept in self.kept if kept.seq < before]
        self.expect(self.history.read(before_seq=before, limit=limit), matching, limit, from_the_end=True)

    @rule(data=st.data(), after=st.one_of(st.none(), st.integers(0, 60)), limit=st.integers(1, 20))
    def read_since(self, data: st.DataObject, after: int | None, limit: int) -> None:
        since = data.draw(st.sampled_from([kept.time for kept in self.kept] or [NOON]))
        since += timedelta(microseconds=data.draw(st.integers(-1, 1)))
        matching = [kept for kept in self.kept if kept.time > since and kept.seq > (after or 0)]
        self.expect(self.history.read(since=since, after_seq=after, limit=limit), matching, limit)

    @invariant()
    def all_of_it_is_there(self) -> None:
        assert [record.seq for record in self.history.after(0)] == [kept.seq for kept in self.kept]
        if self.damaged:  # numbers may be skipped, but none is assigned twice
            assert self.history.last_seq >= self.given
            self.next = self.history.last_seq + 1
        assert self.history.last_seq == self.next - 1

    @invariant()
    def an_independent_reader_finds_the_same(self) -> None:
        if not self.damaged:
            found = read_independently(self.logs)
            assert [record["seq"] for record in found] == [kept.seq for kept in self.kept] == list(range(1, self.next))
            assert self.history.count == len(found)
            assert self.history.first_time == (self.kept[0].time if self.kept else None)
            assert self.history.last_time == (self.kept[-1].time if self.kept else None)


AnyOrder.TestCase.settings = settings(max_examples=25, stateful_step_count=30)
TestAnyOrder = AnyOrder.TestCase


class AnyOrderForLong(AnyOrder):
    pass


AnyOrderForLong.TestCase.settings = settings(max_examples=1_500, stateful_step_count=60)
TestAnyOrderForLong = pytest.mark.slow(pytest.mark.timeout(3_600)(AnyOrderForLong.TestCase))
