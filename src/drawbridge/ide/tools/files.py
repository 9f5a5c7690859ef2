"""Tools for files in the editor: open a file, list the open files and the folders, check for unsaved changes, and
save.
"""

from __future__ import annotations

import posixpath
from typing import Annotated

from msgspec import Meta

from drawbridge.core.errors import Refused
from drawbridge.editors.files import to_uri
from drawbridge.editors.port import OpenRequest
from drawbridge.ide.tools.tool import Arguments, Content, NoArguments, Tool, ToolContext, json_text


class OpenFile(Arguments, frozen=True):
    file_path: Annotated[str, Meta(description="The file to open.")]
    preview: Annotated[bool, Meta(description="Open it as a preview, if the editor has previews.")] = False
    start_text: Annotated[str, Meta(description="Select from the first occurrence of this text.")] | None = None
    end_text: (
        Annotated[str, Meta(description="Select up to the next occurrence of this text after startText.")] | None
    ) = None
    select_to_end_of_line: Annotated[bool, Meta(description="Extend the selection to the end of its last line.")] = (
        False
    )
    make_frontmost: Annotated[bool, Meta(description="Show it to the user; otherwise only load it.")] = True


class OneFile(Arguments, frozen=True):
    file_path: Annotated[str, Meta(description="The path of the file.")]


async def open_file(context: ToolContext, arguments: OpenFile) -> Content:
    path = context.workspace.resolve(arguments.file_path)
    await context.check_readable(path)
    opened = await context.workspace.editor.open_file(
        OpenRequest(
            path=path,
            focus=arguments.make_frontmost,
            start_text=arguments.start_text or None,
            end_text=arguments.end_text or None,
            to_end_of_line=arguments.select_to_end_of_line,
        )
    )
    if arguments.make_frontmost:
        return [f"Opened file: {path}" + ("" if opened.found else " (startText was not found in it)")]
    return json_text({"success": True, "filePath": path, "languageId": opened.language, "lineCount": opened.line_count})


async def get_open_editors(context: ToolContext, arguments: NoArguments) -> Content:
    tabs = [
        {
            "uri": to_uri(tab.path),
            "isActive": tab.active,
            "label": posixpath.basename(tab.path),
            "languageId": tab.language,
            "isDirty": tab.modified,
        }
        for tab in await context.workspace.editor.tabs()
        if not context.workspace.privacy.hides(tab.path)
    ]
    return json_text({"tabs": tabs})


async def get_workspace_folders(context: ToolContext, arguments: NoArguments) -> Content:
    folders = [
        {"name": posixpath.basename(path) or path, "uri": to_uri(path), "path": path}
        for path in context.workspace.folders
    ]
    return json_text(
        {
            "success": True,
            "folders": folders,
            "rootPath": context.workspace.folders[0] if context.workspace.folders else "",
        }
    )


async def check_document_dirty(context: ToolContext, arguments: OneFile) -> Content:
    path = context.workspace.resolve(arguments.file_path)
    status = await context.workspace.editor.status(path)
    answer = {
        "success": status is not None,
        "filePath": path,
        "isDirty": status is not None and status.modified,
        "isUntitled": status is not None and status.untitled,
    }
    if status is None:
        answer["message"] = f"Document not open: {path}"
    return json_text(answer)


async def save_document(context: ToolContext, arguments: OneFile) -> Content:
    path = context.workspace.resolve(arguments.file_path)
    message, saved = "Document saved successfully", True
    if await context.workspace.editor.status(path) is None:
        message, saved = f"Document not open: {path}", False
    else:
        try:
            await context.workspace.editor.save(path)
        except Refused as refusal:
            message, saved = str(refusal), False
    return json_text({"success": saved, "filePath": path, "saved": saved, "message": message})


TOOLS = (
    Tool("openFile", "Open a file in the editor, and select a part of it if requested.", OpenFile, open_file),
    Tool("getOpenEditors", "The files that are open in the editor.", NoArguments, get_open_editors),
    Tool("getWorkspaceFolders", "The folders that the user works in.", NoArguments, get_workspace_folders),
    Tool("checkDocumentDirty", "Whether an open file has unsaved changes.", OneFile, check_document_dirty),
    Tool("saveDocument", "Save an open file.", OneFile, save_document),
)
