"""Interprets Gemini CLI's tool calls. In the server's runs, they are calls of the Agent Client Protocol. In terminal
sessions, they are changes that Gemini CLI proposed to an editor. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from drawbridge.agents.acp.tools import AcpTools
from drawbridge.agents.base import Form
from drawbridge.agents.proposals import WholeFiles
from drawbridge.agents.tool_calls import ToolCall


class GeminiTools(WholeFiles):
    """Gemini CLI's tools. Only a change that was proposed to an editor can be edited."""

    def call(self, name: str, given: Mapping[str, Any], suggestions: Raw, form: Form) -> ToolCall:
        if form == "acp":
            return AcpTools().call(name, given, suggestions, form)
        return super().call(name, given, suggestions, form)


TOOLS: Final = GeminiTools()
