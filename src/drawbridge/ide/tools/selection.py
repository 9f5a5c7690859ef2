"""What the person has selected: now, and last."""

from __future__ import annotations

import msgspec

from drawbridge.editors.port import Selection
from drawbridge.ide.tools.tool import Content, Desk, NoArguments, Tool, json_text


async def get_current_selection(desk: Desk, arguments: NoArguments) -> Content:
    return _answer(desk, await desk.editor.selection(), "No active editor found")


async def get_latest_selection(desk: Desk, arguments: NoArguments) -> Content:
    return _answer(desk, desk.latest_selection, "No selection available")


def _answer(desk: Desk, selection: Selection | None, otherwise: str) -> Content:
    if selection is None or desk.hides(selection.path):
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
    Tool("getCurrentSelection", "What is selected in the active file.", NoArguments, get_current_selection),
    Tool("getLatestSelection", "What was selected last, in any file.", NoArguments, get_latest_selection),
)
