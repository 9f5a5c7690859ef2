"""The part of the user's and the repository's configuration that also applies to Drawbridge's git: line endings,
ignored files, the capabilities of the file system, and the object format. None of it can name a program.

Nothing here starts git, because the configuration is given as ``git config --list`` prints it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.server.checkpoints.errors import unavailable
from drawbridge.server.checkpoints.file_versions import Versions, versions
from drawbridge.server.checkpoints.repository import Repository, is_odd

KEPT: Final = frozenset(
    "core." + name
    for name in (
        "attributesfile",
        "autocrlf",
        "checkroundtripencoding",
        "eol",
        "excludesfile",
        "filemode",
        "ignorecase",
        "precomposeunicode",
        "sharedrepository",
        "symlinks",
    )
)
"""The settings of the user and the repository that also apply to Drawbridge's git. None of them can name a program."""

NAMES_A_FILE: Final = ("core.attributesfile", "core.excludesfile")

KNOWN_EXTENSIONS: Final = frozenset(
    "extensions." + name
    for name in ("noop", "objectformat", "partialclone", "preciousobjects", "relativeworktrees", "worktreeconfig")
)
"""The extensions with which a repository can still be read through links to its objects and refs."""

FORMATS: Final = ("sha1", "sha256")

OURS: Final = ("core.safecrlf=false", "core.quotePath=off", "gc.auto=0", "protocol.allow=never")

MOST_CONFIGURATION_FILES: Final = 50
"""The maximum number of files that are checked before an operation for changes to the configuration. If there are more,
the configuration is read for every operation."""


class Settings(Struct, frozen=True):
    """The part of the configuration that git receives. ``words``: the arguments for its command line; ``format``: the
    object format; ``id_bytes``: the size of an object id, in bytes. ``files``: the files that the configuration was
    read from, or would be read from if they existed, and the lists of ignored files and attributes outside the work
    tree. Each has its version. None if these files are not known, or if there are too many.
    """

    words: tuple[str, ...]
    format: str
    files: Versions | None

    @property
    def id_bytes(self) -> int:
        return 20 if self.format == "sha1" else 32

    @property
    def attributes_file(self) -> str:
        """The path of the list of attributes outside the work tree and the repository, which may not exist."""
        found = (word.partition("=") for word in self.words)
        return next((path for name, _, path in found if name == "core.attributesfile"), os.devnull)

    def are_current(self) -> bool:
        """Whether the files are unchanged, so that the settings still apply. Blocking."""
        return self.files is not None and versions(self.files) == self.files


def settings_from(listed: str, repository: Repository) -> Settings:
    """The settings for an operation in ``repository``. ``listed``: the output of ``git config --list --show-origin
    -z``. Blocking. Raises ``NoCheckpoint`` for a repository that is not supported, or if git would wait for a file that
    a setting names."""
    words = listed.split("\0")
    items = list(zip(words[::2], words[1::2], strict=False))
    chosen = dict(_setting(item) for _, item in items)
    unknown = sorted(name for name in chosen if name.startswith("extensions.") and name not in KNOWN_EXTENSIONS)
    if unknown:
        raise unavailable(f"it uses {unknown[0]}, which Drawbridge does not support")
    format = chosen.get("extensions.objectformat", "=sha1").removeprefix("=")
    if format not in FORMATS:
        raise unavailable(f"its object format is not {' or '.join(FORMATS)}")
    named = _with_files(chosen)
    for name in NAMES_A_FILE:
        if is_odd(Path(named[name].removeprefix("="))):
            raise unavailable(f"the file for {name} is too large, or is not a regular file")
    given = (*OURS, *(name + value for name, value in named.items() if name in KEPT))
    files = _configuration_files(repository, items)
    if files is not None:
        files |= {named[name].removeprefix("=") for name in NAMES_A_FILE}
    read = None if files is None else versions(files)
    return Settings(tuple(word for setting in given for word in ("-c", setting)), format, read)


def settings_listed(listed: str) -> list[tuple[str, str]]:
    """Parses the output of ``git config --list -z``: names and values. If a name occurs several times, the last value
    applies."""
    items = map(_setting, filter(None, listed.split("\0")))
    return [(name, value.removeprefix("=")) for name, value in items]


def _setting(item: str) -> tuple[str, str]:
    """The name of a setting, and "=value". A setting without a value is true and has no "=", as ``git -c`` expects."""
    name, separator, value = item.partition("\n")
    return name, "=" + value if separator else ""


def _configuration_files(repository: Repository, items: Iterable[tuple[str, str]]) -> set[str] | None:
    """All files that git reads the configuration from, or would if they existed; HEAD, which can decide which part of
    the configuration applies; and the repository's ``info/exclude`` and ``info/attributes``. ``items``: origin and
    setting, as ``git config --list --show-origin -z`` prints them. None if some of the files can't be known, or if
    there are too many."""
    user = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    files = {f"{user}/git/config", os.path.expanduser("~/.gitconfig"), "/etc/gitconfig"}
    files |= {str(repository.common / "config"), str(repository.own / "config.worktree")}
    files.add(str(repository.own / "HEAD"))  # HEAD decides on the condition "onbranch:" of an included file
    files |= {str(repository.common / "info" / name) for name in ("exclude", "attributes")}
    for origin, item in items:
        kind, _, file = origin.partition(":")
        if kind != "file":
            return None
        files.add(file)
        name, value = _setting(item)
        if re.fullmatch(r"include(if\..*)?\.path", name, re.DOTALL):
            if value.startswith("=%("):  # the path is relative to git's own directory, which is not known here
                return None
            named = os.path.expanduser(value.removeprefix("="))
            files.add(os.path.join(os.path.dirname(file), named))
    absolute = all(map(os.path.isabs, files)) and not any("\0" in file for file in files)
    return files if absolute and len(files) <= MOST_CONFIGURATION_FILES else None


def _with_files(chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings with absolute paths for ``NAMES_A_FILE``, by default git's own default paths, because git looks for
    these below HOME, which Drawbridge sets to another directory."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    files = {"core.excludesfile": f"={home}/git/ignore", "core.attributesfile": f"={home}/git/attributes"} | dict(
        chosen
    )
    return files | {name: "=" + os.path.expanduser(files[name].removeprefix("=")) for name in NAMES_A_FILE}
