"""The events that a person is notified of while nobody has the page open, and the texts of these notifications. Pure.

They contain the project's name, and the tool of an approval or how a run ended; never a path, a prompt or an agent's
text, since they leave this machine through services of third parties.
"""

from __future__ import annotations

import json
from email.header import Header
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.server.events import ApprovalRequested, ApprovalResolved, Event, PermissionWithdrawn, RunFinished
from drawbridge.server.protocol.messages import IN_TERMINAL

LONGEST_NAME: Final = 60
"""Characters that are shown of a project's or a tool's name."""

OUTCOMES: Final = {"completed": "finished", "failed": "failed", "timeout": "took too long and was ended"}
"""How a run ended → the text. Interrupted and killed runs are left out: the person who did it knows."""


class Notice(Struct, frozen=True):
    """``approval_id``: of the approval that an agent waits for; empty if none does."""

    project_id: str
    title: str
    body: str
    approval_id: str = ""

    @property
    def urgent(self) -> bool:
        return bool(self.approval_id)


def notice(event: Event, project_id: str, directory: Path) -> Notice | None:
    """The notification of an event of the project in ``directory``; None if nobody has to be notified."""
    project = _name(directory.name)
    match event:
        case ApprovalRequested():
            about = f"A question about {_name(event.tool_name)}"
            return Notice(project_id, f"{project} waits for you", about, event.approval_id)
        case PermissionWithdrawn(reason=reason) if reason == IN_TERMINAL:
            return Notice(project_id, f"{project} waits for you", "A question in its terminal")
        case RunFinished(outcome=outcome) if outcome in OUTCOMES:
            return Notice(project_id, project, f"The run {OUTCOMES[outcome]}")
    return None


def closed(event: Event) -> str | None:
    """The id of the approval that this event has resolved or withdrawn."""
    match event:
        case ApprovalResolved() | PermissionWithdrawn():
            return event.approval_id
    return None


def push_payload(notice: Notice) -> bytes:
    """The content of the push message, for the page's service worker."""
    return json.dumps({"title": notice.title, "body": notice.body, "project": notice.project_id}).encode()


def webhook_request(notice: Notice) -> tuple[dict[str, str], bytes]:
    """Headers and body in ntfy's format: the title in a header (RFC 2047 if it is not ASCII), the text as the body."""
    title = notice.title if notice.title.isascii() else Header(notice.title, "utf-8", maxlinelen=10_000).encode()
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "Title": title,
        "Priority": "high" if notice.urgent else "default",
        "Tags": "question" if notice.urgent else "checkered_flag",
    }
    return headers, notice.body.encode()


def _name(text: str) -> str:
    """The name without characters that could do harm in a header, shortened for a small screen."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"
