"""Gemini CLI's tools. openDiff answers immediately, and the decision follows as a notification. Does no I/O.

The CLI asks in its own terminal at the same time, keeps one proposal open at a time and never offers these tools to the
model.
"""

from __future__ import annotations

from typing import Annotated, Protocol

from msgspec import Meta

from drawbridge.ide.tools.tool import Arguments, Content, Tool, json_text


class GeminiContext(Protocol):
    """The operations that a tool may use on behalf of one session. A proposal is identified by the exact ``file_path``
    of its openDiff call."""

    def propose(self, file_path: str, new_content: str) -> None:
        """Shows a proposal without waiting. A notification with the decision follows."""
        ...

    async def withdraw(self, file_path: str) -> str | None:
        """Withdraws a proposal without a notification. Returns its text with the user's edits; None if it is not shown,
        or the editor does not answer."""
        ...

    async def decide(self, file_path: str, *, accept: bool) -> bool:
        """Decides on a proposal as the user would. Returns False if it is not shown, or was already decided."""
        ...


class OpenDiff(Arguments, frozen=True):
    file_path: Annotated[str, Meta(description="The file that would be written; absolute.")]
    new_content: Annotated[str, Meta(description="The complete proposed text.")]


class CloseDiff(Arguments, frozen=True):
    file_path: Annotated[str, Meta(description="The file, as openDiff named it.")]
    suppress_notification: Annotated[bool, Meta(description="Has no effect: closing never notifies.")] = False


class DecideDiff(Arguments, frozen=True):
    file_path: Annotated[str, Meta(description="The file, as openDiff named it.")]


async def open_diff(context: GeminiContext, arguments: OpenDiff) -> Content:
    context.propose(arguments.file_path, arguments.new_content)
    return []


async def close_diff(context: GeminiContext, arguments: CloseDiff) -> Content:
    """Answers with JSON, not with the bare text, because the real CLI discards anything else and writes the unedited
    proposal (0.61.0)."""
    text = await context.withdraw(arguments.file_path)
    return json_text({} if text is None else {"content": text})


async def accept_diff(context: GeminiContext, arguments: DecideDiff) -> Content:
    return json_text({"decided": await context.decide(arguments.file_path, accept=True)})


async def reject_diff(context: GeminiContext, arguments: DecideDiff) -> Content:
    return json_text({"decided": await context.decide(arguments.file_path, accept=False)})


TOOLS = (
    Tool(
        "openDiff",
        "Propose a change to a file. Returns immediately; the decision arrives as a notification.",
        OpenDiff,
        open_diff,
    ),
    Tool("closeDiff", "Withdraw a proposal and return its current text.", CloseDiff, close_diff),
    Tool("acceptDiff", "Accept an open proposal as the user would.", DecideDiff, accept_diff),
    Tool("rejectDiff", "Reject an open proposal as the user would.", DecideDiff, reject_diff),
)
