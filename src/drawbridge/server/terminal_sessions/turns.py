"""The turns of an agent in a terminal, what it left running in the background, and how hooks' events and entries of the
transcript change both. Pure. What follows from a change is returned as values, in order.

Hooks and the transcript report the same turns, each at its own time, and each may miss some. A turn is shown as a run.
Each run begins once and ends once. If the agent continues a turn that was over, a new run begins.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import Struct

from drawbridge.agents import base
from drawbridge.agents.terminal import AskingAgent, Entry, HookEvent, Message, Prompt, Task, TurnOver
from drawbridge.server.protocol.messages import Outcome
from drawbridge.server.terminal_sessions.dialog import Latest
from drawbridge.server.terminal_sessions.prompt_text import same_words
from drawbridge.server.terminal_sessions.turn import MOST_TASKS, Background, Clock, Turn

LONGEST_ERROR: Final = 500
"""The maximum length of a failed run's error text, in characters."""

COPIED: Final = "fork"
"""The ``source`` of a ``SessionStart`` if the session begins as a copy of another one."""

IDLE_SECONDS = 3.0
"""Seconds that the agent must have been waiting for a prompt before its run counts as over although its end was not
reported. A hook or the conversation's file would have reported it sooner."""


class PromptBegun(Struct, frozen=True):
    """A hook reported that the agent started on ``prompt`` in its turn ``turn``."""

    turn: str
    prompt: str


class PromptFound(Struct, frozen=True):
    """The transcript contains a prompt of the run ``run``, which is active or begins with it."""

    entry: Prompt
    run: str


class EarlierPromptFound(Struct, frozen=True):
    """The transcript contains a prompt of the run ``run``, which was over before this server knew about it."""

    entry: Prompt
    run: str


class RunBegun(Struct, frozen=True):
    run: str


class RunFinished(Struct, frozen=True):
    """A run is over. ``seconds``: its duration. ``quiet``: it ended earlier, so its end does not cause a notification,
    and ``seconds`` is 0. ``error``: the reason for its failure, for people. ``code``: the client protocol's code for
    the failure, if it has one."""

    run: str
    outcome: Outcome
    seconds: float = 0.0
    quiet: bool = False
    error: str | None = None
    code: str | None = None


class MainAgentStopped(Struct, frozen=True):
    """The main agent in the process ``pid`` (None if it is not known) has stopped, so it does not wait for answers."""

    pid: int | None


class SubagentStopped(Struct, frozen=True):
    """The subagent ``agent`` of the process ``pid`` has stopped."""

    pid: int | None
    agent: str


class OnlyRunning(Struct, frozen=True):
    """In the process ``pid``, only the background tasks ``tasks`` are still running."""

    pid: int | None
    tasks: tuple[str, ...]


class EverythingEnded(Struct, frozen=True):
    """Nothing that the session's processes were running is still running."""


Change: TypeAlias = (
    PromptBegun
    | PromptFound
    | EarlierPromptFound
    | RunBegun
    | RunFinished
    | MainAgentStopped
    | SubagentStopped
    | OnlyRunning
    | EverythingEnded
)


class StoredTurns(Struct, frozen=True):
    """The facts about the turns that are needed after a restart. The fields are described in ``Facts``."""

    works: int | None = None
    rests: bool = False
    tasks: tuple[Task, ...] = ()
    turns: tuple[str, ...] = ()
    past: tuple[str, ...] = ()


class Turns:
    """The turns of one session. In all methods, ``pid`` is the PID of the agent's process that reports (None if it is
    not known), and ``prompt`` is the text of the reported prompt. If a client has sent the prompt, it is the text that
    the client sent."""

    def __init__(self, agent: AskingAgent, clock: Clock, past: Iterable[str] = ()) -> None:
        """``past``: the ids of turns that are over."""
        self.current: Turn | None = None
        self.last_text = ""
        """The agent's latest text in this run; empty if a tool call or a result came with it or after it."""
        self._agent = agent
        self._clock = clock
        self._past: Latest[str, None] = Latest()
        """The ids of the latest turns that are over."""
        self.remember(past)
        self._background: dict[int | None, Background] = {}
        """The background tasks of each process."""
        self._is_copy = False
        """Whether the conversation is a copy of another one, and its file has no new prompt yet."""
        self._copys_prompt = ""
        """The uuid of a copy's first new prompt, if it is among the entries that are processed next; otherwise
        empty."""
        self._carried = ""
        """The id of the turn that was active at the last restart and continued after it; otherwise empty."""

    # The state of the turns.

    @property
    def is_resting(self) -> bool:
        """Whether the agent waits for the next prompt. Its background tasks may still be running."""
        return self.current is None or self.current.is_resting

    @property
    def running(self) -> int:
        """The number of background tasks."""
        return sum(len(one) for one in self._background.values())

    @property
    def tasks(self) -> tuple[base.Task, ...]:
        """The background tasks as clients see them, at most ``MOST_TASKS``."""
        return tuple(task for one in self._background.values() for task in one.shown)[:MOST_TASKS]

    @property
    def stored(self) -> StoredTurns:
        past, turn = tuple(self._past), self.current
        if turn is None:
            return StoredTurns(past=past)
        tasks = self._of(turn.process).stored if turn.is_resting else ()
        return StoredTurns(turn.process, turn.is_resting, tasks, turn.ids, past)

    def begins(self, event: HookEvent) -> bool:
        """Whether the event is a prompt for the main agent that belongs to no earlier turn."""
        return event.name == "UserPromptSubmit" and event.agent_id is None and event.turn not in self._past

    # Restarts.

    def restore(self, run: str, age: float, stored: StoredTurns, works: int | None) -> None:
        """Continues a run that was active before a restart, and began ``age`` seconds ago. ``works``: the PID of the
        process that works on it, if it is known."""
        turn = Turn(run, self._clock, process=works, reported=False, age=age)
        for id in stored.turns:
            turn.add(id)
        if stored.rests:
            turn.rest()
            self._of(works).carry(stored.tasks)
        self.current, self._carried = turn, run

    def remember(self, past: Iterable[str]) -> None:
        """Adds turns that are over."""
        for id in past:
            self._past[id] = None

    # Events from hooks.

    def hook(self, event: HookEvent, pid: int | None, *, prompt: str = "", is_alone: bool = True) -> list[Change]:
        """Applies a hook's event, except the end of a session. ``is_alone``: whether no other process has the
        conversation open."""
        agent = event.agent_id
        if event.name == "SessionStart":
            self._is_copy = event.source == COPIED
        match event.name:
            case "SessionStart" if event.source not in ("compact", "") and is_alone:
                return self.end("completed", pid, quiet=True)
            case "UserPromptSubmit" if self.begins(event):
                begun = self._begin(event.turn, pid, prompt, follows=event.follows, recorded=event.continues)
                return [PromptBegun(event.turn, event.prompt), *begun]
            case "UserPromptSubmit" if agent is not None:
                return self._work(event, pid)
            case "PostToolUse" | "PostToolUseFailure" if self.current is None and not event.turn:
                return []  # the turn may be over already, because the user has interrupted the call
            case "PermissionRequest" | "PreToolUse" | "PostToolUse" | "PostToolUseFailure":
                return self._work(event, pid)
            case "SubagentStart" if agent is not None:
                self.subagent_runs(agent, pid, event.agent_type)
            case "SubagentStop" if agent is not None:
                self._of(pid).remove(agent)
                return [SubagentStopped(pid, agent)]
            case "Stop":
                return self._stop(event, pid)
            case "StopFailure" if not self._is_past(event.turn):
                error = event.last_message[:LONGEST_ERROR] or None
                return self._finish("failed", pid, error=error, code=event.code)
            case "Interrupt" if not self._is_past(event.turn):
                return self._finish("interrupted", pid)
        return []

    def subagent_runs(self, agent: str, pid: int | None, type: str | None = None) -> None:
        """Adds the subagent ``agent`` of the process, which is running."""
        self._of(pid).add_subagent(agent, type)

    def reconnected(self, run: str, agent: str | None, pid: int | None) -> None:
        """Handles a question of the run ``run`` that the process has reported again. ``agent``: the subagent that asks,
        which runs in this process and in no other; None for the main agent."""
        if agent is not None:
            for one in self._background.values():
                one.remove(agent)
            self.subagent_runs(agent, pid)
        elif self.current is not None and self.current.id == run:
            self.current.continued(pid, "", reported=False)

    def set_tasks(self, event: HookEvent, pid: int | None) -> None:
        """Sets what the process has left running, if the event reports it."""
        if event.tasks is not None:
            self._of(pid).set(event.tasks)

    def begin_after_stop(self, run: str, turn: str, prompt: str, pid: int | None) -> list[Change]:
        """Begins the run ``run`` with which the agent continues after it has stopped, unless it has begun already. To the
        agent, that run belongs to the same turn, ``turn``."""
        changes: list[Change] = []
        if self.current is None or self.current.id != run:
            changes += self._finish("completed", pid)
            changes += self._begin(run, pid, prompt)
        if self.current is not None:
            self.current.add(turn)
        return changes

    def _work(self, event: HookEvent, pid: int | None) -> list[Change]:
        """Handles an event that shows that the main agent or one of its subagents is working. A subagent may outlive
        the turn that started it."""
        if event.agent_id is not None:
            self.subagent_runs(event.agent_id, pid, event.agent_type)
        elif not self._is_past(event.turn):
            return self._begin(event.turn, pid)
        return []

    def _stop(self, event: HookEvent, pid: int | None) -> list[Change]:
        """Handles the stop of the main agent. Its turn is over unless it has left something running in the background.
        In that case, the turn rests."""
        self.set_tasks(event, pid)
        changes: list[Change] = [OnlyRunning(pid, tuple(self._of(pid).ids))]
        if not self._is_past(event.turn):
            changes += self._complete_or_rest(pid)
        return changes

    # Entries of the transcript.

    def expect_prompt(self, entries: Iterable[Entry]) -> None:
        """Finds the first new prompt of a copy among the entries that are passed to ``entry`` next: the last one with the
        same words as the current turn's prompt, because an earlier prompt may have the same words. A copy's file is
        written all at once, and the first read reaches its end."""
        if self._is_copy:
            prompts = [one for one in entries if isinstance(one, Prompt) and not one.foreign]
            same = [prompt.uuid for prompt in prompts if self._is_same(prompt)]
            self._copys_prompt = same[-1] if same else ""

    def entry(
        self, entry: Entry, pid: int | None, *, prompt: str = "", quiet: bool = False, late: bool = False
    ) -> list[Change]:
        """Applies an entry. ``quiet``: whether it is older than the session. ``late``: whether it may have been written
        while no server ran."""
        match entry:
            case Prompt():
                return self._prompt_entry(entry, pid, prompt)
            case Message():
                return self._message_entry(entry, pid, quiet=quiet, late=late)
            case TurnOver() if self.current is not None and _ends(entry, self.current):
                if entry.outcome == "completed":
                    return self._complete_or_rest(self.current.process, quiet=quiet)
                return self._finish_current(entry.outcome, pid, quiet=quiet, error=entry.error, code=entry.code)
        return []

    def _prompt_entry(self, entry: Prompt, pid: int | None, prompt: str) -> list[Change]:
        """Applies a prompt. It begins a turn unless it was added to the current one or belongs to an earlier one."""
        turn = self.current
        is_current = turn is not None and turn.has(entry.turn)
        is_expected = entry.uuid == self._copys_prompt if self._is_copy else is_current or self._is_same(entry)
        if turn is not None and is_expected:
            turn.found()
            self._is_copy = False
        is_earlier = turn is not None and not turn.recorded
        if entry.turn and entry.turn not in self._past and not entry.foreign and not is_earlier:
            over = [] if is_current else self._finish("completed", pid, quiet=True)
            begun = self._begin(entry.turn, pid, prompt, reported=False)
            return [*over, PromptFound(entry, entry.turn), *begun]
        if turn is not None and not entry.foreign and not is_earlier:
            return [PromptFound(entry, turn.id)]
        run = entry.turn if entry.turn and entry.turn not in self._past and not is_current else entry.uuid
        self.remember([run])
        return [EarlierPromptFound(entry, run)]

    def _message_entry(self, entry: Message, pid: int | None, *, quiet: bool, late: bool) -> list[Change]:
        # Text before a call is not the agent's last text, even if the last text has the same words.
        self.last_text = "" if entry.calls or entry.results else entry.text or self.last_text
        if entry.foreign:
            return []
        changes: list[Change] = []
        turn = self.current if entry.ends_turn else None
        if turn is not None and not turn.reported and (late or turn.id == self._carried):
            changes += self._end_unreported(turn, entry, quiet=quiet)
        if entry.interrupted and (self.current is None or self.current.recorded):
            changes += self._finish_current("interrupted", pid, quiet=quiet)
        return changes

    def _end_unreported(self, turn: Turn, entry: Message, *, quiet: bool) -> list[Change]:
        """Ends the current turn because its last message, ``entry``, was read. The hook that reports the end may not
        have found a server."""
        self._of(turn.process).forget_carried()  # the agent knows that these tasks have ended
        if not entry.failed:
            return self._finish("completed", turn.process, quiet=quiet)
        error = entry.text[:LONGEST_ERROR] or None
        return self._finish("failed", turn.process, quiet=quiet, error=error, code=entry.code)

    def _is_same(self, entry: Prompt) -> bool:
        """Whether the current turn began with the words of this prompt. In a copy of a conversation, the prompt's id
        does not show that: the CLI writes the earlier prompts with the id of the first new one (2.1.329)."""
        return self.current is not None and same_words(self._agent, self.current.prompt, entry.text)

    # Changes that are neither reported nor in the transcript.

    def check(self, idle: float | None) -> list[Change]:
        """Ends a run in two cases: its agent has stopped and no background task has to be waited for, or the agent has
        been waiting for a prompt for ``idle`` seconds although no hook has reported that it has stopped. In the second
        case, the user has withdrawn the prompt. ``idle``: None if the agent is not waiting, or if that is not known.
        Between runs, forgets background tasks that no longer have to be waited for.
        """
        turn = self.current
        if turn is None:
            over = [pid for pid, one in self._background.items() if one and one.is_over]
            return [self._forget_tasks(pid) for pid in over]
        if turn.is_resting:
            if not self._of(turn.process).is_over:
                return []
            return [*self._finish("completed", turn.process), self._forget_tasks(turn.process)]
        if idle is not None and turn.age > idle > IDLE_SECONDS:
            return self._finish("interrupted", turn.process)
        return []

    def _forget_tasks(self, pid: int | None) -> Change:
        """Forgets the background tasks of a process. The main agent is not working."""
        self._of(pid).set({})
        return OnlyRunning(pid, ())

    def leave(self, pid: int | None, outcome: Outcome, *, quiet: bool = False) -> list[Change]:
        """Ends the run of a process that has ended or has closed the conversation, which other processes have open. If
        one of them is working, its next hook begins a new run. ``outcome`` and ``quiet`` are about the run of this
        process."""
        self.forget(pid)
        is_own = self.current is not None and self.current.process in (pid, None)
        return self._finish(outcome, pid, quiet=quiet) if is_own else []

    def forget(self, pid: int | None) -> None:
        """Forgets the background tasks of a process that has ended, or of an unknown process if ``pid`` is None."""
        self._background.pop(pid, None)

    def end(self, outcome: Outcome, pid: int | None, *, quiet: bool = False) -> list[Change]:
        """Ends everything that the session's processes were running, because they have ended or closed the conversation,
        or because another one has opened the conversation since."""
        self._background.clear()
        return [EverythingEnded(), *self._finish(outcome, pid, quiet=quiet)]

    def interrupt(self, pid: int | None) -> list[Change]:
        """Ends the current run, because nothing shows that its agent is still running."""
        return self._finish("interrupted", pid)

    def close(self) -> None:
        """Forgets the current turn, because the session is closed. The next server continues it."""
        self.current = None

    # Beginnings and ends of turns.

    def _of(self, pid: int | None) -> Background:
        """The background tasks of the process."""
        if pid not in self._background:
            self._background[pid] = Background(self._clock, is_complete=self._agent.reports_tasks)
        return self._background[pid]

    def _is_past(self, turn: str) -> bool:
        """Whether ``turn`` was over before the current one began. False if no turn is active."""
        return self.current is not None and not self.current.has(turn) and turn in self._past

    def _begin(
        self,
        turn: str,
        pid: int | None,
        prompt: str = "",
        *,
        follows: bool = False,
        recorded: bool = True,
        reported: bool = True,
    ) -> list[Change]:
        """Begins a run for a turn of the agent, unless that turn is already running. ``follows``: whether it continues
        the current turn, if any. ``recorded``, ``reported``: as in ``Turn``. If the agent continues a turn that was
        over, a new run begins, because each run ends only once.
        """
        current = self.current
        if current is not None and (not turn or follows or current.has(turn)):
            current.add(turn or current.id)
            current.continued(pid, prompt, reported=reported)
            return []
        over = self._finish("completed", pid, quiet=True)
        id = turn if turn and turn not in self._past else f"turn_{uuid.uuid4().hex[:16]}"
        prompt = "" if follows else prompt
        self.current = Turn(id, self._clock, prompt, process=pid, recorded=recorded, reported=reported)
        if turn:
            self.current.add(turn)
        self.last_text = ""
        return [*over, RunBegun(id)]

    def _complete_or_rest(self, pid: int | None, *, quiet: bool = False) -> list[Change]:
        """Ends the main agent's turn, or lets it rest until what it left running has ended. ``quiet``: as in
        ``RunFinished``."""
        if self.current is None or not self._of(pid):
            return self._finish("completed", pid, quiet=quiet)
        self.current.rest()
        return [MainAgentStopped(pid)]

    def _finish_current(
        self, outcome: Outcome, pid: int | None, *, quiet: bool, error: str | None = None, code: str | None = None
    ) -> list[Change]:
        """Like ``_finish``. The process that works on the current turn counts, not the one that has reported, unless no
        turn is active."""
        working = self.current.process if self.current is not None else pid
        return self._finish(outcome, working, quiet=quiet, error=error, code=code)

    def _finish(
        self,
        outcome: Outcome,
        pid: int | None,
        *,
        quiet: bool = False,
        error: str | None = None,
        code: str | None = None,
    ) -> list[Change]:
        """Ends the main agent's turn, if one is active. The arguments are as in ``RunFinished``."""
        changes: list[Change] = [MainAgentStopped(pid)]
        turn, self.current = self.current, None
        if turn is not None:
            self.remember([turn.id])
            seconds = 0.0 if quiet else turn.age
            changes.append(RunFinished(turn.id, outcome, seconds, quiet, error, code))
        return changes


def _ends(entry: TurnOver, turn: Turn) -> bool:
    """Whether ``turn``, the current one, is the one that is over."""
    return turn.has(entry.turn) if entry.turn else turn.recorded
