"""The files of a review's trees: their versions, and the texts of those that are compared by lines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from drawbridge.server.checkpoints.errors import GitFailed
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.new_objects import NewObjects
from drawbridge.server.reviews.change_set import REGULAR, Version

LARGEST_TEXT: Final = 1024 * 1024
"""The maximum size of a file that is compared by lines, in bytes."""

LARGEST_TEXTS: Final = 16 * 1024 * 1024
"""The maximum size of all texts that are compared together, in bytes. Each file that does not fit is one hunk."""

Entry: TypeAlias = str
"""A file in a tree: "mode blob"."""


def version_of(entry: Entry, texts: Mapping[str, str]) -> Version | None:
    mode, _, blob = entry.partition(" ")
    if not int(mode, 8):
        return None
    return Version(mode, blob, texts.get(blob) if mode in REGULAR else None)


async def loaded_texts(git: Git, entries: Sequence[Entry]) -> dict[str, str]:
    """The texts of these files, by the ids of their contents. Contents that are not UTF-8 text, or are too large, are
    left out. Raises ``GitFailed``."""
    parts = (entry.split(" ") for entry in entries)
    wanted = list(dict.fromkeys(blob for mode, blob in parts if mode in REGULAR))
    if not wanted:
        return {}
    unsized = [blob for blob in wanted if blob not in git.remembered.sizes]
    if unsized:
        listed = await git.read("cat-file", "--batch-check", stdin="".join(f"{blob}\n" for blob in unsized))
        found = (words for words in map(str.split, listed.splitlines()) if len(words) == 3 and words[1] == "blob")
        git.remembered.sizes.update({blob: int(size) for blob, _, size in found})
    chosen, room = [], LARGEST_TEXTS
    for blob in wanted:
        size = git.remembered.sizes.get(blob)
        if size is not None and size <= min(LARGEST_TEXT, room):
            chosen.append(blob)
            room -= size
    unread = [blob for blob in chosen if blob not in git.remembered.texts]
    if unread:
        output = await git.read("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in unread))
        git.remembered.texts.update(await asyncio.to_thread(_parsed, output.encode(errors="surrogateescape")))
    return {blob: text for blob in chosen if (text := git.remembered.texts.get(blob)) is not None}


def _parsed(output: bytes) -> dict[str, str | None]:
    """Parses the output of ``cat-file --batch``. Maps each id to its text, or to None if the content is not UTF-8 text.
    Blocking. Raises ``GitFailed``."""
    texts, at = dict[str, str | None](), 0
    while at < len(output):
        end = output.find(b"\n", at)
        words = output[at:end].split()
        if words[1:] == [b"missing"]:  # the object was removed after its size was read
            texts[words[0].decode()] = None
            at = end + 1
            continue
        if len(words) != 3:
            raise GitFailed("git cat-file printed something other than file contents")
        start, size = end + 1, int(words[2])
        texts[words[0].decode()] = _text(output[start : start + size])
        at = start + size + 1
    return texts


def _text(data: bytes) -> str | None:
    with contextlib.suppress(UnicodeDecodeError):
        return None if b"\0" in data else data.decode()
    return None


async def with_contents(git: Git, versions: Mapping[str, Version | None]) -> dict[str, Version | None]:
    """Stores the contents that are not in the repository yet. Returns ``versions`` with the ids of all contents. Raises
    ``GitFailed``."""
    texts = sorted({one.text for one in versions.values() if one and not one.blob and one.text is not None})
    if not texts:
        return dict(versions)
    files = [git.folder / f"text{number}" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        await asyncio.to_thread(file.write_bytes, text.encode())
    names = "".join(f"{file}\n" for file in files)
    blobs = (await git.read("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names)).split()
    ids = dict(zip(texts, blobs, strict=True))
    git.remembered.texts.update({blob: text if "\0" not in text else None for text, blob in ids.items()})
    git.remembered.sizes.update({blob: len(text.encode()) for text, blob in ids.items()})
    return {
        path: Version(one.mode, ids[one.text], one.text) if one and not one.blob and one.text is not None else one
        for path, one in versions.items()
    }


def with_new_contents(
    git: Git, versions: Mapping[str, Version | None], objects: NewObjects
) -> dict[str, Version | None]:
    """Like ``with_contents``, but adds the contents to ``objects``, which are not stored yet."""
    found = dict(versions)
    for path, one in versions.items():
        if one and not one.blob and one.text is not None:
            data = one.text.encode()
            blob = objects.add("blob", data)
            git.remembered.texts.update({blob: one.text if "\0" not in one.text else None})
            git.remembered.sizes.update({blob: len(data)})
            found[path] = Version(one.mode, blob, one.text)
    return found


async def tree_with(git: Git, start: str, new: Mapping[str, Version | None]) -> str:
    """The tree of ``start`` with other versions of some files. A version that is None removes the file. A file also
    replaces a directory that has the same path, or a file that has the path of one of its directories. Raises
    ``GitFailed``."""
    own = {"GIT_INDEX_FILE": str(git.folder / "review")}
    await git.read("read-tree", start, environment=own)
    await put(git, new, own)
    return (await git.read("write-tree", environment=own)).strip()


async def put(git: Git, new: Mapping[str, Version | None], index: Mapping[str, str]) -> None:
    """Puts versions of some files into the index that the environment ``index`` names. A version that is None removes
    the file. Raises ``GitFailed``."""
    prefix = await git.prefix()
    none = f"0 {'0' * 2 * git.settings.id_bytes}"
    # Deleted files come first, because a directory may have to be created in their place.
    lines = [f"{none}\t{prefix}{path}\0" for path, one in new.items() if one is None]
    lines += [f"{one.mode} {one.blob}\t{prefix}{path}\0" for path, one in new.items() if one is not None]
    await git.read("update-index", "--replace", "-z", "--index-info", stdin="".join(lines), environment=index)
