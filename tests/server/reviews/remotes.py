"""Remotes, and stand-ins for the programs that create pull requests.

The remote is a real bare repository. ``gh`` and ``glab`` are stand-ins that behave as their manuals describe:
``gh pr create --title --body`` and ``glab mr create --title --description --source-branch --yes`` print the address of
what they created, or exit with an error. They also fail if prompts are not disabled or stdin contains a line.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.server.checkpoints.rig import git

GITHUB = "https://github.com/ada/poems.git"
ADDRESS = "https://github.com/ada/poems/pull/7"


def add_remote(directory: Path, remote: Path, url: str = "") -> None:
    """Adds the "origin" remote, whose "main" branch is this repository's HEAD, and checks out a new "work" branch.
    ``url``: the configured address of the remote, by default ``remote``. Pushes always go to ``remote``.
    """
    git(directory, "init", "-q", "--bare", str(remote))
    git(directory, "symbolic-ref", "HEAD", "refs/heads/main")
    git(directory, "remote", "add", "origin", url or str(remote))
    git(directory, "config", "remote.origin.pushurl", str(remote))
    git(directory, "push", "-q", "origin", "HEAD:refs/heads/main")
    git(directory, "checkout", "-q", "-b", "work")


def tip(remote: Path, branch: str = "work") -> str:
    """The commit of the branch, or "" if it is not on the remote."""
    return git(remote, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").strip()


def stand_in(folder: Path, name: str, script: str) -> Path:
    """Creates a program in ``folder / "programs"``. Returns the file to which it appends the arguments of each call, as
    one line with a JSON list.
    """
    place, calls = folder / "programs", folder / f"{name}.calls"
    place.mkdir(exist_ok=True)
    program = place / name
    program.write_text(
        "#!/bin/sh\n"
        f"python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' \"$@\" >>{calls}\n"
        f'[ "$GH_PROMPT_DISABLED$NO_PROMPT" = 11 ] && ! read answer || exit 9\n{script}\n'
    )
    program.chmod(0o755)
    return calls


def path_with(folder: Path) -> str:
    """A PATH on which the stand-ins come first."""
    return f"{folder / 'programs'}{os.pathsep}{os.environ['PATH']}"


def calls_of(file: Path) -> list[list[str]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
