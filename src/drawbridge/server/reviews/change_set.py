"""The diff between two versions of a file, in hunks that are decided on one by one. Pure.

A ``FileChange`` has both versions and the hunks between them. Deciding on some of the hunks returns another
``FileChange``: a kept hunk is in its old version, too, and an undone one is no longer in its new version. The hunks
that remain keep their lines and their ids. They are not computed again, since a new comparison might align repeated
lines in another way.

A line includes its line feed, so that the joined lines are the file's text, byte for byte. Only the last line may have
none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.text import hunks as differences
from drawbridge.text.hunks import Hunk as Span

ID_BYTES: Final = 12

REGULAR: Final = frozenset({"100644", "100755"})
"""git's modes of the files that are compared by lines."""

ALIKE: Final = 0.5
"""The minimum share of a renamed file that is the same in both versions. It is the same as git's default."""

MOST_COMPARED: Final = 2_500
"""The maximum number of pairs of deleted and added files that are compared. If there are more, only files with the same
content, and files that were already known to be renamed, count as renamed."""

Kind: TypeAlias = Literal["lines", "file", "mode", "name"]


class Version(Struct, frozen=True):
    """A file at one moment.

    ``mode``: as in git. ``blob``: git's id of the content; empty if the content is not in the repository yet. ``text``:
    None for files that are not compared by lines: links, and files that are not UTF-8 text or are too large.
    """

    mode: str
    blob: str
    text: str | None = None

    @property
    def lines(self) -> list[str]:
        return lines_of(self.text or "")


class Hunk(Struct, frozen=True):
    """A part of a change that is kept, undone or edited as a whole.

    ``kind``: some lines, the whole file (it was added or deleted, or its lines can't be compared), its mode, or its
    name. ``span``: its lines in both versions, 0-based (none for a mode or a name). The id does not depend on it, but on
    the hunk's ``traits``.
    """

    id: str
    kind: Kind
    span: Span = Span(0, 0, 0, 0)


class Part(NamedTuple):
    """A hunk, the lines of the old version that it replaces, and the lines of the new version that replace them."""

    hunk: Hunk
    removed: list[str]
    added: list[str]


class FileChange(Struct, frozen=True):
    """The change to one file. ``old`` and ``new``: None if the file does not exist in that version. ``hunks``: in the
    order of the lines. The hunks for the mode and the name are last. ``old_path``: the path of the old version if the
    file was renamed; empty otherwise."""

    path: str
    old: Version | None
    new: Version | None
    hunks: tuple[Hunk, ...]
    old_path: str = ""

    @property
    def path_before(self) -> str:
        return self.old_path or self.path

    def parts(self) -> list[Part]:
        """All hunks with their lines."""
        old, new = _lines(self.old), _lines(self.new)
        spans = ((hunk, hunk.span) for hunk in self.hunks)
        return [
            Part(hunk, old[span.old_start : span.old_end], new[span.new_start : span.new_end]) for hunk, span in spans
        ]


class Overlapping(Exception):
    """Two changes to a file can't be merged, for example because they affect the same lines."""


class NotEditable(Exception):
    """The hunk has no lines that could be replaced."""


def lines_of(text: str) -> list[str]:
    """The lines of a text, each with its line feed. Only a line feed ends a line."""
    found = text.split("\n")
    last = found.pop()
    return [line + "\n" for line in found] + ([last] if last else [])


def changed(
    path: str,
    old: Version | None,
    new: Version | None,
    decided: Collection[str] = (),
    old_path: str = "",
    named: str = "",
) -> FileChange:
    """The change from ``old`` to ``new``. ``decided``: the ids of hunks that were decided on before. A new hunk that
    is equal to one of them gets another id. ``old_path``: the previous path of a renamed file. Its versions are both
    text, or have the same content. ``named``: the path from which the ids are made, if it is not ``path``."""
    named = named or path
    if old_path:
        assert old is not None
        assert new is not None, "a renamed file exists in both versions"
        name = (Hunk(_new_id(decided, named, "name", old_path), "name"),)
        lines = (
            ()
            if old.blob == new.blob
            else changed(path, old, msgspec.structs.replace(new, mode=old.mode), decided, named=named).hunks
        )
        return FileChange(path, old, new, (*lines, *_mode_hunk(named, old, new, decided), *name), old_path)
    if old is None or new is None or old.text is None or new.text is None:
        if (old and (old.mode, old.blob)) == (new and (new.mode, new.blob)):
            return FileChange(path, old, new, ())
        if old is not None and new is not None and old.blob == new.blob and {old.mode, new.mode} <= REGULAR:
            return FileChange(path, old, new, _mode_hunk(named, old, new, decided))
        id = _new_id(decided, named, "file", *_named(old), *_named(new))
        span = Span(0, len(_lines(old)), 0, len(_lines(new)))
        return FileChange(path, old, new, (Hunk(id, "file", span),))
    old_lines, new_lines = old.lines, new.lines
    spans = differences.diff(old_lines, new_lines)
    traits = differences.traits(old_lines, new_lines, spans)
    found = (
        Hunk(_new_id(decided, named, "lines", *parts), "lines", span) for span, parts in zip(spans, traits, strict=True)
    )
    return FileChange(path, old, new, (*found, *_mode_hunk(named, old, new, decided)))


def decide(change: FileChange, *, keep: Collection[str] = (), undo: Collection[str] = ()) -> FileChange:
    """The change after some of its hunks were kept and others were undone."""
    old, new, path, old_path, decided = change.old, change.new, change.path, change.old_path, {*keep, *undo}
    for hunk in change.hunks:
        if hunk.id not in decided:
            continue
        match hunk.kind:
            case "name":
                path, old_path = path if hunk.id in keep else change.old_path, ""
            case "mode" if hunk.id in keep:
                old = _with_mode(old, new)
            case "mode":
                new = _with_mode(new, old)
            case "file":
                old, new = (new, new) if hunk.id in keep else (old, old)
    parts = [part for part in change.parts() if part.hunk.kind == "lines"]
    lines = [part.hunk for part in parts]
    left = tuple(hunk for hunk in change.hunks if hunk.kind != "lines" and hunk.id not in decided)
    if any(hunk.id in decided for hunk in lines):
        kept = [added if hunk.id in keep else removed for hunk, removed, added in parts]
        there = [removed if hunk.id in undo else added for hunk, removed, added in parts]
        old, new = _replaced(old, change.old, lines, kept), _replaced(new, change.old, lines, there)
        lines = _moved(lines, kept, there, decided)
    return FileChange(path, old, new, (*lines, *left), old_path)


def edit(change: FileChange, id: str, text: str) -> FileChange:
    """The change after the new lines of a hunk were replaced by ``text``, and kept. Raises ``NotEditable``."""
    hunk = next(one for one in change.hunks if one.id == id)
    if hunk.kind == "file" and change.new is not None and change.new.text is not None:
        edited = msgspec.structs.replace(change.new, blob="", text=text)
        return msgspec.structs.replace(change, old=edited, new=edited, hunks=())
    if hunk.kind != "lines":
        raise NotEditable
    is_last = change.new is not None and hunk.span.new_end == len(change.new.lines)
    instead = lines_of(text if is_last or not text or text.endswith("\n") else text + "\n")
    parts = [part for part in change.parts() if part.hunk.kind == "lines"]
    lines = [part.hunk for part in parts]
    others = tuple(one for one in change.hunks if one.kind != "lines")
    kept = [instead if one.id == id else removed for one, removed, _ in parts]
    there = [instead if one.id == id else added for one, _, added in parts]
    old, new = _replaced(change.old, change.old, lines, kept), _replaced(change.new, change.old, lines, there)
    return msgspec.structs.replace(change, old=old, new=new, hunks=(*_moved(lines, kept, there, {id}), *others))


def renames(
    sides: Mapping[str, tuple[Version | None, Version | None]], known: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """The files of a change that were renamed. Maps the new path to the old one. ``sides``: both versions of the files
    by their paths. ``known``: the renames that were found before. Each is kept if the old file is still deleted, the
    new one is still added, and they are still comparable.

    Files with the same content are paired first, then files of which at least ``ALIKE`` is the same. Links and empty
    files never count as renamed.
    """
    gone = {path: old for path, (old, new) in sides.items() if new is None and old and _may_be_renamed(old)}
    there = {path: new for path, (old, new) in sides.items() if old is None and new and _may_be_renamed(new)}
    found: dict[str, str] = {}

    def pair(path: str, old_path: str) -> None:
        found[path] = old_path
        del there[path], gone[old_path]

    for path, old_path in known.items():
        if path in there and old_path in gone and _comparable(gone[old_path], there[path]):
            pair(path, old_path)
    for name in (_base, lambda _: ""):  # files that were only moved to another directory come first
        by_content: dict[tuple[str, str], list[str]] = {}
        for path, version in sorted(gone.items()):
            by_content.setdefault((version.blob, name(path)), []).append(path)
        for path, version in list(there.items()):
            if same := by_content.get((version.blob, name(path))):
                pair(path, same.pop())
    if len(there) * len(gone) <= MOST_COMPARED:
        lines = {path: Counter(version.lines) for path, version in (*gone.items(), *there.items())}
        alike = sorted(
            (
                (share, _base(path) == _base(old_path), path, old_path)
                for path in there
                for old_path in gone
                if (share := _alike(lines[path], lines[old_path])) >= ALIKE
            ),
            reverse=True,
        )
        for _, _, path, old_path in alike:
            if path in there and old_path in gone:
                pair(path, old_path)
    return found


def _comparable(old: Version, new: Version) -> bool:
    return old.blob == new.blob or (old.text is not None and new.text is not None)


def _may_be_renamed(version: Version) -> bool:
    return version.mode in REGULAR and version.text != ""


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _alike(one: Counter[str], other: Counter[str]) -> float:
    """The share of the larger file's characters that are in lines of both files; 0 without lines."""
    both = sum(map(_length, (one & other).items()))
    return both / max(1, sum(map(_length, one.items())), sum(map(_length, other.items())))


def _length(line: tuple[str, int]) -> int:
    return len(line[0]) * line[1]


def absorbed(base: Version | None, head: Version | None, now: Version | None) -> Version | None:
    """``base`` with the changes from ``head`` to ``now``, which were not made by the agent.

    Lines in an undecided hunk or right next to one are not changed in ``base``, so that the hunk shows the whole
    change. The same is true of contents that the agent changed and that can't be compared by lines.
    """
    if same(head, now):
        return base
    if same(base, head):
        return now
    if base is None or head is None or now is None:
        return base
    found = base
    if base.mode == head.mode and {base.mode, now.mode} <= REGULAR:
        found = msgspec.structs.replace(found, mode=now.mode)
    if base.blob == head.blob and {head.mode, now.mode} <= REGULAR:
        return msgspec.structs.replace(found, blob=now.blob, text=now.text)
    if base.text is None or head.text is None or now.text is None or head.blob == now.blob:
        return found
    lines = head.lines
    # The comparison is made from base to head, as the hunks are shown, and then reversed. A comparison from head to
    # base may align repeated lines in another way.
    shown = differences.diff(base.lines, lines)
    ours = [Span(span.new_start, span.new_count, span.old_start, span.old_count) for span in shown]
    theirs = differences.diff(lines, now.lines)
    parts = [(span, base.lines[span.new_start : span.new_end]) for span in ours]
    parts += [(span, now.lines[span.new_start : span.new_end]) for span in _apart(theirs, ours)]
    text = "".join(_with_parts(lines, sorted(parts)))
    return found if text == base.text else msgspec.structs.replace(found, blob="", text=text)


def merged(old: Version | None, ours: Version | None, theirs: Version | None) -> Version | None:
    """``ours`` with what changed from ``old`` to ``theirs``. Raises ``Overlapping`` if both changed the same lines, or
    something else that can't be merged."""
    if same(old, theirs) or same(ours, theirs):
        return ours
    if same(old, ours):
        return theirs
    if old is None or ours is None or theirs is None or not {old.mode, ours.mode, theirs.mode} <= REGULAR:
        raise Overlapping
    mode = theirs.mode if theirs.mode != old.mode else ours.mode
    if theirs.blob == old.blob or theirs.blob == ours.blob:
        return msgspec.structs.replace(ours, mode=mode)
    if ours.blob == old.blob:
        return msgspec.structs.replace(theirs, mode=mode)
    if old.text is None or ours.text is None or theirs.text is None:
        raise Overlapping
    lines = differences.merge(old.lines, ours.lines, theirs.lines)
    if isinstance(lines, differences.Overlap):
        raise Overlapping
    return Version(mode, "", "".join(lines))


def same(one: Version | None, other: Version | None) -> bool:
    """Whether both versions have the same mode and content, or neither exists. Each version has either the id of its
    content or a text.
    """
    if one is None or other is None:
        return one is other
    if one.blob and other.blob:
        return (one.mode, one.blob) == (other.mode, other.blob)
    return (one.mode, one.text) == (other.mode, other.text)


def _lines(version: Version | None) -> list[str]:
    return [] if version is None else version.lines


def _named(version: Version | None) -> tuple[str, str]:
    return ("", "") if version is None else (version.mode, version.blob)


def _mode_hunk(path: str, old: Version, new: Version, decided: Collection[str]) -> tuple[Hunk, ...]:
    if old.mode == new.mode:
        return ()
    return (Hunk(_new_id(decided, path, "mode", old.mode, new.mode), "mode"),)


def _new_id(decided: Collection[str], *parts: str) -> str:
    """The id for the only hunk of its file with these ``parts``. It is not in ``decided``."""
    count = 0
    while (id := _id(*parts, *([str(count)] if count else []))) in decided:
        count += 1
    return id


def _id(*parts: str) -> str:
    """A digest of the parts. It includes their lengths, because different parts can have the same concatenation."""
    digest = blake2b(digest_size=ID_BYTES)
    for part in parts:
        data = part.encode(errors="surrogateescape")
        digest.update(b"%d:%b" % (len(data), data))
    return digest.hexdigest()


def _with_mode(version: Version | None, other: Version | None) -> Version | None:
    assert version is not None
    assert other is not None, "only a file that exists in both versions changes its mode"
    return msgspec.structs.replace(version, mode=other.mode)


def _replaced(
    version: Version | None, old: Version | None, hunks: Sequence[Hunk], texts: Iterable[Sequence[str]]
) -> Version:
    """``version`` with the lines of ``old``, in which each hunk has the given lines."""
    assert version is not None
    assert old is not None, "only a file that exists in both versions has hunks of lines"
    text = "".join(_with_parts(old.lines, zip((hunk.span for hunk in hunks), texts, strict=True)))
    return version if text == version.text else msgspec.structs.replace(version, blob="", text=text)


def _moved(
    hunks: Sequence[Hunk], old: Iterable[Sequence[str]], new: Iterable[Sequence[str]], decided: Collection[str]
) -> list[Hunk]:
    """The hunks that are left, with their new places in both versions. ``old``, ``new``: the lines of each of ``hunks``
    in these versions."""
    result, old_shift, new_shift = [], 0, 0
    for hunk, old_lines, new_lines in zip(hunks, old, new, strict=True):
        span = hunk.span
        if hunk.id not in decided:
            moved = Span(span.old_start + old_shift, len(old_lines), span.new_start + new_shift, len(new_lines))
            result.append(msgspec.structs.replace(hunk, span=moved))
        old_shift += len(old_lines) - span.old_count
        new_shift += len(new_lines) - span.new_count
    return result


def _with_parts(lines: Sequence[str], parts: Iterable[tuple[Span, Sequence[str]]]) -> list[str]:
    """``lines`` with other lines in place of each of the spans, which are in order and do not overlap."""
    result, at = list[str](), 0
    for span, instead in parts:
        result += lines[at : span.old_start]
        result += instead
        at = span.old_end
    return result + list(lines[at:])


def _apart(spans: Iterable[Span], others: Sequence[Span]) -> list[Span]:
    """The spans that are separated from each of ``others`` by an unchanged line."""
    ends = [other.old_end for other in others]
    found = []
    for span in spans:
        following = bisect_left(ends, span.old_start)
        if following == len(others) or others[following].old_start > span.old_end:
            found.append(span)
    return found
