"""A ``claude`` in a terminal and this machine's agent server: what the hook reports, and what it does with the server's
answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.claude import hook as claude
from drawbridge.agents.codex import hook as codex
from drawbridge.agents.gemini import hook as gemini
from drawbridge.guard import calls, find, report
from drawbridge.transport import private_socket
from tests.waiting import PATIENCE

from . import processes
from .conftest import Guard
from .payloads import Payload, bash, edit, edited, recorded
from .test_fast_form import WITHOUT_EDITOR, imported

ASKED = recorded("claude", "PermissionRequest", "Bash")
ALLOW = {"behavior": "allow"}
OTHERS = [
    recorded("claude", "SessionStart"),
    recorded("claude", "UserPromptSubmit"),
    edited(),
    recorded("claude", "PostToolUse", "AskUserQuestion"),
    recorded("claude", "PostToolUseFailure", "Bash"),
    recorded("claude", "Notification"),
    recorded("claude", "Stop"),
    recorded("claude", "StopFailure"),
    recorded("claude", "SubagentStop"),
    recorded("claude", "SessionEnd"),
]


def name(payload: Payload) -> str:
    return str(payload["hook_event_name"])


def line_about(payload: Payload) -> dict[str, Any]:
    """Returns what the hook sends to the server. The agent's process is the hook's parent."""
    of_process = {"pid": os.getppid(), "config": os.environ["CLAUDE_CONFIG_DIR"]}
    return {"type": "hook", "agent": "claude", **of_process, "payload": payload}


class Server:
    """A fake agent server. ``received`` contains the messages that it received. It answers approval requests with
    ``decision``, once ``answer`` is called.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.received: list[dict[str, Any]] = []
        self.decision: dict[str, Any] | None = None
        self.asked = threading.Event()
        self.gone = threading.Event()
        """Set when a hook that was waiting has disconnected."""
        self._go_on = threading.Event()
        self.context = ""
        """The context that is sent to a hook that accepts it."""
        self.confirmation = b""
        """What the hook that received the context has sent in return."""
        self._listener = listener
        self._listener.setblocking(True)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def answer(self, decision: dict[str, Any] | None) -> None:
        self.decision = decision
        self._go_on.set()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                line = lines.readline()
                if not line:
                    return
                self.received.append(json.loads(line))
                if name(self.received[-1]["payload"]) == "PermissionRequest":
                    self.asked.set()
                    self._wait(connection, lines)
                elif self.received[-1].get("takes") and self.context:
                    connection.sendall(json.dumps({"decision": None, "context": self.context}).encode() + b"\n")
                    self.confirmation = lines.read()
                elif self.received[-1].get("takes"):
                    self._wait(connection, lines)

    def _wait(self, connection: socket.socket, lines: Any) -> None:
        connection.settimeout(0.02)
        while not self._go_on.is_set():
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1):
                    self.gone.set()
                    return
        connection.settimeout(None)
        with contextlib.suppress(BrokenPipeError):  # a hook that has given up in the meantime does not read an answer
            connection.sendall(json.dumps({"decision": self.decision}).encode() + b"\n")

    def end(self) -> None:
        self._go_on.set()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as last:
            last.connect(self._listener.getsockname().removesuffix(".new"))
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.fixture
def server() -> Iterator[Server]:
    with private_socket.listening() as listener:
        server = Server(listener)
        yield server
        server.end()


@pytest.mark.parametrize("payload", OTHERS, ids=name)
def test_events_of_a_claude_are_reported_to_the_server(guard: Guard, server: Server, payload: Payload) -> None:
    answer = guard.run(payload)
    assert answer == {} or set(answer["hookSpecificOutput"]) == {"hookEventName", "watchPaths"}
    server.end()
    reported = dict(payload)
    for left_out in ("tool_response", "session_crons"):
        reported.pop(left_out, None)
    assert server.received == [line_about(reported)]


@pytest.mark.parametrize("payload", [recorded("claude", "PreToolUse", "Read"), recorded("claude", "FileChanged")])
def test_other_events_are_not_reported_to_the_server(guard: Guard, server: Server, payload: Payload) -> None:
    assert guard.run(payload) == {}
    server.end()
    assert server.received == []


@pytest.mark.parametrize("payload", [edit(), bash("ls")], ids=["edit", "command"])
def test_a_tool_that_may_write_waits_for_the_server(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, payload: Payload
) -> None:
    """The server sends a line while it is not ready, and disconnects once it is. It never gets the tool's input."""
    monkeypatch.setattr(report, "REPLY_SECONDS", PATIENCE)
    monkeypatch.setattr(report, "CHECKPOINT_SECONDS", PATIENCE)
    received: list[dict[str, Any]] = []
    with private_socket.listening() as listener:
        listener.setblocking(True)
        done = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                received.append(json.loads(lines.readline()))
                connection.sendall(b"{}\n")
                connection.settimeout(0.2)
                with contextlib.suppress(TimeoutError):  # the hook does not disconnect before that
                    received.append({"more": connection.recv(1).decode()})
                done.set()

        thread = threading.Thread(target=serve)
        thread.start()
        assert guard.run(payload) == {}
        assert done.is_set()
        thread.join(PATIENCE)
    reported = {name: value for name, value in payload.items() if name != "tool_input"}
    assert received == [line_about(reported)]


@pytest.mark.parametrize(
    ("line", "limits"),
    [(b"", [report.REPLY_SECONDS]), (b"{}\n", [report.REPLY_SECONDS, report.CHECKPOINT_SECONDS])],
    ids=["the server hangs", "the checkpoint takes long"],
)
def test_a_tool_call_waits_a_limited_time_for_the_checkpoint(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, line: bytes, limits: list[float]
) -> None:
    """The server sends a line while it has no checkpoint yet. One that sends none hangs."""
    waits: list[float] = []
    real = report._wait

    def wait(connected: socket.socket, until: float | None) -> bytes | None:
        assert until is not None
        waits.append(until - time.monotonic())
        patience = 0.05 if len(waits) == len(limits) else PATIENCE  # only the last wait times out
        return real(connected, time.monotonic() + patience)

    monkeypatch.setattr(report, "_wait", wait)
    with private_socket.listening() as listener:
        listener.setblocking(True)
        thread = threading.Thread(target=reply_and_hang, args=[listener, line])
        thread.start()
        assert guard.run(edit()) == {}
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the hook has disconnected"
    assert waits == pytest.approx(limits, abs=0.5)


def reply_and_hang(listener: socket.socket, line: bytes) -> None:
    """Sends ``line`` to the next hook, and keeps the connection open until the hook closes it."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as lines:
        lines.readline()
        connection.sendall(line)
        lines.read()


@pytest.mark.parametrize(
    "decision",
    [
        ALLOW,
        {"behavior": "deny", "message": "not «now»"},
        {"behavior": "allow", "updatedInput": {"command": "true"}, "updatedPermissions": []},
    ],
    ids=["allowed", "denied with a message", "allowed with another input"],
)
def test_a_request_gets_the_decision_of_a_client(guard: Guard, server: Server, decision: dict[str, Any]) -> None:
    server.answer(decision)
    output = {"hookEventName": "PermissionRequest", "decision": decision}
    assert guard.run(ASKED) == {"hookSpecificOutput": output}


def test_the_agents_process_id_is_taken_from_claude_pid(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PID", "4711")
    guard.run(recorded("claude", "Stop"))
    server.end()
    assert server.received[0]["pid"] == 4711


def test_a_request_answered_in_the_terminal_gets_no_decision(guard: Guard, server: Server) -> None:
    server.answer(None)
    assert guard.run(ASKED) == {}


@pytest.mark.parametrize(
    "variable",
    ["DRAWBRIDGE_AGENT=x", "CLAUDE_CODE_SESSION_ATTENDED=0", "CLAUDE_CODE_ENTRYPOINT=sdk-cli"],
)
def test_unattended_runs_and_the_servers_own_are_not_reported(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """The server learns about its own runs from the agent itself, and nobody watches an unattended run."""
    monkeypatch.setenv(*variable.split("="))
    for payload in [ASKED, *OTHERS]:
        assert guard.run(payload) == {}
    server.end()
    assert server.received == []


def test_a_background_session_is_reported_and_answered(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CLI marks the session as unattended, but it waits for a user, who can attach to it."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ATTENDED", "0")
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "cli")
    monkeypatch.setenv("CLAUDE_JOB_DIR", "/home/ada/.claude/jobs/2fcb5243")
    server.answer(ALLOW)
    assert guard.run(ASKED)["hookSpecificOutput"]["decision"] == ALLOW
    server.end()
    assert [message["background"] for message in server.received] == [True]


def test_headless_background_runs_are_not_reported(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ATTENDED", "0")
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")
    monkeypatch.setenv("CLAUDE_JOB_DIR", "/home/ada/.claude/jobs/2fcb5243")
    assert guard.run(ASKED) == {}
    server.end()
    assert server.received == []


@pytest.mark.parametrize("ended", [False, True], ids=["the server hangs", "the server has ended"])
def test_a_subagents_request_never_waits_long(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """The subagent's dialog appears in the terminal only when the hook has ended."""
    monkeypatch.setattr(report, "HIDDEN_SECONDS", 0.2)
    if ended:
        monkeypatch.setattr(report, "_wait", lambda connected, until: b"")
    assert guard.run(ASKED | {"agent_id": "a1", "agent_type": "general-purpose"}) == {}
    assert server.asked.wait(PATIENCE)


def test_a_subagents_request_gets_a_decision_made_in_time(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "HIDDEN_SECONDS", PATIENCE)

    def answer() -> None:
        server.asked.wait(PATIENCE)
        server.answer(ALLOW)

    answering = threading.Thread(target=answer)
    answering.start()
    output = guard.run(ASKED | {"agent_id": "a1", "agent_type": "general-purpose"})
    answering.join()
    assert output["hookSpecificOutput"]["decision"] == ALLOW


def test_a_workflow_subagents_request_has_no_time_limit(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The subagent's dialog is already in the terminal."""
    monkeypatch.setattr(report, "HIDDEN_SECONDS", 0.05)
    answering = threading.Timer(0.5, server.answer, [ALLOW])
    answering.start()
    output = guard.run(ASKED | {"agent_id": "a1", "agent_type": "workflow-subagent"})
    answering.join()
    assert output["hookSpecificOutput"]["decision"] == ALLOW


@pytest.mark.parametrize("payload", [ASKED, *OTHERS], ids=name)
def test_without_a_server_no_extra_modules_are_imported(guard: Guard, home: Path, payload: Payload) -> None:
    Path(private_socket.directory()).mkdir(parents=True, mode=0o700)  # a server ran here before
    assert imported(processes.fast_form(home, guard.settings), payload) == WITHOUT_EDITOR


def test_a_killed_servers_socket_costs_one_connection_attempt(guard: Guard, home: Path) -> None:
    path = left_behind(f"{1:013d}-1.sock")
    words = processes.fast_form(home, guard.settings)
    assert imported(words, ASKED) - WITHOUT_EDITOR == {"drawbridge.guard.report", "_socket", "select"}
    assert processes.run(words, ASKED).answer == {}
    assert path.exists()
    assert guard.log == []


def left_behind(name: str) -> Path:
    """Creates a socket on which no process listens. Returns its path."""
    place = Path(private_socket.directory())
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place / name))
    return place / name


def test_the_newest_running_server_is_used(guard: Guard, server: Server) -> None:
    left_behind(f"{9_999_999_999_999}-1.sock")
    left_behind(f"{1:013d}-1.sock")
    server.answer(ALLOW)
    assert guard.run(ASKED) != {}


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_a_directory_that_others_may_enter_is_not_trusted(guard: Guard, server: Server, mode: int) -> None:
    Path(private_socket.directory()).chmod(mode)
    server.answer(ALLOW)
    assert guard.run(ASKED) == {}
    assert find.servers(os.environb) == private_socket.addresses() == []
    Path(private_socket.directory()).chmod(0o700)


@pytest.mark.parametrize("state", [None, "/tmp/elsewhere", "not/absolute"])
def test_guard_and_server_use_the_same_socket_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    if state is None:
        monkeypatch.delenv("XDG_STATE_HOME")
    else:
        monkeypatch.setenv("XDG_STATE_HOME", state.replace("/tmp", str(home)))
    with private_socket.listening():
        (path,) = private_socket.addresses()
        assert find.servers(os.environb) == [path]
        assert Path(path).stat().st_mode & 0o777 == 0o600
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert private_socket.addresses() == []


def test_a_starting_server_removes_sockets_of_killed_servers(home: Path) -> None:
    dead = left_behind(f"{1:013d}-1.sock")
    unfinished = left_behind(f"{2:013d}-{2**22 + 1}.sock.new")
    with private_socket.listening():
        assert len(private_socket.addresses()) == 1
        assert not dead.exists()
        assert not unfinished.exists()


def test_the_hook_gives_up_on_a_hung_server(guard: Guard) -> None:
    """The server's queue of connections is full, and it accepts none."""
    with private_socket.listening() as listener, contextlib.ExitStack() as others:
        listener.listen(0)
        for _ in range(3):
            other = others.enter_context(socket.socket(socket.AF_UNIX))
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                other.connect(private_socket.addresses()[0])
        assert guard.run(ASKED) == {}
        assert guard.log == []


@pytest.mark.parametrize("line", [b"[]\n", b"{}\n", b'{"decision": 1}\n', b'{"decision"\n'])
def test_an_invalid_answer_of_a_server_is_ignored(guard: Guard, line: bytes) -> None:
    with private_socket.listening() as listener:
        listener.setblocking(True)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(line)

        thread = threading.Thread(target=serve)
        thread.start()
        assert guard.run(ASKED) == {}
        thread.join(PATIENCE)


@contextlib.contextmanager
def waiting(guard: Guard, home: Path, *before: str) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a hook that sends an approval request and waits for the answer. Kills it when the context ends."""
    words = [*before, *processes.fast_form(home, guard.settings)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(processes.as_json(ASKED))
        process.stdin.close()
        try:
            yield process
        finally:
            process.kill()


def test_a_request_ends_when_the_agent_terminates_the_hook(guard: Guard, home: Path, server: Server) -> None:
    with waiting(guard, home) as process:
        assert server.asked.wait(PATIENCE)
        process.send_signal(signal.SIGTERM)
        assert server.gone.wait(PATIENCE)


def test_a_request_ends_when_the_agent_was_killed(guard: Guard, home: Path, server: Server) -> None:
    with waiting(guard, home) as process:
        assert server.asked.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()  # no process reads from the pipe now
        assert server.gone.wait(PATIENCE)
        assert process.wait(PATIENCE) == 0


# An approval request outlives its server.


def question_to(listener: socket.socket, *, last_words: bytes = b"") -> dict[str, Any]:
    """Returns what the next hook sends to this server, then sends ``last_words`` and closes the connection."""
    listener.settimeout(PATIENCE)
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as lines:
        line: dict[str, Any] = json.loads(lines.readline())
        connection.sendall(last_words)
    return line


@pytest.mark.parametrize(
    "last_words", [b"", b'{"decision": {"behavi'], ids=["without a word", "in the middle of its answer"]
)
def test_a_request_whose_server_ends_is_sent_to_the_next_server(guard: Guard, home: Path, last_words: bytes) -> None:
    """The next server receives the same message with the same id, and its decision counts."""
    with waiting(guard, home) as process:
        with private_socket.listening() as listener:
            first = question_to(listener, last_words=last_words)
        with private_socket.listening() as listener:
            assert question_to(listener, last_words=b'{"decision": {"behavior": "allow"}}\n') == first
        assert process.stdout is not None
        output = process.stdout.read()
    assert first["question"]
    assert json.loads(output)["hookSpecificOutput"]["decision"] == ALLOW


def test_each_request_has_its_own_id(guard: Guard, server: Server) -> None:
    server.answer(ALLOW)
    guard.run(ASKED)
    guard.run(ASKED)
    assert len({each["question"] for each in server.received}) == 2


def test_a_hook_that_finds_no_server_does_not_wait_for_one(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_agent_ends_within", never)
    left_behind(f"{1:013d}-1.sock")
    assert guard.run(ASKED) == {}


def never(seconds: float) -> bool:
    raise AssertionError("it waits")


def test_the_search_for_a_server_backs_off_to_two_seconds(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def left_alone(seconds: float) -> bool:
        listener.close()
        pauses.append(seconds)
        return len(pauses) == 7

    monkeypatch.setattr(report, "_agent_ends_within", left_alone)
    with private_socket.listening() as listener:
        thread = threading.Thread(target=question_to, args=[listener])
        thread.start()
        assert guard.run(ASKED) == {}
        thread.join(PATIENCE)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert guard.log == []


@pytest.mark.parametrize("how", ["reads no more", "is gone"])
def test_a_request_without_a_server_ends_with_its_agent(guard: Guard, home: Path, how: str) -> None:
    """The agent counts as ended even if another process still has its end of the pipe open."""
    agent = ["sh", "-c", 'echo $$; exec 3<&0; "$@" <&3 & wait', "agent"] if how == "is gone" else []
    with waiting(guard, home, *agent) as process:
        with private_socket.listening() as listener:
            question_to(listener)
        assert process.stdout is not None
        if how == "is gone":
            process.kill()
            assert process.stdout.read().endswith(b"\n{}\n")  # up to the end, since no process has the pipe open now
        else:
            process.stdout.close()
            assert process.wait(PATIENCE) == 0


def wait_for(payload: Payload) -> None:
    """Creates the file that makes the hooks of this payload's session wait for what the server hands over."""
    (Path(private_socket.directory()) / f"{payload['session_id']}{find.WAITING}").touch()


@pytest.mark.parametrize("event", ["Stop", "UserPromptSubmit"])
def test_context_waiting_at_the_server_reaches_the_agent(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    monkeypatch.setattr(report, "HANDOVER_SECONDS", PATIENCE)
    payload, server.context = recorded("claude", event), "I have reviewed \U0001f600 <b>your</b> changes."
    assert guard.run(payload) == {}, "nothing waits for this session"
    wait_for(payload)
    assert guard.run(payload) == {"hookSpecificOutput": {"hookEventName": event, "additionalContext": server.context}}
    server.end()
    assert [line.get("takes", False) for line in server.received] == [False, True]
    assert server.confirmation == b"\n", "it reports that it has received it"


def test_a_hook_waits_for_a_hung_servers_context_until_a_timeout(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server hangs. It notices that the hook has disconnected."""
    waits: list[float] = []
    real = report._wait

    def wait(connected: socket.socket, until: float | None) -> bytes | None:
        assert until is not None
        waits.append(until - time.monotonic())
        return real(connected, time.monotonic() + 0.05)

    monkeypatch.setattr(report, "_wait", wait)
    payload = recorded("claude", "Stop")
    wait_for(payload)
    assert guard.run(payload) == {}
    assert waits == pytest.approx([report.HANDOVER_SECONDS], abs=0.5)
    assert server.gone.wait(PATIENCE)
    assert guard.log == []


@pytest.mark.parametrize("end", ["without a word", "in the middle of it", "before the hook confirms it"])
def test_context_of_a_server_that_ends_is_not_used(guard: Guard, end: str) -> None:
    """The server keeps a text whose receipt was not confirmed, and the agent would get it twice."""
    payload = recorded("claude", "Stop")
    text = json.dumps({"decision": None, "context": "Two comments."}).encode()
    with private_socket.listening() as listener:
        listener.setblocking(True)
        wait_for(payload)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                lines.readline()
                connection.shutdown(socket.SHUT_RD)  # from here on, nothing can be sent to the server
                if end != "without a word":
                    connection.sendall(text + b"\n" if "confirms" in end else text)

        thread = threading.Thread(target=serve)
        thread.start()
        assert guard.run(payload) == {}
        thread.join(PATIENCE)
    assert guard.log == []


def test_a_hook_without_waiting_context_does_not_wait_for_it(guard: Guard, server: Server) -> None:
    """A file of another session is not a reason to wait."""
    wait_for({"session_id": "another"})
    assert guard.run(recorded("claude", "Stop")) == {}
    server.end()
    assert "takes" not in server.received[0]


def place_of(payload: Payload) -> str:
    """The file that exists while comments wait for this payload's session."""
    return f"{private_socket.directory()}/{payload['session_id']}{find.WAITING}"


@pytest.mark.parametrize("event", ["SessionStart", "CwdChanged"])
def test_claude_watches_the_file_that_can_wake_it(guard: Guard, server: Server, event: str) -> None:
    payload = recorded("claude", event)
    assert guard.run(payload)["hookSpecificOutput"]["watchPaths"] == [place_of(payload)]


def test_no_file_is_watched_before_a_server_has_run(guard: Guard) -> None:
    assert guard.run(recorded("claude", "SessionStart")) == {}


@pytest.mark.parametrize(
    "variables", [{"DRAWBRIDGE_AGENT": "1"}, {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}], ids=["managed", "claude -p"]
)
def test_sessions_that_get_no_comments_watch_no_file(
    guard: Guard, server: Server, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert guard.run(recorded("claude", "SessionStart")) == {}


@pytest.mark.parametrize(
    ("content", "exit_code"), [(b"wake", 2), (b"", 0), (None, 0)], ids=["idle", "at work", "withdrawn"]
)
def test_only_an_idle_claude_is_woken(server: Server, home: Path, content: bytes | None, exit_code: int) -> None:
    payload = recorded("claude", "FileChanged")
    payload["file_path"] = place_of(payload)
    if content is not None:
        Path(payload["file_path"]).write_bytes(content)
    command = [sys.executable, "-m", "drawbridge", "hook"]
    given = json.dumps(payload).encode()
    done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == exit_code
    assert done.stdout.decode() == (f"{claude.WAKES}\n" if exit_code else "{}\n")


@pytest.mark.parametrize(("others", "kept"), [("the selection", True), ("x" * calls.LONGEST_CONTEXT, False)])
def test_the_servers_context_precedes_other_context(others: str, kept: bool) -> None:
    """Claude Code moves a context of more than 10,000 characters to a file."""
    call = calls.Call("claude", calls.PROMPT, recorded("claude", "UserPromptSubmit"))
    call.handed = "Two comments."
    answer = json.loads(calls.add_context(call, others))
    context = answer["hookSpecificOutput"]["additionalContext"]
    assert context == (f"Two comments.\n\n{others}" if kept else "Two comments.")


def test_codex_is_found_above_the_shell_that_runs_its_hook() -> None:
    shell, session = (8, [b"/bin/sh", b"-c", b"..."]), (7, [b"/opt/codex", b"resume", b"--last"])
    assert codex.session({}, [shell, session, (6, [b"bash"])]) == {"pid": 7}
    release = (7, [b"/opt/codex-x86_64-unknown-linux-musl", b"Go"])
    assert codex.session({}, [shell, release]) == {"pid": 7}
    assert codex.session({b"CODEX_HOME": b"/home/ada/codex"}, [session]) == {"pid": 7, "config": "/home/ada/codex"}


@pytest.mark.parametrize("words", [[b"exec", b"Go"], [b"-m", b"o9", b"e", b"Go"], [b"app-server"], [b"mcp-server"]])
def test_codex_without_its_own_user_interface_is_not_reported(words: list[bytes]) -> None:
    assert codex.session({}, [(7, [b"codex", *words])]) is None


def test_codex_is_reported_where_processes_are_not_known() -> None:
    """The report then contains the PID of the hook's parent."""
    assert codex.session({}, []) == {}
    assert codex.session({}, [(8, [b""]), (7, [b"/usr/bin/login"])]) == {}


def test_gemini_is_found_above_the_shell_that_runs_its_hook() -> None:
    shell, session = (
        (8, [b"bash", b"-c", b"..."]),
        (7, [b"/usr/bin/node", b"/opt/gemini.js", b"--approval-mode", b"plan"]),
    )
    parent = (6, [b"/usr/bin/node", b"/opt/gemini.js"])
    assert gemini.session({}, [shell, session, parent]) == {"pid": 7}
    assert gemini.session({}, [session, parent]) == {"pid": 7}
    assert gemini.session({b"GEMINI_CLI_HOME": b"/home/ada/g"}, [shell, session]) == {"pid": 7, "config": "/home/ada/g"}


@pytest.mark.parametrize("words", [[b"-p", b"Go"], [b"--prompt=Go"], [b"--acp"], [b"--experimental-acp"]])
def test_gemini_without_its_own_user_interface_is_not_reported(words: list[bytes]) -> None:
    assert gemini.session({}, [(8, [b"bash"]), (7, [b"node", b"gemini.js", *words])]) is None


def test_gemini_is_not_reported_if_its_process_is_not_known() -> None:
    """The parent of its hook is a shell, which ends with the hook."""
    assert gemini.session({}, []) is None
    assert gemini.session({b"CI": b"true"}, [(7, [b"node", b"gemini.js"])]) is None


def test_the_ancestors_of_the_hook_are_known() -> None:
    (parent, words), *_ = report._ancestors()
    assert parent == os.getppid()
    assert words == Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")
