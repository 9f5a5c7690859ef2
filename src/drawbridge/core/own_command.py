"""The command that starts Drawbridge from a shell: ``drawbridge`` if that is on PATH, otherwise a command that runs it
from this environment.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys


@functools.cache
def own_command() -> str:
    """ "drawbridge", the path of that command, or "PYTHON -m drawbridge", quoted for a shell."""
    if shutil.which("drawbridge"):
        return "drawbridge"
    beside = os.path.join(os.path.dirname(sys.executable), "drawbridge")
    if os.access(beside, os.X_OK):
        return shlex.quote(beside)
    return f"{shlex.quote(sys.executable)} -m drawbridge"
