"""A language server on standard input and output. It reports an error for each line with the word "bad", a warning for
"odd" and a hint for "hint".

It reports on a text as soon as it receives it. If the text contains "slow", it first waits until the file that its
argument names exists.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

RELEASE = Path(sys.argv[1])
WORDS = {"bad": 1, "odd": 2, "hint": 4}


def read() -> Any:
    length = 0
    while header := sys.stdin.buffer.readline().strip():
        name, _, value = header.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def send(message: dict[str, Any]) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
    sys.stdout.buffer.flush()


def report(uri: str, text: str) -> None:
    while "slow" in text and not RELEASE.exists():
        time.sleep(0.005)
    found = [
        {
            "range": {"start": {"line": row, "character": 0}, "end": {"line": row, "character": 1}},
            "severity": severity,
            "message": f"{word} here",
            "source": "words",
            "code": word.upper(),
        }
        for row, line in enumerate(text.splitlines())
        for word, severity in WORDS.items()
        if word in line.split()
    ]
    send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": found}})


while message := read():
    match message.get("method"):
        case "initialize":
            capabilities = {"textDocumentSync": {"openClose": True, "change": 1}}
            send({"id": message["id"], "result": {"capabilities": capabilities}})
        case "textDocument/didOpen":
            document = message["params"]["textDocument"]
            threading.Thread(target=report, args=(document["uri"], document["text"]), daemon=True).start()
        case "textDocument/didChange":
            params = message["params"]
            arguments = (params["textDocument"]["uri"], params["contentChanges"][-1]["text"])
            threading.Thread(target=report, args=arguments, daemon=True).start()
        case "shutdown":
            send({"id": message["id"], "result": None})
        case "exit":
            break
