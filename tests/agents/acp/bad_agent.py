"""An agent that misbehaves at each prompt, in the way that its argument names.

Except with ``never_greets`` and ``no_such_flag``, it first answers ``initialize`` and ``session/new``. With
``of_the_future``, it answers ``initialize`` with an unknown protocol version.
"""

from __future__ import annotations

import json
import sys
from typing import Any

HUGE = 40 * 1024 * 1024

CALL = {"toolCallId": "c", "title": "t", "kind": "edit"}
OPTIONS = [
    {"optionId": "once", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def send_text(words: str) -> None:
    content = {"type": "text", "text": words}
    send(
        method="session/update",
        params={"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": content}},
    )


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return dict(json.loads(line))


def ask(id: object) -> None:
    send(id=id, method="session/request_permission", params={"sessionId": "s", "toolCall": CALL, "options": OPTIONS})


def end(id: int, reason: str = "end_turn") -> None:
    send(id=id, result={"stopReason": reason})


LINES = (b"plain words", b"\xff\xfe", b"[1]", b"5", b'{"jsonrpc"', b'"x"', b"\x00", b"{}", b'{"method":5}', b"null")
UPDATES: tuple[Any, ...] = (
    *(None, 5, [], {"update": 5}, {"update": {"sessionUpdate": []}}),
    {"sessionId": {}, "update": {"content": 5}},
)


def junk(id: int) -> None:
    for line in LINES:
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
    for params in UPDATES:
        send(method="session/update", params=params)
    send(id=999_999, result={"stopReason": "end_turn"})
    send(id="1", result={})
    send(id=id, method=5)
    send_text("Still here")
    end(id)


def unknown_requests(id: int) -> None:
    answers = []
    for number, method in enumerate(["fs/read_text_file", "terminal/create", "elicitation/create", "no/such"]):
        send(id=f"r{number}", method=method, params={"path": "/etc/passwd", "sessionId": "s"})
        answers.append(receive()["error"]["code"])
    send_text(str(answers))
    end(id)


def same_ids(id: int) -> None:
    ask(7)
    ask(7)
    ask(id)
    messages = [receive() for _ in range(3)]
    send_text(json.dumps([[one["id"], one["result"]["outcome"]["optionId"]] for one in messages]))
    end(id)
    end(id)
    end(id)


def bad_questions(id: int) -> None:
    answers = []
    odd = [
        {},
        {"toolCall": 5, "options": OPTIONS},
        {"toolCall": CALL, "options": []},
        {"toolCall": CALL, "options": {}},
    ]
    for params in odd:
        send(id="q", method="session/request_permission", params=params)
        answers.append(receive()["error"]["code"])
    send_text(str(answers))
    end(id)


def long_line(id: int) -> None:
    send_text("x" * HUGE)
    end(id)


def large_line(id: int) -> None:
    send_text("x" * (20 * 1024 * 1024))
    end(id)


def silence(id: int) -> None:
    while True:
        receive()


def question_then_end(id: int) -> None:
    ask(1)
    end(id)


def exit_immediately(id: int) -> None:
    sys.exit("I have had enough")


def main() -> None:
    what = sys.argv[1]
    if what == "no_such_flag":
        sys.exit("Unknown argument: acp")
    if what == "never_greets":
        silence(0)
    while True:
        message = receive()
        match message.get("method"):
            case "initialize":
                send(id=message["id"], result={"protocolVersion": 99 if what == "of_the_future" else 1})
            case "session/new":
                send(id=message["id"], result={"sessionId": "s"})
            case "session/prompt":
                globals()[what](message["id"])


if __name__ == "__main__":
    main()
