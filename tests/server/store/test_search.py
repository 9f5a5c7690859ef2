"""The search index of a history: its results, and that it can always be rebuilt."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import resource
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.agents import lines
from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.store import search, texts
from drawbridge.server.store.log import BLANK, History
from drawbridge.server.store.search import FILE, MOST_WORDS, SHOWN, Deadline, Hit, Index, NoFullText, TooSlow, Wanted
from tests.server.store.rig import all_seqs, at, open_history, read_independently
from tests.waiting import PATIENCE


def line(*blocks: dict[str, Any], type: str = "assistant", **more: Any) -> bytes:
    return json.dumps({"type": type, "message": {"content": list(blocks)}, **more}).encode()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def prompt(words: str, run: str = "r", **more: Any) -> bytes:
    return json.dumps({"type": "user", "message": {"prompt": words}, "run_id": run, "by": "phone", **more}).encode()


def server(subtype: str, **given: Any) -> bytes:
    return json.dumps({"type": "system", "subtype": subtype, "message": given}).encode()


class Store:
    """A history with its search index."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.file = directory / FILE
        self.history = open_history(directory / "logs")
        self.index = Index(str(self.file), self.history)

    def prompts(self, *words: str) -> None:
        for each in words:
            self.history.append("client", prompt(each), at(self.history.last_seq + 1))

    def says(self, *lines: bytes) -> None:
        for each in lines:
            self.history.append("claude", each, at(self.history.last_seq + 1))

    def reports(self, subtype: str, **given: Any) -> None:
        self.history.append("server", server(subtype, **given), at(self.history.last_seq + 1))

    def update(self) -> None:
        while self.index.update():
            pass

    def find(self, query: str = "", **more: Any) -> list[Hit]:
        self.update()
        return self.index.search(Wanted(query, **more))

    def seqs(self, query: str = "", **more: Any) -> list[int]:
        return [hit.seq for hit in self.find(query, **more)]

    def again(self) -> Store:
        """Reopens the history and its index, as after a restart."""
        self.history.close()
        return Store(self.file.parent)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "one")
    yield store
    store.history.close()


def test_each_kind_of_text_is_found(store: Store) -> None:
    store.prompts("about walnuts")
    store.says(line(text("walnuts it is"), {"type": "tool_use", "name": "Bash", "input": {"command": "eat walnuts"}}))
    store.says(line({"type": "tool_result", "content": [text("no walnuts left")]}, type="user"))
    store.reports("permission_resolved", by="ada", decision="deny", message="no walnuts please")
    store.reports("run_finished", error="walnuts are missing")
    found = {hit.kind: hit.tool for hit in store.find("walnuts")}
    assert found == {"prompt": "", "answer": "", "tool": "Bash", "result": "", "decision": "", "error": ""}
    assert store.seqs("walnuts", kinds=("tool", "decision")) == [4, 2]


def test_decisions_on_changes_are_found_by_file_and_by_line(store: Store) -> None:
    diff = (
        "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n same\n-walnuts\n+pears\n"
    )
    store.reports("review_decided", by="ada", decision="undo", files=1, hunks=1, left=1, paths=["src/a.py"], diff=diff)
    store.reports("review_decided", by="ada", decision="keep", files=1, hunks=1, left=0, paths=["src/b.py"])
    store.reports("review_decided", files=0, hunks=0, left=0)
    store.reports("review_committed", commit="9f2c41", branch="topic", files=["src/b.py"], output="[topic 9f2c41] Nuts")
    store.reports("run_reverted", run_id="run_1", by="ada", files=[{"path": "src/c.py", "change": "added"}])
    assert store.seqs("walnuts") == store.seqs("pears") == [1]
    assert store.seqs("same") == [], "this line was not changed"
    assert store.seqs("src/a.py") == [1]
    assert store.seqs("src/b.py", kinds=("decision",)) == [4, 2]
    assert store.seqs("nuts") == store.seqs("9f2c") == store.seqs("topic") == [4]
    assert store.seqs("src/c.py") == [5]
    assert store.find("walnuts")[0].snippet == ("src/a.py\n-", "walnuts", "\n+pears")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("walnut", True),
        ("WALNUT", True),
        ("creme", True),
        ("set_mo", True),
        ("src/bridge.py", True),
        ("bridge walnuts", True),
        ("alnuts", False),
        ("walnuts pears", False),
        ('walnuts" OR "pears', False),
        ("walnuts -bridge", True),
        ("!!!", False),
        ("   ", True),
    ],
)
def test_words_are_found_by_their_first_letters(store: Store, query: str, found: bool) -> None:
    store.says(line(text("Walnuts and crème in src/bridge.py call set_model.")))
    assert bool(store.find(query)) is found


def test_a_snippet_shows_where_the_match_is(store: Store) -> None:
    store.says(line(text("<b>one</b> two \x02three\x03 two")))
    [hit] = store.find("two")
    assert hit.snippet == ("<b>one</b> ", "two", "  three  ", "two", "")


def test_a_snippet_of_very_long_words_is_short(store: Store) -> None:
    store.says(line(text(f"{'x' * 9_000} two {'two' * 2_000} " + "two " * 200)))
    [hit] = store.find("two")
    assert len(hit.snippet) % 2 == 1
    assert "two" in hit.snippet[1]
    assert sum(map(len, hit.snippet)) <= 1_010


@given(query=st.text(max_size=60))
def test_any_query_is_answered_without_an_error(query: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = Store(tmp_path_factory.mktemp("fuzz"))
    store.prompts("walnuts", query or "x")
    for hit in store.find(query):
        assert len(hit.snippet) % 2 == 1


@pytest.mark.parametrize(
    "query", ['"', '""', "a* b*", "NEAR(a b)", "text:a", "^a", "a AND", "NOT", "{a}:b", "\0", "'; --"]
)
def test_search_engine_syntax_is_treated_as_words(store: Store, query: str) -> None:
    store.prompts("walnuts")
    assert store.find(query) == []


def test_pages_contain_each_result_once_in_order(store: Store) -> None:
    store.prompts(*(f"walnut {number}" for number in range(25)))
    found: list[int] = []
    below = None
    while page := store.find("walnut", limit=10, below=below):
        found += [hit.seq for hit in page]
        below = page[-1].id
    assert found == list(range(25, 0, -1))


def test_a_search_that_takes_too_long_is_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.says(*(line(text("walnuts and pears " * 500)) for _ in range(50)))
    store.update()
    monkeypatch.setattr(search, "SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(search, "STEPS", 1)
    with pytest.raises(TooSlow):
        store.index.search(Wanted("w"))


@pytest.mark.parametrize("query", ["a", " ".join(f"{'a' * length}" for length in range(1, 17)), "a " * 300])
def test_a_search_of_repetitive_texts_ends_in_time(store: Store, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    """Each text has thousands of matches. Comparing all of them with each other would take seconds for each text."""
    store.prompts(*("a " * 10_000 for _ in range(30)), *(f"{'a' * 16} " * 1_170 for _ in range(30)))
    store.update()
    monkeypatch.setattr(search, "SEARCH_SECONDS", 0.5)
    began = time.thread_time()  # excludes the work of other programs on this machine
    with contextlib.suppress(TooSlow):
        store.index.search(Wanted(query, limit=201))
    assert time.thread_time() - began < 1.5


def test_a_repeated_query_word_counts_only_once(store: Store) -> None:
    store.prompts("walnuts", "two walnuts")
    assert store.seqs("walnuts " * MOST_WORDS + "two") == [2]


def test_histories_share_one_deadline(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.prompts(*("walnuts" for _ in range(10)))
    store.update()
    deadline = Deadline()
    assert store.index.search(Wanted("walnuts"), deadline)
    deadline.end()
    with pytest.raises(TooSlow):
        store.index.search(Wanted("walnuts"), deadline)


def test_an_invalid_query_does_not_remove_the_index(store: Store) -> None:
    """SQLite refuses a query with so many parameters, but that does not mean that the file is damaged."""
    store.prompts("walnuts")
    store.update()
    before = store.file.stat().st_ino
    with pytest.raises(sqlite3.OperationalError, match="too many SQL variables"):
        store.index.search(Wanted("", kinds=("prompt",) * 300_000))
    assert store.file.stat().st_ino == before
    assert store.seqs("walnuts") == [1]


def test_without_a_query_the_beginning_of_a_text_is_shown(store: Store) -> None:
    store.prompts(f"Repair the bridge. {'Why? ' * 100}")
    [hit] = store.find()
    [shown] = hit.snippet
    assert shown.startswith("Repair the bridge. Why? ")
    assert len(shown) == SHOWN


def test_an_index_with_text_that_is_not_unicode_is_rebuilt(store: Store) -> None:
    """The error for such text is Python's own, without an SQLite error code."""
    store.prompts("walnuts")
    store.update()
    with sqlite3.connect(store.file) as db:
        db.execute("UPDATE texts SET text = CAST(x'ff' AS TEXT)")
    with pytest.raises(sqlite3.OperationalError):
        store.index.search(Wanted())
    assert not store.file.exists()
    assert store.seqs("walnuts") == [1]


def test_an_index_that_a_killed_process_began_is_rebuilt(store: Store) -> None:
    """Earlier versions could be killed after the tables were created and before anything was in them."""
    store.prompts("walnuts")
    store.update()
    with sqlite3.connect(store.file) as db:
        db.execute("DELETE FROM state")
    assert store.seqs("walnuts") == [1]


def test_the_tables_are_never_without_a_state(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process sees the new index only once it is complete."""
    states: list[object] = []
    connect = sqlite3.connect

    class Watched(sqlite3.Connection):
        def execute(self, *words: Any) -> sqlite3.Cursor:
            with contextlib.closing(connect(store.file)) as db:
                if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
                    states.append(db.execute("SELECT version FROM state").fetchone())
            return super().execute(*words)

    store.prompts("walnuts")
    monkeypatch.setattr(sqlite3, "connect", functools.partial(connect, factory=Watched))
    store.update()
    assert states
    assert None not in states


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x02two\x03", "\x02two\x03"),
        (f"{'one ' * 40}\x02two\x03 {'three ' * 40}", f"…{'one ' * 10}\x02two\x03 {'three ' * 18}three…"),
        (f"{'one ' * 40}\x02two\x03", f"…{'one ' * 29}\x02two\x03"),
        (f"\x02two\x03 {'three ' * 40}", f"\x02two\x03 {'three ' * 28}three…"),
        (f"\x02{'a ' * 40}\x03", f"\x02{'a ' * 29}a\x03…"),
    ],
)
def test_a_snippet_surrounds_the_first_match(text: str, shown: str) -> None:
    assert search.around(text) == shown


def conversations(store: Store) -> list[tuple[str, str, str, int, int]]:
    store.update()
    return [(part.key, part.title, part.last_line, part.first_seq, part.last_seq) for part in store.index.parts()]


def test_a_history_is_divided_into_conversations(store: Store) -> None:
    store.prompts("First")
    store.reports("session_changed", session_id="s1")
    store.says(line(text("one\nlast\n")), line(text("of a subagent"), parent_tool_use_id="t"))
    store.reports("session_reset", old_session_id="s1", new_session_id="", project_id="p")
    store.prompts("Second")
    store.reports("session_changed", session_id="", fork_from="s1", agent="claude", title="First")
    store.prompts("Third")
    store.reports("session_changed", session_id="s3")
    store.reports("session_changed", session_id="s1", agent="claude")
    store.prompts("Fourth")
    assert conversations(store) == [
        ("s1", "First", "last", 1, 4),
        ("log_5", "Second", "", 5, 6),
        ("s3", "First", "", 7, 9),
        ("s1", "Fourth", "", 10, 11),
    ]
    assert [part.fork_from for part in store.index.parts()] == ["", "", "s1", ""]


def test_a_prompt_that_was_edited_is_found_by_its_last_text(store: Store) -> None:
    store.history.append("client", prompt("walnuts", "r1"))
    store.history.append("client", prompt("pears", "r2"))
    store.history.append("client", prompt("plums", "r1", steer=True))
    assert store.seqs() == [3, 2, 1]
    store.reports("prompt_edited", run_id="r2", prompt="figs")
    store.reports("prompt_edited", run_id="r2", prompt="dates")
    for each in (store, store.again()):
        found = [each.seqs(word) for word in ("walnuts", "pears", "plums", "figs", "dates")]
        assert found == [[1], [], [3], [], [2]]
        assert [(part.title, part.prompts) for part in each.index.parts()] == [("walnuts", 3)]
    assert store.index.waited()["r2"].edited == 5


def test_an_edit_of_a_prompt_without_a_text_is_found(store: Store) -> None:
    """A prompt without a text may consist only of images."""
    store.history.append("client", prompt("", "r1"))
    store.reports("prompt_edited", run_id="r1", prompt="figs")
    assert store.seqs("figs") == [2]
    assert [part.title for part in store.index.parts()] == ["figs"]


@pytest.mark.parametrize(
    ("subtype", "more", "title"),
    [
        ("prompt_edited", {"prompt": "figs"}, "figs"),
        ("run_finished", {"removed_by": "phone"}, "pears"),
        ("run_finished", {}, "walnuts"),
    ],
)
def test_a_title_is_a_prompt_that_the_agent_was_given(
    store: Store, subtype: str, more: dict[str, str], title: str
) -> None:
    store.history.append("client", prompt("walnuts", "r1"))
    store.reports(subtype, run_id="r1", **more)
    store.history.append("client", prompt("pears", "r2"))
    store.update()
    assert [part.title for part in store.index.parts()] == [title]


def test_changed_lines_are_counted(store: Store) -> None:
    patch = {"structuredPatch": [{"lines": [" a", "-b", "+c", "+d"]}]}
    store.says(line(type="user", tool_use_result=patch))
    store.says(line(type="user", tool_use_result={"type": "create", "content": "x\fy\nz\n", "structuredPatch": []}))
    store.says(lines.result("s1", "1", "", is_error=False, patch=lines.patch_of("1\n2\n3\n", "1\n4\n3\n")).raw)
    store.update()
    [part] = store.index.parts()
    assert (part.added, part.removed) == (5, 2)


def test_the_lines_of_other_agents_are_indexed(store: Store) -> None:
    store.says(lines.said("s1", "text", "pears").raw)
    store.says(lines.said("s1", "thinking", "pears").raw)
    store.says(lines.call("s1", "1", "Bash", {"command": "pears"}).raw)
    store.says(lines.result("s1", "1", [{"type": "text", "text": "pears"}], is_error=False).raw)
    assert [store.seqs("pears", kinds=(kind,)) for kind in ("answer", "tool", "result")] == [[1], [3], [4]]


@pytest.mark.parametrize(
    "line", [b"[]", b'"x"', b'{"type":"assistant","message":7}', b'{"type":"user","message":{"content":[3]}}']
)
def test_a_line_of_unexpected_shape_is_skipped(store: Store, line: bytes) -> None:
    store.says(line)
    store.prompts("walnuts")
    assert store.seqs() == [2]


# the index and its history


def test_a_restart_indexes_only_new_records(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.prompts("walnuts", "pears")
    store.update()
    again = store.again()
    again.prompts("plums")
    read: list[bytes] = []

    def noted(line: bytes) -> texts.Content:
        read.append(line)
        return texts.content(line)

    monkeypatch.setattr(search, "content", noted)
    assert again.seqs() == [3, 2, 1]
    assert len(read) == 1


def removed(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5_000])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def overwritten(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4_096:] = random.Random(1).randbytes(len(data) - 4_096)
    file.write_bytes(data)


def not_a_database(file: Path) -> None:
    file.write_bytes(b"This is not a database. " * 500)


def without_a_table(file: Path) -> None:
    with sqlite3.connect(file) as db:
        db.execute("DROP TABLE parts")


@pytest.mark.parametrize("damage", [removed, cut, emptied, overwritten, not_a_database, without_a_table])
def test_a_damaged_index_is_built_again(store: Store, damage: Any) -> None:
    store.prompts("walnuts", "pears")
    store.says(*(line(text(f"plum {number}")) for number in range(300)))
    store.update()
    store.history.close()
    damage(store.file)
    again = Store(store.file.parent)
    assert again.seqs("walnuts") == [1]
    assert len(again.find("plum", limit=500)) == 300
    assert [part.prompts for part in again.index.parts()] == [2]


def test_an_index_of_another_history_is_built_again(store: Store, tmp_path: Path) -> None:
    store.prompts("walnuts", "walnuts")
    store.update()
    other = Store(tmp_path / "other")
    other.prompts("pears", "pears")
    store.file.replace(other.file)
    assert (other.seqs("walnuts"), other.seqs("pears")) == ([], [2, 1])


def test_an_index_that_stays_damaged_is_abandoned(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the index would be rebuilt forever."""
    store.prompts("walnuts")
    monkeypatch.setattr(search, "_TABLES", search._TABLES.replace("created INTEGER", "other INTEGER"))
    with pytest.raises(sqlite3.OperationalError):
        store.update()


def test_dropped_records_are_not_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drawbridge.server.store.log.MOST_RECORDS", 2)
    store.prompts("walnuts", "walnuts", "pears", "pears", "plums")
    assert store.seqs() == [5, 4, 3, 2, 1]
    store.history.drop(None, store.history.size // 2)
    assert store.index.behind
    assert store.seqs("walnuts") == []
    assert store.history.first_seq == min(store.seqs())
    assert b"walnuts" not in store.file.read_bytes()


def test_the_size_of_the_index_is_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_BYTES", 400_000)
    words = random.Random(1)
    for number in range(6_000):
        store.says(line(text(f"walnut{number} " + " ".join(str(words.random()) for _ in range(20)))))
    store.update()
    store.says(line(text("the end")))
    assert store.seqs("end") == [6_001]
    assert store.seqs("walnut1") != [2]
    assert store.file.stat().st_size < 2_000_000


def test_without_full_text_search_only_word_searches_fail(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "has_full_text", lambda: False)
    store.prompts("walnuts", "pears")
    assert store.seqs(kinds=("prompt",)) == [2, 1]
    assert [part.title for part in store.index.parts()] == ["walnuts"]
    with pytest.raises(NoFullText):
        store.find("walnuts")
    monkeypatch.undo()
    assert store.again().seqs("walnuts") == [1], "once SQLite has full-text search, the index is rebuilt"


@pytest.mark.slow
def test_the_index_of_many_records_is_built_in_little_memory(store: Store) -> None:
    """``ru_maxrss`` is the highest resident memory that the process has had so far, in kB on Linux."""
    for number in range(100_000):
        store.history.append("claude", line(text(f"Record {number} is about walnuts and other things.")))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    store.update()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert store.seqs("99999") == [100_000]
    assert grown < 40_000


# the order of results, the file's mode, and records that are removed with their session


def test_a_clock_set_back_does_not_reorder_search_results(store: Store) -> None:
    """The newest record comes first, and each result still contains the time at which it was written."""
    for seconds in (100, 50, 200):
        store.history.append("client", prompt("walnuts"), at(seconds))
    found = store.find("walnuts")
    assert [hit.seq for hit in found] == [3, 2, 1]
    assert [hit.at for hit in found] == sorted((hit.at for hit in found), reverse=True)
    assert [search.moment(hit.created)[17:19] for hit in found] == ["20", "50", "40"]


def test_only_the_owner_can_read_the_index(store: Store) -> None:
    store.prompts("walnuts")
    store.update()
    assert store.file.stat().st_mode & 0o777 == 0o600


def test_removed_records_keep_their_numbers(store: Store, tmp_path: Path) -> None:
    store.prompts("one", "walnuts", "walnuts", "four")
    counts: list[int] = []
    trash = str(tmp_path / "trash.jsonl")
    store.index.rebuild_after(lambda: counts.append(store.history.remove([range(2, 4)], trash)))
    assert counts == [2]
    assert [json.loads(line)["seq"] for line in (tmp_path / "trash.jsonl").read_bytes().splitlines()] == [2, 3]
    kept = read_independently(tmp_path / "one" / "logs")
    assert [record["seq"] for record in kept] == [1, 2, 3, 4]
    assert [record["message"] for record in kept[1:3]] == [json.loads(BLANK)] * 2
    store.prompts("five")
    assert all_seqs(store.history) == [1, 2, 3, 4, 5]
    assert (store.history.count, store.history.damage) == (5, ())
    assert store.seqs() == [5, 4, 1]
    again = store.again()
    assert all_seqs(again.history) == [1, 2, 3, 4, 5]


def test_a_process_killed_during_a_deletion_leaves_no_text(store: Store, tmp_path: Path) -> None:
    store.prompts("one", "walnuts")
    assert store.seqs("walnuts") == [2]
    after_the_kill: list[Store] = []

    def remove() -> None:
        store.history.remove([range(2, 3)], str(tmp_path / "trash.jsonl"))
        store.update()
        assert not store.file.exists(), "nothing is indexed meanwhile"
        after_the_kill.append(store.again())

    store.index.rebuild_after(remove)
    assert after_the_kill[0].seqs("walnuts") == []
    assert after_the_kill[0].seqs() == [1]


def test_records_are_kept_if_the_index_cannot_be_removed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.prompts("walnuts")
    store.update()
    monkeypatch.setattr(search, "remove_quietly", lambda path: None)
    with pytest.raises(HistoryNotWritten, match="can't be removed"):
        store.index.rebuild_after(lambda: pytest.fail("records were removed"))
    assert store.seqs("walnuts") == [1]


def test_after_a_failed_deletion_everything_is_found(store: Store) -> None:
    store.prompts("one", "walnuts")
    store.update()
    with pytest.raises(HistoryNotWritten):
        store.index.rebuild_after(lambda: store.history.remove([range(1, 3)], "/nowhere/trash.jsonl"))
    assert store.seqs("walnuts") == [2]


def test_records_are_removed_from_several_files(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drawbridge.server.store.log.MOST_RECORDS", 10)
    store.prompts(*(f"number {number}" for number in range(1, 41)))
    store.history.remove([range(5, 16), range(39, 41)], str(tmp_path / "trash.jsonl"))
    store.prompts("the end")
    left = [one["seq"] for one in read_independently(tmp_path / "one" / "logs") if one["direction"] == "client"]
    assert left == [*range(1, 5), *range(16, 39), 41]
    assert all_seqs(store.history) == list(range(1, 42))


def test_records_are_written_and_read_while_others_are_removed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.prompts(*(f"walnut {number}" for number in range(1, 3_001)))
    may_end, fsync = threading.Event(), os.fsync

    def held(file: int) -> None:
        assert may_end.wait(PATIENCE)
        fsync(file)

    monkeypatch.setattr("drawbridge.server.store.log.os.fsync", held)
    removal = threading.Thread(target=store.history.remove, args=([range(1, 2_000)], str(tmp_path / "trash.jsonl")))
    removal.start()
    written = 0
    while removal.is_alive() or not written:
        store.prompts("pear")
        written += 1
        page = store.history.read(after_seq=1_990, limit=20)
        assert [record.seq for record in page.records] == list(range(1_991, 2_011))
        if written > 3:  # neither new records nor reads wait until the files are synced
            may_end.set()
    removal.join()
    assert all_seqs(store.history) == list(range(1, 3_001 + written))
    assert store.history.damage == ()
    left = [one["seq"] for one in read_independently(tmp_path / "one" / "logs") if one["direction"] == "client"]
    assert left == list(range(2_000, 3_001 + written))


def test_damaged_lines_are_kept_when_records_are_removed(store: Store, tmp_path: Path) -> None:
    store.prompts(*(f"walnut {number}" for number in range(1, 21)))
    store.history.close()
    [file] = (tmp_path / "one" / "logs").glob("messages_*.jsonl")
    file.write_bytes(file.read_bytes().replace(b'{"seq":10,', b'{"sXq":10,'))
    (tmp_path / "one" / "logs" / "index.json").unlink()
    again = Store(tmp_path / "one")
    again.history.remove([range(3, 6)], str(tmp_path / "trash.jsonl"))
    again.prompts("the end")
    expected = [seq for seq in range(1, 22) if seq != 10]
    assert all_seqs(again.history) == expected
    assert len(again.history.damage) == 1
    assert all_seqs(again.again().history) == expected


def test_nothing_is_removed_without_a_copy(store: Store, tmp_path: Path) -> None:
    store.prompts("one", "two")
    with pytest.raises(HistoryNotWritten):
        store.history.remove([range(1, 2)], str(tmp_path / "missing" / "trash.jsonl"))
    assert [one["direction"] for one in read_independently(tmp_path / "one" / "logs")] == ["client", "client"]


def test_records_can_be_added_after_others_were_removed(store: Store, tmp_path: Path) -> None:
    history: History = store.history
    store.prompts("one", "two")
    history.remove([range(1, 3)], str(tmp_path / "trash.jsonl"))
    store.prompts("three")
    history.close()
    assert all_seqs(open_history(tmp_path / "one" / "logs")) == [1, 2, 3]


TRANSCRIPTS = Path(__file__).parents[2] / "transcripts" / "server"


@pytest.mark.parametrize(
    ("name", "changed"), [("allow", (1, 1)), ("allow-edited", (1, 3)), ("deny", (0, 0)), ("modes", (1, 1))]
)
def test_changed_lines_in_real_transcripts_are_counted(store: Store, name: str, changed: tuple[int, int]) -> None:
    recorded = [json.loads(each) for each in (TRANSCRIPTS / f"2.1.329-{name}.jsonl").read_text().splitlines()]
    store.says(*(json.dumps(each["line"]).encode() for each in recorded if each.get("from") == "claude"))
    store.update()
    [part] = store.index.parts()
    assert (part.added, part.removed) == changed
    assert part.last_line
    assert store.find(kinds=("tool",))
