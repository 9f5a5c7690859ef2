"""The parent of one agent: ``supervisor.py CONTROL OPEN_FILES NICE CONFINED PROGRAM ARGUMENT…``.

It starts the agent in a session of its own, passes signals on to it, and exits when the agent does, with the same status.
Nothing that the agent has started outlives it: on Linux the supervisor becomes the parent of every process that loses its
own (``PR_SET_CHILD_SUBREAPER``), so a process that has left its group, its session and its environment is found all the same,
and it is known which agent it belongs to. The kernel reports when no child is left. On other systems the agent's process
group is ended here, and the rest by the server.

CONTROL is a socket to the server, the supervisor pipe. The supervisor writes the agent's process id to it and, at the end,
"gone" if nothing is left. Each byte that it reads is a signal for the agent's group; SIGKILL is for everything. End of file
means that the server has died: the agent is asked to exit (``claude`` ends its own tools then), and a moment later everything
is ended.

It runs as a script of its own that imports nothing of the package: 4.8 MB and 10 ms for each agent.
"""

# The modules ``signal`` and ``contextlib`` import ``enum`` and ``collections``: a third of the time that a supervisor takes to
# start, which every agent and every checkpoint waits for.
import _signal as signal  # type: ignore[import-not-found]
import ctypes
import os
import resource
import select
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38  # <linux/prctl.h>

LINUX = sys.platform == "linux"

NOT_STARTED = 127
"""The exit code where the program could not be run, as a shell has it."""

LEAVE_SECONDS = 3.0
"""Between SIGTERM and the end of everything, where the server has died."""

END_SECONDS = 3.0
"""How long the killed are waited for; only a process that hangs in the kernel, or is another user's, takes longer."""

LOOK_SECONDS = 0.01

FIRST_TO_GO = b"500"
"""Added to the agent's score where memory is short: the kernel takes it before the server."""


class suppress:  # noqa: N801 - as in contextlib
    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        return kind is not None and issubclass(kind, self._error)


def main() -> None:
    control = int(sys.argv[1])
    close_others(control)
    if LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would contain the account's secrets
    woken = wake_at_children()
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
    agent = os.fork()  # what it is sent from now on waits until it can be hit
    if agent == 0:
        become(*sys.argv[2:])
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    say(control, b"%d\n" % agent)
    be_quiet()
    status = keep(control, woken, agent)
    status, all_gone = end(woken, agent, status)
    if all_gone and LINUX:
        say(control, b"gone\n")
    follow(status)


def become(open_files: str, nice: str, confined: str, program: str, *arguments: str) -> None:
    """The agent: in this process from now on."""
    supervisor = os.getppid()
    os.setsid()
    for number in range(1, signal.NSIG):
        with suppress(OSError):  # those that can't be set, such as SIGKILL
            signal.signal(
                number, signal.SIG_DFL
            )  # Python ignores some, and a shell has its background jobs ignore others
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if LINUX:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # in case the supervisor is killed
        if os.getppid() != supervisor:
            os._exit(NOT_STARTED)
        with suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(FIRST_TO_GO)
    os.nice(int(nice))
    if int(open_files):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        wanted = int(open_files) if most == resource.RLIM_INFINITY else min(int(open_files), most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    if int(confined) and LINUX:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    try:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.execv(program, [program, *arguments])
    except OSError as error:
        os.write(2, f"{os.path.basename(program)} can't be run: {error.strerror}\n".encode())
    os._exit(NOT_STARTED)


def keep(control: int, woken: int, agent: int) -> int | None:
    """Until the agent has ended (then its status), or everything is to end."""
    until = None
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        watched = [woken] if until is not None else [woken, control]
        ready = select.select(watched, [], [], left)[0]
        if control in ready:
            orders = hear(control)
            for number in orders or [signal.SIGTERM, signal.SIGCONT]:  # a stopped process receives it then
                if number == signal.SIGKILL:
                    return None
                tell(agent, number)
            until = None if orders else time.monotonic() + LEAVE_SECONDS
        status, _ = reap(woken, agent)
        if status is not None or (until is not None and time.monotonic() >= until):
            return status


def tell(agent: int, number: int) -> None:
    """To its group; to itself as long as it has none."""
    try:
        os.killpg(agent, number)
    except OSError:
        with suppress(OSError):
            os.kill(agent, number)


def end(woken: int, agent: int, status: int | None) -> tuple[int | None, bool]:
    """Kills all there are, those too that are born meanwhile: stopped first, so that none can start another one between
    the look and the blow. The agent's status, and whether nothing is left."""
    deadline = time.monotonic() + END_SECONDS
    while True:
        now, none_left = reap(woken, agent)
        status = now if status is None else status
        if none_left or time.monotonic() >= deadline:
            return status, none_left
        for number in (signal.SIGSTOP, signal.SIGKILL):
            blow(agent, number)
        select.select([woken], [], [], LOOK_SECONDS)


def blow(agent: int, number: int) -> None:
    if not LINUX:
        with suppress(OSError):
            os.killpg(agent, number)
        return
    for pid in descendants():
        with suppress(OSError):
            os.kill(pid, number)


def descendants() -> list[int]:
    """All descendants of this process, according to /proc at this moment."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # the name before it may contain anything
                children.setdefault(int(fields[1]), []).append(int(name))
    found, ahead = [], [os.getpid()]
    while ahead:
        new = children.get(ahead.pop(), [])
        found += new
        ahead += new
    return found


def reap(woken: int, agent: int) -> tuple[int | None, bool]:
    """The agent's status, where it was among those that have ended, and whether no child is left."""
    with suppress(BlockingIOError):
        os.read(woken, 4096)
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found, True
        if not pid:
            return found, False
        if pid == agent:
            found = status


def follow(status: int | None) -> None:
    """Ends as the agent did."""
    if status is None:
        os._exit(NOT_STARTED)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def wake_at_children() -> int:
    """A pipe that can be read once a child has ended. A supervisor ignores every other signal."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    return reader


def close_others(control: int) -> None:
    """uvloop passes on copies of the pipes: their end would not be seen."""
    os.closerange(3, control)
    os.closerange(control + 1, os.sysconf("SC_OPEN_MAX"))
    os.set_inheritable(control, False)


def be_quiet() -> None:
    """Leaves the pipes to the agent, except for stderr, on which errors of the supervisor appear."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def hear(control: int) -> bytes:
    with suppress(OSError):
        return os.read(control, 64)
    return b""


def say(control: int, words: bytes) -> None:
    with suppress(OSError):
        os.write(control, words)


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
