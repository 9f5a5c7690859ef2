"""Commits what was kept in a review. The commit adds only the kept changes to HEAD.

The commit is made by the user's own git, with a separate index, so everything that the user has staged or changed is
left as it is. The user's index gets the same changes, so that they do not appear as staged in reverse. It is locked, as
git locks it, from before HEAD is read until the commit is made or refused, so no other commit comes in between. A
failure changes neither the index nor a branch nor a file, except for what a hook itself has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from drawbridge.server.checkpoints.commits import PATCH, differences, filtered_of, message_of, shown_path, tree_of
from drawbridge.server.checkpoints.errors import GitFailed, damaged_index
from drawbridge.server.checkpoints.git import index as git_index
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.repository import Repository, head_commit
from drawbridge.server.reviews.change_set import Overlapping, Version, merged, same
from drawbridge.server.reviews.contents import Entry, loaded_texts, put, tree_with, version_of, with_contents
from drawbridge.server.reviews.intents import Attempt, Verdict

SECONDS: Final = 120.0
"""The maximum number of seconds for a commit, including its hooks."""

IDENTITY_SECONDS: Final = 30.0
"""Seconds that git may take to read the user's name from its configuration."""

IDENTITY: Final = re.compile(r"^(.*<.*>) [0-9]+ [+-][0-9]{4}$", re.MULTILINE)
"""Matches a line that ``git var GIT_AUTHOR_IDENT`` prints."""

UNDER_WAY: Final = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")
"""Files and directories that exist in git's directory while a merge, cherry-pick, revert, rebase or bisection is not
finished."""

NO_BRANCH: Final = 91
"""The exit code of the script if the branch could not be created."""

Reason: TypeAlias = Literal[
    "detached", "filter", "identity", "index", "locked", "no_repository", "overlap", "under_way", "unborn"
]


BeginCommit: TypeAlias = Callable[[Attempt], Awaitable[None]]
"""Called before a commit is made. If it raises, nothing is changed."""


class NothingToCommit(Exception):
    """Nothing was kept, or the last commit already contains all of it."""


class Blocked(Exception):
    """The changes can't be committed, for example because a merge is not finished, or git does not know the user's
    name. The text is shown to the user. ``paths``: the files that prevent the commit; empty if no particular files
    do."""

    def __init__(self, reason: Reason, text: str, paths: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.reason = reason
        self.paths = tuple(sorted(paths))


class BadBranch(Exception):
    """The new branch can't be created: its name is not valid or is taken, or git refused to create it. The text is
    shown to the user, with advice."""

    def __init__(self, text: str, *, exists: bool) -> None:
        super().__init__(text)
        self.exists = exists


class Refused(Exception):
    """git or a hook refused the commit, or it took too long. ``output``: what they printed; ``code``: git's exit
    code."""

    def __init__(self, code: int, output: str) -> None:
        super().__init__(output)
        self.code = code
        self.output = output


class Committed(Struct, frozen=True):
    """A commit that was made. ``branch``: without "refs/heads/". ``files``: the paths of the committed files, as
    ``shown_path`` returns them. ``kept``: the paths of the files with kept changes that the branch now contains."""

    commit: str
    branch: str
    files: tuple[str, ...]
    output: str
    kept: frozenset[str]


class Head(NamedTuple):
    """The branch and the commit that are checked out. ``ref``: the branch; empty if none is checked out. ``commit``:
    empty if the branch has no commits yet."""

    ref: str
    commit: str


async def kept_changes(git: Git, start: str, base: str) -> dict[str, tuple[Entry, Entry]]:
    """The changes that were kept and are not in the last commit in the same form. Maps each path to the entries before
    and after the change. Empty in a private repository, where no commit can be made. Raises ``GitFailed``."""
    if git.repository.private:
        return {}
    kept = await differences(git, start, base)
    if not kept:
        return {}
    head = await _head_tree(git)
    if not head or head == await tree_of(git, start):
        return kept
    since = await differences(git, head, base)
    return {path: entries for path, entries in kept.items() if path in since}


async def _head_tree(git: Git) -> str:
    """The tree of the last commit; empty if there is none. Raises ``GitFailed``."""
    commit = await asyncio.to_thread(head_commit, git.repository)
    if commit is not None and (known := git.remembered.tree(commit)) is not None:
        return known
    if commit is None:
        await git.see_head()
    code, tree, _ = await git.run("rev-parse", "--verify", "--quiet", f"{commit or 'HEAD'}^{{tree}}")
    if code:
        return ""
    if commit is not None:
        git.remembered.remember_tree(commit, tree.strip())
    return tree.strip()


async def counted_lines(git: Git, start: str, base: str, paths: Collection[str]) -> dict[str, tuple[int, int]]:
    """The numbers of lines that are added and removed from ``start`` to ``base``, by path. Raises ``GitFailed``."""
    if not paths:
        return {}
    listed = await git.read(*PATCH, "--relative", "--numstat", "-z", start, base, "--", ".")
    found = {
        path: (added, removed) for added, removed, path in (one.split("\t", 2) for one in listed.split("\0") if one)
    }
    numbers = {path: found.get(path, ("0", "0")) for path in paths}
    return {path: (_number(added), _number(removed)) for path, (added, removed) in numbers.items()}


def _number(text: str) -> int:
    """A number as ``git diff-tree --numstat`` prints it. A dash, which stands for a binary file, counts as 0."""
    return int(text) if text.isdigit() else 0


async def commit(
    git: Git,
    start: str,
    base: str,
    files_now: str,
    message: str,
    branch: str | None,
    files: Collection[str],
    begin: BeginCommit,
) -> Committed:
    """Commits what was kept: the changes between ``start`` and ``base``, two commits of a review. ``files_now``: a
    commit that contains the current files. ``branch``: the name of a new branch to create and check out; None for the
    current branch. ``files``: the only paths to commit, as ``shown_path`` returns them; all if it is empty. ``begin``
    is called before anything is changed.

    Raises ``NothingToCommit``, ``Blocked``, ``BadBranch``, ``Refused``, ``GitFailed`` or ``NoCheckpoint``.
    """
    if git.repository.private:
        raise Blocked("no_repository", "the directory is not in a git work tree")
    if branch is not None:
        await _check_name(git, branch)
    own = git.repository.own
    async with _locked(git, own / "index") as lock:
        head = await head_of(git)
        await _check_state(git, head, branch)
        kept = await kept_changes(git, start, base)
        if files:
            kept = {path: entries for path, entries in kept.items() if shown_path(path) in files}
        filtered = [await filtered_of(git, commit) for commit in (base, files_now)]
        paths = frozenset().union(*(one.read | one.unread for one in filtered)) & kept.keys()
        if paths:
            text = "some of the files use a git filter (such as Git LFS), which only a commit in your shell can apply"
            raise Blocked("filter", text, list(map(shown_path, paths)))
        before = await differences(git, await _tree_of(git, head), base)
        new = await _merged(
            git, {path: (old, before.get(path, (made, made))[0], made) for path, (old, made) in kept.items()}
        )
        tree = await tree_with(git, await _tree_of(git, head), new)
        now = await differences(git, await _tree_of(git, head), tree)
        if not now:
            raise NothingToCommit
        if not now.keys() <= new.keys():
            text = "a file is where a directory was, or vice versa"
            raise Blocked("overlap", text, list(map(shown_path, now.keys() - new.keys())))
        await _prepare_index(git, lock.path, now, new)
        ref = head.ref if branch is None else f"refs/heads/{branch}"
        paths_now = tuple(sorted(map(shown_path, now)))
        made = await asyncio.to_thread(_identity, lock.path)
        await begin(Attempt(ref, branch is not None, head.commit, head.ref, tree, message, paths_now, made))
        with lock.kept_if_killed():
            code, output = await _run(git, lock.path, head, tree, message, branch)
            if await asyncio.to_thread(_is_locked, lock.path, made):
                raise GitFailed("a program was killed by a signal during: a commit")
            done = await head_of(git)
        if done.commit == head.commit:
            if code == NO_BRANCH:
                reason = output.strip()[-500:].rstrip(".") or "git gave no reason"
                text = f"The branch could not be created: {reason}. Fix the cause, or choose another name."
                raise BadBranch(text, exists=False)
            raise Refused(code, output)
    name = done.ref.removeprefix("refs/heads/")
    return Committed(done.commit, name, paths_now, output, frozenset(kept))


async def finished(git: Git, attempt: Attempt, check_at_rest: Callable[[], None]) -> Verdict:
    """Determines whether a commit was made before it was interrupted, and unlocks git's index if it is still locked by
    the attempt. If the commit was made, the index gets its changes first. If it was not made, removes its new branch,
    if it has one; ``check_at_rest`` is called before that. Raises what ``check_at_rest`` raises, ``GitFailed`` or
    OSError."""
    code, tip, _ = await git.run("rev-parse", "--verify", "--quiet", f"{attempt.ref}^{{commit}}")
    tip = "" if code else tip.strip()
    commit = "" if tip in ("", attempt.parent) else await _commit_of(git, attempt, tip)
    index, id_bytes = git.repository.own / "index", git.settings.id_bytes
    await asyncio.to_thread(_unlock, index, attempt.lock, id_bytes, is_made=bool(commit))
    if commit:
        return Verdict("done", commit=commit)
    if tip in ("", attempt.parent):
        if tip and attempt.created:
            check_at_rest()
            lines = _assigned(head=attempt.parent, former=attempt.former, new=attempt.ref)
            code, _ = await git.as_person("\n".join([*lines, _REMOVE_BRANCH]), SECONDS, "a branch")
            if code:
                return Verdict("unknown")  # the new branch still exists
        return Verdict("not_done")
    return Verdict("unknown")


def unlock_unmoved(repository: Repository, attempt: Attempt) -> None:
    """Unlocks git's index after a commit was canceled and all its processes have ended, unless HEAD may have moved. The
    index is then completed by ``finished``. A failure leaves the lock to ``finished``, too. Blocking."""
    lock = _lock_of(repository.own / "index")
    with contextlib.suppress(OSError):
        if head_commit(repository) == attempt.parent and _is_locked(lock, attempt.lock):
            lock.unlink()


async def _commit_of(git: Git, attempt: Attempt, tip: str) -> str:
    """The id of the commit that the attempt made, if it is among the new commits of its branch; otherwise empty.
    ``tip``: the last commit of the branch. Raises ``GitFailed``."""
    wanted = [f"{attempt.parent}..{tip}", "--ancestry-path"] if attempt.parent else [tip]
    code, listed, _ = await git.run("rev-list", "--parents", *wanted)
    for line in [] if code else listed.splitlines():
        id, *parents = line.split()
        if parents[:1] == ([attempt.parent] if attempt.parent else []) and await _is_of(git, id, attempt):
            return id
    return ""


async def _is_of(git: Git, commit: str, attempt: Attempt) -> bool:
    """Whether this commit, which has the right parent, was made by the attempt. Hooks may have changed its files or its
    message."""
    if await tree_of(git, commit) == attempt.tree:
        return True
    made, wanted = (await message_of(git, commit)).strip(), attempt.message.strip()
    return made.partition("\n")[0] == wanted.partition("\n")[0]


async def _check_name(git: Git, branch: str) -> None:
    code = 1
    if not branch.startswith("-") and branch != "HEAD" and "\0" not in branch:
        code, _, _ = await git.run("check-ref-format", f"refs/heads/{branch}")
    if code:
        raise BadBranch("This is not a valid branch name. Choose another name.", exists=False)
    code, _, _ = await git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
    if not code:
        raise BadBranch("A branch with this name already exists. Choose another name.", exists=True)


async def _check_state(git: Git, head: Head, branch: str | None) -> None:
    own = git.repository.own
    if await asyncio.to_thread(lambda: any(os.path.lexists(own / name) for name in UNDER_WAY)):
        text = "a merge, rebase, cherry-pick, revert or bisection is under way. Finish or abort it first"
        raise Blocked("under_way", text)
    if branch is None and not head.ref:
        raise Blocked("detached", "no branch is checked out (detached HEAD). Name a new branch")
    if branch is not None and not head.commit:
        raise Blocked("unborn", "the repository has no commits yet. Commit without a new branch first")
    await author_of(git)


async def author_of(git: Git) -> str:
    """The user's name and email address as in a commit, such as "Ada <ada@example.org>". Raises ``Blocked`` if git does
    not know them, or ``GitFailed``."""
    script = '"$git" var GIT_AUTHOR_IDENT && "$git" var GIT_COMMITTER_IDENT'
    code, output = await git.as_person(script, IDENTITY_SECONDS, "the user's name")
    found = IDENTITY.search(output)
    if code or found is None:
        text = (
            "git does not know your name and email. Set user.name and user.email (git config --global) on the server's"
        )
        raise Blocked("identity", text + " machine")
    return found[1]


async def head_of(git: Git) -> Head:
    """The branch and the commit that are checked out. Raises ``GitFailed``."""
    await git.see_head()
    code, ref, _ = await git.run("symbolic-ref", "--quiet", "HEAD")
    name = "" if code else ref.strip()
    code, commit, _ = await git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return Head(name, "" if code else commit.strip())


async def _tree_of(git: Git, head: Head) -> str:
    return f"{head.commit}^{{tree}}" if head.commit else (await git.read("mktree")).strip()


async def _merged(git: Git, entries: Mapping[str, tuple[Entry, Entry, Entry]]) -> dict[str, Version | None]:
    """Applies changes to files. ``entries``: for each path, the version before the change, the current version, and the
    version after the change. Returns the new versions of the files that change, by path. Raises ``Blocked`` or
    ``GitFailed``."""
    texts = await loaded_texts(git, [entry for three in entries.values() for entry in three])
    new: dict[str, Version | None] = {}
    overlapping = []
    for path, (old, there, wanted) in entries.items():
        versions = [version_of(entry, texts) for entry in (old, there, wanted)]
        try:
            found = await asyncio.to_thread(merged, *versions)
        except Overlapping:
            overlapping.append(shown_path(path))
        else:
            if not same(found, versions[1]):
                new[path] = found
    if overlapping:
        text = "other uncommitted changes affect the same lines or the whole file"
        raise Blocked("overlap", text, overlapping)
    return await with_contents(git, new)


class _Lock:
    """The file that locks git's index during a commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made: tuple[int, int] | None = None
        """Its device and inode; None if it was not created."""
        self._is_kept = False
        self._changing = threading.Lock()

    def create(self) -> None:
        """Creates the file. Blocking. Raises OSError."""
        with self._changing:
            self._made = _create(self.path)

    @contextlib.contextmanager
    def kept_if_killed(self) -> Iterator[None]:
        """If git is killed in the context, even by a cancellation, the file stays, because it may be the only copy of the
        new index. ``finished`` or ``unlock_unmoved`` then removes it."""
        try:
            yield
        except (GitFailed, asyncio.CancelledError):
            self._is_kept = True
            raise

    def remove(self) -> None:
        """Removes the file, unless it is kept, or another file has its name now. If it is still being created because
        only the wait for that was canceled, waits first. Blocking."""
        with self._changing, contextlib.suppress(OSError):
            found = self.path.lstat()
            if not self._is_kept and (found.st_dev, found.st_ino) == self._made:
                self.path.unlink()


@contextlib.asynccontextmanager
async def _locked(git: Git, index: Path) -> AsyncIterator[_Lock]:
    """Locks the user's index as git does. The lock file is removed at the end unless it has become the index, or is
    kept. Raises ``Blocked`` if the index is already locked, or ``GitFailed``."""
    path = _lock_of(index)
    lock = _Lock(path)
    try:
        try:
            await asyncio.to_thread(lock.create)
        except FileExistsError:
            text = "another git command is running in the repository, or was killed (index.lock exists). If none is"
            raise Blocked("locked", f"{text} running, delete {path}") from None
        await git.remove_at_end(path)  # the lock file is removed even if the server is killed
        yield lock
        await git.remove_at_end(None)
    finally:
        await asyncio.to_thread(lock.remove)


def _lock_of(index: Path) -> Path:
    return index.with_name(index.name + ".lock")


def _identity(lock: Path) -> tuple[int, int]:
    """What ``Attempt.lock`` contains. Unlike the time of the content, the time of the last change can't be set. Blocking.
    Raises OSError."""
    found = lock.lstat()
    return found.st_ino, found.st_ctime_ns


def _is_locked(lock: Path, made: tuple[int, int] | None) -> bool:
    """Whether the lock file of a commit still exists. False if it belongs to another git command. ``made``: as in
    ``Attempt.lock``. Blocking. Raises OSError."""
    try:
        return _identity(lock) == made
    except FileNotFoundError:
        return False


def _unlock(index: Path, made: tuple[int, int] | None, id_bytes: int, *, is_made: bool) -> None:
    """Completes what the script would have done with the lock file of a commit, if it still exists. While it did, no git
    command could change the index. ``made``: as in ``Attempt.lock``; ``id_bytes``: as in ``git_index.read``. Blocking.
    Raises OSError."""
    lock = _lock_of(index)
    if not _is_locked(lock, made):
        return
    # A file that did not reach the disk before a power failure is empty. The index is then left as it is.
    if is_made and not git_index.is_damaged(lock, id_bytes):
        lock.replace(index)
    else:
        lock.unlink()


def _create(lock: Path) -> tuple[int, int]:
    """Creates the lock file. Returns its device and inode. Blocking."""
    descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino
    finally:
        os.close(descriptor)


async def _prepare_index(
    git: Git, lock: Path, now: Mapping[str, tuple[Entry, Entry]], new: Mapping[str, Version | None]
) -> None:
    """Writes the user's index, with the changes that are committed, to the lock file. Raises ``Blocked``, ``GitFailed``
    or ``NoCheckpoint``."""
    index, copy = lock.with_name("index"), git.folder / "person"
    if await asyncio.to_thread(git_index.is_damaged, index, git.settings.id_bytes):
        raise damaged_index(index)
    known = await asyncio.to_thread(git_index.read, index, git.settings.id_bytes)
    if known is None:
        raise Blocked(
            "index", "git's index is split, sparse or too large, which is not supported. Commit in your shell"
        )
    own = {"GIT_INDEX_FILE": str(copy)}
    if known is not git_index.NO_INDEX:
        await asyncio.to_thread(shutil.copy2, index, copy)
    if await git.read("ls-files", "--unmerged", "-z", environment=own):
        raise Blocked("under_way", "some files have conflicts that are not resolved. Resolve them first")
    listed = (
        item.partition("\t") for item in (await git.read("ls-files", "-s", "-z", environment=own)).split("\0") if item
    )
    staged = {path: fact.rpartition(" ")[0] for fact, _, path in listed}
    none = f"000000 {'0' * 2 * git.settings.id_bytes}"
    wanted = {path: (old, staged.get(path, none), made) for path, (old, made) in now.items()}
    changes = await _merged(git, wanted)
    await put(git, changes, own)
    await _mark(git, known.marked, changes, own)
    after = (
        item.partition("\t") for item in (await git.read("ls-files", "-s", "-z", environment=own)).split("\0") if item
    )
    lost = staged.keys() - {path for _, _, path in after} - new.keys()
    if lost:
        text = "a staged file has the path of a directory to be committed, or vice versa"
        raise Blocked("overlap", text, list(map(shown_path, lost)))
    await asyncio.to_thread(_fill, copy, lock)


async def _mark(
    git: Git, marked: git_index.Marked, changes: Mapping[str, Version | None], index: Mapping[str, str]
) -> None:
    """Marks the files of ``changes`` in the index that the environment ``index`` names as they were marked in the user's
    index, because changed entries have lost their marks. Raises ``GitFailed``."""
    marked = marked.below(await git.prefix())
    for flag, paths in (("--assume-unchanged", marked.assumed), ("--skip-worktree", marked.skipped)):
        await git.update(flag, (path for path in paths if changes.get(path) is not None), index)


def _fill(copy: Path, lock: Path) -> None:
    """Copies the index with its permissions and its modification time, which git uses to recognize unchanged files. The
    copy is on the disk before the commit is, because the commit needs it, even after a power failure. Blocking."""
    shutil.copyfile(copy, lock)
    shutil.copymode(copy, lock)
    times = copy.stat()
    os.utime(lock, ns=(times.st_atime_ns, times.st_mtime_ns))
    with lock.open("rb") as file:
        os.fsync(file.fileno())


async def _run(git: Git, lock: Path, head: Head, tree: str, message: str, branch: str | None) -> tuple[int, str]:
    """Commits the tree and makes the lock file the index. If that fails, HEAD and the branches are restored. Returns
    the exit code and the output. Raises ``GitFailed``, for example if the script does not end in time."""
    index = git.folder / "committed"
    own = {"GIT_INDEX_FILE": str(index)}
    await git.read("read-tree", tree, environment=own)
    await git.run("update-index", "-q", "--refresh", environment=own)  # hooks compare the index with the files
    words = git.folder / "message"
    await asyncio.to_thread(words.write_bytes, message.encode(errors="replace"))
    lines = _assigned(
        index=str(index),
        message=str(words),
        lock=str(lock),
        real=str(lock.with_name("index")),
        head=head.commit,
        former=head.ref,
        new="" if branch is None else f"refs/heads/{branch}",
        moving=f"checkout: moving from {head.ref.removeprefix('refs/heads/') or head.commit} to {branch}",
    )
    return await git.as_person("\n".join([*lines, _COMMIT]), SECONDS, "a commit")


def _assigned(**variables: str) -> list[str]:
    """The lines of a shell script that set these variables."""
    return [f"{name}={shlex.quote(value)}" for name, value in variables.items()]


_REMOVE_BRANCH: Final = """
if [ "$("$git" symbolic-ref --quiet HEAD)" = "$new" ]; then
    if [ -n "$former" ]; then "$git" symbolic-ref HEAD "$former"; else "$git" update-ref --no-deref HEAD "$head"; fi
fi
"$git" update-ref -d "$new" "$head"
"""
"""Removes the branch ``new``, and checks out again what was checked out before it was created."""

_COMMIT: Final = f"""
if [ -n "$new" ]; then
    "$git" update-ref -m 'branch: Created from HEAD' "$new" "$head" '' || {{ rm -f "$lock"; exit {NO_BRANCH}; }}
    "$git" symbolic-ref -m "$moving" HEAD "$new" || {{
        "$git" update-ref -d "$new"; rm -f "$lock"; exit {NO_BRANCH}
    }}
fi
(trap - TERM; export GIT_INDEX_FILE="$index"; exec "$git" commit -F "$message")
code=$?
if [ "$("$git" rev-parse --verify --quiet HEAD)" != "$head" ]; then
    mv -f "$lock" "$real"
else
    rm -f "$lock"
    if [ -n "$new" ]; then {_REMOVE_BRANCH} fi
fi
exit $code
"""
"""The script that makes the commit. The lock file is gone at its end unless a program was killed. The shell itself
ignores SIGTERM, so the script is completed even if the commit is terminated because it took too long, or because the
server has ended."""
