"""Reads the lines of Codex's transcripts, which Codex calls rollouts (0.169.0). Pure.

A transcript contains each message and call twice: as the model sees it (``response_item``), and as users see it
(``event_msg``). Calls and their results are read from ``response_item``, and most other entries from ``event_msg``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents import lines
from drawbridge.agents.base import AgentLine
from drawbridge.agents.codex.failures import failure
from drawbridge.agents.modes import AUTO, BYPASS
from drawbridge.agents.output import parsed, text_in
from drawbridge.agents.terminal import Call, Context, Entry, Fate, Message, Mode, Prompt, Result, TurnOver
from drawbridge.core.json_text import UNDECODABLE

LONGEST_ERROR: Final = 500
"""The maximum length of a failed turn's error text, in characters."""

CALLS: Final = ("function_call", "custom_tool_call")
RESULTS: Final = ("function_call_output", "custom_tool_call_output")

HOOKED_SHELL: Final = "Bash"
"""The hooks' name for the tool that runs commands."""
SHELL: Final = "exec_command"
"""The transcript's name for the same tool."""

PATCH: Final = "apply_patch"

PATCH_FIELD: Final = "patch"
CHANGES: Final = {
    "*** Add File: ": "add",
    "*** Update File: ": "update",
    "*** Move to: ": "move_to",
    "*** Delete File: ": "delete",
}
"""Maps the mark before a file's path in a patch to the field of the call's input that contains the path."""

ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
"""Matches the id of a conversation."""

ADDED_CONTEXT: Final = "hooks.additional_context"
"""The kind of a message in which Codex passes a hook's text to the model."""

RAN: Final = ("Exit code: ", "Chunk ID: ", "Wall time: ")
"""The beginnings of the result of a command or a patch that ran."""

ABORTED: Final = "aborted by user"
"""The end of the result of a call that the user interrupted, or denied in its dialog with No."""

REJECTED: Final = "The user rejected this"
"""The beginning of the reason with which Drawbridge's hook denies a call. The result of a denied patch is only this
reason."""

DENIED: Final = (
    REJECTED,
    'exec_command failed: CreateProcess { message: "Rejected(',
    "Command blocked by PreToolUse hook: ",
    "Tool call blocked by PreToolUse hook: ",
    "patch rejected",
    "apply_patch verification failed: ",
    "unsupported custom tool call: ",
)
"""The beginnings of the result of a call that a hook, the user or Codex denied."""

BEFORE_OUTPUT: Final = re.compile(r"\A(?:Exit code|Chunk ID|Wall time): .*?^Output:\n", re.DOTALL | re.MULTILINE)
"""Matches what precedes the output of a command or a patch in its result."""

EXIT_CODE: Final = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)$", re.MULTILINE)


BY_USER: Final = "user"
"""The value for requests that a person decides on, because Codex does not review them itself."""


class _Line(Struct, frozen=True):
    ordinal: Any = None
    type: Any = None
    payload: Raw = Raw(b"{}")


class _Item(Struct, frozen=True):
    """A message or another part of the conversation, as people see it."""

    type: str = ""
    content: list[Any] = []
    summary_text: list[Any] = []
    fragments: list[Any] = []


class _Event(Struct, frozen=True):
    type: str = ""
    turn_id: str = ""
    item: Raw = Raw(b"{}")
    reason: str = ""
    error: Any = None


class _About(Struct, frozen=True):
    content_item_kinds: list[Any] = []


class _Response(Struct, frozen=True):
    """The fields that are read from a ``response_item``."""

    type: str = ""
    role: str = ""
    name: str = ""
    namespace: str | None = None
    call_id: str = ""
    arguments: str = ""
    input: str = ""
    output: Any = ""
    content: Any = None
    internal_chat_message_metadata_passthrough: _About | None = None


class _Access(Struct, frozen=True):
    """The access that the sandbox allows in one place. ``path``: an object with a path, or with Codex's name for a
    place."""

    path: Any = None
    access: str = ""


class _Files(Struct, frozen=True):
    type: str = ""
    entries: list[_Access] = []


class _Profile(Struct, frozen=True):
    type: str = ""
    file_system: _Files = _Files()


class _Turn(Struct, frozen=True):
    """A ``turn_context``: the settings of a turn."""

    approval_policy: Any = ""
    approvals_reviewer: Any = BY_USER
    permission_profile: _Profile = _Profile()


_line: Final = msgspec.json.Decoder(_Line)
_event: Final = msgspec.json.Decoder(_Event)
_item: Final = msgspec.json.Decoder(_Item)
_response: Final = msgspec.json.Decoder(_Response)
_turn: Final = msgspec.json.Decoder(_Turn)


def entry(line: bytes, session_id: str) -> Entry | None:
    """The entry in a line of the transcript of the conversation ``session_id``; None if the line contains none."""
    read = parsed(line.strip(), _line)
    if read is None or not isinstance(read[0].ordinal, int):
        return None
    found = read[0]
    try:
        uuid = f"{session_id}:{found.ordinal}"
        match found.type:
            case "turn_context":
                return Mode(_mode(found.payload))
            case "event_msg":
                return _of_event(_event.decode(found.payload), uuid, session_id)
            case "response_item":
                return _of_response(_response.decode(found.payload), uuid, session_id)
    except UNDECODABLE:
        return None
    return None


def _mode(settings: Raw) -> str:
    """A mode of the client protocol that allows at least as much as the ``settings`` of a turn."""
    try:
        turn = _turn.decode(settings)
    except UNDECODABLE:
        return BYPASS
    files = turn.permission_profile.file_system
    if turn.approval_policy == "never" or turn.permission_profile.type != "managed" or files.type != "restricted":
        return BYPASS
    written = [one.path for one in files.entries if one.access == "write"]
    if any(
        isinstance(path, dict) and (path.get("value") == {"kind": "root"} or path.get("path") == "/")
        for path in written
    ):
        return BYPASS
    if turn.approvals_reviewer != BY_USER:
        return AUTO
    return "acceptEdits" if written else "default"


def _of_event(event: _Event, uuid: str, session_id: str) -> Entry | None:
    match event.type:
        case "task_complete":
            return _over(event)
        case "turn_aborted":
            return TurnOver(event.turn_id, "interrupted")
        case "item_completed":
            return _of_item(_item.decode(event.item), event.turn_id, uuid, session_id)
    return None


def _over(event: _Event) -> TurnOver:
    if not isinstance(event.error, dict):
        return TurnOver(event.turn_id, "completed")
    said = text_in(event.error.get("message"))
    failed = failure("Codex", said)
    return TurnOver(event.turn_id, "failed", said[:LONGEST_ERROR] or None, failed.code if failed else None)


def _of_item(item: _Item, turn: str, uuid: str, session_id: str) -> Entry | None:
    match item.type:
        case "UserMessage":
            return Prompt(uuid, turn, _words(item.content))
        case "AgentMessage" if words := _words(item.content):
            return Message(uuid, _with(uuid, lines.said(session_id, "text", words)), text=words)
        case "Reasoning" if words := "\n\n".join(map(text_in, item.summary_text)):
            return Message(uuid, _with(uuid, lines.said(session_id, "thinking", words)))
        case "HookPrompt":
            return Context(uuid, "Stop", tuple(_texts(item.fragments)))
        case "ContextCompaction":
            compacted = {"type": "system", "subtype": "compact_boundary", "session_id": session_id, "uuid": uuid}
            return Message(uuid, msgspec.json.encode(compacted))
    return None


def _of_response(found: _Response, uuid: str, session_id: str) -> Entry | None:
    if found.type in CALLS and found.call_id:
        name, given = _call(found)
        line = lines.call(session_id, found.call_id, name, given)
        call = Call(found.call_id, name, Raw(msgspec.json.encode(given)))
        return Message(uuid, _with(uuid, line), calls=(call,))
    if found.type in RESULTS and found.call_id:
        words = _output(found.output)
        fate = _fate(words)
        code = EXIT_CODE.search(words) if words.startswith(RAN) else None
        failed = fate != "ran" or (code is not None and code[1] != "0")
        line = lines.result(session_id, found.call_id, BEFORE_OUTPUT.sub("", words, count=1), is_error=failed)
        return Message(uuid, _with(uuid, line), results=(Result(found.call_id, fate),))
    about = found.internal_chat_message_metadata_passthrough
    if found.role == "developer" and about is not None and ADDED_CONTEXT in about.content_item_kinds:
        return Context(uuid, "UserPromptSubmit", tuple(_texts(found.content)))
    return None


def _call(found: _Response) -> tuple[str, dict[str, Any]]:
    """The tool and the input of a call, with the names that ``CodexInTerminal.event`` uses, so that a call can be matched
    with its question."""
    if found.type == "custom_tool_call":
        return found.name, {PATCH_FIELD: found.input.strip("\n")} if found.name == PATCH else {"input": found.input}
    name = f"{found.namespace or ''}{found.name}"  # hooks report both in one name, such as mcp__github__get_issue
    try:
        given = msgspec.json.decode(found.arguments, type=dict[str, Any])
    except UNDECODABLE:
        return name, {"arguments": found.arguments}
    if name != SHELL:
        return name, given
    named = {"command": given.get("cmd"), "description": given.get("justification")}
    return HOOKED_SHELL, {name: value for name, value in named.items() if isinstance(value, str)}


def patch_input(patch: str, directory: str) -> dict[str, str]:
    """A patch as the input of its call: the absolute paths of the files that it changes, one per line, in a field for
    each kind of change, and the patch itself. ``directory``: the directory of relative paths."""
    changed: dict[str, list[str]] = {}
    for line in map(str.strip, patch.split("\n")):
        for mark, name in CHANGES.items():
            if line.startswith(mark):
                changed.setdefault(name, []).append(os.path.join(directory, line.removeprefix(mark).strip()))
    files = {name: "\n".join(paths) for name, paths in changed.items()}
    return {**files, PATCH_FIELD: patch.strip("\n")}


def _output(output: object) -> str:
    return output if isinstance(output, str) else "\n".join(_texts(output))


def _fate(words: str) -> Fate:
    """A call that was interrupted counts as denied. The user can't have rejected it after a client allowed it, because
    its dialog is hidden until then.
    """
    is_aborted = words.startswith(ABORTED) or (words.startswith("Wall time: ") and words.endswith(ABORTED))
    return "denied" if is_aborted or words.startswith(DENIED) else "ran"


def _texts(parts: object) -> list[str]:
    found = [text_in(part.get("text")) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return [words for words in found if words]


def _words(parts: object) -> str:
    return "\n".join(_texts(parts))


def _with(uuid: str, line: AgentLine) -> bytes:
    """The line as JSON, with ``uuid`` added."""
    message: Mapping[str, Any] = msgspec.json.decode(line.raw)
    return msgspec.json.encode({**message, "uuid": uuid})
