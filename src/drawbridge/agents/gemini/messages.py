"""The messages in the files in which Gemini CLI (0.61.0) stores conversations, converted for the history and clients.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from drawbridge.agents import lines
from drawbridge.agents.base import AgentLine
from drawbridge.agents.output import objects_in, text_in

TOOLS: Final = {
    "run_shell_command": "Bash",
    "read_file": "Read",
    "replace": "Edit",
    "write_file": "Write",
    "search_file_content": "Grep",
    "grep_search": "Grep",
    "glob": "Glob",
    "list_directory": "LS",
    "google_web_search": "WebSearch",
}
"""Maps the CLI's tools to the names of Claude Code's equivalent tools, which clients show."""

CONTEXT: Final = "<session_context>"
"""The beginning of the text that the CLI itself sends before the first prompt."""

PATHS: Final = ("file_path", "absolute_path", "path", "dir_path")


def said(message: Mapping[str, Any], session_id: str) -> Iterator[AgentLine]:
    """Yields the model's thoughts and its text in a message of the type ``gemini``."""
    for thought in objects_in(message.get("thoughts")):
        parts = [part for name in ("subject", "description") if (part := text_in(thought.get(name)))]
        if parts:
            yield lines.said(session_id, "thinking", "\n\n".join(parts))
    if words := words_of(message.get("content")):
        yield lines.said(session_id, "text", words)


class EndedCall(Struct, frozen=True):
    """A tool call that has ended. ``name``, ``given``: the tool and its input, as the CLI names them. ``answer``: the text
    that the model has received. ``shown``: what the CLI has shown to the user."""

    id: str
    name: str
    given: dict[str, Any]
    status: str
    answer: str
    shown: Any

    def as_lines(self, session_id: str) -> tuple[AgentLine, AgentLine]:
        """The history lines for the call and for its result."""
        name = TOOLS.get(self.name, self.name)
        return lines.call(session_id, self.id, name, _given(self.name, self.given)), self._result(session_id)

    def _result(self, session_id: str) -> AgentLine:
        is_error = self.status in ("error", "cancelled")
        patch: list[dict[str, Any]] = []
        if isinstance(self.shown, dict) and not is_error:
            old, new = self.shown.get("originalContent"), self.shown.get("newContent")
            patch = lines.patch_of(text_in(old), text_in(new)) if isinstance(new, str) else []
        words = text_in(self.shown) or self.answer
        return lines.result(session_id, self.id, words, is_error=is_error, patch=patch)


def calls(message: Mapping[str, Any]) -> list[EndedCall]:
    """The model's calls in a message of the type ``gemini``."""
    found = []
    for call in objects_in(message.get("toolCalls")):
        id, name, given = text_in(call.get("id")), text_in(call.get("name")), call.get("args")
        if id and name:
            given, status = given if isinstance(given, dict) else {}, text_in(call.get("status"))
            answer = "\n".join(_answers(call.get("result")))
            found.append(EndedCall(id, name, given, status, answer, call.get("resultDisplay")))
    return found


def _given(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The input of a call to the tool ``name``. For the tools that read or write one file, the file's path is in
    ``file_path``, the field that clients read."""
    path = next((args[one] for one in PATHS if isinstance(args.get(one), str)), None)
    if path is None or name not in ("read_file", "replace", "write_file"):
        return args
    return {"file_path": path} | {key: value for key, value in args.items() if key not in PATHS}


def _answers(result: object) -> Iterator[str]:
    """Yields the texts in a tool's response to the model."""
    for part in objects_in(result):
        match part.get("functionResponse"):
            case {"response": {"output": str(words)} | {"error": str(words)}}:
                yield words


def words_of(content: object) -> str:
    """The text in the content of a message."""
    parts = content if isinstance(content, list) else [content]
    texts = (one.get("text") if isinstance(one, dict) else one for one in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text)
