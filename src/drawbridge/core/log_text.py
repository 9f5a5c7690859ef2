"""Formats log lines in which untrusted text is harmless."""

from __future__ import annotations

import logging
from types import TracebackType

from drawbridge.core.terminal_text import harmless


class HarmlessFormatter(logging.Formatter):
    """Formats a message as one line, and a traceback line by line, so that both are safe in any terminal or log file,
    whatever a path or an agent's text contains."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging names it)
        return harmless(super().formatMessage(record))

    def formatException(  # noqa: N802
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        return "\n".join(map(harmless, super().formatException(ei).splitlines()))


def encodable(text: str) -> str:
    """``text`` with lone surrogates, which UTF-8 cannot express, written as in a Python string (``\\ud800``)."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
