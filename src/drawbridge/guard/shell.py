"""Determines which of a few files a shell command names. What a command does can't be known, but the files that it
names can be. Looks up paths in the file system, but reads no files.

A word names a file if it leads there from the command's directory: literally, as a pattern, or through a link. If the
words can't be resolved (a variable, a ``cd`` in the middle, a substitution), or if another word names the file's
directory (``cp other/a.py .``), a word with the file's name as its last part is enough. An unnecessary question, or a
denial if the agent can't ask, is better than lost work.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PIECES = re.compile(r"""[^\s;&|()<>"'`,:={}]+""")
QUOTED = re.compile(r""""([^"]+)"|'([^']+)'""")
OPTION = re.compile(r"-[A-Za-z](.+)")
BRACES = re.compile(r"(?<!\$)\{[^{}]*\}")
DEEPEST = 4
"""The maximum depth of nested braces. Real commands have two levels at most."""

UNSURE = re.compile(
    r"[$`~]|\b(cd|chdir|pushd|popd|find|xargs|patch|apply|am|tar|unzip|npm|pnpm|yarn|bun)\b"
    r"|\s-C\b|--directory\b|:/(?!/)"
)
"""Matches anything that can make a path start at a directory other than the command's. This includes programs that drop
parts of paths or work at the root of a project, and git's paths from the root (``:/a.py``).
"""

CD = re.compile(r"""\s*cd[ \t]+(?:"([^"$`\\]+)"|'([^']+)'|([\w./+@,-]+))[ \t]*(?:&&|;|\n)""")
IN_BACKGROUND = re.compile(r"(?<![&<>])&(?![&>])")


def named(command: str, directory: str, names: Sequence[str]) -> list[str]:
    """The paths among ``names`` (absolute) that ``command`` names if it is run in ``directory``."""
    command = (
        command.replace("\0", " ").encode(errors="replace").decode()
    )  # neither a command nor a path may contain NUL
    directory, command = _after_cd(directory, command)
    words = set(_words(command))
    places = {place for word in words for place in _places(os.path.join(directory, word))}
    patterns = [_pattern(word) for word in words if any(mark in word for mark in "*?[{")]
    ends = {os.path.basename(word) for word in words}
    is_unsure = UNSURE.search(command) is not None
    return [
        name
        for name in names
        if _places(name) & places
        or (os.path.basename(name) in ends and (is_unsure or _places(os.path.dirname(name)) & places))
        or any(_matches(name, pattern, directory) for pattern in patterns)
    ]


def _after_cd(directory: str, command: str) -> tuple[str, str]:
    """The directory in which the rest of the command runs, and that rest, after each ``cd`` at the beginning that is
    certain to succeed.
    """
    if IN_BACKGROUND.search(command):  # in `cd sub && make & rm a.py`, for example, a.py is not in sub
        return directory, command
    while found := CD.match(command):
        target = found[1] or found[2] or found[3]
        if target.startswith("-") or (os.environ.get("CDPATH") and not target.startswith(("/", "."))):
            break
        path = os.path.join(directory, target)
        place = os.path.normpath(path)  # a shell removes the name before "..", even if that is a link
        if (
            os.path.realpath(place) != os.path.realpath(path)
            or not os.path.isdir(place)
            or not os.access(place, os.X_OK)
        ):
            break
        directory, command = place, command[found.end() :]
    return directory, command


def _words(command: str) -> Iterator[str]:
    """Each word of the command, split as by a shell, and its parts, because a word may be a program in another
    language.
    """
    try:
        words = shlex.shlex(command, posix=True, punctuation_chars=True)
        words.whitespace_split, words.commenters = True, ""
        yield from words
    except ValueError:  # an unclosed quote may be part of text that is passed to a program
        yield from command.split()
    for piece in PIECES.findall(command) + PIECES.findall(command.replace("\\", "")):
        yield piece
        if option := OPTION.fullmatch(piece):
            yield option[1]
    for quoted in QUOTED.findall(command):
        yield from filter(None, quoted)


def _pattern(word: str) -> str:
    """The word as a pattern for ``fnmatch``. Braces become ``*``."""
    for _ in range(DEEPEST):
        word = BRACES.sub("*", word)
    return word.replace("[^", "[!")


def _places(path: str) -> set[str | tuple[int, int]]:
    """The path itself, its target with links resolved and, if that exists, its device and inode, which hard links
    share."""
    places: set[str | tuple[int, int]] = {os.path.normpath(path)}
    try:
        places.add(os.path.realpath(path))
        status = os.stat(path)
        places.add((status.st_dev, status.st_ino))
    except OSError:
        pass
    return places


def _matches(name: str, pattern: str, directory: str) -> bool:
    """Whether the shell may expand the pattern to ``name``; ``*`` does not cross directories, but ``**`` does."""
    folder, last = os.path.split(os.path.join(directory, pattern))
    for place in (os.path.normpath(folder), os.path.realpath(folder)):
        whole = os.path.join(place, last).replace("**/", "*")
        if fnmatch.fnmatchcase(name, whole) and ("**" in pattern or name.count("/") == whole.count("/")):
            return True
    return False
