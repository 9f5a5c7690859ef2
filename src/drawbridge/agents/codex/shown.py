"""Converts the items of ``codex exec --json`` into history lines. Pure.

Measured with Codex 0.169.0: each item is reported when it starts and when it ends, or only when it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drawbridge.agents import lines
from drawbridge.agents.base import AgentLine
from drawbridge.agents.output import text_in

FILE_TOOLS: Final = {"add": "Write", "update": "Edit", "delete": "Delete"}
"""Maps Codex's kinds of changes to a file to the names of tools that clients show. All except ``Delete`` are tools of
Claude Code."""


class Shown:
    """Converts the items of one process. ``prefix`` makes their ids unique, since each process counts from 0."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._begun: set[str] = set()

    def add(self, session_id: str, item: Mapping[str, Any], *, is_over: bool) -> list[AgentLine]:
        """The new lines for an item; empty if it adds nothing to show, or if its kind is unknown. ``is_over``: whether
        the item has ended."""
        id, words = f"{self._prefix}{text_in(item.get('id'))}", text_in(item.get("text"))
        match item.get("type"):
            case "agent_message" if is_over and words:
                return [lines.said(session_id, "text", words)]
            case "reasoning" if is_over and words:
                return [lines.said(session_id, "thinking", words)]
            case "error" if is_over and (problem := text_in(item.get("message"))):
                return [lines.said(session_id, "text", problem)]
            case "command_execution":
                failed = item.get("status") in ("failed", "declined") or item.get("exit_code") not in (0, None)
                emitted = self._call(session_id, id, "Bash", {"command": text_in(item.get("command"))})
                result = text_in(item.get("aggregated_output"))
            case "mcp_tool_call":
                failed = item.get("status") == "failed"
                name = f"mcp__{text_in(item.get('server'))}__{text_in(item.get('tool'))}"
                emitted = self._call(session_id, id, name, lines.input_of(item.get("arguments"), "arguments"))
                result = _result_of_mcp(item)
            case "web_search":
                failed, result = False, ""
                emitted = self._call(session_id, id, "WebSearch", {"query": text_in(item.get("query"))})
            case "file_change":
                return self._files(session_id, id, item) if is_over else []
            case _:
                return []
        return [*emitted, lines.result(session_id, id, result, is_error=failed)] if is_over else emitted

    def _call(self, session_id: str, id: str, name: str, given: Mapping[str, Any]) -> list[AgentLine]:
        if id in self._begun:
            return []
        self._begun.add(id)
        return [lines.call(session_id, id, name, given)]

    def _files(self, session_id: str, id: str, item: Mapping[str, Any]) -> list[AgentLine]:
        emitted: list[AgentLine] = []
        failed = item.get("status") == "failed"
        changes = item.get("changes")
        for number, change in enumerate(changes if isinstance(changes, list) else []):
            if isinstance(change, dict) and (path := text_in(change.get("path"))):
                name = FILE_TOOLS.get(text_in(change.get("kind")), "Edit")
                emitted += self._call(session_id, f"{id}.{number}", name, {"file_path": path})
                emitted.append(lines.result(session_id, f"{id}.{number}", "", is_error=failed))
        return emitted


def _result_of_mcp(item: Mapping[str, Any]) -> str:
    match item.get("error"):
        case {"message": str(problem)}:
            return problem
    match item.get("result"):
        case {"content": list(parts)}:
            return "\n".join(text_in(part.get("text")) for part in parts if isinstance(part, dict))
    return ""
