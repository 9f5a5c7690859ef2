"""Compares one file of a project with the last commit, as clients may see it.

A client may have a scope that only allows reading, so the current text is read as in ``files``. The committed text
comes from git, which runs confined and without the repository's configuration, as for checkpoints (``git``), and only
for a path that clients may see. No filter program (such as Git LFS) runs, so the bytes of a file with a filter are
compared with its bytes in the commit, which were converted by the filter.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Literal

import msgspec
from msgspec import Struct

from drawbridge.agents.base import Confinement
from drawbridge.agents.memory import MemoryWatch
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.changes import beginning_of
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git.git import Git, opened
from drawbridge.server.checkpoints.git.program import program
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.replies import FileChanges
from drawbridge.server.sessions.files import files
from drawbridge.server.sessions.files.files import COMPARED, LARGEST_SHOWN, LARGEST_TEXT, Project

logger = logging.getLogger("drawbridge.server")

GIT_SECONDS: Final = 10.0

AT_ONCE: Final = 2
"""The maximum number of files that are compared at the same time."""

LITERAL: Final = {"GIT_LITERAL_PATHSPECS": "1"}
"""The environment in which git does not interpret a file's name as a pattern or as a path from the top of the work tree
(":/name")."""

REGULAR: Final = ("100644", "100755")

DIFF: Final = ("diff", "--no-index", "--no-ext-diff", "--no-textconv", "--no-color", "--text")


class _Committed(Struct, frozen=True):
    """A file in the last commit. ``size``: in bytes, 0 for a nested repository; ``name``: the name by which git finds
    its content."""

    mode: str
    size: int
    name: str


class Comparisons:
    """Compares files with the last commit, for clients."""

    def __init__(self, confinement: Confinement, memory: MemoryWatch) -> None:
        self._confinement = confinement
        self._memory = memory
        self._free = asyncio.Semaphore(AT_ONCE)
        self._endings = BackgroundTasks(logger)
        """These tasks are not canceled. Each waits until git's processes have ended."""

    async def close(self) -> None:
        await self._endings.wait()

    async def of(self, project: Project, given: str) -> FileChanges:
        """The differences between a file and the last commit. Raises ``ClientError``."""
        parts = await asyncio.to_thread(project.parts, given)
        new = await asyncio.to_thread(_present, project, parts)
        async with self._free:
            try:
                async with (
                    asyncio.timeout(GIT_SECONDS),
                    opened(project.root, self._confinement, self._memory, self._endings) as git,
                ):
                    return await _compared(git, "/".join(parts), new)
            except NoCheckpoint as unsupported:
                logger.warning("git can't compare a file of a project: %s", unsupported)
                raise _not_compared("git can't read the repository; the server's log has the reason") from None
            except (GitFailed, OSError, ValueError, TimeoutError) as error:
                reason = str(error) or f"git took more than {GIT_SECONDS:g} s"
                logger.warning("git can't compare a file of a project: %s", reason)
                text = f"The file can't be {COMPARED}. The server's log has the reason."
                raise ClientError("FILE_OPERATION", text, field="data.path") from None


def _present(project: Project, parts: tuple[str, ...]) -> str | None:
    """The text of the file; None if it does not exist. Raises ``ClientError``. Blocking."""
    try:
        return files.text(project, parts, COMPARED)
    except ClientError as refused:
        if refused.code != "FILE_NOT_FOUND":
            raise
        return None


async def _compared(git: Git | None, path: str, new: str | None) -> FileChanges:
    if git is None:
        if new is None:
            raise files.missing()
        is_installed = await asyncio.to_thread(program) is not None
        raise _not_compared(
            "the project is not in a git work tree" if is_installed else "git is not installed on the server's machine"
        )
    await git.see_head()
    committed = await _committed(git, path)
    if committed is None:
        if new is None:
            raise files.missing()
        return await _fitting(git, path, "A" if await _is_tracked(git, path) else "?", None, new)
    if committed.mode not in REGULAR:
        raise files.unsupported("in the last commit it is a link or another repository", COMPARED)
    if committed.size > LARGEST_TEXT:
        raise files.too_large(committed.size, LARGEST_TEXT, COMPARED, "the committed version")
    # Line endings in a checkout follow git's configuration, but line endings that an agent writes may not.
    how = "--filters" if new is not None and "\r\n" in new else "blob"
    data = (await git.read("cat-file", how, committed.name)).encode(errors="surrogateescape")
    if len(data) > LARGEST_TEXT:
        raise files.too_large(len(data), LARGEST_TEXT, COMPARED, "the committed version")
    try:
        old = await asyncio.to_thread(files.decoded, data)
    except ClientError:
        raise files.unsupported("in the last commit it is binary, or not UTF-8 text", COMPARED) from None
    if old == new:
        return FileChanges(path=path)
    return await _fitting(git, path, "D" if new is None else "M", old, new)


async def _committed(git: Git, path: str) -> _Committed | None:
    """The file in the last commit; None if nothing was committed yet, or the last commit does not contain the file."""
    code, commit, _ = await git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if code:
        return None
    commit = commit.strip()
    listed = await git.read("ls-tree", "-z", "--long", commit, "--", path, environment=LITERAL)
    for entry in listed.split("\0"):
        facts, _, name = entry.partition("\t")
        mode, kind, _, size = facts.split() if name == path else ("", "tree", "", "")
        if kind != "tree":
            return _Committed(mode, int(size) if kind == "blob" else 0, f"{commit}:./{path}")
    return None


async def _is_tracked(git: Git, path: str) -> bool:
    """Whether the file is in the user's own index."""
    with_index = LITERAL | {"GIT_INDEX_FILE": str(git.repository.own / "index"), "GIT_OPTIONAL_LOCKS": "0"}
    listed = await git.read("ls-files", "--cached", "-z", "--", path, environment=with_index)
    return path in listed.split("\0")


async def _fitting(
    git: Git, path: str, status: Literal["M", "A", "D", "?"], old: str | None, new: str | None
) -> FileChanges:
    """Both texts or, if they are too large for a message, the beginning of their diff. Raises ``GitFailed``,
    ``NoCheckpoint`` or OSError."""
    if await asyncio.to_thread(lambda: len(msgspec.json.encode([old, new])) <= LARGEST_SHOWN):
        return FileChanges(path=path, status=status, old=old, new=new)
    names = [git.folder / "old", git.folder / "new"]
    for name, text in zip(names, (old, new), strict=True):
        await asyncio.to_thread(name.write_bytes, (text or "").encode())
    patch = git.folder / "patch"
    code, _, complaint = await git.run(*DIFF, f"--output={patch}", "--", *map(str, names))
    if code not in (0, 1):
        raise GitFailed(f"git diff exited with code {code}: {complaint.strip()[:500]}")
    diff, truncated = await asyncio.to_thread(beginning_of, patch)
    # The part before the first hunk contains the names of temporary files.
    return FileChanges(path=path, status=status, diff=diff[diff.find("\n@@ ") + 1 :], truncated=truncated)


def _not_compared(why: str) -> ClientError:
    return ClientError("FILE_NOT_COMPARED", f"The file's changes can't be determined: {why}.", field="data.path")
