"""New objects of a repository: made here, so that their ids are known at once, and stored by a single git process.

git reads them as a pack (gitformat-pack(5)), and stores each as it would store its own.
"""

from __future__ import annotations

import hashlib
import struct
import time
import zlib
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from drawbridge.server.checkpoints.commits import EMAIL, NAME
from drawbridge.server.checkpoints.git.git import Git

Kind: TypeAlias = Literal["commit", "tree", "blob"]

KINDS: Final[dict[Kind, int]] = {"commit": 1, "tree": 2, "blob": 3}
"""The numbers of the kinds of objects in a pack."""

DIRECTORY: Final = b"40000"
REGULAR: Final = (b"100644", b"100755")


class NewObjects:
    """The objects that one operation is about to store. ``format``: the object format."""

    def __init__(self, format: str) -> None:
        self._format = format
        self._objects: dict[str, tuple[Kind, bytes]] = {}

    def add(self, kind: Kind, data: bytes) -> str:
        """Adds an object. Returns its id."""
        digest = hashlib.new(self._format, b"%b %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
        digest.update(data)
        self._objects[digest.hexdigest()] = kind, data
        return digest.hexdigest()

    def commit(self, tree: str, message: str) -> str:
        """Adds a commit without parents. Returns its id."""
        when = f"{NAME} <{EMAIL}> {int(time.time())} +0000"
        text = f"tree {tree}\nauthor {when}\ncommitter {when}\n\n{message}"
        return self.add("commit", text.encode(errors="surrogateescape"))

    async def tree(self, git: Git, root: str, new: Mapping[str, tuple[str, str]]) -> str | None:
        """Adds the tree ``root`` with other versions of some files, and its directories that change. ``new``: the mode
        and the blob of each file, by its path in the work tree. Returns the tree's id; None if one of the files is not a
        regular file in ``root``. Raises ``GitFailed``."""
        if any("\n" in path for path in new):  # git could not read the path
            return None
        folders = {"/".join(path.split("/")[:depth]) for path in new for depth in range(1, path.count("/") + 1)}
        known = git.remembered.listings
        if not _is_known(known, root, folders):
            names = [root, *(f"{root}:{folder}" for folder in sorted(folders))]
            output = await git.read("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names))
            known.update(_trees(output.encode(errors="surrogateescape")))
        try:
            changes = {tuple(path.encode(errors="surrogateescape").split(b"/")): one for path, one in new.items()}
            return self._edited(known, root, changes)
        except LookupError:
            return None

    def _edited(self, known: dict[str, bytes], tree: str, changes: Mapping[tuple[bytes, ...], tuple[str, str]]) -> str:
        """Raises LookupError if a file or a directory of ``changes`` does not exist in ``tree``, or is not known."""
        entries = _entries(known[tree], len(tree) // 2)
        inside: dict[bytes, dict[tuple[bytes, ...], tuple[str, str]]] = {}
        for (name, *rest), one in changes.items():
            mode = entries[name][0]
            if rest:
                if mode != DIRECTORY:
                    raise LookupError(name)
                inside.setdefault(name, {})[tuple(rest)] = one
            elif mode not in REGULAR:
                raise LookupError(name)
            else:
                entries[name] = one[0].encode(), one[1]
        for name, below in inside.items():
            entries[name] = DIRECTORY, self._edited(known, entries[name][1], below)
        data = b"".join(b"%b %b\0%b" % (mode, name, bytes.fromhex(id)) for name, (mode, id) in entries.items())
        edited = self.add("tree", data)
        known[edited] = data
        return edited

    async def store(self, git: Git) -> None:
        """Stores the objects. Raises ``GitFailed``."""
        if self._objects:
            await git.read("unpack-objects", "-q", stdin=self._pack().decode(errors="surrogateescape"))
            self._objects.clear()

    def _pack(self) -> bytes:
        parts = [b"PACK", struct.pack(">II", 2, len(self._objects))]
        for kind, data in self._objects.values():
            parts += [_header(KINDS[kind], len(data)), zlib.compress(data, 1)]
        packed = b"".join(parts)
        return packed + hashlib.new(self._format, packed, usedforsecurity=False).digest()


def _header(kind: int, size: int) -> bytes:
    """The type and the size of an object, as in a pack."""
    first, size = kind << 4 | size & 0x0F, size >> 4
    found = bytearray()
    while size:
        found.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    return bytes([*found, first])


def _is_known(known: Mapping[str, bytes], root: str, folders: set[str]) -> bool:
    """Whether the listings of ``root`` and of these directories in it are known."""
    ids = {"": root}
    for folder in ("", *sorted(folders)):
        above, _, name = folder.rpartition("/")
        if folder:
            entry = _entries(known[ids[above]], len(root) // 2).get(name.encode(errors="surrogateescape"))
            ids[folder] = entry[1] if entry else ""
        if ids[folder] not in known:
            return False
    return True


def _entries(tree: bytes, id_bytes: int) -> dict[bytes, tuple[bytes, str]]:
    """The entries of a tree by name: mode and id."""
    found, at = dict[bytes, tuple[bytes, str]](), 0
    while at < len(tree):
        end = tree.index(b"\0", at)
        mode, _, name = tree[at:end].partition(b" ")
        at = end + 1 + id_bytes
        found[name] = mode, tree[end + 1 : at].hex()
    return found


def _trees(output: bytes) -> dict[str, bytes]:
    """Parses the output of ``cat-file --batch``. Maps the id of each tree to its content. Ignores all else."""
    found, at = dict[str, bytes](), 0
    while at < len(output):
        end = output.find(b"\n", at)
        if end < 0:
            break
        words = output[at:end].split()
        at = end + 1
        if len(words) == 3 and words[2].isdigit():  # otherwise, the object is missing
            size = int(words[2])
            if words[1] == b"tree":
                found[words[0].decode()] = output[at : at + size]
            at += size + 1
    return found
