"""Which of a few files a shell command names. It can't be known what a command does; what it names can be read.
Pure but for links.

A word names a file if it leads to it from the command's directory, as it stands, as a pattern, or by a link. Where
the words can't be followed (a variable, ``cd``, a substitution), a word that ends in the file's name is enough: the
answer is a question to the person.
"""

from __future__ import annotations

import fnmatch
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WORDS = re.compile(r"""[^\s;&|()<>"'`,:={}]+""")
UNSURE = re.compile(r"[$`~]|\b(cd|pushd|popd)\b")


def named(command: str, directory: str, names: Sequence[str]) -> list[str]:
    """Those of ``names`` (canonical absolute paths) that ``command``, run in ``directory``, names."""
    words = list(_words(command))
    unsure = UNSURE.search(command) is not None
    return [name for name in names if any(_names(word, directory, name, unsure) for word in words)]


def _words(command: str) -> Iterator[str]:
    """Each word as the shell splits it where that is simple, and with quotes and backslashes taken away."""
    yield from WORDS.findall(command)
    yield from WORDS.findall(command.replace("\\", ""))
    for quoted in re.findall(r""""([^"]+)"|'([^']+)'""", command):
        yield from filter(None, quoted)


def _names(word: str, directory: str, name: str, unsure: bool) -> bool:
    path = os.path.normpath(os.path.join(directory, word))
    if path == name or os.path.realpath(path) == name:
        return True
    if any(mark in word for mark in "*?["):
        return fnmatch.fnmatchcase(name, path) or fnmatch.fnmatchcase(
            name, os.path.join(os.path.realpath(directory), word)
        )
    return unsure and os.path.basename(word) == os.path.basename(name)
