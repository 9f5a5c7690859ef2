"""The parent of one agent: ``supervisor.py CONTROL OPEN_FILES NICE CONFINED PROGRAM ARGUMENT…``.

It starts the agent in its own session, passes signals on to it, and exits when the agent does, with the same status.
Nothing that the agent started outlives it. On Linux, the supervisor becomes the parent of every descendant that loses
its parent (``PR_SET_CHILD_SUBREAPER``). So the supervisor finds even a process that has changed its group, its session
and its environment, and knows which agent it belongs to. The kernel reports when no child is left. On other systems the
agent's process group is ended by the supervisor, and the rest by the server.

CONTROL is the file descriptor of a socket to the server, the supervisor pipe. The supervisor writes the agent's process
id to it and, at the end on Linux, "gone" if nothing is left. Each byte that it reads is a signal for the agent's group
(SIGKILL is for everything), or reports whether the agent is waiting for a person's decision. End of file means that the
server has died. The supervisor then asks the agent to exit (``claude`` ends its own tools in that case), and a moment
later ends everything. An agent that is waiting for a decision is killed immediately, because ``claude`` treats the end
of its input as a denial, and would continue (2.1.329).

The supervisor is a separate script that imports nothing from the package, so it takes only 4.8 MB and 15 ms for each
agent. The server runs the compiled script if Python has stored it (``supervisor_pipe.py``).
"""

# The modules ``signal`` and ``contextlib`` import ``enum`` and ``collections``, which takes a third of a supervisor's
# start time. Every agent and every checkpoint waits for that start. ``ctypes`` takes another eighth of it, of which only
# the call of one function is needed.
import _ctypes
import _signal as signal  # type: ignore[import-not-found]
import os
import resource
import select
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38  # <linux/prctl.h>

LINUX = sys.platform == "linux"

NOT_STARTED = 127
"""The exit code if the program could not be run, the same as a shell's."""

WAITS, WAITS_NO_MORE = 254, 255
"""The two bytes on the pipe that are not signals. They report that a question from the agent is open, or that no
question is open.
"""

LEAVE_SECONDS = 3.0
"""Seconds between SIGTERM and the end of everything, after the server has died."""

END_SECONDS = 3.0
"""The maximum number of seconds to wait for killed processes. Only a process that hangs in the kernel, or that belongs
to another user, takes longer."""

SWEEP_SECONDS = 0.01

OOM_SCORE = b"500"
"""The agent's ``oom_score_adj``: if memory is short, the kernel kills the agent before the server."""


class suppress:  # noqa: N801 - as in contextlib
    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        return kind is not None and issubclass(kind, self._error)


def main() -> None:
    control = int(sys.argv[1])
    close_other_descriptors(control)
    if LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump would contain the account's secrets
    child_pipe = watch_children()
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
    agent = os.fork()  # signals sent to it from now on stay pending until they are unblocked
    if agent == 0:
        run_agent(*sys.argv[2:])
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    send(control, b"%d\n" % agent)
    release_pipes()
    status = supervise(control, child_pipe, agent)
    status, empty = kill_all(child_pipe, agent, status)
    if empty and LINUX:
        send(control, b"gone\n")
    exit_like(status)


def run_agent(open_files: str, nice: str, confined: str, program: str, *arguments: str) -> None:
    """Replaces this process, which was forked, with the agent."""
    supervisor = os.getppid()
    os.setsid()
    for number in range(1, signal.NSIG):
        with suppress(OSError):  # some signals can't be set, such as SIGKILL
            signal.signal(
                number, signal.SIG_DFL
            )  # Python ignores some, and a shell makes its background jobs ignore others
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if LINUX:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # ends the agent if the supervisor is killed
        if os.getppid() != supervisor:
            os._exit(NOT_STARTED)
        with suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(OOM_SCORE)
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


def supervise(control: int, child_pipe: int, agent: int) -> int | None:
    """Waits until the agent has ended or everything has to end. Returns the agent's wait status; None if everything has
    to end."""
    until = None
    waits = False
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        watched = [child_pipe] if until is not None else [child_pipe, control]
        ready = select.select(watched, [], [], left)[0]
        if control in ready:
            signals = receive(control)
            if not signals and waits:
                signal_group(agent, signal.SIGKILL)  # first the agent, since finding the rest takes a moment
                return None
            for number in signals or [signal.SIGTERM, signal.SIGCONT]:  # SIGCONT wakes a stopped process
                if number == signal.SIGKILL:
                    return None
                if number in (WAITS, WAITS_NO_MORE):
                    waits = number == WAITS
                else:
                    signal_group(agent, number)
            until = None if signals else time.monotonic() + LEAVE_SECONDS
        status, _ = reap(child_pipe, agent)
        if status is not None or (until is not None and time.monotonic() >= until):
            return status


def signal_group(agent: int, number: int) -> None:
    """Signals the agent's process group, or only the agent if it does not have its own group yet."""
    try:
        os.killpg(agent, number)
    except OSError:
        with suppress(OSError):
            os.kill(agent, number)


def kill_all(child_pipe: int, agent: int, status: int | None) -> tuple[int | None, bool]:
    """Kills all descendants, including those that are started in the meantime. All are stopped first, so that none can
    start another one between the search and the kill. (On systems other than Linux, only the agent's process group is
    killed.) Returns the agent's wait status (None if it is not known), and whether no child is left.
    """
    deadline = time.monotonic() + END_SECONDS
    while True:
        now, empty = reap(child_pipe, agent)
        status = now if status is None else status
        if empty or time.monotonic() >= deadline:
            return status, empty
        for number in (signal.SIGSTOP, signal.SIGKILL):
            signal_all(agent, number)
        select.select([child_pipe], [], [], SWEEP_SECONDS)


def signal_all(agent: int, number: int) -> None:
    if not LINUX:
        with suppress(OSError):
            os.killpg(agent, number)
        return
    for pid in descendants():
        with suppress(OSError):
            os.kill(pid, number)


def descendants() -> list[int]:
    """The ids of all descendants of this process, according to /proc at this moment."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # the name before the last ")" may contain anything
                children.setdefault(int(fields[1]), []).append(int(name))
    found, ahead = [], [os.getpid()]
    while ahead:
        new = children.get(ahead.pop(), [])
        found += new
        ahead += new
    return found


def reap(child_pipe: int, agent: int) -> tuple[int | None, bool]:
    """Collects ended children. Returns the agent's wait status if it was among them, otherwise None, and whether no
    child is left."""
    with suppress(BlockingIOError):
        os.read(child_pipe, 4096)
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


def exit_like(status: int | None) -> None:
    """Exits with the agent's code, or by the same signal, or with ``NOT_STARTED`` if its status is not known."""
    if status is None:
        os._exit(NOT_STARTED)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def watch_children() -> int:
    """Returns a pipe that becomes readable when a child ends. Also makes the supervisor ignore SIGHUP, SIGINT and
    SIGTERM."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    return reader


def close_other_descriptors(control: int) -> None:
    """Closes all descriptors except 0 to 2 and ``control``. uvloop passes on copies of the pipes, which would hide the
    end of a pipe."""
    os.closerange(3, control)
    os.closerange(control + 1, os.sysconf("SC_OPEN_MAX"))
    os.set_inheritable(control, False)


def release_pipes() -> None:
    """Leaves stdin and stdout to the agent. stderr stays open for the supervisor's own errors."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def receive(control: int) -> bytes:
    with suppress(OSError):
        return os.read(control, 64)
    return b""


def send(control: int, data: bytes) -> None:
    with suppress(OSError):
        os.write(control, data)


def prctl(option: int, value: int) -> None:
    program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # as in ctypes.CDLL(None)
    _ctypes.call_cdeclfunction(_ctypes.dlsym(program, "prctl"), (option, value, 0, 0, 0))


if __name__ == "__main__":
    main()
