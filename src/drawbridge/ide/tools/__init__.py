"""The tools that Claude Code may call on the editor, in one explicit tuple. Gemini CLI's are in ``gemini``.

A tool is one short function and the struct of its arguments. The struct both validates the arguments and defines the
schema in ``tools/list``. Tools are grouped by the editor feature that they need. They do no I/O themselves, but leave
it to the ``ToolContext`` and the editor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drawbridge.ide.tools import code, diagnostics, diffs, files, selection
from drawbridge.ide.tools.tool import Tool, ToolContext

TOOLS: tuple[Tool, ...] = (
    *diffs.TOOLS,
    *files.TOOLS,
    *selection.TOOLS,
    *diagnostics.TOOLS,
    *code.TOOLS,
)


class Toolbox:
    """The tools that are offered. ``execute_code``: whether the user has opted in to the tool that runs code."""

    def __init__(self, *, execute_code: bool = False) -> None:
        offered = [tool for tool in TOOLS if execute_code or tool not in code.TOOLS]
        self._tools = {tool.name: tool for tool in offered}
        self.listing: Sequence[dict[str, Any]] = [tool.entry() for tool in offered]

    def find(self, name: str) -> Tool | None:
        return self._tools.get(name)


__all__ = ["TOOLS", "Tool", "ToolContext", "Toolbox"]
