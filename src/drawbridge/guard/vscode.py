"""One request to one VS Code instance, as bytes: one JSON object per line (docs/internals/protocols/guard.md). Does no
I/O."""

from drawbridge.guard import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def request(method: str, params: str) -> bytes:
    """The request as one line; ``params`` is JSON."""
    return f'{{"id":1,"method":"{method}","params":{params}}}\n'.encode()


class AnswerReader:
    """Reads the answer on one connection. ``answer`` is set once it is complete."""

    __slots__ = ("_data", "answer")

    blocked = False  # VS Code has no prompt that blocks, and sends nothing before the answer
    lacks = False

    def __init__(self) -> None:
        self._data = b""
        self.answer: Any = None

    def receive(self, data: bytes) -> bool:
        """Returns whether the answer is complete. Raises ``ValueError`` for invalid data, and if the extension reports
        an error.
        """
        self._data += data
        line, end, _ = self._data.partition(b"\n")
        if not end:
            return False
        message = json_text.parse(line)
        if not isinstance(message, dict) or "result" not in message:
            raise ValueError(f"VS Code failed: {str(message)[:300]}")
        self.answer = message["result"]
        return True
