"""The change that one of Claude Code's edit tools would make to a file, so that a person can see it first. Pure.

The result is what version 2.1.329 writes. An edit gives all lines the line ending that most of the file's lines have. A
deletion at the end of a line also removes the line break. A notebook is indented by one space. If the result can't be
predicted to the byte (except for the id of a new cell in a notebook), no proposal is made, because the plain call is
better than a wrong diff.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from drawbridge.agents.base import Proposal
from drawbridge.agents.proposals import TEXT_LIMIT, Reader
from drawbridge.core.errors import UnusableFile

_PATHS: Final = {"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"}

_EDIT: Final = ("old_string", "new_string", "replace_all")
"""The fields of an edit."""

_IN_DIFF: Final[Mapping[str, tuple[str, ...]]] = {
    "Edit": ("file_path", *_EDIT),
    "MultiEdit": ("file_path", "edits"),
    "Write": ("file_path", "content"),
    "NotebookEdit": ("notebook_path", "new_source", "cell_id", "cell_type", "edit_mode"),
}
"""Maps a tool to the fields of its input that a diff shows, unless a value has no effect on the file."""


class _Unforeseeable(Exception):
    """The result of a call can't be predicted, for example because the call does not fit the file, or because one of
    them is not valid."""


def changes_file(tool: str) -> bool:
    """Whether ``proposal`` may return a change for the tool."""
    return tool in _PATHS


def proposal(tool: str, given: Mapping[str, Any], read: Reader) -> Proposal | None:
    """The change that ``tool`` with the input ``given`` would make. None if ``tool`` does not change a file at an
    absolute path, or if the result can't be predicted or is larger than ``TEXT_LIMIT``."""
    path = given.get(_PATHS.get(tool, ""))
    if not isinstance(path, str) or not path.startswith("/"):
        return None
    try:
        old = read(path)
        new = _changed(tool, given, old)
    except (UnusableFile, _Unforeseeable):
        return None
    return Proposal(path, old or "", new) if len(new) <= TEXT_LIMIT else None


def changed_text(tool: str, given: Mapping[str, Any], old_text: str) -> str | None:
    """The text into which ``tool`` changes ``old_text``; None if that can't be predicted."""
    try:
        return _changed(tool, given, old_text)
    except _Unforeseeable:
        return None


def with_text(tool: str, given: Mapping[str, Any], old_text: str, text: str) -> dict[str, Any] | None:
    """The input with which ``tool`` changes ``old_text`` to ``text``; None if the tool can't do that.

    For an edit, the old and new strings contain the whole file, so the call fails if the file has changed. Either
    ``text`` is written, or nothing is. An edit keeps the byte order mark and the prevailing line ending of
    ``old_text``, even if ``text`` has others.
    """
    old, new = (each.removeprefix("\ufeff").replace("\r\n", "\n") for each in (old_text, text))
    match tool:
        case "Write":
            return {**given, "content": text}
        case "Edit":
            return {**given, "old_string": old, "new_string": new, "replace_all": False}
        case "MultiEdit":
            return {**given, "edits": [{"old_string": old, "new_string": new, "replace_all": False}]}
    return None


def shown_fields(tool: str, given: Mapping[str, Any], proposal: Proposal) -> tuple[str, ...]:
    """See ``Tools.shown_fields``. Empty if ``proposal`` is not what the call does."""
    if tool not in _IN_DIFF or given.get(_PATHS[tool]) != proposal.path:
        return ()
    if changed_text(tool, given, proposal.old_text) != proposal.new_text:
        return ()
    return tuple(name for name in _IN_DIFF[tool] if _is_in_diff(name, given))


def _is_in_diff(name: str, given: Mapping[str, Any]) -> bool:
    """Whether the diff shows this field of ``given``. False for a value that has no effect on the file."""
    match name, given.get(name):
        case "replace_all", value:
            return isinstance(value, bool)
        case "edits", edits:
            return isinstance(edits, list) and all(
                isinstance(edit, dict) and edit.keys() <= {*_EDIT} and all(_is_in_diff(each, edit) for each in edit)
                for edit in edits
            )
        case "new_source" | "cell_type", str():
            return given.get("edit_mode") != "delete"
        case _, value:
            return isinstance(value, str)


def _changed(tool: str, given: Mapping[str, Any], old: str | None) -> str:
    match tool:
        case "Write":
            return _text(given, "content")
        case "NotebookEdit":
            return _notebook(given, old)
        case "Edit":
            edits = [given]
        case _:
            edits = [edit for edit in _list(given, "edits") if isinstance(edit, dict)]
    text = (old or "").replace("\r\n", "\n")
    for edit in edits:
        text = _edited(text, edit)
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if _has_crlf(old or "") else text


def _edited(text: str, edit: Mapping[str, Any]) -> str:
    before, after = _text(edit, "old_string"), _text(edit, "new_string")
    if not before:
        if text.strip():
            raise _Unforeseeable
        return after
    if edit.get("replace_all") is not True and text.count(before) != 1:
        raise _Unforeseeable
    if before not in text:
        raise _Unforeseeable
    if not after and not before.endswith("\n") and before + "\n" in text:
        before += "\n"
    if len(text) + text.count(before) * (len(after) - len(before)) > TEXT_LIMIT:
        raise _Unforeseeable
    return text.replace(before, after) if edit.get("replace_all") is True else text.replace(before, after, 1)


def _has_crlf(text: str) -> bool:
    crlf = text.count("\r\n")
    return crlf > text.count("\n") - crlf


def _notebook(given: Mapping[str, Any], old: str | None) -> str:
    try:
        notebook = json.loads(old or "")
        cells = notebook["cells"]
        index = _cell(cells, given.get("cell_id"))
        match given.get("edit_mode", "replace"):
            case "replace":
                _replace(cells[index], _text(given, "new_source"), given.get("cell_type"))
            case "insert":
                at = 0 if given.get("cell_id") is None else index + 1
                cells.insert(at, _new_cell(notebook, _text(given, "new_source"), given.get("cell_type")))
            case "delete":
                del cells[index]
            case _:
                raise _Unforeseeable
        return json.dumps(notebook, indent=1, ensure_ascii=False) + ("\n" if (old or "").endswith("\n") else "")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise _Unforeseeable from None


def _cell(cells: list[dict[str, Any]], cell_id: object) -> int:
    """The index of the cell with this id, or with this number, as in "cell-3"; 0 if ``cell_id`` is None. Raises
    ``_Unforeseeable`` for any other id."""
    if cell_id is None:
        return 0
    if not isinstance(cell_id, str):
        raise _Unforeseeable
    for index, cell in enumerate(cells):
        if cell.get("id") == cell_id:
            return index
    number = re.fullmatch(r"cell-(\d{1,9})", cell_id)
    if not number:
        raise _Unforeseeable
    return int(number[1])


def _replace(cell: dict[str, Any], source: str, kind: object) -> None:
    """Replaces the cell's source. Raises ``_Unforeseeable`` if the cell's type changes: Claude Code 2.1.329 leaves the
    cell's outputs as they are, while 2.1.332 adds or removes them."""
    if isinstance(kind, str) and kind != cell.get("cell_type"):
        raise _Unforeseeable
    cell["source"] = source
    if cell.get("cell_type") == "code":
        cell["execution_count"], cell["outputs"] = None, []


def _new_cell(notebook: dict[str, Any], source: str, kind: object) -> dict[str, Any]:
    """A new cell. Its id, if the notebook's cells have ids, is a placeholder, since Claude Code generates an id only
    when it writes the file. Raises ``_Unforeseeable`` if ``kind`` is not a string."""
    if not isinstance(kind, str):
        raise _Unforeseeable
    has_ids = (notebook.get("nbformat", 0), notebook.get("nbformat_minor", 0)) >= (4, 5)
    cell = {"cell_type": kind, **({"id": "new"} if has_ids else {}), "source": source, "metadata": {}}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise _Unforeseeable
    return value


def _list(given: Mapping[str, Any], name: str) -> list[Any]:
    value = given.get(name)
    if not isinstance(value, list) or not value:
        raise _Unforeseeable
    return value
