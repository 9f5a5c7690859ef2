"""The rule, and what editors said that it is about. Loaded as soon as there is an editor; imports nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from drawbridge.guard.ask import Answer


def policy_for(tool: str, settings: Mapping[str, Any]) -> str:
    """ "current", "visible" or "any": the tool's own, else the general one."""
    for entry in settings["policy_for"]:
        name, _, policy = entry.partition("=")
        if name == tool:
            return str(policy)
    return str(settings["policy"])


def files(found: Answer) -> list[dict[str, Any]]:
    """What an editor said of each path; {} where it has not opened it. Whoever says something else has not answered."""
    listed = found.result.get("files") if isinstance(found.result, dict) else None
    if not isinstance(listed, list) or not all(file is None or isinstance(file, dict) for file in listed):
        found.result = None
        found.problem = found.problem or "answered nonsense"
        return []
    return [file or {} for file in listed]


def is_kept(file: Mapping[str, Any], policy: str) -> bool:
    """The rule: in one and the same instance the file has unsaved changes *and* is where the policy looks."""
    return bool(file.get("modified") and (policy == "any" or file.get(policy)))


def unsaved_files(found: Answer) -> list[dict[str, Any]]:
    """Every file with unsaved changes in one editor, as it says; what is no such entry is passed over."""
    listed = found.result.get("unsaved") if isinstance(found.result, dict) else None
    return [file for file in listed or () if isinstance(file, dict) and isinstance(file.get("name"), str)]
