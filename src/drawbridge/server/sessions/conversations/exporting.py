"""Exports a history, or one session with the parts that only its agent has stored, as human-readable Markdown or as
JSON Lines for programs, in pieces."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from drawbridge.agents.base import Agent
from drawbridge.core.errors import HistoryUnreadable
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import TERMINAL_NAME
from drawbridge.server.protocol.replies import SessionPiece
from drawbridge.server.sessions.conversations.timeline import Stretch, record_of
from drawbridge.server.sessions.session import Session
from drawbridge.server.store.lines import Record
from drawbridge.server.store.log import History
from drawbridge.server.store.search import Part, Waited
from drawbridge.server.store.texts import Text, clean, content
from drawbridge.text.counts import counted
from drawbridge.text.review_words import CUT_DIFF, decided_words, interrupted_words, unnamed_words

LONGEST_VALUE: Final = 20_000
"""The maximum number of characters of a code block in Markdown. A longer one is cut. JSON Lines contain the whole
text."""

PIECE: Final = 150_000
"""The maximum number of characters of a piece. In JSON, a character takes at most 6 bytes, so a piece fits into a
message."""

READ_AT_ONCE: Final = 1024 * 1024

OUTCOMES: Final = {"timeout": "timed out"}
"""The wording of the outcomes of runs, where it differs from the protocol's."""

_FENCES: Final = re.compile(r"`{3,}")


async def piece(
    session: Session,
    stretches: Sequence[Stretch],
    agent: Agent | None,
    waited: Mapping[str, Waited],
    format: Literal["markdown", "jsonl"],
    after: str | None,
) -> SessionPiece:
    """The piece of the ``stretches`` after a position (None for the first one). ``agent``: the agent whose own
    transcript is included; None to leave it out, for example because the client may not see it. ``waited``: the changes
    to the session's prompts in the queue.

    Raises ``ClientError``, or ``HistoryUnreadable`` if the history can't be read.
    """
    extension, media_type = ("md", "text/markdown") if format == "markdown" else ("jsonl", "application/jsonl")
    written = Markdown(session.history, waited).record if format == "markdown" else jsonl
    begin = _position(after, len(stretches))
    try:
        # Long records are slow to read and to encode.
        text, position = await asyncio.to_thread(_piece, session, stretches, agent, written, *begin)
    except HistoryUnreadable:
        session.store.check_there()
        raise
    name = f"{session.path.name or 'session'}.{extension}"
    return SessionPiece(name, media_type, text, position)


def _piece(
    session: Session,
    stretches: Sequence[Stretch],
    agent: Agent | None,
    written: Callable[[Record], str],
    stretch: int,
    at: int,
    skipped: int,
) -> tuple[str, str | None]:
    """The text of the ``stretches`` after a position (see ``_position``), and where the next piece begins (None at the
    end). Blocking."""
    found: list[str] = []
    room = PIECE
    for number in range(stretch, len(stretches)):
        for end, record in _records(session, stretches[number], agent, at):
            rest = written(record)[skipped:]
            if len(rest) > room:
                found.append(rest[:room])
                return "".join(found), f"{number}.{at}.{skipped + room}"
            found.append(rest)
            room -= len(rest)
            at, skipped = end, 0
        at, skipped = 0, 0
    return "".join(found), None


def _records(session: Session, stretch: Stretch, agent: Agent | None, at: int) -> Iterator[tuple[int, Record]]:
    """The records of the stretch after the position ``at``, each with the position after which the next one is read.
    Blocking."""
    if stretch.part is not None:
        for record in _recorded(session.history, stretch.part, at):
            yield record.seq, record
    elif agent is not None and agent.sessions is not None:
        found = agent.sessions.messages_from(
            session.path, stretch.session_id, after=stretch.after, before=stretch.before, start=at
        )
        for end, message in found:
            if earlier := record_of(message):
                yield end, earlier


def _recorded(history: History, part: Part, seq: int) -> Iterator[Record]:
    seq, more = max(seq, part.first_seq - 1), True
    while more and seq < part.last_seq:
        page = history.read(after_seq=seq, before_seq=part.last_seq + 1, max_bytes=READ_AT_ONCE)
        yield from page.records
        more = page.has_more and bool(page.records)
        seq = page.records[-1].seq if page.records else seq


def _position(after: str | None, stretches: int) -> tuple[int, int, int]:
    """Parses a position: the number of the stretch, from 0; the position in it up to which all records were written (a
    record's number, or a position of ``messages_from`` in ``agents.base.StoredConversations``); and the number of characters
    of the next record that were written. Raises ``ClientError`` if it is not valid."""
    numbers = (after or "0.0.0").split(".")
    if (
        len(numbers) != 3
        or not all(one.isascii() and one.isdigit() and len(one) < 18 for one in numbers)
        or int(numbers[0]) >= stretches
    ):
        raise ClientError(
            "VALIDATION_FAILED", "`after` is not valid. Use the `next` of the previous reply.", "data.after"
        )
    stretch, at, characters = map(int, numbers)
    return stretch, at, characters


def jsonl(record: Record) -> str:
    """A record as a line of JSON, in the form of the history even if only the agent has stored it."""
    return record.line.decode() + "\n"


class Markdown:
    """Writes records as human-readable Markdown."""

    def __init__(self, history: History, waited: Mapping[str, Waited]) -> None:
        self._history = history
        self._waited = waited

    def record(self, record: Record) -> str:
        """Returns the record as Markdown, or an empty string if the export does not show such records. Blocking."""
        found = _decoded(record)
        if found is None:
            return ""
        message, when = found["message"], found["timestamp"][:19].replace("T", " ")
        if record.direction == "claude":
            return "".join(map(_of_agent, content(record.line).texts))
        if not isinstance(message, dict):
            return ""
        if record.direction == "client":
            return self._prompt(message, when)
        return _of_server(message.get("subtype"), message.get("message"), when)

    def _prompt(self, message: dict[str, Any], when: str) -> str:
        """The prompt as Markdown, with its last text if it was edited in the queue."""
        run = message.get("run_id")
        waited = self._waited.get(run) if isinstance(run, str) and not message.get("steer") else None
        edit, drop = (self._of_queue(seq) for seq in ((waited.edited, waited.dropped) if waited else (None, None)))
        text = _text(_get(edit, "prompt") if edit else _get(message, "message", "prompt"))
        names = message.get("attachments")
        files = [_line(name) for name in names] if isinstance(names, list) else []
        attached = f"\n\nAttached: {', '.join(files)}" if files else ""
        notes = [f"> Edited in the queue by {_line(_get(edit, 'by'))}\n\n"] if edit else []
        notes += [f"> Removed from the queue by {_line(_get(drop, 'removed_by'))}: it never ran\n\n"] if drop else []
        by = _line(message.get("by"))
        heading = "In the terminal" if by == TERMINAL_NAME else by or "Prompt"
        return f"## {heading}, {when} UTC\n\n{text}{attached}\n\n{''.join(notes)}"

    def _of_queue(self, seq: int | None) -> dict[str, Any] | None:
        """The contents of the record of an edit or a removal; None if ``seq`` is None, or the record can't be read."""
        page = None if seq is None else self._history.read(after_seq=seq - 1, limit=1)
        found = _decoded(page.records[0]) if page is not None and page.records else None
        given = _get(found, "message", "message")
        return given if isinstance(given, dict) else None


def _decoded(record: Record) -> dict[str, Any] | None:
    """The decoded record; None if it contains a number that is out of range, or is nested too deeply."""
    try:
        found: dict[str, Any] = msgspec.json.decode(record.line)
    except UNDECODABLE:
        return None
    return found


def _of_agent(text: Text) -> str:
    match text.kind:
        case "answer":
            return f"{_text(text.text)}\n\n"
        case "tool":
            return f"**{_line(text.tool) or 'Tool'}**\n\n{_fenced(text.text)}"
        case "result":
            return f"<details><summary>Result</summary>\n\n{_fenced(text.text)}</details>\n\n"
        case _:
            return f"> {_line(text.text)}\n\n"


def _of_server(subtype: object, given: object, when: str) -> str:
    def word(name: str) -> str:
        return _line(_get(given, name))

    def words(name: str) -> list[str]:
        found = _get(given, name)
        return [_line(one) for one in found] if isinstance(found, list) else []

    def number(name: str) -> int:
        value = _get(given, name)
        return value if isinstance(value, int) else 0

    def decided() -> dict[str, Any]:
        return {
            "decision": word("decision"),
            "hunks": number("hunks"),
            "files": number("files"),
            "interrupted": _get(given, "interrupted") is True,
            "result": word("result"),
        }

    match subtype:
        case "permission_request":
            path = _line(_get(given, "proposal", "path"))
            return f"> Asked at {when} UTC: **{word('tool_name')}**{f' {path}' if path else ''}\n\n"
        case "permission_resolved":
            return _decision(given)
        case "permission_withdrawn":
            return f"> Withdrawn: {word('reason')}\n\n"
        case "run_finished" if word("outcome") != "completed" and not word("removed_by"):
            outcome, error = word("outcome"), word("error")
            return f"> Run {OUTCOMES.get(outcome, outcome)}{f': {error}' if error else ''}\n\n"
        case "run_reverted":
            files = _get(given, "files")
            count = len(files) if isinstance(files, list) else 0
            return f"> {word('by')} undid the changes to {counted(count, 'file')}\n\n"
        case "review_decided" if word("by"):
            is_cut = _get(given, "diff_truncated") is True
            return _decided(
                decided() | {"paths": words("paths")}, word("by"), _text(_get(given, "diff")), is_cut=is_cut
            )
        case "review_interrupted":
            return f"> {word('by')} {interrupted_words(decided() | {'changed': words('changed')})}\n\n"
        case "session_reset":
            return f"---\n\nNew session, {when} UTC\n\n"
        case "session_changed" if word("fork_from"):
            return f"---\n\nFork of the session {word('fork_from')}, {when} UTC\n\n"
        case "session_changed" if word("agent"):
            return f"---\n\nContinues the session {word('session_id')}, {when} UTC\n\n"
        case _:
            return ""


def _decided(decided: Mapping[str, Any], by: str, diff: str, *, is_cut: bool) -> str:
    """The decision on a review as Markdown, with what it changed in the files. ``is_cut``: ``diff`` is incomplete."""
    heading = f"> {by} {decided_words(decided)}\n"
    if len(decided["paths"]) > 1:  # the heading names a single file
        heading += f">\n> Files: {', '.join(decided['paths'])} {unnamed_words(decided)}".rstrip() + "\n"
    shown = _fenced(diff) if diff else ""
    return f"{heading}\n{shown}{CUT_DIFF}\n\n" if is_cut else f"{heading}\n{shown}"


def _decision(given: object) -> str:
    """The decision as Markdown, with the new text if the user has edited the proposal."""
    how = "Accepted" if _get(given, "decision") == "allow" else "Rejected"
    edits = " with edits" if _get(given, "edited") is True else ""
    comment = _line(_get(given, "message"))
    heading = f"> {how} by {_line(_get(given, 'by'))}{edits}{f': {comment}' if comment else ''}\n\n"
    text = _get(given, "new_text")
    return heading + (_fenced(text) if edits and isinstance(text, str) else "")


def _get(value: object, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str:
    return clean(value).strip() if isinstance(value, str) else ""


def _line(value: object) -> str:
    """The text on one line."""
    return " ".join(_text(value).split())


def _fenced(text: str) -> str:
    """The text as a block of code, with a fence that it does not contain."""
    text = clean(text)
    cut = f"{text[:LONGEST_VALUE]}\n…" if len(text) > LONGEST_VALUE else text
    fence = "`" * (max([2, *map(len, _FENCES.findall(cut))]) + 1)
    return f"{fence}\n{cut.rstrip()}\n{fence}\n\n"
