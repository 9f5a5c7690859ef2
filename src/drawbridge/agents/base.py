"""The interface between a session and any agent, and the events that an agent emits. Pure.

One ``AgentProcess`` is one child process with one conversation. It accepts one prompt at a time; between prompts it may
stay idle in the pool.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Raw, Struct, field, structs

from drawbridge.core.json_text import object_in

LEAVING_PLAN: Final = "ExitPlanMode"
"""The name that all drivers use for the tool with which an agent asks to leave plan mode. It is the name of Claude
Code's tool.
"""


class Options(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options of a run. The agent's default applies to an option that is not set or is empty. Without
    ``permission_mode`` and ``dangerously_skip_permissions``, the agent runs in its equivalent of the "default" mode, if
    it has one."""

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
    """Raises ``AgentUnusable`` (VALIDATION_FAILED) if an option is set that is not among ``supported``: the agent would
    ignore it. ``name``: the agent's display name."""
    usual = Options()
    for option in options.__struct_fields__:
        if option not in supported and getattr(options, option) != getattr(usual, option):
            raise AgentUnusable(
                "VALIDATION_FAILED",
                f"options.{option}: {name} does not support this option, which was set by the client or in the server's "
                "settings. The agent was not started. Remove the option, or choose another agent.",
            )


class Confinement(Struct, frozen=True):
    """The limits of an agent process and everything that it starts. ``confined``: whether these processes are prevented
    from gaining privileges, for example with sudo (only on Linux).

    The processes keep the server's umask, since other users, such as a web server or a container's user, may have to
    read a project's files.
    """

    open_files: int | None = None
    """The maximum number of open files for each process; None or 0 for the server's own limit."""
    nice: int = 0
    confined: bool = True


class Launch(Struct, frozen=True):
    """The parameters with which a process is started. With ``resume``, it continues the conversation ``session_id``.
    Otherwise, it begins a new conversation: with ``fork_from``, a copy of the conversation with that id. The new
    conversation has the id ``session_id`` if the agent lets its caller choose the id.

    ``state``: what earlier processes have reported about a conversation that is resumed, if known. ``mark``: an id that
    no other agent process has; it is in the environment of this process and of everything that it starts.
    """

    directory: str
    session_id: str
    resume: bool = False
    fork_from: str | None = None
    options: Options = Options()
    confinement: Confinement = Confinement()
    state: AgentState | None = None
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    files: str | None = None
    """The directory of the files that prompts refer to by their paths (``Attachment.path``); None if prompts never do.
    The agent may read these files without asking. The directory might not exist until the first file is stored."""
    look: Callable[[LookedAt], object] | None = None
    """Called in a thread before such an event is emitted. The event then contains its result, or None if the disk does
    not respond in time. It may block, and the agent's later events wait for it."""


MODEL_NAME: Final = re.compile(r"(?!-)[!-~]{1,200}")
"""Matches a model name that is valid for any agent. On a command line, a leading "-" would make it an option."""


class Attachment(Struct, frozen=True):
    """A file attached to a prompt, as read from a blob. ``path``: where the file is stored, if it might not be possible
    to send it as part of the prompt.
    """

    media_type: str
    data: bytes
    name: str | None = None
    path: str | None = None


class Decision(Struct, frozen=True):
    """A person's answer to a question. ``message``: what the person writes to the agent. ``updated_input``: the input
    to run the tool with, which can be encoded as JSON and must not be changed; None for the agent's own. ``remember``:
    whether to apply the agent's suggestions."""

    allow: bool
    message: str | None = None
    updated_input: Mapping[str, Any] | None = None
    remember: bool = False


# An agent's events. They are emitted in the order in which they happen.


class AgentLine(Struct, frozen=True, gc=False):
    """One line for clients and, if ``durable``, for the history. The driver has parsed or created it, so the server
    does not decode it again.

    ``raw``: one JSON object in valid UTF-8 without a line break: the agent's own bytes (repaired if they were not
    valid), or a line made by ``agents.lines`` if the agent's output does not have Claude Code's form. ``session_id``:
    the conversation that the line names; empty if it names none. ``durable``: whether the line belongs in the history.
    """

    raw: bytes
    session_id: str = ""
    durable: bool = True


class SessionIdentified(Struct, frozen=True):
    """The agent has reported the id of its conversation; it may also change that id on its own. Before this event, a
    new conversation can't be resumed, even if the server chose its id (``Launch.session_id``)."""

    session_id: str


class ModeOffer(Struct, frozen=True, omit_defaults=True):
    """A permission mode, as clients show it. ``asks``: false if the agent changes files in this mode without asking."""

    name: str
    title: str | None = None
    text: str | None = None
    asks: bool = True


class EffortOffer(Struct, frozen=True):
    """A level of effort, as clients show it."""

    name: str
    text: str


class ModeChanged(Struct, frozen=True):
    """The agent's permission mode has changed. ``mode``: its name in the client protocol. The agent may also change the
    mode on its own, or because of an answer."""

    mode: str
    offered: tuple[str, ...] = ()
    """The available modes, by their names in the client protocol; empty if they are Claude Code's."""
    described: tuple[ModeOffer, ...] = ()
    """Descriptions of the available modes that only this agent has."""


class Proposal(Struct, frozen=True):
    """The change to a file that a question is about."""

    path: str
    old_text: str
    new_text: str


class AskedBy(Struct, frozen=True, omit_defaults=True):
    """The subagent that asks a question; not set if the main agent asks. ``agent_type``: its kind, for example
    "general-purpose"."""

    agent_id: str
    agent_type: str | None = None


Form: TypeAlias = Literal["fields", "acp"]
"""The form of a question's ``input``: the fields of a tool, or a tool call as the Agent Client Protocol describes it.
This is set by the agent's driver, because the form can't be recognized from the input. A model may have chosen its
fields."""


class Question(Struct, frozen=True, dict=True):
    """The agent asks for a decision, and waits for it. ``input`` and ``suggestions`` are its JSON. The driver may have
    completed the input with what the agent reported earlier, and changed the list of suggestions."""

    question_id: str
    tool_name: str
    input: Raw
    suggestions: Raw
    proposal: Proposal | None = None
    changeable: bool = True
    """Whether an answer may change the input."""
    asked_by: AskedBy | None = None
    reason: str | None = None
    """The reason for the question, in the agent's words; None if the agent gave none."""
    blocked_path: str | None = None
    """The path that needs permission; None if the agent did not name one."""
    form: Form = "fields"
    look: object = None
    """The result of ``Launch.look``; None if there is none."""

    def about(self, proposal: Proposal | None) -> Question:
        """A copy of the question that includes the change that it is about. The input is not decoded again."""
        found = structs.replace(self, proposal=proposal)
        found.__dict__.update(self.__dict__)
        return found

    @cached_property
    def given(self) -> Mapping[str, Any] | None:
        """``input``, decoded; None if it is not an object, or can't be decoded. The server uses it, too
        (``ApprovalRequested.given``). Must not be changed."""
        return object_in(bytes(self.input))


class QuestionCancelled(Struct, frozen=True):
    """The agent no longer waits for the answer."""

    question_id: str
    reason: str


class TurnBegun(Struct, frozen=True):
    """The agent begins a turn without a prompt, for example when a background command has ended. Such a turn also ends
    with a ``TurnEnded``."""


class Tokens(Struct, frozen=True):
    """The numbers of tokens that models read (including tokens from a cache) and wrote."""

    input: int = 0
    output: int = 0


class TurnEnded(Struct, frozen=True):
    """The turn has ended. Exactly one such event follows each prompt, even if the process died or sent invalid output.

    ``session_id``: the conversation; None if it is not known or can't be resumed yet. ``cost_usd`` and ``tokens``: the
    usage since the end of the previous turn; None if it is not known. ``error`` (a message for the user) and
    ``code`` (of the client protocol): why the turn failed. ``retry_at``: when a used-up limit resets, in seconds since
    1970, if the agent reported it.
    """

    ok: bool
    session_id: str | None = None
    cost_usd: float | None = None
    error: str | None = None
    code: str | None = None
    interrupted: bool = False
    retry_at: float | None = None
    tokens: Tokens | None = None


class Todo(Struct, frozen=True, omit_defaults=True):
    """An entry of the agent's to-do list. ``doing``: its text while it is in progress."""

    text: str
    status: Literal["pending", "in_progress", "completed"]
    doing: str | None = None


class Task(Struct, frozen=True, omit_defaults=True):
    """A running subagent or command, perhaps in the background. ``kind``: the agent's word for it, such as
    "local_bash"."""

    task_id: str
    text: str
    state: Literal["running"] = "running"
    kind: str | None = None
    agent_type: str | None = None
    background: bool = False


class Retry(Struct, frozen=True, omit_defaults=True):
    """A request to the agent's API has failed, and the agent retries it after ``delay_ms`` milliseconds. ``attempt``:
    the number of this retry, of at most ``attempts``. ``reason``: the agent's word for the failure, such as
    "authentication_failed"; ``status``: the HTTP status, not set if it is unknown.
    """

    attempt: int
    attempts: int
    reason: str
    status: int | None = None
    delay_ms: int = 0


class AgentState(Struct, frozen=True, omit_defaults=True):
    """The state that an agent currently reports. ``context_tokens``: the last known size of its context, out of
    ``context_window``, both in tokens. ``compacting``: whether it is compacting its context. ``tasks``: only running
    ones.
    """

    model: str | None = None
    effort: str | None = None
    context_tokens: int | None = None
    context_window: int | None = None
    retry: Retry | None = None
    compacting: bool = False
    todos: tuple[Todo, ...] = ()
    tasks: tuple[Task, ...] = ()


class Offer(Struct, frozen=True, omit_defaults=True):
    """A command or a kind of subagent that an agent offers. ``hint``: the arguments that a command takes."""

    name: str
    text: str | None = None
    hint: str | None = None


class ModelOffer(Struct, frozen=True, omit_defaults=True):
    """A model that can be chosen. ``resolved``: its full name, if ``name`` is an alias. ``efforts``: the levels of
    effort that it supports."""

    name: str
    title: str | None = None
    text: str | None = None
    resolved: str | None = None
    efforts: tuple[str, ...] = ()


class McpServer(Struct, frozen=True, omit_defaults=True):
    name: str
    status: str | None = None


class AgentOffers(Struct, frozen=True, omit_defaults=True):
    """What an agent offers. ``commands``: their names do not begin with "/". ``steer``: whether a message can be added
    to a running turn."""

    commands: tuple[Offer, ...] = ()
    agents: tuple[Offer, ...] = ()
    skills: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    models: tuple[ModelOffer, ...] = ()
    steer: bool = False


class StateReported(Struct, frozen=True):
    """The agent's state has changed. ``state``: the whole state, not only what has changed."""

    state: AgentState


class OffersReported(Struct, frozen=True):
    """What the agent offers has changed. ``offers``: everything that it offers, not only what has changed."""

    offers: AgentOffers


class ScheduleChanged(Struct, frozen=True):
    """The agent's schedule has changed: the turns that will begin without a prompt while its process is running.
    ``until``: the time of the last such turn, in seconds since 1970; it may have passed. None if nothing is
    scheduled."""

    until: float | None


class DirectoryChanged(Struct, frozen=True):
    """The agent works in this directory from now on. An agent that does not report its directory works in
    ``Launch.directory``. ``look``: as in ``Question``.
    """

    directory: str
    look: object = None


class Exited(Struct, frozen=True):
    """The last event: the process and everything that it started have ended. ``code``: the exit code, negative for a
    signal. ``stderr``: the last part of what the process wrote to stderr."""

    code: int
    stderr: str


Event: TypeAlias = (
    AgentLine
    | SessionIdentified
    | ModeChanged
    | StateReported
    | OffersReported
    | ScheduleChanged
    | DirectoryChanged
    | Question
    | QuestionCancelled
    | TurnBegun
    | TurnEnded
    | Exited
)


class Replied(Struct, frozen=True):
    """The agent's answer to a command. ``error``: why the agent refused the command; None if it accepted it."""

    request_id: str
    error: str | None = None


class Broken(Struct, frozen=True):
    """The process has to be ended, usually because it is unusable. ``fault``: the human-readable reason."""

    fault: str


LookedAt: TypeAlias = Question | DirectoryChanged
"""The events that depend on the disk."""


class Unread(Struct, frozen=True):
    """A question about a file that has to be read first. ``propose`` reads it, and returns the change that the question
    is about. Blocking."""

    question: Question
    propose: Callable[[], Proposal | None]

    def read(self) -> Question:
        """The question with its proposal. Blocking."""
        return self.question.about(self.propose())


Output: TypeAlias = Event | Replied | Broken | Unread


class Dialect(Protocol):
    """An agent's protocol: lines in, events out. The caller fetches the bytes to write with ``outgoing`` after every
    call."""

    @property
    def turn_open(self) -> bool: ...

    @property
    def busy(self) -> bool: ...

    @property
    def asks(self) -> bool:
        """Whether a question from the agent is open."""
        ...

    def outgoing(self) -> bytes:
        """The bytes to write now."""
        ...

    def received(self, line: bytes) -> list[Output]:
        """Handles one line of output, without its newline."""
        ...

    def ended(self, code: int, stderr: str, fault: str | None) -> list[Output]:
        """Handles the end of the process. ``fault``: why the server ended the process, as a message for the user; None
        if the process has not failed. Returns the last events, with ``Exited`` at the end."""
        ...

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> list[Output]: ...

    def answer(self, question_id: str, decision: Decision) -> None: ...

    def interrupt(self) -> None: ...

    def set_mode(self, mode: str) -> str:
        """Asks the agent to switch to ``mode``. Returns the id of the ``Replied`` that follows. Raises ``AgentRefused`` if
        the agent can't be asked, or is known not to have the mode."""
        ...

    def set_model(self, model: str) -> str: ...


@runtime_checkable
class Steers(Protocol):
    """A ``Dialect`` of an agent that accepts messages and a new effort level while it works."""

    def steer(self, text: str, attachments: tuple[Attachment, ...], record: Callable[[], None]) -> None:
        """See ``AgentProcess.steer``."""
        ...

    def set_effort(self, effort: str) -> str:
        """Asks the agent for another effort level. Returns the id of the ``Replied`` that follows."""
        ...


class AgentProcess(Protocol):
    """One child process. Every method may be called at any time, except ``prompt`` before the previous prompt's turn
    has ended. Once the process has ended, a call has no effect or raises ``AgentRefused``."""

    pid: int

    @property
    def busy(self) -> bool:
        """Whether a turn is running, a question is open, or the agent works outside of a turn, for example because a
        background command is running."""
        ...

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Begins a turn, which ends with ``TurnEnded``: immediately, if the agent can't read an attachment."""
        ...

    def answer(self, question_id: str, decision: Decision) -> None:
        """Answers a question; does nothing if the question is no longer open."""
        ...

    def interrupt(self) -> None:
        """Asks the agent to stop the open turn; ``TurnEnded`` follows."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Returns when the agent has set the mode. Raises ``AgentRefused`` if it refuses or does not answer."""
        ...

    async def set_model(self, model: str) -> None:
        """Returns when the agent has set the model. Raises ``AgentRefused`` if it refuses or does not answer."""
        ...

    async def set_effort(self, effort: str) -> bool:
        """Sets the effort level, and returns whether that was possible: an agent that can't change it while it runs
        needs a new process. Raises ``AgentRefused`` if it refuses or does not answer.
        """
        ...

    def steer(self, text: str, attachments: tuple[Attachment, ...], record: Callable[[], None]) -> None:
        """Adds a message to the running turn. ``record`` is called once it is certain that the agent accepts the
        message, and before it is sent. Raises, without sending anything, ``AgentRefused`` if the agent can't accept the
        message, ``BadArgument`` for an attachment that the agent can't read, and whatever ``record`` raises."""
        ...

    async def stop(self) -> None:
        """Closes the input of an idle process, so that it exits. Kills the process if a turn is open, or if it takes
        too long to exit. Returns after ``Exited``."""
        ...

    async def kill(self) -> None:
        """Ends the process and everything that it started: interrupts an open turn, closes the input if no turn is open
        then, and sends SIGINT, SIGTERM and SIGKILL. Waits after each step, and stops once the process has exited.
        Returns after ``Exited``."""
        ...


class StoredConversation(Struct, frozen=True):
    """A conversation that an agent stores. ``last_active``: seconds since 1970; ``title``: the agent's own title for
    it, or its first prompt; None if neither is known."""

    session_id: str
    last_active: float
    title: str | None = None


class EarlierMessage(Struct, frozen=True):
    """A message in an agent's own transcript: the user's ``prompt``, with the id of its ``turn``, or a ``line`` as the
    driver would emit it (``AgentLine.raw``). ``uuid``: the agent's id for the message; messages may share one."""

    time: datetime
    uuid: str
    prompt: str | None = None
    turn: str = ""
    line: bytes = b""


class EarlierMessages(Struct, frozen=True):
    """A page of earlier messages, in order. ``before``: the position where the previous page ends; None for the
    first page."""

    messages: tuple[EarlierMessage, ...]
    before: int | None


class StoredConversations(Protocol):
    """The conversations that an agent stored for a project's directory, read from its own files. Blocking."""

    def directories(self, limit: int) -> list[tuple[Path, float]]:
        """The directories with the most recently active conversations, at most ``limit``, each with the time of its
        last activity (seconds since 1970)."""
        ...

    def listed(self, path: Path, limit: int) -> list[StoredConversation]:
        """The conversations for this directory, at most ``limit``, newest first."""
        ...

    def known(self, path: Path, session_id: str) -> bool: ...

    def title(self, path: Path, session_id: str) -> str | None:
        """The title of a conversation; None if the conversation has no title or is not known."""
        ...

    def messages(
        self, path: Path, session_id: str, *, after: datetime, before: datetime, end: int | None, limit: int, size: int
    ) -> EarlierMessages:
        """The last ``limit`` messages, of at most ``size`` bytes in total (or one larger message), that were written
        between ``after`` and ``before`` and are stored before the position ``end`` (from ``EarlierMessages.before``;
        None for the end). Empty if the directory has no such conversation or its file can't be read."""
        ...

    def messages_from(
        self, path: Path, session_id: str, *, after: datetime, before: datetime, start: int
    ) -> Iterator[tuple[int, EarlierMessage]]:
        """The messages that were written between ``after`` and ``before`` and are stored at or after the position
        ``start`` (0 for the beginning), in order, each with the position that follows it. Yields nothing if the
        directory does not have the conversation or its file can't be read.
        """
        ...

    def used_by(self, session_id: str) -> list[int]:
        """The ids of the known processes that have this conversation open now, including those in terminals."""
        ...


class Agent(Protocol):
    """A kind of agent."""

    name: str
    asks: bool
    """Whether it can ask for decisions. An agent that can't does whatever its mode allows."""
    own_modes: bool
    """Whether it may have permission modes that only this agent has."""
    sees: bool
    """Whether a prompt may contain images."""
    forks: bool
    """Whether it is known, before the agent runs, that a copy of a conversation can be continued."""

    def embeds(self, attachment: Attachment) -> bool:
        """Whether the file can certainly be sent as part of the prompt. Any other file needs a ``path``."""
        ...

    @property
    def sessions(self) -> StoredConversations | None:
        """The agent's stored conversations; None if they can't be read from its files."""
        ...

    async def start(self, launch: Launch, emit: Callable[[Event], None]) -> AgentProcess:
        """Starts a process. ``emit`` is called on the event loop's thread, with ``Exited`` last.

        Raises ``AgentUnusable`` if the agent can't be started at all, or not with these options (VALIDATION_FAILED).
        """
        ...


@runtime_checkable
class ListsConversations(Protocol):
    """An agent that can be asked to list its conversations."""

    async def list_conversations(self, path: Path, limit: int) -> list[StoredConversation]:
        """The conversations for this directory, at most ``limit``, newest first; empty if this agent can't list them.
        Raises ``AgentUnusable`` if the agent can't be started."""
        ...


@runtime_checkable
class Reconstructs(Protocol):
    """An agent with history lines that contain what it reported about itself."""

    def last_state(self, lines: Sequence[bytes], session_id: str) -> AgentState:
        """The part of the agent's state that outlives the process that wrote ``lines`` (oldest first). ``session_id``:
        the conversation; lines of other conversations are ignored."""
        ...


class AgentUnusable(Exception):
    """The agent can't be used. ``code``: an error code of the client protocol (AGENT_NOT_FOUND, AGENT_TOO_OLD, ...);
    the text is a message for the user."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class AgentRefused(Exception):
    """The agent did not accept a mode, a model, an effort level or a message: it refused, did not answer, or has ended.
    The text is human-readable; it is the agent's own if the agent gave one."""


class NotAtWork(AgentRefused):
    """The agent has no running turn to which a message could be added."""
