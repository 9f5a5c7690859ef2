#!/usr/bin/env python3
"""The developer's commands, which need only Python on the machine: ``python3 tools/dev.py VERB`` (or ``make VERB``).

The verbs are in verbs.py. This file only finds a Python that is new enough. Any Python since 2.7 can read it, so an old
one reports what is missing instead of failing with a SyntaxError.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import os
import subprocess
import sys

OLDEST = (3, 11)
NEWER = ("python3.14", "python3.13", "python3.12", "python3.11")


def newer_python():
    """The path of a Python on PATH that is new enough and starts, or None if none is found."""
    for name in NEWER:
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK) and starts(path):
                return path
    return None


def starts(path):
    """Whether this Python starts. A version manager's shim for a version that is not selected prints only an error."""
    with open(os.devnull, "w") as nowhere:
        return subprocess.call([path, "-c", ""], stdout=nowhere, stderr=nowhere) == 0


def main():
    if sys.version_info >= OLDEST:
        import verbs

        return verbs.main(sys.argv[1:])
    python = newer_python()
    if python is not None:
        words = [python, os.path.abspath(__file__)]
        words.extend(sys.argv[1:])
        os.execv(python, words)
    version = ".".join(str(part) for part in sys.version_info[:3])
    text = "drawbridge: needs Python 3.11 or newer, and {0} is {1}. Install a newer one, or put it on PATH.\n"
    sys.stderr.write(text.format(sys.executable, version))
    return 1


if __name__ == "__main__":
    sys.exit(main())
