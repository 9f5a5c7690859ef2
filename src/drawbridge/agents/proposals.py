"""Reads the file that a question is about, and describes changes that an agent proposes to an editor only. Pure, except
for ``read_file``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from drawbridge.agents.base import Form, Proposal, Question
from drawbridge.agents.tool_calls import ToolCall, Tools, unknown
from drawbridge.editors import files

TEXT_LIMIT: Final = 2 * 1024 * 1024
"""The maximum size of the file in bytes, and of the result in characters. A larger change is not shown as a
proposal."""

Reader: TypeAlias = Callable[[str], str | None]
"""The type of a function that returns a file's whole text, or None if the file does not exist. Raises
``UnusableFile``."""

_TOOL, _PATH, _TEXT = "Write", "file_path", "content"


def read_file(path: str) -> str | None:
    """The ``Reader`` for a file that a question is about. A file larger than ``TEXT_LIMIT`` is unusable.
    Blocking."""
    return files.read_text(path, TEXT_LIMIT)


def in_editor(question_id: str, proposal: Proposal) -> Question:
    """The question of whether an agent may write what it proposed to an editor. The editor receives only the text, so
    clients see a call that writes the whole file. ``WholeFiles`` describes that call."""
    given = msgspec.json.encode({_PATH: proposal.path, _TEXT: proposal.new_text})
    return Question(question_id, _TOOL, Raw(given), Raw(b"[]"), proposal)


class WholeFiles(Tools):
    """The calls of the questions that ``in_editor`` returns."""

    def call(self, name: str, given: Mapping[str, Any], suggestions: Raw, form: Form) -> ToolCall:
        if name != _TOOL:
            return ToolCall(name=name, grants=unknown(suggestions))
        path = given.get(_PATH)
        paths = (path,) if isinstance(path, str) else ()
        return ToolCall(
            kind="overwrite", name=name, paths=paths, texts=(_TEXT,), editable=(_TEXT,), grants=unknown(suggestions)
        )

    def changed_text(self, name: str, given: Mapping[str, Any], old_text: str) -> str | None:
        text = given.get(_TEXT)
        return text if name == _TOOL and isinstance(text, str) else None

    def with_text(self, name: str, given: Mapping[str, Any], old_text: str, text: str) -> dict[str, Any] | None:
        return {**given, _TEXT: text} if name == _TOOL else None

    def shown_fields(self, name: str, given: Mapping[str, Any], proposal: Proposal) -> tuple[str, ...]:
        is_shown = name == _TOOL and (given.get(_PATH), given.get(_TEXT)) == (proposal.path, proposal.new_text)
        return (_PATH, _TEXT) if is_shown else ()
