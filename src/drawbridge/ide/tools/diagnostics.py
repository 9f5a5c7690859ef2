"""Errors and warnings from the editor's language tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from drawbridge.editors.port import Diagnostic
from drawbridge.ide.tools.tool import Arguments, Content, Tool, ToolContext, json_text


class GetDiagnostics(Arguments, frozen=True):
    uri: Annotated[str, Meta(description="A file's URI; without it, all files.")] | None = None


async def get_diagnostics(context: ToolContext, arguments: GetDiagnostics) -> Content:
    """Returns a list of files with their problems. A requested file is listed even if it has no problems or is hidden,
    with the URI as it was given."""
    if arguments.uri:
        path = context.workspace.resolve(arguments.uri)
        found = () if context.workspace.privacy.hides(path) else await context.workspace.editor.diagnostics(path)
        listed = [diagnostic for entry in found for diagnostic in entry.diagnostics]
        return json_text([_entry(arguments.uri, listed)])
    entries = await context.workspace.editor.diagnostics(None)
    # The paths are bare and not percent-encoded, because the real CLI compares them, without "file://", with its own
    # (2.1.329).
    return json_text(
        [
            _entry(f"file://{entry.path}", entry.diagnostics)
            for entry in entries
            if not context.workspace.privacy.hides(entry.path)
        ]
    )


def _entry(uri: str, diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    return {"uri": uri, "diagnostics": [_diagnostic(diagnostic) for diagnostic in diagnostics]}


def _diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(diagnostic)
    return {key: value for key, value in shown.items() if value is not None}


TOOLS = (
    Tool(
        "getDiagnostics",
        "Diagnostics, such as errors and warnings, for one file or for all files.",
        GetDiagnostics,
        get_diagnostics,
    ),
)
