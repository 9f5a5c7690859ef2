"""Reads Claude Code's own transcript of a session, one line at a time, and converts it for the history and clients.
Pure.

The file is undocumented (seen on 2.1.329), so lines in another format are ignored. The lines contain far more than what
is used here, such as whole requests and copies of files.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.claude import conversation as claude
from drawbridge.agents.claude.results import PROMPT_TOO_LONG
from drawbridge.agents.results import NOT_LOGGED_IN, RATE_LIMITED, TOO_LONG, UNAVAILABLE
from drawbridge.agents.terminal import Call, Context, Entry, Fate, Message, Mode, Prompt, Result
from drawbridge.core.json_text import UNDECODABLE

NOT_SAID: Final = ("<command-", "<local-command-", "<bash-", "<task-notification", "<system-reminder")
"""The beginnings of texts that the CLI itself writes in place of a prompt from the user."""

INTERRUPTED: Final = "[Request interrupted by user"
REJECTED: Final = "user-rejected"

LONGEST_MODE: Final = 40

TURN_CONTINUES: Final = ("tool_use", "pause_turn")
"""Stop reasons of a message after which the turn continues."""


_CODES: Final = {
    "authentication_failed": NOT_LOGGED_IN,
    "rate_limit": RATE_LIMITED,
    "overloaded": UNAVAILABLE,
    "server_error": UNAVAILABLE,
}
"""Maps the CLI's name for the reason why a request to the model failed (2.1.332) to the client protocol's code."""


def code_of(error: object, said: str) -> str | None:
    """The client protocol's code for a failed request to the model; None if the protocol has no code for it. ``error``:
    the CLI's name for the reason; ``said``: its text about the failure."""
    if said.startswith(PROMPT_TOO_LONG):
        return TOO_LONG
    return _CODES.get(error) if isinstance(error, str) else None


class _Line(Struct, rename="camel"):
    type: str = ""
    uuid: str = ""
    prompt_id: str = ""
    is_meta: bool = False
    is_sidechain: bool = False
    is_compact_summary: bool = False
    is_api_error_message: Any = False
    error: Any = None
    entrypoint: str = ""
    attachment: Raw = Raw(b"null")
    message: Raw = Raw(b"null")
    permission_mode: str = ""
    subtype: Any = None
    compact_metadata: Any = None
    tool_denial_kind: str | None = None
    tool_use_result: Raw = Raw(b"null")


class _Outcome(Struct, omit_defaults=True):
    """The changes that a tool has made to a file, or the answers to its questions. The rest of its result, such as the
    text of a file before the change, is not kept."""

    type: str = ""
    structuredPatch: list[Any] = []  # noqa: N815 - the CLI's own name
    content: str = ""
    """The content of a file that was created."""
    answers: dict[str, str | list[str]] = {}
    """Maps each question to its answer."""


class _Block(Struct):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""


class _Message(Struct):
    content: str | list[_Block] = ""
    stop_reason: Any = None


class _Origin(Struct, frozen=True):
    kind: str = "human"


class _Attachment(Struct, rename="camel"):
    type: str = ""
    prompt: str | list[_Block] = ""
    command_mode: str = "prompt"
    origin: _Origin = _Origin()


class _Kind(Struct):
    type: str = ""


class _HookContext(Struct, rename="camel"):
    content: tuple[str, ...] = ()
    hook_event: str = ""


_line: Final = msgspec.json.Decoder(_Line)
_message: Final = msgspec.json.Decoder(_Message)
_attachment: Final = msgspec.json.Decoder(_Attachment)
_kind: Final = msgspec.json.Decoder(_Kind)
_hook_context: Final = msgspec.json.Decoder(_HookContext)
_encode: Final = msgspec.json.Encoder().encode


def entry(line: bytes, session_id: str) -> Entry | None:
    """The entry in a line of the transcript of the conversation ``session_id``; None if the line contains none."""
    read = claude.parsed(line.strip())
    if read is None:
        return None
    try:
        found = _line.decode(read[1])
        if found.type == "permission-mode":
            return Mode(found.permission_mode[:LONGEST_MODE])
        if found.type == "attachment":
            return _attached(found)
        if found.type == "system":
            return _compacted(found, session_id)
        if found.type not in ("user", "assistant") or found.is_meta or found.is_compact_summary or not found.uuid:
            return None
        message = _message.decode(found.message)
    except UNDECODABLE:
        return None
    blocks = _blocks(message.content)
    if found.type == "user" and not found.is_sidechain and not any(block.type == "tool_result" for block in blocks):
        words = "\n".join(block.text for block in blocks if block.type == "text")
        if words.lstrip().startswith(NOT_SAID):
            return None
        if not words.startswith(INTERRUPTED):
            return Prompt(found.uuid, found.prompt_id, words, _foreign(found))
    return _from_agent(found, blocks, session_id, ends=message.stop_reason not in (None, "", *TURN_CONTINUES))


def _compacted(found: _Line, session_id: str) -> Message | None:
    """A compaction of the conversation, as the stream reports it; None for any other ``system`` line."""
    if found.subtype != "compact_boundary" or not found.uuid:
        return None
    metadata = found.compact_metadata if isinstance(found.compact_metadata, dict) else {}
    sizes = {"pre_tokens": metadata.get("preTokens"), "post_tokens": metadata.get("postTokens")}
    data = {
        "type": "system",
        "subtype": found.subtype,
        "compact_metadata": {name: size for name, size in sizes.items() if isinstance(size, int)},
        "session_id": session_id,
        "uuid": found.uuid,
    }
    return Message(found.uuid, _encode(data))


def _attached(found: _Line) -> Prompt | Context | None:
    if _kind.decode(found.attachment).type != "hook_additional_context":
        return _queued(found)
    handed = _hook_context.decode(found.attachment)
    return Context(found.uuid, handed.hook_event, handed.content) if found.uuid else None


def _queued(found: _Line) -> Prompt | None:
    """A prompt that was typed while the agent worked; None for any other attachment. The agent received the prompt with
    a tool's result. The transcript contains it as an attachment."""
    queued = _attachment.decode(found.attachment)
    if queued.type != "queued_command" or queued.command_mode != "prompt" or queued.origin.kind != "human":
        return None
    words = "\n".join(block.text for block in _blocks(queued.prompt) if block.type == "text")
    if not found.uuid or not words or words.lstrip().startswith(NOT_SAID):
        return None
    return Prompt(found.uuid, "", words, _foreign(found))


def _blocks(content: str | list[_Block]) -> list[_Block]:
    return [_Block("text", content)] if isinstance(content, str) else content


def _foreign(found: _Line) -> bool:
    return found.entrypoint.startswith("sdk")


def _from_agent(found: _Line, blocks: list[_Block], session_id: str, *, ends: bool) -> Message:
    data: dict[str, Any] = {
        "type": found.type,
        "message": found.message,
        # This is a placeholder for subagents, because the transcript does not name the call that started the subagent.
        "parent_tool_use_id": "sidechain" if found.is_sidechain else None,
        "session_id": session_id,
        "uuid": found.uuid,
    }
    outcome = _outcome(found.tool_use_result)
    if outcome is not None:
        data["tool_use_result"] = outcome
    results = [block.tool_use_id for block in blocks if block.type == "tool_result"]
    if found.tool_denial_kind is not None:
        data["tool_result_meta"] = [{"id": id, "non_execution_kind": found.tool_denial_kind} for id in results]
    said = "\n".join(block.text for block in blocks if block.type == "text" and found.type == "assistant")
    return Message(
        uuid=found.uuid,
        data=_encode(data),
        calls=tuple(Call(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"),
        results=tuple(Result(id, _fate(found)) for id in results),
        interrupted=any(block.type == "text" and block.text.startswith(INTERRUPTED) for block in blocks)
        and found.type == "user",
        text=said,
        foreign=_foreign(found),
        ends_turn=ends and not found.is_sidechain,
        failed=found.is_api_error_message is True,
        code=code_of(found.error, said) if found.is_api_error_message is True else None,
    )


def _outcome(result: Raw) -> _Outcome | None:
    """The parts of a tool's result that ``_Outcome`` contains; None if the result contains none of them."""
    try:
        found = msgspec.json.decode(result, type=_Outcome)
    except UNDECODABLE:
        return None
    if found.type != "create":
        found.content = ""
    return found if found.structuredPatch or found.content or found.answers else None


def _fate(found: _Line) -> Fate:
    if found.tool_denial_kind is None:
        return "ran"
    return "rejected" if found.tool_denial_kind == REJECTED else "denied"
