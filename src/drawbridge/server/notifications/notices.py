"""What is worth a person's notice while nobody looks at the page, and in which words. Pure.

Of a question the project's name and the tool, of a run the project's name and how it ended: never a path, a prompt or a
word that an agent wrote. What is told leaves this machine, by services of others.
"""

from __future__ import annotations

import json
from email.header import Header
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from drawbridge.server.protocol.desk_messages import IN_TERMINAL

LONGEST_NAME: Final = 60
"""Characters of a project's or a tool's name."""

OUTCOMES: Final = {"completed": "finished", "failed": "failed", "timeout": "took too long and was ended"}
"""What is told of the end of a run. Who interrupts or kills one knows that it is over."""


SETTLED: Final = ("permission_resolved", "permission_withdrawn")


class Notice(Struct, frozen=True):
    """``approval_id``: of the question for whose answer an agent stands still; empty where none does."""

    project_id: str
    title: str
    body: str
    approval_id: str = ""

    @property
    def urgent(self) -> bool:
        return bool(self.approval_id)


class _Event(Struct):
    outcome: str = ""
    approval_id: str = ""
    reason: str = ""


class _Data(Struct):
    tool_name: str = ""
    approval_id: str = ""
    update_type: str = ""
    data: _Event | None = None


class _Said(Struct):
    type: Literal["permission_request", "update"]
    data: _Data
    project_id: str = ""


_said: Final = msgspec.json.Decoder(_Said)


def notice(message: bytes, directory: Path) -> Notice | None:
    """Of a message to the clients about the project in ``directory``; None where nobody has to be told."""
    try:
        said = _said.decode(message)
    except msgspec.DecodeError:
        return None
    project = _name(directory.name)
    if said.type == "permission_request":
        about = f"A question about {_name(said.data.tool_name)}"
        return Notice(said.project_id, f"{project} waits for you", about, said.data.approval_id)
    event = said.data.data
    if event is not None and said.data.update_type == "permission_withdrawn" and event.reason == IN_TERMINAL:
        return Notice(said.project_id, f"{project} waits for you", "A question in its terminal")
    ended = OUTCOMES.get(said.data.data.outcome) if said.data.data and said.data.update_type == "run_finished" else None
    return Notice(said.project_id, project, f"The run {ended}") if ended else None


def settled(message: bytes) -> str | None:
    """The question that, by a message to the clients, needs nobody any more."""
    try:
        data = _said.decode(message).data
    except msgspec.DecodeError:
        return None
    return data.data.approval_id if data.data and data.update_type in SETTLED else None


def push_payload(notice: Notice) -> bytes:
    """What the page's service worker is sent."""
    return json.dumps({"title": notice.title, "body": notice.body, "project": notice.project_id}).encode()


def webhook_request(notice: Notice) -> tuple[dict[str, str], bytes]:
    """Headers and body, as ntfy takes them: the title in a header (RFC 2047 where it is not ASCII), the text as the body."""
    title = notice.title if notice.title.isascii() else Header(notice.title, "utf-8", maxlinelen=10_000).encode()
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "Title": title,
        "Priority": "high" if notice.urgent else "default",
        "Tags": "question" if notice.urgent else "checkered_flag",
    }
    return headers, notice.body.encode()


def _name(text: str) -> str:
    """As far as it is harmless in a header and on a small screen."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"
