"""The search index of one history: the texts of its records, and the agent's conversations in it.

It is an SQLite file next to the history's files, with a full-text index if SQLite was built with FTS5. It is derived
from the records: filled after they are written, rebuilt if it is missing, damaged or not the index of this history, and
removed with the history.

The methods of ``Index`` block, and may be called from any thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from drawbridge.core.errors import HistoryNotWritten
from drawbridge.core.private_files import PRIVATE_FILE, remove_quietly
from drawbridge.server.store.lines import Record, from_microseconds, microseconds
from drawbridge.server.store.log import History
from drawbridge.server.store.texts import Content, Kind, Marker, content

logger = logging.getLogger("drawbridge.server")

FILE: Final = "search.sqlite"
MOST_BYTES: Final = 256 * 1024 * 1024
"""The maximum number of bytes in use in the file. Beyond that, the oldest texts are dropped."""

BATCH: Final = 500
BATCH_BYTES: Final = 4 * 1024 * 1024
"""The maximum number of records, and of their bytes, that are indexed at a time, which takes a few tens of
milliseconds."""

MOST_WORDS: Final = 16
"""The maximum number of words of a query that are searched for."""

SEARCH_SECONDS: Final = 2.0
STEPS: Final = 20
"""The number of SQLite instructions between two checks of the deadline: few, since one row may contain thousands of
matches."""

SNIPPET_WORDS: Final = 30
WORDS_BEFORE: Final = 10
"""The number of words in a snippet before its first match; fewer at the start of the text, and more at its end."""

LONGEST_PIECE: Final = 200
LONGEST_SNIPPET: Final = 800
"""The maximum number of characters of one text of a snippet, and of all its texts together, so that a page of results
fits into a message."""

SHOWN: Final = 300
"""The maximum number of characters that are shown of a text if the query is empty."""

LAST_LINE: Final = 200
TITLE: Final = 120

MOST_DAMAGES: Final = 3

_NO_CODE: Final = -1
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, _NO_CODE})
"""The codes of errors that mean that the file is damaged. Python's own errors, such as the one for a text that is not
valid UTF-8, have no code."""

_NO_TABLE: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH})
"""The codes of errors that also mean damage while records are indexed, because the statements that index records never
change and can't be the cause."""

_VERSION: Final = 5
_BEGIN, _END = "\x02", "\x03"
"""The characters that mark the beginning and the end of a match in a snippet. Texts do not contain these characters
(``texts.clean``)."""
_WORD: Final = re.compile(r"\S+")

_TABLES: Final = """
CREATE TABLE state (version INTEGER, words INTEGER, seq INTEGER, mark INTEGER, first_seq INTEGER, at INTEGER);
CREATE TABLE parts (first_seq INTEGER PRIMARY KEY, last_seq INTEGER, session_id TEXT, fork_from TEXT, title TEXT,
    prompts INTEGER, records INTEGER, last_line TEXT, added INTEGER, removed INTEGER, began INTEGER, ended INTEGER,
    titled_by TEXT);
CREATE TABLE texts (id INTEGER PRIMARY KEY, seq INTEGER, at INTEGER, created INTEGER, kind TEXT, tool TEXT, part INTEGER,
    text TEXT, run TEXT);
CREATE TABLE names (seq INTEGER, session_id TEXT);
CREATE TABLE queue (run TEXT PRIMARY KEY, edited INTEGER, dropped INTEGER);
CREATE INDEX texts_at ON texts (at);
CREATE INDEX texts_kind ON texts (kind, id);
CREATE INDEX texts_run ON texts (run) WHERE run IS NOT NULL;
"""
# ``at`` is ``created``, but never less than the ``at`` of the previous text, since clocks can be set back.
_WORDS: Final = """
CREATE VIRTUAL TABLE words USING fts5 (text, content='texts', content_rowid='id', tokenize='unicode61 remove_diacritics 2');
CREATE TRIGGER texts_added AFTER INSERT ON texts BEGIN
    INSERT INTO words (rowid, text) VALUES (new.id, new.text); END;
CREATE TRIGGER texts_dropped AFTER DELETE ON texts BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text); END;
CREATE TRIGGER texts_edited AFTER UPDATE OF text ON texts BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
    INSERT INTO words (rowid, text) VALUES (new.id, new.text); END;
"""


class NoFullText(Exception):
    """This SQLite was built without FTS5."""


class _Outdated(Exception):
    """The file is not the index of these records; the text is the reason."""


class TooSlow(Exception):
    """The search was ended by its ``Deadline``."""


class Deadline:
    """The time by which one request has to end. The request may search several histories one after another."""

    def __init__(self) -> None:
        self._until = time.monotonic() + SEARCH_SECONDS

    def end(self) -> None:
        """Lets the time run out immediately, so that a search that is still running for the request stops. May be
        called from any thread."""
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._until


class Part(Struct):
    """Consecutive records that belong to one conversation of the agent: ``first_seq`` to ``last_seq``.

    ``session_id`` is empty as long as the agent has not reported it. ``title``: the title in the record that began
    the part, otherwise the first prompt; ``titled_by``: the run of that prompt, if any. ``last_line``: the last line
    of the main agent's latest answer. ``added`` and ``removed``: the numbers of lines in files that the agent has
    reported. Times are microseconds since 1970.
    """

    first_seq: int
    last_seq: int
    session_id: str = ""
    fork_from: str = ""
    title: str = ""
    prompts: int = 0
    records: int = 0
    last_line: str = ""
    added: int = 0
    removed: int = 0
    began: int = 0
    ended: int = 0
    titled_by: str = ""

    @property
    def key(self) -> str:
        """The id of the conversation: the agent's own, or one made from ``first_seq`` if the agent has not reported
        any."""
        return self.session_id or f"log_{self.first_seq}"

    def ends_before(self, marker: Marker) -> bool:
        return marker.begins or (bool(self.session_id) and marker.session_id != self.session_id)

    def add(self, found: Content, record: Record) -> None:
        if found.marker is not None and found.marker.session_id:
            self.session_id = found.marker.session_id
        # If older records were dropped, the one that contained the id may be gone.
        self.session_id = self.session_id or found.continues
        self.last_seq, self.ended = record.seq, microseconds(record.time)
        self.records += 1
        self.added += found.added
        self.removed += found.removed
        if self.titled_by and self.titled_by in (found.edited, found.dropped):
            self.title = self.titled_by = ""
        for text in found.texts:
            if text.kind == "prompt":
                self.prompts += not found.edited
                if not self.title:
                    self.title, self.titled_by = " ".join(text.text.split())[:TITLE], text.run
            elif text.kind == "answer" and text.main:
                self.last_line = text.text.strip().rpartition("\n")[2].strip()[:LAST_LINE]


class Waited(Struct, frozen=True):
    """The changes to a prompt in the queue. ``edited``: the number of the record with its last text; None if it was not
    edited. ``dropped``: the number of the record of its removal; None if it was not removed."""

    edited: int | None
    dropped: int | None


class Hit(Struct, frozen=True):
    """A search result. ``snippet``: texts that are alternately outside and inside a match, beginning outside. ``at``
    (microseconds since 1970) and ``id`` are its position in the order of results."""

    id: int
    seq: int
    at: int
    created: int
    kind: Kind
    tool: str
    part: int
    snippet: tuple[str, ...]


class Wanted(Struct, frozen=True):
    """The conditions of a search. ``query``: any text. Each of its words has to be the beginning of a word in the
    result. If it is empty, every text matches. ``kinds``: the kinds of texts to search; empty for all. ``parts``: the
    ``first_seq`` of each part to search; None for all. ``below``: only texts with a smaller ``id``; ``until``: only
    texts with an ``at`` that is not later."""

    query: str = ""
    kinds: tuple[Kind, ...] = ()
    parts: tuple[int, ...] | None = None
    below: int | None = None
    until: int | None = None
    limit: int = 50


@cache
def has_full_text() -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
        except sqlite3.Error:
            return False
    return True


def words(query: str) -> str:
    """The query in FTS5's syntax: each of its first ``MOST_WORDS`` words is quoted, so that nothing in it is an
    operator. Empty if the query has no words."""
    found = list(dict.fromkeys(word for word in query.replace("\0", " ").split() if any(map(str.isalnum, word))))
    return " ".join('"' + word.replace('"', '""') + '"*' for word in found[:MOST_WORDS])


class Index:
    """The index of ``history`` in the file ``path``."""

    def __init__(self, path: str, history: History) -> None:
        self._path = path
        self._history = history
        self._lock = threading.Lock()
        self._done = -1
        """The number of the last record that is known to be indexed; -1 if that is not known."""
        self._first = 0
        """The number of the history's first record when ``_done`` was set."""
        self._parts: list[Part] | None = None
        """The content of the ``parts`` table; None if it has to be read."""
        self._closed = False
        self._paused = False
        """Whether records are being removed, so that nothing is indexed."""
        self._damages = 0
        """The number of times that the file was found to be damaged since records were last indexed."""

    @property
    def _name(self) -> str:
        """The id of the project or terminal session, for the log."""
        return os.path.basename(os.path.dirname(self._path))

    def _check_damage(self, error: sqlite3.DatabaseError, damage: Collection[int]) -> None:
        """Removes the file if it is damaged. Raises ``error`` if it is not, or if it is damaged repeatedly.

        ``damage``: the SQLite error codes that mean damage.
        """
        code = getattr(error, "sqlite_errorcode", None)
        if (_NO_CODE if code is None else code & 0xFF) not in damage:
            raise error
        self._damages += 1
        if self._damages > MOST_DAMAGES:
            raise error
        logger.warning("rebuilding the damaged search index of %s: %s", self._name, error)
        self._remove()

    @property
    def behind(self) -> bool:
        """Whether the history has records that are not indexed, or the index has records that were dropped. False once
        the index is closed."""
        now = (self._history.first_seq, self._history.last_seq)
        return not self._closed and (self._first, self._done) != now

    def update(self) -> bool:
        """Indexes the next records. Returns whether more records remain. Raises OSError, ``sqlite3.Error`` or
        ``HistoryUnreadable``.

        A file that is damaged, or is not the index of these records, is removed. The next call begins again. Does
        nothing while ``rebuild_after`` runs, and once the index is closed.
        """
        with self._lock:
            if self._closed or self._paused:
                return False
            try:
                with self._opened() as db:
                    more = self._update(db)
            except _Outdated as outdated:
                logger.info("rebuilding the search index of %s: %s", self._name, outdated)
                self._remove()
                return True
            except sqlite3.DatabaseError as error:
                self._check_damage(error, _DAMAGE | _NO_TABLE)
                return True
            self._damages = 0
            return more

    def rebuild_after(self, change: Callable[[], object]) -> None:
        """Removes the index and then calls ``change``, which removes records of the history. Afterwards, ``update``
        rebuilds the index from the records that are left, even if ``change`` has failed.

        The index is removed first, so that no text of a removed record is left if the process is killed in between.
        Raises ``HistoryNotWritten`` without calling ``change`` if the index can't be removed.
        """
        with self._lock:
            try:
                self._remove()
                _sync(os.path.dirname(self._path))
            except OSError as error:
                why = (error.strerror or "unknown reason").lower()
                raise HistoryNotWritten(
                    f"The search index of {self._name} can't be removed: {why}. Its history was not changed."
                ) from None
            if os.path.lexists(self._path):
                raise HistoryNotWritten(
                    f"The search index of {self._name} can't be removed, so its history was not changed. Check that "
                    "the server is allowed to write to its data directory."
                )
            self._paused = True
        try:
            change()
        finally:
            self._paused = False

    def close(self) -> None:
        """Closes the index. From then on, nothing is indexed or found."""
        with self._lock:
            self._closed = True

    def remove(self) -> None:
        """Closes the index and removes its file, because the history is deleted."""
        with self._lock:
            self._closed = True
            self._remove()

    def parts(self) -> list[Part]:
        """The parts of the history, in the order of their records; empty if the index is missing."""
        if (known := self._parts) is not None:
            return known
        with self._reading() as db:
            if db is None:
                return []
            self._parts = [Part(*row) for row in db.execute("SELECT * FROM parts ORDER BY first_seq")]
            return self._parts

    def named(self, keys: Collection[str]) -> list[int]:
        """The numbers of the records in which these sessions were renamed."""
        with self._reading() as db:
            found = db.execute("SELECT seq, session_id FROM names ORDER BY seq").fetchall() if db else []
        return [seq for seq, session_id in found if session_id in keys]

    def waited(self) -> dict[str, Waited]:
        """The changes to each prompt that was edited in the queue or removed from it, by run id."""
        with self._reading() as db:
            rows = db.execute("SELECT run, edited, dropped FROM queue").fetchall() if db else []
        return {run: Waited(edited, dropped) for run, edited, dropped in rows}

    def search(self, wanted: Wanted, deadline: Deadline | None = None) -> list[Hit]:
        """The results, newest first. Raises ``TooSlow``, ``NoFullText`` if a query needs the full-text index and
        this SQLite has none, and ``sqlite3.Error``."""
        if wanted.query.strip() and not has_full_text():
            raise NoFullText
        match = words(wanted.query)
        if wanted.query.strip() and not match:
            return []
        with self._reading() as db:
            if db is None:
                return []
            end = deadline or Deadline()
            db.set_progress_handler(lambda: int(end.is_over), STEPS)
            try:
                return list(_found(db, wanted, match))
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                    raise TooSlow from None
                raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """The open index; None if it is missing or closed. Removes a damaged file, which the next ``update`` rebuilds,
        and raises the error."""
        with self._lock:
            if self._closed or not os.path.exists(self._path):
                yield None
                return
            try:
                with self._opened() as db:
                    yield db
            except sqlite3.DatabaseError as error:
                self._check_damage(error, _DAMAGE)
                raise

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE))
        with contextlib.closing(sqlite3.connect(self._path, isolation_level=None)) as db:
            # Since the index can be rebuilt, it is not worth waiting for the disk.
            db.execute("PRAGMA synchronous = OFF")
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
                self._done = -1
                db.executescript(f"BEGIN; {_TABLES} {_WORDS if has_full_text() else ''}")
                first = self._history.first_seq
                state = (_VERSION, has_full_text(), first - 1, 0, first, 0)
                db.execute("INSERT INTO state VALUES (?, ?, ?, ?, ?, ?)", state)
                db.execute("COMMIT")
            yield db

    def _remove(self) -> None:
        self._done, self._parts = -1, None
        for end in ("", "-journal", "-wal", "-shm"):
            remove_quietly(self._path + end)

    def _update(self, db: sqlite3.Connection) -> bool:
        state = db.execute("SELECT seq, mark, at FROM state").fetchone()
        if state is None:  # earlier versions could be killed between the tables and this row
            raise _Outdated("it was not completed")
        seq: int
        seq, mark, at = state
        if self._done < 0 and not self._fits(db, seq, mark):
            raise _Outdated("it does not match the history, or has another format")
        if self._done >= 0 and db.execute("SELECT first_seq FROM state").fetchone()[0] != self._history.first_seq:
            raise _Outdated("old records were dropped")
        last = self._history.last_seq
        page = self._history.read(after_seq=seq, limit=BATCH, max_bytes=BATCH_BYTES)
        self._parts = None
        db.execute("BEGIN")
        part = _latest(db)
        for record in page.records:
            found = content(record.line)
            part = _with(db, part, found, record)
            if found.named:
                db.execute("INSERT INTO names VALUES (?, ?)", (record.seq, found.named))
            if found.edited:
                _queue(db, found.edited, "edited", record.seq)
            if found.dropped:
                _queue(db, found.dropped, "dropped", record.seq)
            at = max(at, microseconds(record.time))
            if part is not None:
                _store(db, part, found, record, at)
            seq, mark = record.seq, zlib.crc32(record.line)
        if part is not None:
            _save(db, part)
        if not page.has_more:
            seq = max(seq, last)  # skips what is damaged at the end
        db.execute("UPDATE state SET seq = ?, mark = ?, at = ?", (seq, mark, at))
        db.execute("COMMIT")
        self._shrink(db)
        self._first, self._done = self._history.first_seq, seq
        return seq < self._history.last_seq

    def _fits(self, db: sqlite3.Connection, seq: int, mark: int) -> bool:
        """Whether the file is the index of this history in the current format. The history may have been restored from
        a copy, or have lost its old records."""
        version, has_words, first = db.execute("SELECT version, words, first_seq FROM state").fetchone()
        same = (version, bool(has_words), first) == (_VERSION, has_full_text(), self._history.first_seq)
        if not same or seq > self._history.last_seq:
            return False
        if not mark:
            return True
        page = self._history.read(before_seq=seq + 1, limit=1)
        return bool(page.records) and zlib.crc32(page.records[-1].line) == mark

    def _shrink(self, db: sqlite3.Connection) -> None:
        """Drops the oldest texts if the file is too large. Their space is reused."""
        while _used(db) > MOST_BYTES:
            low, high = db.execute("SELECT min(id), max(id) FROM texts").fetchone()
            if low is None or low == high:
                return
            db.execute("BEGIN")
            db.execute("DELETE FROM texts WHERE id <= ?", (low + (high - low) // 4,))
            if has_full_text():
                # Otherwise, the dropped texts' words would stay for a long time. This takes some seconds for the
                # largest file.
                db.execute("INSERT INTO words (words) VALUES ('optimize')")
            db.execute("COMMIT")


def _used(db: sqlite3.Connection) -> int:
    """The number of bytes of the file that are in use."""
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int(pages - free) * int(size)


def _latest(db: sqlite3.Connection) -> Part | None:
    row = db.execute("SELECT * FROM parts ORDER BY first_seq DESC LIMIT 1").fetchone()
    return None if row is None else Part(*row)


def _with(db: sqlite3.Connection, part: Part | None, found: Content, record: Record) -> Part | None:
    """The current part after this record: ``part``, or a new one that the record begins. None as long as all records
    were removed, because removed records do not begin a part."""
    if found.removed_record:
        return part
    marker = found.marker
    if part is None or (marker is not None and part.ends_before(marker)):
        if part is not None:
            _save(db, part)
        title, fork_from = (marker.title[:TITLE], marker.fork_from) if marker is not None else ("", "")
        part = Part(record.seq, record.seq, fork_from=fork_from, title=title, began=microseconds(record.time))
    part.add(found, record)
    return part


def _save(db: sqlite3.Connection, part: Part) -> None:
    db.execute(
        "INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", msgspec.structs.astuple(part)
    )


def _queue(db: sqlite3.Connection, run: str, column: str, seq: int) -> None:
    db.execute(
        f"INSERT INTO queue (run, {column}) VALUES (?, ?) ON CONFLICT (run) DO UPDATE SET {column} = excluded.{column}",  # noqa: S608 - a column's name
        (run, seq),
    )


def _store(db: sqlite3.Connection, part: Part, found: Content, record: Record, at: int) -> None:
    created = microseconds(record.time)
    for text in found.texts:
        # An edited prompt is found by its last text, at its original position.
        if found.edited and db.execute("UPDATE texts SET text = ? WHERE run = ?", (text.text, text.run)).rowcount:
            continue
        row = (record.seq, at, created, text.kind, text.tool, part.first_seq, text.text, text.run or None)
        db.execute(
            "INSERT INTO texts (seq, at, created, kind, tool, part, text, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
        )


def _found(db: sqlite3.Connection, wanted: Wanted, match: str) -> Iterator[Hit]:
    below = wanted.below
    if wanted.until is not None:
        (latest,) = db.execute("SELECT max(id) FROM texts WHERE at <= ?", (wanted.until,)).fetchone()
        below = min(below if below is not None else (latest or 0) + 1, (latest or 0) + 1)
    id, tables = ("words.rowid", "words JOIN texts ON texts.id = words.rowid") if match else ("texts.id", "texts")
    values: list[Any] = []
    conditions = []

    def where(condition: str, *more: Any) -> None:
        conditions.append(condition)
        values.extend(more)

    if match:
        # ``snippet`` is not used, because it compares each match with every other one, and one row may take minutes.
        shown = f"highlight(words, 0, '{_BEGIN}', '{_END}')"
        where("words MATCH ?", match)
    else:
        shown = f"substr(texts.text, 1, {SHOWN})"
    if below is not None:
        where(f"{id} < ?", below)
    if wanted.kinds:
        where(f"kind IN ({_marks(wanted.kinds)})", *wanted.kinds)
    if wanted.parts is not None:
        where(f"part IN ({_marks(wanted.parts)})", *wanted.parts)
    condition = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = db.execute(
        # Only names and question marks are inserted into the text. Every value is a parameter.
        f"SELECT texts.id, seq, at, created, kind, tool, part, {shown} FROM {tables} {condition} "  # noqa: S608
        f"ORDER BY {id} DESC LIMIT ?",
        (*values, wanted.limit),
    )
    for one, seq, at, created, kind, tool, part, snippet in rows:
        yield Hit(one, seq, at, created, kind, tool, part, alternating(around(snippet)) if match else (snippet,))


def _sync(directory: str) -> None:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def around(text: str) -> str:
    """The words of a text around its first match."""
    first = max(text.find(_BEGIN), 0)
    low, high = max(first - LONGEST_SNIPPET, 0), min(first + 2 * LONGEST_SNIPPET, len(text))
    words = [word.span() for word in _WORD.finditer(text, low, high)]
    before = sum(start < first for start, _ in words)
    left = max(min(before - WORDS_BEFORE, len(words) - SNIPPET_WORDS), 0)
    right = left + SNIPPET_WORDS
    start = words[left][0] if low or left else 0
    end = words[right - 1][1] if right < len(words) else high
    shown = f"{'…' if start else ''}{text[start:end]}"
    if shown.count(_BEGIN) > shown.count(_END):
        shown += _END
    return shown + ("…" if end < len(text) else "")


def alternating(snippet: str) -> tuple[str, ...]:
    """The texts of a snippet, which are alternately outside and inside a match, beginning outside. Long texts are cut,
    because a word may be as long as its whole text. If they are too long together, the last matches are left out."""
    texts = [text for piece in snippet.split(_BEGIN) for text in piece.split(_END)]
    found = [_end_of(texts[0])]
    for text in texts[1:]:
        found.append(text if len(text) <= LONGEST_PIECE else text[:LONGEST_PIECE] + "…")
    while len(found) > 3 and sum(map(len, found)) > LONGEST_SNIPPET:
        del found[-2:]
    return tuple(found)


def _end_of(text: str) -> str:
    return text if len(text) <= LONGEST_PIECE else "…" + text[-LONGEST_PIECE:]


def moment(microseconds: int) -> str:
    """A time in microseconds since 1970 as RFC 3339 in UTC, to the millisecond."""
    return from_microseconds(microseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")
