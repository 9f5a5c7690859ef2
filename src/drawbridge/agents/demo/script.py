"""The demo agent's program: a script that implements ``claude``'s stream on stdin and stdout.

``python -P -m drawbridge.agents.demo.script`` accepts the real CLI's flags and ignores those that it does not need. The
agent asks before it changes a file (unless its mode allows edits). It changes nothing outside its working directory,
and makes no network connections.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import uuid
from typing import Any, Final, NoReturn

from drawbridge.agents.demo import edits as demo_edits

VERSION: Final = "1.0"
MODEL: Final = "demo"
PRICE: Final = 0.0004
"""A fictitious cost for each step, in US dollars, so that clients have a cost to show."""

UNASKED: Final = ("acceptEdits", "bypassPermissions")
"""The modes in which it changes files without asking."""

WORD_SECONDS: Final = 0.03

HELP: Final = """I am the demo agent: a script, not a model. Whatever you ask, I propose a small change to a file here and \
wait for your yes or no. I also know:
- `/ask`: I ask you a question with choices
- `/slow 20`: I write for 20 seconds, so that you can interrupt me
- `/lines 1000`: I write that many lines at once
- `/fail`: I end with an error; `/crash`: I crash
- `/quick`: I answer immediately"""


class Interrupted(Exception):
    """The user interrupted this turn."""


class Failed(Exception):
    """The turn ends with an error."""


class Agent:
    """One conversation, with one turn at a time. A thread reads stdin, so that the user can interrupt the agent while
    it writes."""

    def __init__(self, flags: dict[str, str]) -> None:
        self._session_id = flags.get("session-id") or flags.get("resume") or str(uuid.uuid4())
        self._resumed = "resume" in flags
        self._partial = "include-partial-messages" in flags
        self._mode = flags.get("permission-mode") or "default"
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._prompts: list[dict[str, Any]] = []
        self._answers: dict[str, dict[str, Any]] = {}
        self._open = True
        self._interrupted = False
        self._steps = self._results = 0
        self._total = 0.0
        self._model = flags.get("model") or MODEL

    def run(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()
        while self._open or self._prompts:
            if self._prompts:
                self._turn(self._prompts.pop(0))
            else:
                self._handle_next(None)

    # Messages to the agent.

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            self._said.put(json.loads(line))
        self._said.put(None)

    def _handle_next(self, seconds: float | None) -> None:
        """Waits up to ``seconds`` (None: without a limit) for the next message, and handles it."""
        try:
            message = self._said.get(timeout=seconds)
        except queue.Empty:
            return
        if message is None:
            self._open = False
        elif message["type"] == "user":
            self._prompts.append(message)
        elif message["type"] == "control_request":
            self._obey(message["request_id"], message["request"])
        elif message["type"] == "control_response":
            self._answers[message["response"]["request_id"]] = message["response"].get("response", {})

    def _obey(self, id: str, request: dict[str, Any]) -> None:
        reply: dict[str, Any] = {}
        match request["subtype"]:
            case "interrupt":
                self._interrupted = True
            case "set_permission_mode":
                self._mode = reply["mode"] = request["mode"]
                self._say("system", subtype="status", status=None, permissionMode=self._mode)
            case "set_model":
                self._model = reply["model"] = request["model"]
            case unknown:
                error = {
                    "subtype": "error",
                    "request_id": id,
                    "error": f"Unsupported control request subtype: {unknown}",
                }
                return self._write({"type": "control_response", "response": error})
        return self._write(
            {"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": reply}}
        )

    def _wait(self, seconds: float) -> None:
        """Waits for ``seconds``, or until stdin is closed, and handles messages in the meantime. Raises ``Interrupted`` if
        the turn is interrupted."""
        end = time.monotonic() + seconds
        while not self._interrupted and (left := end - time.monotonic()) > 0 and self._open:
            self._handle_next(left)
        while not self._said.empty():
            self._handle_next(0)
        if self._interrupted:
            raise Interrupted

    # A turn.

    def _turn(self, prompt: dict[str, Any]) -> None:
        self._interrupted = False
        self._began, self._steps = time.monotonic(), 0
        self._prompt_id = prompt.get("uuid")
        self._say(
            "system",
            subtype="init",
            cwd=os.getcwd(),
            tools=["Edit", "Write", "AskUserQuestion"],
            mcp_servers=[],
            model=self._model,
            permissionMode=self._mode,
            claude_code_version=f"demo {VERSION}",
        )
        try:
            self._result(self._answer(_words(prompt["message"]["content"])))
        except Interrupted:
            self._user([{"type": "text", "text": "[Request interrupted by user]"}])
            self._result("", error=("error_during_execution", "aborted_streaming"))
        except Failed as failure:
            self._result(str(failure), error=("success", "api_error"))

    def _answer(self, words: str) -> str:
        """Answers a prompt. Returns the turn's result, usually the last text. Raises ``Interrupted`` or ``Failed``."""
        command, rest = (*words.split(maxsplit=1), "", "")[:2]
        number = int(rest) if rest.strip().isdecimal() else None
        match command:
            case "/help":
                return self._tell(HELP, pace=0)
            case "/quick":
                return self._tell("Done.", pace=0)
            case "/lines":
                for line in range(number or 100):
                    self._tell(f"Line {line + 1}", pace=0)
                return "Said."
            case "/slow":
                text = " ".join(["I keep writing until my time is up or you interrupt me."] * 50)
                return self._tell(text, pace=(number or 20) / text.count(" "))
            case "/ask":
                return self._ask()
            case "/fail":
                self._tell("I was told to fail, so I'm failing.")
                raise Failed("The demo agent failed, as it was told to.")
            case "/crash":
                sys.stderr.write("The demo agent crashed, as it was told to.\n")
                os._exit(3)
            case _:
                return self._change(words)

    def _change(self, words: str) -> str:
        hello = "Let's continue where we left off. " if self._resumed else ""
        self._resumed = False
        edit = demo_edits.for_prompt(words, os.getcwd())
        name = os.path.relpath(edit.input["file_path"])
        if_allowed = "" if self._mode in UNASKED else " if you allow it"
        self._tell(f"{hello}You said: “{demo_edits.short(words)}”. I will write that into `{name}`{if_allowed}.")
        answer = self._may_i(edit.tool, edit.input)
        if answer.get("behavior") != "allow":
            self._tool_result(answer.get("message") or "No.", is_error=True)
            return self._tell(f"All right, I did not write to `{name}`. I was told: “{answer.get('message') or 'no'}”")
        given = answer.get("updatedInput") or edit.input
        problem = demo_edits.apply(edit.tool, given, os.getcwd())
        self._tool_result(problem or f"The file {given['file_path']} was written.", is_error=bool(problem))
        if problem:
            return self._tell(f"That did not work: {problem}")
        mine = given.get("new_string") == edit.input.get("new_string") and given.get("content") == edit.input.get(
            "content"
        )
        return self._tell(f"Done: `{name}` has {'the new line' if mine else 'your version of it'}.")

    def _ask(self) -> str:
        question = "What should the drawbridge be painted with?"
        options = [
            {"label": "Red", "description": "Seen from afar"},
            {"label": "Oak", "description": "As it always was"},
        ]
        asked = {"questions": [{"question": question, "header": "Color", "multiSelect": False, "options": options}]}
        answer = self._may_i("AskUserQuestion", asked)
        chosen = ((answer.get("updatedInput") or {}).get("answers") or {}).get(question)
        self._tool_result(f"{question}={chosen}" if chosen else "No answer.", is_error=not chosen)
        return self._tell(f"{chosen} it is." if chosen else "Then it stays unpainted.")

    def _may_i(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        """Announces a tool call, and asks whether it may run. Returns the answer: "allow" without a question if the
        mode does not require one, and a denial if stdin is closed. Raises ``Interrupted`` if the turn is
        interrupted."""
        self._tool_id = f"toolu_{uuid.uuid4().hex[:24]}"
        self._assistant({"type": "tool_use", "id": self._tool_id, "name": tool, "input": given})
        if tool != "AskUserQuestion" and self._mode in UNASKED:
            return {"behavior": "allow", "updatedInput": given}
        id = str(uuid.uuid4())
        accept = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
        request = {
            "subtype": "can_use_tool",
            "tool_name": tool,
            "input": given,
            "tool_use_id": self._tool_id,
            "permission_suggestions": accept if tool != "AskUserQuestion" else [],
        }
        self._write({"type": "control_request", "request_id": id, "request": request})
        while id not in self._answers and self._open:
            self._handle_next(None)
            if self._interrupted and id not in self._answers:
                self._write({"type": "control_cancel_request", "request_id": id})
                raise Interrupted
        answer = self._answers.pop(id, {"behavior": "deny", "message": "Nobody is available to ask."})
        for rule in answer.get("updatedPermissions") or []:
            self._mode = rule.get("mode", self._mode)
        return answer

    # Messages from the agent.

    def _tell(self, text: str, pace: float | None = None) -> str:
        """Sends text: word by word if partial messages are enabled, then as a whole. Returns the text. ``pace``:
        seconds per word; None for ``WORD_SECONDS``. Raises ``Interrupted``."""
        self._wait(0)
        words = text.split(" ")
        pace = WORD_SECONDS if pace is None else pace
        if self._partial:
            self._event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
        try:
            for number, word in enumerate(words):
                if self._partial:
                    piece = word if number == 0 else f" {word}"
                    self._event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
                if pace:
                    self._wait(pace)
        except Interrupted:
            self._assistant({"type": "text", "text": " ".join(words[: number + 1])})
            raise
        self._assistant({"type": "text", "text": text})
        if self._partial:
            self._event(type="content_block_stop", index=0)
        return text

    def _event(self, **event: Any) -> None:
        self._say("stream_event", event=event, parent_tool_use_id=None)

    def _assistant(self, block: dict[str, Any]) -> None:
        self._steps += 1
        usage = {"input_tokens": 10, "output_tokens": 10}
        message = {"id": f"msg_{uuid.uuid4().hex[:24]}", "type": "message", "role": "assistant", "model": self._model}
        self._say("assistant", message=message | {"content": [block], "usage": usage}, parent_tool_use_id=None)

    def _tool_result(self, text: str, *, is_error: bool) -> None:
        result = {"type": "tool_result", "tool_use_id": self._tool_id, "content": text, "is_error": is_error}
        self._user([result])

    def _user(self, content: list[dict[str, Any]]) -> None:
        self._say("user", message={"role": "user", "content": content}, parent_tool_use_id=None)

    def _result(self, text: str, error: tuple[str, str] | None = None) -> None:
        """Sends the turn's result. ``error``: its subtype and terminal reason."""
        cost = round(self._steps * PRICE, 6)
        self._total = round(self._total + cost, 6)
        subtype, reason = error or ("success", "completed")
        self._say(
            "result",
            subtype=subtype,
            is_error=error is not None,
            result=text,
            terminal_reason=reason,
            num_turns=self._steps,
            duration_ms=int((time.monotonic() - self._began) * 1000),
            total_cost_usd=self._total,
            model_usage_since_last_result={
                self._model: {"costUSD": cost, "inputTokens": 10 * self._steps, "outputTokens": 10 * self._steps}
            },
            permission_denials=[],
            user_message_uuids=[self._prompt_id] if self._prompt_id else [],
            result_index=self._results,
        )
        self._results += 1

    def _say(self, kind: str, **fields: Any) -> None:
        self._write({"type": kind, **fields, "session_id": self._session_id, "uuid": str(uuid.uuid4())})

    def _write(self, message: dict[str, Any]) -> None:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
        sys.stdout.buffer.flush()


def _words(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(block["text"] for block in content if block["type"] == "text")


def main() -> NoReturn:
    flags = (argument.removeprefix("--").partition("=") for argument in sys.argv[1:] if argument.startswith("--"))
    try:
        Agent({name: value for name, _, value in flags}).run()
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(0)
    sys.exit(0)


if __name__ == "__main__":
    main()
