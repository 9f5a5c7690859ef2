"""The rule that decides which files are protected, and the editors' snapshots that it needs. Loaded only if an editor is
running."""

import posix

from drawbridge.guard import ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from drawbridge.guard import calls
    from drawbridge.guard.settings import Settings

LISTS = ("unsaved", "open", "folders", "connected", "agents")


def snapshot(
    sockets: "Iterable[tuple[str, str]]", paths: "list[str]", settings: "Settings", **more: "Any"
) -> "list[ask.Answer]":
    """Each editor's answer to ``snapshot``. An answer with the wrong shape counts as missing."""
    answers = ask.ask(sockets, "snapshot", {"paths": paths, **more}, settings["deadline"])
    for found in answers:
        if not _is_snapshot(found.result, len(paths)):
            found.result = None
            found.problem = found.problem or "sent an invalid answer"
    return answers


def permission_mode(call: "calls.Call") -> "dict[str, Any]":
    """Parameters for ``snapshot``: the permission mode that the agent reports, and the process that called the hook;
    empty if it reports no mode. An editor with a bridge that serves that agent shows the mode.
    """
    mode = call.input.get("permission_mode")
    return {"mode": mode[:40], "process": posix.getppid()} if isinstance(mode, str) and mode else {}


def _is_snapshot(result: "Any", count: int) -> bool:
    files = result.get("files") if isinstance(result, dict) else None
    return (
        isinstance(files, list)
        and len(files) == count
        and all(file is None or is_file(file) for file in files)
        and all(isinstance(result.get(name, []), list) for name in LISTS)
    )


def is_file(file: "Any") -> bool:
    """Whether this is a valid entry in a list of files."""
    return isinstance(file, dict) and isinstance(file.get("name"), str)


def files(found: "ask.Answer") -> "list[dict[str, Any]]":
    """The entries of the requested files that the editor has open; empty if it did not answer."""
    return [file for file in found.result["files"] if file] if found.result else []


def unsaved_files(found: "ask.Answer") -> "list[dict[str, Any]]":
    """Every file with unsaved changes in one editor, if they were requested. Invalid entries are skipped."""
    return [file for file in found.result.get("unsaved", ()) if is_file(file)] if found.result else []


def policy_for(tool: str, settings: "Settings") -> str:
    """ "current", "visible" or "any": the setting for this tool or, without one, the general setting."""
    for entry in settings["policy_for"]:
        name, _, policy = entry.partition("=")
        if name == tool:
            return str(policy)
    return str(settings["policy"])


def protects(file: "Mapping[str, Any]", policy: str) -> bool:
    """Whether the file is protected: in a single editor instance, it has unsaved changes *and* is covered by the policy
    (the current file, a visible file, or any file).
    """
    return bool(file.get("modified") and (policy == "any" or file.get(policy)))
