"""A repository and its work tree in memory, for thousands of reviews in seconds. The review itself, its ``Git`` and
everything between them are real.

Only what a review runs is implemented. All files are in the root of the work tree.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from drawbridge.server.checkpoints.commits import Filtered, committed, differences, listed_differences, shown_path
from drawbridge.server.checkpoints.errors import Changed
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.git.program import GitProgram
from drawbridge.server.checkpoints.git.settings import Settings
from drawbridge.server.checkpoints.refs import When
from drawbridge.server.checkpoints.remembered import Remembered
from drawbridge.server.checkpoints.repository import Repository
from drawbridge.server.checkpoints.work_tree import WorkTree
from drawbridge.server.reviews.reviews import Review

SETTINGS = Settings((), "sha1", None)

NO_ENTRY = ("000000", "0" * 40)

File = tuple[str, bytes]
"""A file in the work tree: git's mode and the content."""

Tree = dict[str, tuple[str, str]]
"""The files of a tree or of an index: path → mode and blob."""


@functools.lru_cache(maxsize=1_000)
def blob_id(data: bytes) -> str:
    """The id that git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class MemoryFile(str):
    """The path of a file in the folder of an operation."""

    content = b""

    def write_bytes(self, data: bytes) -> None:
        self.content = data


class Folder(dict[str, MemoryFile]):
    """The folder of all operations, with the files that they write."""

    def __truediv__(self, name: str) -> MemoryFile:
        return self.setdefault(name, MemoryFile(name))


class MemoryGit:
    """The git program."""

    def __init__(self) -> None:
        self.folder = Folder()
        self.repository = Repository(Path(), Path(), Path())
        self.path = "git"
        self.remembered = Remembered()
        self._blobs: dict[str, bytes] = {}
        self._trees: dict[str, Tree] = {}
        self._listings: dict[str, bytes] = {}
        """Tree → its content as git stores it."""
        self._commits: dict[str, tuple[str, str]] = {}
        """Commit → its tree and its message."""
        self._refs: dict[str, str] = {}
        self._indexes: dict[str, Tree] = {}
        """The file of each index → its content."""

    def opened(self) -> Git:
        """git for one operation. What earlier operations remember must be what git would answer."""
        for (old, new), known in self.remembered._differences.items():
            found = listed_differences(self._differences(old, new))
            assert list(known.items()) == list(found.items()), "a remembered comparison is wrong"
        return Git(cast(GitProgram, self), SETTINGS, self.remembered, is_in_root=True)

    async def run(
        self, words: Sequence[str], environment: Mapping[str, str], stdin: str = "", **_: Any
    ) -> tuple[int, str, str]:
        commands: dict[str, Callable[[], str]] = {
            "cat-file": lambda: self._objects(words[1:], stdin),
            "commit-tree": lambda: self._commit(words[1], stdin),
            "diff-tree": lambda: self._differences(words[-4], words[-3]),
            "for-each-ref": lambda: self._listed_refs(words[2]),
            "hash-object": lambda: "".join(self.blob(self.folder[file].content) + "\n" for file in stdin.split()),
            "ls-tree": lambda: self._listed(words[2], words[-1]),
            "read-tree": lambda: self._read(environment["GIT_INDEX_FILE"], words[1]),
            "unpack-objects": lambda: self._unpack(stdin.encode(errors="surrogateescape")),
            "update-index": lambda: self._put(environment["GIT_INDEX_FILE"], stdin),
            "update-ref": lambda: self._set(stdin),
            "write-tree": lambda: self.tree(self._indexes[environment["GIT_INDEX_FILE"]]) + "\n",
        }
        try:
            return 0, commands[words[0]](), ""
        except LookupError as error:
            return 128, "", f"fatal: {error}"

    def blob(self, data: bytes) -> str:
        id = blob_id(data)
        self._blobs[id] = data
        return id

    def tree(self, files: Tree) -> str:
        """Its id and its content are those that git would give it."""
        entries = sorted((os.fsencode(path), *entry) for path, entry in files.items())
        data = b"".join(b"%b %b\0%b" % (mode.encode(), path, bytes.fromhex(blob)) for path, mode, blob in entries)
        id = hashlib.sha1(b"tree %d\0" % len(data) + data).hexdigest()
        self._trees[id], self._listings[id] = dict(files), data
        return id

    def content(self, blob: str) -> bytes:
        return self._blobs[blob]

    def files(self, name: str) -> Tree:
        """The files of a commit or of a tree."""
        commit = name.removesuffix("^{tree}")
        return self._trees[self._commits[commit][0] if commit in self._commits else commit]

    def _commit(self, tree: str, message: str) -> str:
        id = hashlib.sha1(f"{tree} {message} {len(self._commits)}".encode()).hexdigest()
        self._commits[id] = self.tree(self.files(tree)), message
        return id

    def _objects(self, words: Sequence[str], stdin: str) -> str:
        if words[0] == "commit":
            tree, message = self._commits[words[1]]
            return f"tree {tree}\nauthor Drawbridge\n\n{message}"
        found = {id: self._blobs.get(id) or self._listings.get(id, b"") for id in stdin.split()}
        kinds = {id: "tree" if id in self._listings else "blob" for id in found}
        heads = {id: f"{id} {kinds[id]} {len(data)}\n" for id, data in found.items()}
        if words[0] == "--batch-check":
            return "".join(heads.values())
        return "".join(f"{heads[id]}{data.decode(errors='surrogateescape')}\n" for id, data in found.items())

    def _unpack(self, pack: bytes) -> str:
        """Stores the objects of a pack that has no deltas."""
        at, (count,) = 12, struct.unpack(">I", pack[8:12])
        for _ in range(count):
            kind = pack[at] >> 4 & 7
            while pack[at] & 0x80:
                at += 1
            stream = zlib.decompressobj()
            data = stream.decompress(pack[at + 1 :])
            at = len(pack) - len(stream.unused_data)
            if kind == 3:
                self.blob(data)
            elif kind == 2:
                files = re.findall(rb"(\d+) ([^\0]+)\0(.{20})", data, re.DOTALL)
                self.tree({os.fsdecode(path): (mode.decode(), blob.hex()) for mode, path, blob in files})
            else:
                head, _, message = data.decode(errors="surrogateescape").partition("\n\n")
                id = hashlib.sha1(b"commit %d\0" % len(data) + data).hexdigest()
                self._commits[id] = head.split()[1], message
        assert pack[at:] == hashlib.sha1(pack[:at]).digest()
        return ""

    def _differences(self, old: str, new: str) -> str:
        one, other = self.files(old), self.files(new)
        paths = sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))
        found = ((path, one.get(path, NO_ENTRY), other.get(path, NO_ENTRY)) for path in paths)
        return "".join(f":{was[0]} {now[0]} {was[1]} {now[1]} M\0{path}\0" for path, was, now in found)

    def _listed(self, name: str, path: str) -> str:
        entry = self.files(name).get(path)
        return "" if entry is None else f"{entry[0]} blob {entry[1]}\t{path}\0"

    def _listed_refs(self, prefix: str) -> str:
        found = ((name.removeprefix(prefix), id) for name, id in sorted(self._refs.items()) if name.startswith(prefix))
        return "".join(
            f"{name}\0commit\0{id}\0{self._commits[id][0]}\0{self._commits[id][1]}\0\n" for name, id in found
        )

    def _read(self, index: str, tree: str) -> str:
        self._indexes[index] = dict(self.files(tree))
        return ""

    def _put(self, index: str, lines: str) -> str:
        for line in lines.split("\0")[:-1]:
            entry, _, path = line.partition("\t")
            mode, blob = entry.split(" ")
            if mode == "0":
                self._indexes[index].pop(path, None)
            else:
                self._indexes[index][path] = mode, blob
        return ""

    def _set(self, lines: str) -> str:
        for line in lines.splitlines():
            if line.startswith("update "):
                _, name, id = line.split(" ")
                self._refs[name] = id
        return ""


class MemoryWorkTree:
    """The files of the work tree: ``disk`` maps their names to them."""

    def __init__(self, git: MemoryGit) -> None:
        self._git = git
        self.disk: dict[str, File] = {}

    async def check_size(self, git: Git) -> None:
        """No directory is too large."""

    async def current(self, git: Git, since: str, *, only_known: bool = False) -> tuple[str, Filtered]:
        return self._git.tree(
            {path: (mode, self._git.blob(data)) for path, (mode, data) in self.disk.items()}
        ), Filtered()

    async def write(self, git: Git, now: str, wanted: str, paths: Sequence[str]) -> None:
        """Like ``git apply``: writes all files or, if one of them is no longer as in ``now``, none."""
        there, files = self._git.files((await self.current(git, now))[0]), self._git.files(wanted)
        was = self._git.files(now)
        different = (await differences(git, now, wanted)).keys()
        assert different == set(paths), "the review names all files that it changes, and no others"
        changed = sorted(shown_path(path) for path in different if there.get(path) != was.get(path))
        if changed:
            raise Changed(changed)
        for path in different:
            if path in files:
                mode, blob = files[path]
                self.disk[path] = mode, self._git.content(blob)
            else:
                del self.disk[path]

    @property
    def port(self) -> WorkTree:
        """The work tree as a review expects it."""
        return cast(WorkTree, self)

    async def checkpoint(self, review: Review, run: str, when: When, *, stays_open: bool = False) -> None:
        """Takes a checkpoint of a run, and extends the review to it. ``stays_open``: as in ``Review.extend``."""
        git = self._git.opened()
        tree, filtered = await self.current(git, "")
        commit = await committed(git, tree, f"{run} {when}", filtered)
        await review.extend(git, run, when, commit, stays_open=stays_open)
