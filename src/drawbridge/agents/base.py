"""The interface of a running agent, and the events that it emits. Pure: what a session and any agent have in common.

One ``AgentProcess`` is one child process with one conversation. It takes one prompt at a time; between prompts it may be
kept warm.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from msgspec import Raw, Struct, field


class Options(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How an agent runs. The names are those of the protocol; what is None or empty is left to the agent."""

    dangerously_skip_permissions: bool = False
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    mcp_config: str | None = None
    strict_mcp_config: bool = False
    append_system_prompt: str | None = None
    system_prompt: str | None = None
    permission_mode: str | None = None
    model: str | None = None
    fallback_model: str | None = None
    add_dirs: tuple[str, ...] = ()
    effort: str | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    partial_messages: bool = False
    restricted: bool = False


def check_options(options: Options, supported: Collection[str], name: str) -> None:
    """Raises ``AgentUnusable`` (VALIDATION_FAILED) for an option that an agent can't be given: it would run without it."""
    usual = Options()
    for option in options.__struct_fields__:
        if option not in supported and getattr(options, option) != getattr(usual, option):
            raise AgentUnusable(
                "VALIDATION_FAILED", f"options.{option}: {name} does not support this option. It was not started."
            )


class Confinement(Struct, frozen=True):
    """What an agent's process and all that it starts are held to. ``confined``: they can't gain rights (sudo), on Linux.

    Their umask stays the owner's: a project's files are read by others too, by a web server or a container's user.
    """

    open_files: int | None = None
    """For each process; None: as many as the server may have."""
    nice: int = 0
    confined: bool = True


class Launch(Struct, frozen=True):
    """What a process is started with: with ``resume`` the conversation ``session_id`` continues, without it one begins.

    ``mark``: of this process alone, in the environment of everything that it starts.
    """

    directory: str
    session_id: str
    resume: bool = False
    fork_from: str | None = None
    options: Options = Options()
    confinement: Confinement = Confinement()
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)


MODEL_NAME: Final = re.compile(r"(?!-)[!-~]{1,200}")
"""What can be a model's name, to any agent: a command line would read another first sign as an option."""


class Attachment(Struct, frozen=True):
    """A file that goes with a prompt, as read from a blob."""

    media_type: str
    data: bytes
    name: str | None = None


class Decision(Struct, frozen=True):
    """A person's answer. ``updated_input``: run it with this input; ``remember``: as the agent's suggestions have it."""

    allow: bool
    message: str | None = None
    updated_input: Raw | None = None
    remember: bool = False


# Events of an agent, in the order in which they happen.


LONGEST_SESSION_ID: Final = 200
"""Characters of an agent's id of a conversation."""


def session_id_of(value: object) -> str:
    """What an agent's line names as its conversation; empty where it is not an id."""
    return value if isinstance(value, str) and len(value) <= LONGEST_SESSION_ID else ""


class AgentLine(Struct, frozen=True):
    """One JSON object that the agent has written. Its driver has parsed it: it is not decoded again.

    ``raw``: the agent's own bytes, one JSON object in valid UTF-8 without a line break. ``session_id``: the conversation that
    the line names; empty where it names none. ``durable``: it belongs in the history.
    """

    raw: bytes
    session_id: str = ""
    durable: bool = True


class SessionKnown(Struct, frozen=True):
    """The id of the conversation, as the agent has it, also where it changed by itself. Before the agent has sent this there is
    no conversation to resume, even if the id was the server's (``Launch.session_id``)."""

    session_id: str


class ModeKnown(Struct, frozen=True):
    """What the agent asks about from now on, in its own word; also where that changed by itself, or by an answer."""

    mode: str
    offered: tuple[str, ...] = ()
    """The modes that can be chosen, if they differ from those of Claude Code."""


class Proposal(Struct, frozen=True):
    """The change to a file that a question is about."""

    path: str
    old_text: str
    new_text: str


class AskedBy(Struct, frozen=True, omit_defaults=True):
    """The subagent that asks, where it is not the agent itself. ``agent_type``: its kind, as "general-purpose"."""

    agent_id: str
    agent_type: str | None = None


class Question(Struct, frozen=True):
    """The agent waits for a person. ``input`` and ``suggestions`` are its JSON, untouched."""

    question_id: str
    tool_name: str
    input: Raw
    suggestions: Raw
    proposal: Proposal | None = None
    changeable: bool = True
    """An answer may contain another input."""
    asked_by: AskedBy | None = None
    reason: str | None = None
    """The reason for the question, in the agent's words."""
    blocked_path: str | None = None
    """The path that the agent may not use without being allowed to."""


class QuestionGone(Struct, frozen=True):
    """The agent does not wait for that answer any more."""

    question_id: str
    reason: str


class TurnBegun(Struct, frozen=True):
    """The agent begins a turn without a prompt, as when a command in the background has ended. ``TurnEnded`` ends it too."""


class TurnEnded(Struct, frozen=True):
    """The prompt has ended: exactly one for each prompt, even if the process died or sent invalid output.

    ``session_id`` is the conversation where it can certainly be resumed: not before its first turn has come to its end.
    ``cost_usd`` is what the conversation cost since the turn before (None: unknown); ``error`` (for people) and ``code``
    (one of the client protocol's) say why it failed; ``retry_at``, in seconds since 1970, when what was used up is there
    again, where that was told.
    """

    ok: bool
    session_id: str | None = None
    cost_usd: float | None = None
    error: str | None = None
    code: str | None = None
    interrupted: bool = False
    retry_at: float | None = None


class Exited(Struct, frozen=True):
    """The last word: the whole process group is gone. ``code`` is negative for a signal; ``stderr`` is its end, bounded."""

    code: int
    stderr: str


Event: TypeAlias = AgentLine | SessionKnown | ModeKnown | Question | QuestionGone | TurnBegun | TurnEnded | Exited


class Replied(Struct, frozen=True):
    """The agent's answer to a command that is waited for; ``error`` where it did not do it."""

    request_id: str
    error: str | None = None


class Broken(Struct, frozen=True):
    """This process is unusable and has to be ended. ``fault``: the reason, for people."""

    fault: str


Said: TypeAlias = Event | Replied | Broken


class Dialect(Protocol):
    """Lines in, what they mean out. What is to be written is fetched with ``outgoing`` after every call."""

    @property
    def turn_open(self) -> bool: ...

    @property
    def busy(self) -> bool: ...

    def outgoing(self) -> bytes:
        """What has to be written now."""
        ...

    def received(self, line: bytes) -> list[Said]:
        """One line of it, without its newline."""
        ...

    def ended(self, code: int, stderr: str, fault: str | None) -> list[Said]:
        """The process has ended. ``fault``: why the server ended it, if it did. Returns the last events, ``Exited`` as
        the last one."""
        ...

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> list[Said]: ...

    def answer(self, question_id: str, decision: Decision) -> None: ...

    def interrupt(self) -> None: ...

    def set_mode(self, mode: str) -> str:
        """The id of the ``Replied`` that follows."""
        ...

    def set_model(self, model: str) -> str: ...


class AgentProcess(Protocol):
    """One child process. Every method may be called at any time; what comes too late changes nothing."""

    pid: int

    @property
    def busy(self) -> bool:
        """A turn runs, or the agent continues by itself (a command in the background): it is not idle."""
        ...

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Begins a turn; ``TurnEnded`` ends it, at once where an attachment is none that the agent can read."""
        ...

    def answer(self, question_id: str, decision: Decision) -> None:
        """Raises ``BadArgument`` if ``updated_input`` is not a JSON object: nothing was sent then, the approval stays open."""
        ...

    def interrupt(self) -> None:
        """Asks the agent to stop this turn; ``TurnEnded`` follows."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Returns when the agent has it; ``AgentRefused`` with its reason where it did not take it."""
        ...

    async def set_model(self, model: str) -> None:
        """The same."""
        ...

    async def stop(self) -> None:
        """Lets it end by itself where it is between turns, else kills it. Returns after ``Exited``."""
        ...

    async def kill(self) -> None:
        """Interrupt, SIGINT, SIGTERM, SIGKILL to the whole group, each with its time. Returns after ``Exited``."""
        ...


class Remembered(Struct, frozen=True):
    """A conversation that an agent keeps. ``last_active``: seconds since 1970; ``title``: what it was begun with."""

    session_id: str
    last_active: float
    title: str | None = None


class Sessions(Protocol):
    """The conversations that an agent has stored for a project's directory, read from its own files. Blocking."""

    def listed(self, path: Path, limit: int) -> list[Remembered]:
        """The newest first."""
        ...

    def known(self, path: Path, session_id: str) -> bool: ...

    def used_by(self, session_id: str) -> list[int]:
        """The processes that have this conversation open now, also in a terminal, as far as that is known."""
        ...


class Agent(Protocol):
    """A kind of agent."""

    name: str
    asks: bool
    """Whether it can ask people. An agent that can't does whatever its mode allows."""
    own_modes: bool
    """Whether it may have modes of its own."""
    sees: bool
    """Whether a prompt may contain pictures."""

    @property
    def sessions(self) -> Sessions | None:
        """None where only the agent itself knows them."""
        ...

    async def start(self, launch: Launch, heard: Callable[[Event], None]) -> AgentProcess:
        """``heard`` is called from the event loop, with ``Exited`` last.

        ``AgentUnusable`` where it can't be started, or not with these options (VALIDATION_FAILED).
        """
        ...


@runtime_checkable
class Remembers(Protocol):
    """An agent that lists its own conversations."""

    async def remembered(self, path: Path, limit: int) -> list[Remembered]:
        """The newest first. Raises ``AgentUnusable``."""
        ...


class AgentUnusable(Exception):
    """``code`` is one of the client protocol's (AGENT_NOT_FOUND, AGENT_TOO_OLD, ...); the text is for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class AgentRefused(Exception):
    """The agent did not take a mode or a model; the text, the agent's own where it gave one, is for people."""
