"""A misbehaving agent, which uses ``claude``'s stream format and does what the first word of a prompt asks for.

    bad_agent.py as-told | die-at-once | never-ready | stubborn FLAGS OF THE REAL CLI…

`rig.bad_agent()` returns an `Agent` that starts it. The first argument:
    as-told          waits for prompts
    die-at-once      prints to stderr and exits with code 7 before its first message
    never-ready      reads its input and never answers
    stubborn         ignores interrupts, SIGINT and SIGTERM from the start
The first word of a prompt ("completes": the turn ends successfully):
    say WORDS        answers with WORDS and completes; a prompt that is not listed here is answered with its own text
    ask [TOOL JSON]  asks for TOOL (default: Bash), answers with the response as JSON, completes
    ask-and-withdraw asks, withdraws the question immediately, completes
    ask-and-die      asks and exits with code 3
    ask-and-continue ignores SIGTERM and asks; when its input ends, it waits for 2 s and creates the file "continued"
    ask-badly        asks without a tool, then sends an unknown request; answers with both responses, completes
    edit FILE OLD NEW  asks for an Edit of FILE (in its directory), writes it as allowed, completes
    die [CODE]       sends half a sentence, writes to stderr, exits with CODE (default: 3)
    silent           sends nothing more; ignores interrupts, but SIGINT and SIGTERM end it
    half             sends some text, and then nothing more
    obliging         sends some text; an interrupt ends its turn, after a last message
    sturdy           like `half`, and ignores SIGINT too
    stubborn         like `half`, and ignores SIGINT and SIGTERM too
    deaf             sends some text and no longer reads its input
    junk             prints lines that are not messages, then completes
    junk-and-die     prints a line that is not a message and exits with code 4, with nothing on stderr
    line BYTES       sends one message of BYTES bytes, completes
    endless-line     sends one line that never ends
    bad-utf8         sends a message with invalid UTF-8, completes
    surrogate        sends a message with half a surrogate pair, completes
    odd              sends NaN, a control character, a number that is too large and invalid types; completes
    unknown          sends messages of unknown types, completes
    close-stdout     closes its output and keeps running
    close-stdin      closes its input and keeps running
    flood [LINES]    sends LINES lines as fast as it can (default: without end), then completes
    stderr BYTES     writes BYTES bytes and a few words to stderr, completes
    child            starts a process in its own session that ignores signals, answers with its pid, completes
    child-and-die    like `child`, but exits with code 5, and the child keeps its pipes open
    escape           like `child`, but forked twice, in its own session and process group, with an empty environment
    escape-and-die   like `escape`, but exits with code 5
    eat MB           starts a process in its own session that uses MB megabytes of memory; the turn stays open
    eat-and-end MB   like `eat`, but completes
    twice            sends two results for one prompt
    torn             sends the beginning of a message, without a newline, and exits with code 0
    error WORDS      ends with an API error
    not-logged-in    ends with the error for a missing login
    own-turn         completes, then begins a turn on its own, which ends with the next prompt
    background       reports a task in the background, completes
    new-session      changes the id of the conversation, completes
    cost TOTAL       completes with that ``total_cost_usd``, and does not report what the turn cost
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

CHILD = (
    "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; print(flush=True); time.sleep(600)"
)
ESCAPED = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
print(os.getpid(), flush=True)
os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", sys.argv[1]], {})
"""

session_id = str(uuid.uuid4())
prompt_id: str | None = None
total = 0.0


def write(message: object) -> None:
    raw(json.dumps(message).encode() + b"\n")


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def read() -> Any:
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def say(kind: str, **fields: object) -> None:
    write({"type": kind, **fields, "session_id": session_id})


def tell(words: str) -> None:
    say("assistant", message={"role": "assistant", "content": [{"type": "text", "text": words}]})


def end(**changes: object) -> None:
    result = {"subtype": "success", "is_error": False, "result": "", "total_cost_usd": total}
    say("result", **(result | {"user_message_uuids": [prompt_id]} | changes))


def ask(tool: str, given: object) -> Any:
    """Asks for a call of ``tool`` with the input ``given``. Returns the response. Messages before it are obeyed."""
    id = question(subtype="can_use_tool", tool_name=tool, input=given, permission_suggestions=SUGGESTIONS)
    return answer_to(id)


SUGGESTIONS = [
    {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "session"},
    {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
]


def question(**request: object) -> str:
    id = str(uuid.uuid4())
    write({"type": "control_request", "request_id": id, "request": request})
    return id


def answer_to(id: str) -> Any:
    while True:
        message = read()
        if message["type"] == "control_response" and message["response"]["request_id"] == id:
            return message["response"].get("response", message["response"])
        obey(message)


def obey(message: Any) -> None:
    """Handles one message from the server: a prompt or a control request."""
    if message["type"] == "user":
        turn(message)
    elif message["type"] == "control_request":
        reply = {"subtype": "success", "request_id": message["request_id"], "response": {}}
        if message["request"].get("mode") == "nonsense":
            reply = {"subtype": "error", "request_id": message["request_id"], "error": "There is no such mode."}
        write({"type": "control_response", "response": reply})


def turn(message: Any) -> None:
    global prompt_id
    prompt_id = message.get("uuid")
    content = message["message"]["content"]
    words = content if isinstance(content, str) else content[-1]["text"]
    command, _, rest = words.partition(" ")
    say("system", subtype="init", cwd=os.getcwd(), tools=["Bash"], model="bad", permissionMode="default")
    act = ACTS.get(command)
    if act is None:
        tell(rest if command == "say" else words)
        end()
    else:
        act(rest)


def act_ask(rest: str) -> None:
    tool, _, given = rest.partition(" ")
    tell(json.dumps(ask(tool or "Bash", json.loads(given or '{"command": "ls"}'))))
    end()


def act_ask_and_withdraw(rest: str) -> None:
    id = question(subtype="can_use_tool", tool_name="Bash", input={})
    write({"type": "control_cancel_request", "request_id": id})
    end()


def act_ask_and_die(rest: str) -> None:
    question(subtype="can_use_tool", tool_name="Bash", input={})
    sys.exit(3)


def act_ask_badly(rest: str) -> None:
    answers = [answer_to(question(subtype="can_use_tool", input=[1])), answer_to(question(subtype="tickle"))]
    tell(json.dumps(answers))
    end()


def act_edit(rest: str) -> None:
    name, old, new = rest.split(" ")
    path = Path(name).resolve()
    answer = ask("Edit", {"file_path": str(path), "old_string": old, "new_string": new, "replace_all": False})
    if answer["behavior"] == "allow":
        given = answer["updatedInput"]
        path.write_text(path.read_text().replace(given["old_string"], given["new_string"]))
    tell(json.dumps(answer))
    end()


def act_die(rest: str) -> None:
    tell("I was about to")
    sys.stderr.write("\x1b[31mSomething broke.\x1b[0m\n")
    sys.exit(int(rest or 3))


def act_silent(rest: str) -> None:
    while True:
        sys.stdin.buffer.readline()
        time.sleep(0.01)


def act_ask_and_continue(rest: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    question(subtype="can_use_tool", tool_name="Bash", input={"command": "ls"}, permission_suggestions=[])
    tell("May I?")
    while sys.stdin.buffer.readline():
        pass
    time.sleep(2)  # as long as the real CLI waits before it gives up
    Path("continued").touch()


def act_half(rest: str) -> None:
    tell("To begin with,")
    act_silent(rest)


def act_obliging(rest: str) -> None:
    tell("To begin with,")
    while (message := read()).get("request", {}).get("subtype") != "interrupt":
        pass
    write({"type": "control_response", "response": {"subtype": "success", "request_id": message["request_id"]}})
    tell("I stop.")
    end(is_error=True, subtype="error_during_execution", terminal_reason="aborted_streaming")


def act_sturdy(rest: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    act_half(rest)


def act_stubborn(rest: str) -> None:
    ignore_signals()
    tell("I stay.")
    act_silent(rest)


def ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def act_deaf(rest: str) -> None:
    tell("What?")
    time.sleep(600)


def act_junk(rest: str) -> None:
    raw(b'Warning: something\n\n[1, 2]\n"text"\n{"type": "assist\nnull\n\xff\xfe\n' + b"[" * 5000 + b"\n")
    end()


def act_junk_and_die(rest: str) -> None:
    raw(b"Killed by a hook\n")
    sys.exit(4)


def act_line(rest: str) -> None:
    frame = len(json.dumps({"type": "big", "text": ""})) + 1
    write({"type": "big", "text": "x" * (int(rest) - frame)})
    end()


def act_endless_line(rest: str) -> None:
    while True:
        raw(b"x" * 1_000_000)


def act_bad_utf8(rest: str) -> None:
    raw(b'{"type": "assistant", "text": "caf\xe9 \xe2\x82\xac"}\n')
    end()


def act_surrogate(rest: str) -> None:
    raw(b'{"type": "assistant", "text": "half \\ud83d, whole \\ud83d\\ude00"}\n')
    end()


def act_odd(rest: str) -> None:
    raw(b'{"type": "odd", "n": NaN}\n{"type": "odd", "s": "a\x01b"}\n{"type": "odd", "n": 1e999}\n')
    raw(b'{"type": ["odd"]}\n{"type": 5}\n{}\n\t {"type": "odd",\r"n": 1} \r\n')
    end()


def act_unknown(rest: str) -> None:
    for kind in ("weather_report", "control_tickle", "keep_alive"):
        say(kind, subtype="sunny")
    write({"type": "stream_event", "event": {"type": "content_block_delta"}})
    end()


def act_close_stdout(rest: str) -> None:
    tell("Bye.")
    os.close(1)
    time.sleep(600)


def act_close_stdin(rest: str) -> None:
    tell("I've heard enough.")
    os.close(0)
    time.sleep(600)


def act_flood(rest: str) -> None:
    line = json.dumps({"type": "assistant", "text": "x" * 400, "session_id": session_id}).encode() + b"\n"
    count = int(rest) if rest else None
    while count is None or count > 0:
        sys.stdout.buffer.write(line)
        count = None if count is None else count - 1
    end()


def act_stderr(rest: str) -> None:
    size = int(rest)
    sys.stderr.write("first words\n" + "e" * size + "\nlast words\n")
    sys.stderr.flush()
    end()


def child(**pipes: Any) -> int:
    """Starts a process that ignores signals, waits for its first line, and returns its process id."""
    started = subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=True, stdout=subprocess.PIPE, **pipes)
    assert started.stdout
    started.stdout.readline()
    return started.pid


def act_child(rest: str) -> None:
    tell(str(child()))
    end()


def act_child_and_die(rest: str) -> None:
    held = os.dup(1)
    os.set_inheritable(held, True)
    tell(str(child(pass_fds=(held,))))
    sys.exit(5)


def escaped() -> int:
    """Returns the process id of a child that has left its session, process group and environment behind."""
    command = [sys.executable, "-I", "-S", "-c", ESCAPED, CHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as between:
        assert between.stdout
        pid = int(between.stdout.readline())
        between.stdout.readline()
    return pid


def act_escape(rest: str) -> None:
    tell(str(escaped()))
    end()


def act_escape_and_die(rest: str) -> None:
    tell(str(escaped()))
    sys.exit(5)


def eater(megabytes: str) -> int:
    taken = f"b = bytearray({megabytes}_000_000); b[::4096] = b'x' * len(b[::4096]); {CHILD}"
    started = subprocess.Popen([sys.executable, "-c", taken], start_new_session=True, stdout=subprocess.DEVNULL)
    return started.pid  # does not wait for its first line, because the memory limit may end it before that


def act_eat(rest: str) -> None:
    tell(str(eater(rest)))
    time.sleep(600)


def act_eat_and_end(rest: str) -> None:
    tell(str(eater(rest)))
    end()


def act_twice(rest: str) -> None:
    end()
    end()


def act_torn(rest: str) -> None:
    raw(b'{"type": "assistant", "text": "no newl')
    sys.exit(0)


def act_error(rest: str) -> None:
    end(is_error=True, result=rest, api_error_status=529, terminal_reason="api_error")


def act_not_logged_in(rest: str) -> None:
    say("assistant", message={"content": []}, error="authentication_failed")
    end(is_error=True, result="Not logged in · Please run /login", terminal_reason="api_error")


def act_own_turn(rest: str) -> None:
    end()
    say("system", subtype="init", cwd=os.getcwd(), tools=[], model="bad", permissionMode="default")
    tell("By the way,")
    message = read()
    end(user_message_uuids=[], origin={"kind": "task-notification"}, result="by the way")
    obey(message)


def act_background(rest: str) -> None:
    say("system", subtype="background_tasks_changed", tasks=[{"task_id": "t1"}])
    end()


def act_new_session(rest: str) -> None:
    global session_id
    session_id = str(uuid.uuid4())
    say("system", subtype="init", cwd=os.getcwd(), tools=[], model="bad", permissionMode="default")
    end()


def act_cost(rest: str) -> None:
    global total
    total = float(rest)
    end()


ACTS = {name[4:].replace("_", "-"): act for name, act in list(globals().items()) if name.startswith("act_")}


def main() -> None:
    global session_id
    flags = dict(argument[2:].partition("=")[::2] for argument in sys.argv[1:] if argument.startswith("--"))
    session_id = flags.get("session-id") or flags.get("resume") or session_id
    start = sys.argv[1]
    if start == "die-at-once":
        sys.stderr.write("I can't even begin.\n")
        sys.exit(7)
    if start == "never-ready":
        act_silent("")
    if start == "stubborn":
        ignore_signals()
        act_silent("")
    while True:
        obey(read())


if __name__ == "__main__":
    main()
