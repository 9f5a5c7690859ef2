"""Hunks are decided one by one. The files then match the decisions exactly, whatever their order."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from drawbridge.server.reviews.change_set import (
    FileChange,
    NotEditable,
    Overlapping,
    Version,
    absorbed,
    changed,
    decide,
    edit,
    lines_of,
    merged,
    renames,
    same,
)
from tests import programs

# There are only a few different lines, so that lines often repeat, move and slide.
texts = st.builds(
    lambda lines, last: "".join(line + "\n" for line in lines) + last,
    st.lists(st.sampled_from(["", "a", "b", "  c", "}", "d\r", "e\u2028"]), max_size=20),
    st.sampled_from(["", "", "a", "z"]),
)
modes = st.sampled_from(["100644", "100755"])


def version(text: str, mode: str = "100644") -> Version:
    """A version whose blob id is derived from its text."""
    return Version(mode, "blob of " + text, text)


versions = st.builds(version, texts, modes)
some_files = st.one_of(
    st.none(),
    versions,
    st.builds(Version, st.sampled_from(["100644", "100755", "120000"]), st.sampled_from(["x", "y"])),
)


def ids(change: FileChange) -> list[str]:
    return [hunk.id for hunk in change.hunks]


def parts(change: FileChange) -> dict[str, tuple[str, str]]:
    return {part.hunk.id: ("".join(part.removed), "".join(part.added)) for part in change.parts()}


def expected(change: FileChange, chosen: set[str]) -> str:
    """The old text with the chosen hunks applied."""
    old, result, at = lines_of(change.old.text or ""), "", 0  # type: ignore[union-attr]
    for hunk, removed, added in (part for part in change.parts() if part.hunk.kind == "lines"):
        result += "".join(old[at : hunk.span.old_start])
        result += "".join(added if hunk.id in chosen else removed)
        at = hunk.span.old_end
    return result + "".join(old[at:])


def placed(change: FileChange) -> tuple[tuple[str, Version | None], tuple[str, Version | None]]:
    return (change.path_before, change.old), (change.path, change.new)


@given(versions, versions, st.data())
def test_the_hunks_and_the_name_of_a_renamed_file_are_decided(old: Version, new: Version, data: st.DataObject) -> None:
    change = first = changed("new", old, new, old_path="old")
    name = change.hunks[-1].id
    keeps = {id for id in ids(first) if data.draw(st.booleans())}
    for id in data.draw(st.permutations(ids(first))):
        change = decide(change, keep={id}) if id in keeps else decide(change, undo={id})
    assert change.hunks == ()
    assert same(change.old, change.new)
    assert change.path == change.path_before == ("new" if name in keeps else "old")
    assert change.new is not None
    assert change.new.text == expected(first, keeps)


@given(versions, versions, st.data())
def test_deciding_on_a_rename_preserves_the_ids_of_the_hunks(old: Version, new: Version, data: st.DataObject) -> None:
    first = changed("new", old, new, old_path="old")
    name = first.hunks[-1]
    kept, undone = decide(first, keep={name.id}), decide(first, undo={name.id})
    assert placed(kept) == (("new", old), ("new", new))
    assert placed(undone) == (("old", old), ("old", new))
    assert kept.hunks == undone.hunks == first.hunks[:-1]
    assert changed("new", old, new).hunks == kept.hunks, "after a restart too"
    assert changed("old", old, new, named="new").hunks == undone.hunks, "after a restart too"


LONG = "".join(f"line {number}\n" for number in range(20))


def moved(**files: tuple[str | None, str | None]) -> dict[str, tuple[Version | None, Version | None]]:
    sides = {path: [None if text is None else version(text) for text in both] for path, both in files.items()}
    return {path: (old, new) for path, (old, new) in sides.items()}


def test_a_deleted_and_an_equal_added_file_are_a_rename() -> None:
    edited = LONG.replace("line 3\n", "LINE 3\n")
    assert renames(moved(a=(LONG, None), b=(None, LONG))) == {"b": "a"}
    assert renames(moved(a=(LONG, None), b=(None, edited))) == {"b": "a"}
    assert renames(moved(a=(LONG, None), b=(None, edited), c=(None, LONG))) == {"c": "a"}, "the same content first"
    assert renames(moved(a=(LONG, None), b=(None, LONG), c=(None, LONG))) == {"b": "a"}, "one of two copies"
    assert renames(moved(a=(LONG, None), b=(None, edited), c=(None, LONG)), {"b": "a"}) == {"b": "a"}, "a known rename"
    assert renames(moved(a=(LONG, None), b=(None, "another\n" * 20))) == {}
    assert renames(moved(a=(LONG, LONG), b=(None, LONG))) == {}, "a copy"
    assert renames(moved(a=("", None), b=(None, ""))) == {}
    link = {"a": (Version("120000", "x"), None), "b": (None, Version("120000", "x"))}
    assert renames(link) == {}
    image = {"a": (Version("100644", "x"), None), "b": (None, Version("100644", "x"))}
    assert renames(image) == {"b": "a"}


def test_with_many_files_only_identical_ones_are_renames() -> None:
    gone = {f"old/{number}": (f"{number}\n{LONG}", None) for number in range(60)}
    there = {f"new/{number}": (None, f"{number}{'' if number % 2 else ' edited'}\n{LONG}") for number in range(120)}
    found = renames(moved(**gone, **there))
    assert found == {f"new/{number}": f"old/{number}" for number in range(1, 60, 2)}


@given(some_files, some_files, st.data())
def test_hunks_can_be_kept_or_undone_in_any_order(
    old: Version | None, new: Version | None, data: st.DataObject
) -> None:
    change = first = changed("a", old, new)
    decisions = data.draw(st.lists(st.booleans(), min_size=len(ids(first)), max_size=len(ids(first))))
    keeps = {id for id, keep in zip(ids(first), decisions, strict=True) if keep}
    before = parts(first)
    for id in data.draw(st.permutations(ids(first))):
        change = decide(change, keep={id}) if id in keeps else decide(change, undo={id})
        assert parts(change) == {left: before[left] for left in ids(change)}, (
            "the others keep their lines and their ids"
        )
    assert change.hunks == ()
    assert same(change.old, change.new)
    assert change == decide(first, keep=keeps, undo=set(ids(first)) - keeps)
    if keeps == set(ids(first)):
        assert same(change.old, new)
    if not keeps:
        assert same(change.new, old)
    if old and new and old.text is not None and new.text is not None:
        assert change.old is not None
        assert change.old.text == expected(first, keeps)
        assert change.old.mode == (new.mode if ids(first)[-1:] and ids(first)[-1] in keeps else old.mode) or (
            old.mode == new.mode == change.old.mode
        )


@given(versions, versions, st.data())
def test_editing_a_hunk_leaves_the_others_unchanged(old: Version, new: Version, data: st.DataObject) -> None:
    first = changed("a", old, new)
    lines = [hunk for hunk in first.hunks if hunk.kind == "lines"]
    if not lines:
        return
    chosen = data.draw(st.sampled_from(lines))
    instead = data.draw(texts)
    change = edit(first, chosen.id, instead)
    assert ids(change) == [id for id in ids(first) if id != chosen.id]
    assert {id: parts(first)[id] for id in ids(change)} == parts(change)
    change = decide(change, undo=set(ids(change)))
    assert same(change.old, change.new)
    is_last = chosen.span.old_end == len(old.lines)
    written = instead if is_last or not instead or instead.endswith("\n") else instead + "\n"
    before, after = old.lines[: chosen.span.old_start], old.lines[chosen.span.old_end :]
    assert change.new is not None
    assert change.new.text == "".join(before) + written + "".join(after)


@given(texts, texts)
def test_no_two_hunks_have_the_same_id(old: str, new: str) -> None:
    change = changed("a", version(old), version(new))
    assert len(set(ids(change))) == len(ids(change))


Slots = tuple[str, ...]
slots = st.tuples(*(st.sampled_from(["", *(f"{n} {m}\n" for m in range(2)), f"{n} 2\n{n} 3\n"]) for n in range(4)))


@given(slots, slots, slots)
@example(("a\n", "b\n", "c\n", "d\n"), ("A\n", "b\n", "c\n", "d\n"), ("a\n", "b\n", "c\n", "D\n"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
def test_git_merges_in_the_same_way(tmp_path: Path, old: Slots, ours: Slots, theirs: Slots) -> None:
    """The slots are between lines that nobody changes."""
    sides = ["".join(f"{text}--- {number}\n" for number, text in enumerate(side)) for side in (ours, old, theirs)]
    files = [tmp_path / name for name in ("ours", "old", "theirs")]
    for file, text in zip(files, sides, strict=True):
        file.write_text(text)
    by_git = subprocess.run([programs.git(), "merge-file", "-p", *files], capture_output=True, text=True, check=False)
    assert 0 <= by_git.returncode < 128, by_git.stderr
    overlap = any(one != was != other != one for one, was, other in zip(ours, old, theirs, strict=True))
    assert overlap == (by_git.returncode > 0)
    if overlap:
        with pytest.raises(Overlapping):
            merged(version(sides[1]), version(sides[0]), version(sides[2]))
    else:
        found = merged(version(sides[1]), version(sides[0]), version(sides[2]))
        assert found is not None
        assert found.text == by_git.stdout


def test_an_equal_hunk_does_not_reuse_a_decided_hunks_id() -> None:
    old, new = version("0\nx\n1\n"), version("0\ny\n1\n")
    (decided,) = ids(changed("a", old, new))
    (again,) = ids(changed("a", old, new, decided={decided}))
    assert again != decided
    assert ids(changed("a", old, new, decided={decided, again})) not in ([decided], [again])


@pytest.mark.parametrize("around", ["{n}\n", "same\n"], ids=["different lines around", "equal lines around"])
@pytest.mark.parametrize("more", [0, 2], ids=["earlier", "later"])
def test_an_id_never_passes_to_an_equal_change_elsewhere(around: str, more: int) -> None:
    """A user decides on one of two equal changes, but meanwhile there is a third one, or the other one is gone."""

    def after(*places: int) -> FileChange:
        lines = [around.format(n=n) + "x\n" for n in range(4)]
        new = [line.replace("x", "y") if n in places else line for n, line in enumerate(lines)]
        return changed("a", version("".join(lines)), version("".join(new)))

    def places(change: FileChange) -> dict[str, int]:
        return {hunk.id: hunk.span.old_start for hunk in change.hunks}

    seen = places(after(1, 3))
    for now in (places(after(1, 3, more)), places(after(1)), places(after(3)), places(after(more))):
        for id in now.keys() & seen.keys():
            assert now[id] == seen[id]
    assert seen.items() <= places(after(1, 3, more)).items(), "the other hunks keep their ids"


@given(texts, texts, st.data())
@example("a\nb", "a\nb\nc", None)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
def test_git_undoes_a_hunk_in_the_same_way(tmp_path: Path, old: str, new: str, data: st.DataObject | None) -> None:
    change = changed("file", version(old), version(new))
    if not change.hunks:
        return
    hunk = data.draw(st.sampled_from(change.hunks)) if data else change.hunks[0]
    without = decide(change, undo={hunk.id}).new
    assert without is not None
    (tmp_path / "file").write_bytes(new.encode())
    patch = patch_of(change, hunk.id)
    words = [str(programs.git()), "apply", "-R", "--unidiff-zero", "--whitespace=nowarn", "-"]
    applied = subprocess.run(words, cwd=tmp_path, input=patch, capture_output=True, check=False)
    assume(applied.returncode == 0)  # git refuses some patches
    assert (tmp_path / "file").read_bytes().decode() == without.text


def patch_of(change: FileChange, id: str) -> bytes:
    """A patch that makes one hunk's change. All other lines are its context, so that git can't apply it elsewhere."""
    [(hunk, removed, added)] = [part for part in change.parts() if part.hunk.id == id]
    new = change.new.lines  # type: ignore[union-attr]
    before, after = new[: hunk.span.new_start], new[hunk.span.new_end :]
    counts = [len(before) + len(side) + len(after) for side in (removed, added)]
    starts = [1 if count else 0 for count in counts]
    head = f"--- a/file\n+++ b/file\n@@ -{starts[0]},{counts[0]} +{starts[1]},{counts[1]} @@\n"
    rows = [(" ", line) for line in before] + [("-", line) for line in removed]
    rows += [("+", line) for line in added] + [(" ", line) for line in after]
    body = "".join(
        sign + line + ("" if line.endswith("\n") else "\n\\ No newline at end of file\n") for sign, line in rows
    )
    return (head + body).encode()


@given(texts, texts, st.data())
def test_a_users_changes_elsewhere_are_not_in_the_review(base: str, head: str, data: st.DataObject) -> None:
    """The user inserts a line that touches no hunk. It becomes part of the old text."""
    first = changed("a", version(base), version(head))
    lines = lines_of(head)
    touched = {at for hunk in first.hunks for at in range(hunk.span.new_start, hunk.span.new_end + 1)}
    free = [at for at in range(1, len(lines)) if at not in touched]
    if not free:
        return
    at = data.draw(st.sampled_from(free))
    now = "".join([*lines[:at], "a person's line\n", *lines[at:]])
    found = absorbed(version(base), version(head), version(now))
    assert found is not None
    above = [hunk.span for hunk in first.hunks if hunk.span.new_end < at]
    in_base = at - sum(span.new_count - span.old_count for span in above)
    expected_lines = lines_of(base)
    expected_lines.insert(in_base, "a person's line\n")
    assert found.text == "".join(expected_lines)


@given(some_files, some_files, some_files)
def test_absorbing_never_hides_an_agents_changes(
    base: Version | None, head: Version | None, now: Version | None
) -> None:
    found = absorbed(base, head, now)
    if same(head, now):
        assert same(found, base)
    if same(base, head):
        assert same(found, now)
    if base is None or head is None or now is None:
        assert found in (base, now)


def test_a_users_edit_in_a_hunk_shows_the_whole_change() -> None:
    base, head, now = version("1\n2\n3\n"), version("1\nagent\n3\n"), version("1\nagent, and a person\n3\n")
    assert absorbed(base, head, now) == base
    change = changed("a", base, now)
    assert list(parts(change).values()) == [("2\n", "agent, and a person\n")]


@pytest.mark.parametrize("now", ["1\nme\nagent\n3\n", "1\nagent\nme\n3\n"])
def test_a_line_right_next_to_a_hunk_is_part_of_it(now: str) -> None:
    """The hunk then contains both lines, because their order in the old text would be a guess."""
    base, head = version("1\n2\n3\n"), version("1\nagent\n3\n")
    assert absorbed(base, head, version(now)) == base


def test_a_hunk_that_the_user_undid_by_hand_is_removed() -> None:
    base, head = version("1\n2\n3\n"), version("1\nagent\n3\n")
    assert changed("a", absorbed(base, head, base), base).hunks == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, Version("100644", "b")),
        (Version("100644", "b"), None),
        (Version("120000", "b"), version("a\n")),
        (Version("100644", "b"), Version("100755", "b")),
        (version("a\n"), None),
        (version("a\n"), version("a\n", "100755")),
    ],
)
def test_some_changes_can_only_be_decided_as_a_whole(old: Version | None, new: Version | None) -> None:
    """For example, a binary file, a deletion and a new file mode, which cannot be edited either."""
    change = changed("a", old, new)
    (hunk,) = change.hunks
    assert hunk.kind in ("file", "mode")
    if new is not None and new.text is not None and hunk.kind == "file":
        return
    with pytest.raises(NotEditable):
        edit(change, hunk.id, "b\n")


def test_a_file_that_was_added_is_edited_as_a_whole() -> None:
    change = edit(
        changed("a", None, version("1\n", "100755")), ids(changed("a", None, version("1\n", "100755")))[0], "2"
    )
    assert change.hunks == ()
    assert change.old == change.new == Version("100755", "", "2")


def test_a_large_file_with_many_equal_hunks_is_decided_quickly() -> None:
    """The CPU time must not grow with the square of the number of hunks, and stays below five seconds."""
    count = 20_000
    old, new = "".join(f"{n}\nx\n" for n in range(count)), "".join(f"{n}\ny\n" for n in range(count))
    begun = time.process_time()
    change = changed("a", version(old), version(new))
    assert len(set(ids(change))) == count
    change = decide(change, keep=set(ids(change)[::2]), undo=set(ids(change)[1::4]))
    change = edit(change, ids(change)[0], "z\n")
    assert len(change.parts()) == count // 4 - 1
    assert time.process_time() - begun < 5
