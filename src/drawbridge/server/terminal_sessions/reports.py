"""Reports about a terminal session, which wait in a queue until it is their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from drawbridge.agents.base import Proposal
from drawbridge.agents.terminal import HookEvent, ProcessState
from drawbridge.server.events import ApprovalRequested
from drawbridge.server.terminal_sessions.peers import AskingHook
from drawbridge.server.terminal_sessions.shared_comments import LeftComments

RECORD_SECONDS: Final = 3.0
"""Seconds by which a transcript may be late (0.1 to 1 s with Claude Code 2.1.329, more on a busy machine)."""

PROMPT_SECONDS: Final = 1.0
"""Seconds by which a run's prompt may be late in the transcript when its agent asks something. This limit is shorter
because a person may be waiting for the question."""


class AfterText(Struct, frozen=True):
    """A report is processed after the agent's text ``text``, which the transcript may not contain yet."""

    text: str

    @property
    def seconds(self) -> float:
        """The maximum number of seconds that the report waits for the text."""
        return RECORD_SECONDS


class AfterPrompt(Struct, frozen=True):
    """A report is processed after the prompt of the current run, which the transcript may not contain yet."""

    @property
    def seconds(self) -> float:
        """The maximum number of seconds that the report waits for the prompt."""
        return PROMPT_SECONDS


Condition: TypeAlias = AfterText | AfterPrompt


class HookReport(Struct, frozen=True):
    """A hook's event. ``pid``: the PID of the agent's process. ``handed``: the comments that the hook handed over to
    the agent, if any."""

    event: HookEvent
    pid: int
    handed: LeftComments | None = None

    @property
    def after(self) -> Condition | None:
        """The condition under which the report is processed: the end of a turn follows the agent's last text."""
        is_end = self.event.name in ("Stop", "StopFailure")
        return AfterText(self.event.last_message) if is_end and self.event.last_message else None

    @property
    def ends_call(self) -> bool:
        """Whether a tool call has ended."""
        return self.event.name in ("PostToolUse", "PostToolUseFailure")

    @property
    def starts_process(self) -> bool:
        """Whether the agent's program has just been started, and has not reported its permission mode."""
        return self.event.is_new_process and not self.event.permission_mode


class QuestionReport(Struct, frozen=True):
    """A question from the agent. The hook ``asker`` waits for the answer. ``proposal``: the change that the question
    is about, if any. ``look``: as in ``PendingApproval.new``."""

    event: HookEvent
    asker: AskingHook
    proposal: Proposal | None
    look: ApprovalRequested | None

    @property
    def after(self) -> Condition | None:
        return AfterPrompt()


class _Unconditional(Struct, frozen=True):
    """A report that waits only for those before it."""

    @property
    def after(self) -> Condition | None:
        return None


class Disconnected(_Unconditional, frozen=True):
    """A hook that waited for an answer has disconnected."""

    asker: AskingHook


class ReturnTimeOver(_Unconditional, frozen=True):
    """The time in which hooks and bridges had to reconnect after a restart is over."""


class Barrier(_Unconditional, frozen=True):
    """Something waits until all reports before this one have been processed. ``done`` then gets its result."""

    done: asyncio.Future[None]


class ProcessCheck(_Unconditional, frozen=True):
    """The agent's processes were checked because nothing had been reported for a while. ``states``: what the agent's
    own files contain about the process that is working and the process that reported last, by PID. Empty while an
    approval request is open, or if no transcript is read."""

    states: Mapping[int, ProcessState]


Report: TypeAlias = HookReport | QuestionReport | Disconnected | ReturnTimeOver | Barrier | ProcessCheck
