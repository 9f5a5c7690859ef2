"""What stands between the server and an agent for ten milliseconds: ``starter.py SERVER_PID PROGRAM ARGUMENT…``.

It arranges that the agent gets SIGTERM when the server dies, however it dies, and becomes the agent. SIGTERM and not
SIGKILL: ``claude`` ends its own tools then, which live in sessions of their own (2.1.329). It has to be a program of its
own, since a process with threads can't safely run code between fork and exec. A keeper that outlives the agent, for
grandchildren that went their own way, would stand here too.

Run as a script of its own, so that it knows nothing of the package.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>

NOT_STARTED = 127
"""The exit code where the program could not be run, as a shell has it."""


def main() -> None:
    server, program, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(server):  # it died before the arrangement held
        sys.exit(NOT_STARTED)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # a server in the background may have been told to ignore them
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # uvloop passes on copies of the pipes: their end would not be seen
    try:
        os.execv(program, [program, *arguments])
    except OSError as error:
        sys.exit(f"{os.path.basename(program)} can't be run: {error.strerror}")


if __name__ == "__main__":
    main()
