"""Reads the lines of the file in which Gemini CLI stores a conversation, as they are written. Pure.

The file is undocumented. This module reads the format of 0.61.0, which is known from Gemini CLI's source, and ignores
other lines. Unlike ``earlier``, it reads each line on its own:

* A message of the model is written when its text is complete, and again when all its calls have ended. The second line
  repeats the text, so only the calls are read from it.
* A line with ``$set`` may replace all messages. If the last one that is left does not call a tool, the agent no longer
  works, because the user has interrupted it or rejected a call, or the request to the model has failed. The file does
  not contain which of these has happened, and it does not name turns.
* Messages with the type ``user`` are also results of calls, and texts that the CLI or a hook adds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from drawbridge.agents.base import AgentLine
from drawbridge.agents.gemini.hook import COMMENTS
from drawbridge.agents.gemini.messages import CONTEXT, EndedCall, calls, said
from drawbridge.agents.output import objects_in, parsed, text_in
from drawbridge.agents.terminal import Call, Context, Entry, Fate, Message, Prompt, Result, TurnOver

ID: Final = re.compile(r"[0-9A-Za-z_-]{1,100}")

REFERENCED: Final = "--- Content from referenced files ---"
"""The line that the CLI adds after a prompt that names files with ``@``. The contents of the files follow."""

HOOK_CONTEXT: Final = re.compile(r"<hook_context>(.*)</hook_context>", re.DOTALL)
"""Matches a text that a hook has added. In it, the CLI has escaped the characters < and >."""

NUDGE: Final = "[System: You successfully executed a tool"
"""The beginning of the prompt that the CLI sends when the model has answered a tool's result with nothing."""

NOT_SAID: Final = (
    CONTEXT,
    NUDGE,
    "Here is the user's editor context as a JSON object.",
    "Here is a summary of changes in the user's editor context",
    "I ran the following shell command:",
    "User has manually exited Plan Mode.",
    "System: Potential loop detected.",
    "- **Workspace Directories:**",
)
"""The beginnings of texts that the CLI itself sends in place of a prompt from the user."""

REJECTED: Final = ("User denied execution.", "User cancelled operation")
"""The reasons for canceled calls if the user has rejected one of them. The agent continues if others have run."""

_line: Final = msgspec.json.Decoder(dict[str, Any])


def entries(line: bytes, session_id: str) -> Sequence[Entry]:
    """The entries in a line of the file of the conversation ``session_id``."""
    read = parsed(line.strip(), _line)
    match read[0] if read is not None else None:
        case {"$set": {"messages": list(left)}}:
            return () if _calls_a_tool(left) else (TurnOver("", "interrupted"),)
        case {"id": str(id), "type": "user", "content": content} if ID.fullmatch(id):
            return of_user(id, content)
        case {"id": str(id), "type": "gemini"} if ID.fullmatch(id) and read is not None:
            return _of_model(id, read[0], session_id)
    return ()


def prompt_words(prompt: str) -> str:
    """A prompt without the contents of the files that it names."""
    return prompt.partition(REFERENCED)[0].strip()


def continues(prompt: str) -> bool:
    """Whether the CLI has sent this prompt on its own, or a hook has."""
    return prompt.startswith((COMMENTS[0], NUDGE))


def end_of(uuid: str, data: bytes) -> int | None:
    """See ``TerminalAgent.end_of``."""
    id, _, part = uuid.partition(":")
    found = re.finditer(rb'^\{"id":"' + re.escape(id.encode()) + rb'"[^\n]*\n', data, re.MULTILINE)
    ends = (one.end() for one in found if (b'"toolCalls":' in one[0]) == part.startswith("call"))
    return max(ends, default=None)


def _calls_a_tool(messages: list[Any]) -> bool:
    """Whether the last of these messages calls a tool."""
    last = messages[-1] if messages else None
    return isinstance(last, dict) and any("functionCall" in part for part in objects_in(last.get("content")))


def of_user(id: str, content: object) -> Sequence[Prompt | Context]:
    """The user's prompt and the texts from hooks in a message of the type ``user``. Empty if it is a result of a call,
    or if the CLI itself has sent it."""
    given = content if isinstance(content, list) else [content]
    parts = [one if isinstance(one, dict) else {"text": one} for one in given]
    if any("functionResponse" in part for part in parts):
        return ()
    texts = [text_in(part.get("text")) for part in parts]
    added = tuple(_unescaped(match[1]) for text in texts if (match := HOOK_CONTEXT.fullmatch(text)))
    words = prompt_words("".join(text for text in texts if not HOOK_CONTEXT.fullmatch(text)))
    if words.startswith(COMMENTS[0]):
        return (Context(id, "Stop", (words.removeprefix(COMMENTS[0]).removesuffix(COMMENTS[1]).strip(),)),)
    found: list[Prompt | Context] = [Prompt(id, "", words)] if words and not words.startswith(NOT_SAID) else []
    return [*found, Context(id, "UserPromptSubmit", added)] if added else found


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">")


def _of_model(id: str, message: Mapping[str, Any], session_id: str) -> Sequence[Entry]:
    if "toolCalls" not in message:
        spoken = enumerate(said(message, session_id))
        return [Message(f"{id}:{number}", _with(f"{id}:{number}", line)) for number, line in spoken]
    ended = calls(message)
    found = [entry for number, call in enumerate(ended) for entry in _of_call(f"{id}:call:{number}", call, session_id)]
    return [*found, TurnOver("", "interrupted")] if _is_interrupted(ended) else found


def _of_call(uuid: str, call: EndedCall, session_id: str) -> Iterator[Entry]:
    """Yields the entries for a call and for its result."""
    given, answered = call.as_lines(session_id)
    yield Message(uuid, _with(uuid, given), calls=(Call(call.id, call.name, Raw(msgspec.json.encode(call.given))),))
    fate: Fate = "rejected" if call.status == "cancelled" else "ran"
    yield Message(f"{uuid}:result", _with(f"{uuid}:result", answered), results=(Result(call.id, fate),))


def _is_interrupted(ended: Sequence[EndedCall]) -> bool:
    """Whether the turn has ended with these calls, since the user has interrupted them or has rejected all of them."""
    canceled = [call for call in ended if call.status == "cancelled"]
    if not canceled:
        return False
    return len(canceled) == len(ended) or not all(any(one in call.answer for one in REJECTED) for call in canceled)


def _with(uuid: str, line: AgentLine) -> bytes:
    """The line as JSON, with ``uuid`` added."""
    message: Mapping[str, Any] = msgspec.json.decode(line.raw)
    return msgspec.json.encode({**message, "uuid": uuid})
