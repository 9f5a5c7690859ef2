"""The events that cause a notification by push or webhook, and the texts of these notifications. Pure.

The texts contain the project's name, and either the kind of an approval request or the name of its tool, or how a run
ended and how much is left to review. They never contain a path, a prompt or an agent's text, because notifications
leave this machine through third-party services. The exception is a push to a browser in which the user has turned on
actions in notifications. It contains the command of an approval request, if the command is short and plain, so that the
user can decide on it without opening the web UI. A push is encrypted for its browser.
"""

from __future__ import annotations

import json
import unicodedata
from email.header import Header
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from drawbridge.core.terminal_text import harmless
from drawbridge.server.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    PermissionWithdrawn,
    ReviewChanged,
    RunFinished,
)
from drawbridge.server.protocol.messages import IN_TERMINAL

LONGEST_NAME: Final = 60
"""The maximum number of characters that are shown of a project's or a tool's name."""

OUTCOMES: Final = {"completed": "Run finished", "failed": "Run failed", "timeout": "Run timed out"}
"""The text for each outcome. Interrupted and killed runs are left out, because usually a user ended them."""


LONGEST_COMMAND: Final = 120
"""The maximum length of a command that a phone shows in full, in characters."""

RIGHT_TO_LEFT: Final = frozenset({"R", "AL", "AN"})
"""The bidirectional classes of letters that a system draws from right to left, and of Arabic digits, which can also
change the order of the characters around them."""


class Notice(Struct, frozen=True):
    """A notification. ``approval_id``: the open approval request that it is about; empty for other notifications.
    ``command``: see ``whole_command``; empty for other notifications. ``review``: whether the notification is about the
    review, and opens it.
    """

    project_id: str
    title: str
    body: str
    approval_id: str = ""
    command: str = ""
    review: bool = False

    @property
    def urgent(self) -> bool:
        return bool(self.approval_id)


def notice(event: Event, project_id: str, directory: Path, review: ReviewChanged | None = None) -> Notice | None:
    """The notification for an event of the project in ``directory``; None if nobody has to be notified. ``review``: the
    numbers of changes to review after a run; None if nothing has to be reviewed.
    """
    project = _name(directory.name)
    match event:
        case ApprovalRequested():
            about = _name(event.summary or f"Use {event.tool_name}")
            return Notice(project_id, f"{project} needs you", about, event.approval_id, whole_command(event))
        case PermissionWithdrawn(reason=reason) if reason == IN_TERMINAL:
            return Notice(project_id, f"{project} needs you", "Answer in the agent's terminal")
        case RunFinished(outcome=outcome) if outcome in OUTCOMES:
            if review is None:
                return Notice(project_id, project, OUTCOMES[outcome])
            to_review = f"{review.files:,} {'file' if review.files == 1 else 'files'} to review"
            if outcome == "completed":
                title, parts = f"{project}: {to_review}", [OUTCOMES[outcome]]
            else:
                title, parts = project, [OUTCOMES[outcome], to_review]
            if review.added or review.removed:  # both are 0 if only images were changed, for example
                parts.append(f"+{review.added} \N{MINUS SIGN}{review.removed}")
            return Notice(project_id, title, " · ".join(parts), review=True)
    return None


def closed(event: Event) -> str | None:
    """The id of the approval request that this event resolves or withdraws; None for any other event."""
    match event:
        case ApprovalResolved() | PermissionWithdrawn():
            return event.approval_id
    return None


def whole_command(request: ApprovalRequested) -> str:
    """The shell command that an approval request is about, if a notification can show it in full and the decision does
    not require anything else to be shown; otherwise empty."""
    call = request.call
    if call is None or not call.is_only_command:
        return ""
    if request.proposal is not None or request.link_targets or request.blocked_path:
        return ""
    if request.risks:  # the web UI marks the risks, but a notification can't
        return ""
    command = (request.given or {}).get(call.command)
    if not isinstance(command, str):
        return ""
    is_short = command.strip() == command and 0 < len(command) <= LONGEST_COMMAND
    return command if is_short and _is_plain(command) else ""


def _is_plain(command: str) -> bool:
    """Whether every system draws the whole command in the order in which it is written. A notification can't ensure
    that, because right-to-left letters reorder the characters around them, marks can be drawn over a letter, and a row
    of spaces can move the end out of view."""
    # Line breaks are not printable, nor are most characters that are invisible or change the direction of the text.
    if not command.isprintable() or harmless(command) != command or "  " in command:
        return False
    return not any(
        unicodedata.bidirectional(character) in RIGHT_TO_LEFT or unicodedata.category(character).startswith("M")
        for character in command
    )


def push_payload(notice: Notice, token: str | None = None) -> bytes:
    """The content of the push message, for the web UI's service worker. ``token``: the token for the decision; None
    unless the device may decide, its user has turned on actions in notifications, and the notification shows the whole
    command.
    """
    fields: dict[str, Any] = {"title": notice.title, "body": notice.body, "project": notice.project_id}
    if notice.review:
        fields["review"] = True
    if token is not None:
        fields |= {"body": notice.command, "approval_id": notice.approval_id, "whole": True, "token": token}
    return json.dumps(fields).encode()


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
    """The name, shortened for a small screen. Each character that could do harm in a header is replaced."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"
