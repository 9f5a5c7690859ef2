"""No path, and no text from an agent, can break a log line, forge another one, or control the terminal that shows it."""

from __future__ import annotations

import logging
import sys

from drawbridge.core.log_text import HarmlessFormatter, encodable

HOSTILE = "a\ud800b\n12:00 forged line \x1b[2J\u202e"


def formatted(message: str, *, failed: bool = False) -> str:
    problem = None
    if failed:
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            problem = sys.exc_info()
    record = logging.LogRecord("drawbridge", logging.INFO, "", 0, "opened %s", (message,), problem)
    return HarmlessFormatter("%(levelname)s %(name)s: %(message)s").format(record)


def test_a_message_is_one_line_that_utf8_can_encode() -> None:
    line = formatted(HOSTILE)
    assert line == "INFO drawbridge: opened a\\ud800b\\x0a12:00 forged line \\x1b[2J\\u202e"
    assert line.encode()


def test_a_traceback_keeps_its_lines_but_no_control_characters() -> None:
    first, *trace = formatted("x", failed=True).split("\n")
    assert first == "INFO drawbridge: opened x"
    assert trace[0] == "Traceback (most recent call last):"
    assert "\n".join(trace).encode()
    assert not any(sign in "".join(trace) for sign in ("\x1b", "\u202e", "\ud800"))


def test_encodable_text_escapes_only_lone_surrogates() -> None:
    assert encodable("Grüße\n😀\ud800") == "Grüße\n😀\\ud800"
