"""A run, which is one turn of an agent from the accepted prompt to its end, and the table of its states. Pure.

The table shows which state follows from an event, and what the run's owner has to do. An event that is not in the table
for a state changes nothing there. ``RunController`` is the owner; a run that waits belongs to the ``PromptQueue``.

=============  ===============================================================================  ====  =======
state          meaning                                                                          slot  process
=============  ===============================================================================  ====  =======
QUEUED         The prompt waits for the runs before it.
WAITING        It is the session's next run, and waits for a slot.                              asked
STARTING       It has begun, and its process is being prepared.                                 yes   yes
CANCELED       It was interrupted before the process got its prompt; the process is kept.       yes   yes
RUNNING        The process has its prompt, or the agent began the turn itself (without a slot). yes   yes
INTERRUPTING   The agent was asked to end the turn; the process is kept.                        yes   yes
ENDING         Its process is being ended, and the run with it.                                 yes   yes
FINISHED       It has ended, with one outcome. Nothing changes that.
=============  ===============================================================================  ====  =======

==============  ======================================  ======================================================
event           in                                      leads to, and what has to be done
==============  ======================================  ======================================================
NEXT            QUEUED                                  WAITING: request a slot
PUT_BACK        WAITING                                 QUEUED: give up the slot
SLOT            WAITING                                 STARTING: prepare the process
TURN_BEGUN      QUEUED                                  RUNNING: use the process
READY           STARTING                                RUNNING: send the prompt
READY           CANCELED                                FINISHED: finish
READY           ENDING, FINISHED                        the same: leave the process, which nobody needs
UNUSABLE        STARTING, CANCELED, ENDING              FINISHED: finish
TURN_ENDED      RUNNING, INTERRUPTING, ENDING           FINISHED: finish
EXITED          RUNNING, INTERRUPTING, ENDING           FINISHED: finish (before that, it gets another process)
INTERRUPT       WAITING                                 FINISHED: finish
INTERRUPT       STARTING                                CANCELED: interrupt the agent
INTERRUPT       RUNNING                                 INTERRUPTING: interrupt the agent
STOP            STARTING, RUNNING                       ENDING: end the process
GIVE_UP         STARTING, CANCELED, RUNNING,            ENDING: end the process
                INTERRUPTING
KILL            WAITING                                 FINISHED: finish
KILL            STARTING, CANCELED, RUNNING,            ENDING: end the process
                INTERRUPTING, ENDING
PROCESS_ENDED   ENDING                                  FINISHED: finish
DROP            all but FINISHED                        FINISHED: finish
==============  ======================================  ======================================================
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from msgspec import Struct

from drawbridge.agents.base import Attachment, Options, Tokens
from drawbridge.server.events import Outcome, PromptFile, PromptImage, Submission


class State(Enum):
    QUEUED = "queued"
    WAITING = "waiting"
    STARTING = "starting"
    CANCELED = "canceled"
    RUNNING = "running"
    INTERRUPTING = "interrupting"
    ENDING = "ending"
    FINISHED = "finished"


class Event(Enum):
    """The events of a run."""

    NEXT = "next"
    PUT_BACK = "put back"
    """The run returns to the queue, because another one precedes it."""
    SLOT = "slot"
    TURN_BEGUN = "turn begun"
    """The agent has begun the turn without a prompt."""
    READY = "ready"
    """A process has been prepared for the run."""
    UNUSABLE = "unusable"
    """The run may not begin, or no process can be prepared for it."""
    TURN_ENDED = "turn ended"
    EXITED = "exited"
    INTERRUPT = "interrupt"
    """A person ends the turn."""
    STOP = "stop"
    """The server ends the run because it may not continue. An agent that is already ending its turn is allowed to
    finish.
    """
    GIVE_UP = "give up"
    """The server ends the run because it has reached a time limit, or because an unexpected error occurred when it
    began.
    """
    KILL = "kill"
    """A person ends the run with its process."""
    PROCESS_ENDED = "process ended"
    """The process of a run that is ENDING has ended."""
    DROP = "drop"
    """The prompt was removed from the queue, or the session is being closed."""


class Do(Enum):
    """The actions of a run's owner after an event."""

    REQUEST_SLOT = "request a slot"
    GIVE_UP_SLOT = "give up the slot"
    PREPARE = "prepare the process"
    USE = "use the process"
    PROMPT = "send the prompt"
    INTERRUPT = "interrupt the agent"
    END_PROCESS = "end the process"
    LEAVE = "leave the process"
    FINISH = "finish"
    """Release the slot and the process, and report the end of the run."""


BEGUN: Final = (State.STARTING, State.CANCELED, State.RUNNING, State.INTERRUPTING, State.ENDING)
"""The states in which the run uses the session's process."""

_TURN: Final = (State.RUNNING, State.INTERRUPTING, State.ENDING)

STEPS: Final[dict[tuple[State, Event], tuple[State, Do]]] = {
    (State.QUEUED, Event.NEXT): (State.WAITING, Do.REQUEST_SLOT),
    (State.WAITING, Event.PUT_BACK): (State.QUEUED, Do.GIVE_UP_SLOT),
    (State.WAITING, Event.SLOT): (State.STARTING, Do.PREPARE),
    (State.QUEUED, Event.TURN_BEGUN): (State.RUNNING, Do.USE),
    (State.STARTING, Event.READY): (State.RUNNING, Do.PROMPT),
    (State.CANCELED, Event.READY): (State.FINISHED, Do.FINISH),
    (State.ENDING, Event.READY): (State.ENDING, Do.LEAVE),
    (State.FINISHED, Event.READY): (State.FINISHED, Do.LEAVE),
    **{
        (state, Event.UNUSABLE): (State.FINISHED, Do.FINISH) for state in (State.STARTING, State.CANCELED, State.ENDING)
    },
    **{(state, Event.TURN_ENDED): (State.FINISHED, Do.FINISH) for state in _TURN},
    **{(state, Event.EXITED): (State.FINISHED, Do.FINISH) for state in _TURN},
    (State.WAITING, Event.INTERRUPT): (State.FINISHED, Do.FINISH),
    (State.STARTING, Event.INTERRUPT): (State.CANCELED, Do.INTERRUPT),
    (State.RUNNING, Event.INTERRUPT): (State.INTERRUPTING, Do.INTERRUPT),
    **{(state, Event.STOP): (State.ENDING, Do.END_PROCESS) for state in (State.STARTING, State.RUNNING)},
    **{(state, Event.GIVE_UP): (State.ENDING, Do.END_PROCESS) for state in BEGUN if state is not State.ENDING},
    (State.WAITING, Event.KILL): (State.FINISHED, Do.FINISH),
    **{(state, Event.KILL): (State.ENDING, Do.END_PROCESS) for state in BEGUN},
    (State.ENDING, Event.PROCESS_ENDED): (State.FINISHED, Do.FINISH),
    **{(state, Event.DROP): (State.FINISHED, Do.FINISH) for state in State if state is not State.FINISHED},
}
"""The table above."""


class Order(Struct, frozen=True):
    """A request for a run: the prompt and its options."""

    run_id: str
    prompt: str
    by: str
    client_id: str = ""
    """The id of the connection that sent the prompt; empty if the server sends the prompt again, or the agent began the
    turn without one."""
    request_id: str | None = None
    agent: str | None = None
    options: Options | None = None
    wishes: frozenset[str] = frozenset()
    """The names of the options that were chosen for this prompt alone."""
    attachments: tuple[Attachment, ...] = ()
    images: tuple[PromptImage, ...] = ()
    """The attached images that are stored next to the history."""
    files: tuple[PromptFile, ...] = ()
    """The attachments that are stored for the agent."""
    review: Submission | None = None
    """The review comments that the prompt sends to the agent; None for other prompts."""
    unprompted: bool = False
    """Whether the agent began the turn without a prompt. If so, ``prompt`` is empty."""


class Ending(Struct, frozen=True):
    """The result of a run. ``error``: ``code`` and ``message`` of the error that ended it, perhaps with
    ``retry_at``."""

    outcome: Outcome
    cost_usd: float | None = None
    error: dict[str, Any] | None = None
    tokens: Tokens | None = None


class Run:
    def __init__(self, order: Order, seq: int = 0) -> None:
        """``seq``: the number of the record that contains its prompt; 0 if no record does."""
        self.order = order
        self.seq = seq
        self.state = State.QUEUED
        self.ending: Ending | None = None
        """The result of a run that is being interrupted or stopped, or has ended; None for any other run."""
        self.elsewhere: str | None = None
        """The directory in which the agent has worked, if changes in it are not changes to the project."""
        self.started_at = 0.0
        """The time at which the run started, in seconds on the monotonic clock; 0 if it has not started."""

    @property
    def id(self) -> str:
        return self.order.run_id

    def start(self, now: float) -> None:
        self.started_at = now

    def worked_in(self, elsewhere: str | None) -> None:
        """Stores where the agent works. ``elsewhere``: a directory in which changes are not changes to the project;
        None for any other directory."""
        self.elsewhere = elsewhere or self.elsewhere

    def step(self, event: Event, ending: Ending | None = None) -> Do | None:
        """Applies an event. Returns what its owner has to do now; None if the event changes nothing in this state.

        ``ending``: how the run ends if this event ends it. The first reason counts, but a kill overrides an interrupt
        that has had no effect yet."""
        self.state, do = STEPS.get((self.state, event), (self.state, None))
        if ending is not None and do in (Do.INTERRUPT, Do.END_PROCESS):
            if self.ending is None or (self.ending.outcome, ending.outcome) == ("interrupted", "killed"):
                self.ending = ending
        elif ending is not None and do is Do.FINISH:
            self.ending = ending if self.ending is None else _ended_early(self.ending, ending)
        return do


def _ended_early(reason: Ending, end: Ending) -> Ending:
    """The result of a run that was interrupted or stopped for ``reason`` before its ``end``."""
    return Ending(reason.outcome, end.cost_usd, reason.error or end.error, end.tokens)
