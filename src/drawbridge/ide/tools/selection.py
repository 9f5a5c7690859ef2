"""Tools for the user's current selection, and for the latest one in any file."""

from __future__ import annotations

import msgspec

from drawbridge.editors.port import Selection
from drawbridge.ide.tools.tool import Content, NoArguments, Tool, ToolContext, json_text


async def get_current_selection(context: ToolContext, arguments: NoArguments) -> Content:
    return _answer(context, await context.workspace.editor.selection(), "No active editor found")


async def get_latest_selection(context: ToolContext, arguments: NoArguments) -> Content:
    return _answer(context, context.workspace.selection, "No selection available")


def _answer(context: ToolContext, selection: Selection | None, otherwise: str) -> Content:
    if selection is None or context.workspace.privacy.hides(selection.path):
        return json_text({"success": False, "message": otherwise})
    return json_text(
        {
            "success": True,
            "text": selection.text,
            "filePath": selection.path,
            "selection": msgspec.to_builtins(selection.range),
        }
    )


TOOLS = (
    Tool("getCurrentSelection", "The selection in the active file.", NoArguments, get_current_selection),
    Tool("getLatestSelection", "The latest selection, in any file.", NoArguments, get_latest_selection),
)
