"""The server's interface to an agent that a person started in a terminal: what its hooks report, what its transcript
contains, and how its questions are answered. Pure.

An agent with terminal sessions that are shown has a module ``agents/NAME/terminal.py``, which implements
``TerminalAgent``. The names of events are those of Claude Code's hooks, which other agents use, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Raw, Struct

from drawbridge.agents import base
from drawbridge.agents.base import AgentState, AskedBy, Decision
from drawbridge.agents.proposals import Reader
from drawbridge.agents.reported import LONGEST_NAME, name_of, text_of

SUBAGENT: Final = "subagent"
"""The type of a task that is a subagent. A run stays open until the last one has ended."""

_KINDS: Final = {SUBAGENT: "local_agent", "shell": "local_bash"}
"""Maps the type of a task to its type in the client protocol."""


class NotItsFile(Exception):
    """Raised for a path that can't be the path of the session's transcript."""


class Task(Struct, frozen=True):
    """Something that an agent left running in the background. The fields that default to ``None`` are only
    displayed, and may have any type.
    """

    id: str
    type: str = ""
    status: str = "running"
    description: Any = None
    command: Any = None
    agent_type: Any = None

    @property
    def shown(self) -> base.Task:
        """The task as clients see it."""
        words = text_of(self.description) or text_of(self.command) or name_of(self.agent_type) or ""
        kind = _KINDS.get(self.type) or name_of(self.type)
        return base.Task(self.id[:LONGEST_NAME], words, "running", kind, name_of(self.agent_type), background=True)

    @property
    def stored(self) -> Task:
        """The task as it is stored, with each text that is shown to people shortened to one line of limited length."""
        words, command = text_of(self.description), text_of(self.command)
        return Task(self.id, self.type, self.status, words, command, name_of(self.agent_type))


class HookPayload(Struct, frozen=True):
    """The fields that the inputs of all agents' hooks have in common. Raises ``ValueError`` if ``cwd`` is not
    absolute."""

    hook_event_name: str
    session_id: str
    cwd: str
    prompt: str = ""
    source: str = ""
    tool_name: str = ""
    tool_input: Raw = Raw(b"{}")
    tool_use_id: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None

    def __post_init__(self) -> None:
        if not self.cwd.startswith("/"):
            raise ValueError("cwd is not absolute")


class HookEvent(Struct, frozen=True):
    """An event that a hook reports.

    ``name``: "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse",
    "PostToolUseFailure", "Notification", "SubagentStart", "SubagentStop", "Stop", "StopFailure", "Interrupt" or
    "SessionEnd". An event with another name only shows that the agent is running. ``cwd``: an absolute path; empty if
    the event does not contain the session's own directory. ``transcript``: the path of the session's transcript; empty
    if the event does not contain it. ``source``: what started the session; empty if the agent reports its start only
    together with the first prompt. ``agent_id``: the subagent that the event is about; None for the main agent.

    Questions have no id, so the tool and the input identify a question.
    """

    name: str
    session_id: str
    cwd: str
    transcript: str = ""
    permission_mode: str | None = None
    turn: str = ""
    """The id of the turn that the event belongs to."""
    prompt: str = ""
    continues: bool = False
    """Whether ``prompt`` was sent by the agent's program, not by a user. If so, it continues the current turn, unless
    the agent was ``woken``."""
    woken: bool = False
    """Whether Drawbridge's hook has started the idle agent, because comments wait for it."""
    source: str = ""
    last_message: str = ""
    """The agent's last message, or the error, when the agent has stopped."""
    tool_name: str = ""
    tool_input: Raw = Raw(b"{}")
    call: str = ""
    """The agent's id for the call, as in ``Call``; empty if the event does not contain it."""
    directory: str = ""
    """The absolute path of the directory in which the call's command starts; empty if the call runs no command, or the
    event does not contain the directory."""
    suggestions: Raw = Raw(b"[]")
    """The agent's suggestions of what to remember, as in ``base.Question``."""
    agent_id: str | None = None
    agent_type: str | None = None
    reason: str | None = None
    """The reason why the agent asks."""
    blocked_path: str | None = None
    asks_in_terminal: bool = False
    """Whether a dialog is open in the terminal (only for "Notification")."""
    code: str | None = None
    """The client protocol's code for a failed request to the model, if it has one."""
    tasks: Mapping[str, Task] | None = None
    """The tasks that are running in the background, by id; None if the agent does not report them."""
    is_new_process: bool = False
    """Whether the agent's program has just been started, so that the mode in the transcript is an earlier process's."""

    @property
    def follows(self) -> bool:
        """Whether the event's prompt continues the current turn."""
        return self.continues and not self.woken


Fate: TypeAlias = Literal["ran", "rejected", "denied"]
"""The result of a call: it ran, the user at the terminal rejected it, or something else (a hook, a rule) denied it."""


class Call(Struct, frozen=True):
    """A tool call that the agent wants to make."""

    id: str
    name: str
    input: Raw


class Result(Struct, frozen=True):
    """The result of a tool call."""

    id: str
    fate: Fate


class Prompt(Struct, frozen=True):
    """A prompt from the user. ``turn`` is empty for a prompt that was typed while the agent worked, since it does not
    begin a turn, and if the transcript does not name turns.

    ``foreign``: whether it was written by another process that continues the same conversation (``claude -p --resume``
    or the server).
    """

    uuid: str
    turn: str
    text: str
    foreign: bool = False


class Message(Struct, frozen=True):
    """A message as it would be in the agent's stream: ``data`` is a JSON object on one line, which contains
    ``uuid``."""

    uuid: str
    data: bytes
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    interrupted: bool = False
    text: str = ""
    """The agent's text in the message."""
    foreign: bool = False
    """Whether another process wrote it, as in ``Prompt``."""
    ends_turn: bool = False
    """Whether it is the main agent's last message in its turn."""
    failed: bool = False
    """Whether it reports a failed request to the model."""
    code: str | None = None
    """The client protocol's code for the failed request, if it has one."""


class Mode(Struct, frozen=True):
    """The permission mode from this line on."""

    mode: str


class Context(Struct, frozen=True):
    """A text that a hook has passed to the model. ``event``: the hook's event."""

    uuid: str
    event: str
    texts: tuple[str, ...]


class TurnOver(Struct, frozen=True):
    """A turn is over. ``turn`` is empty if the transcript does not name turns. In that case, the current one is over,
    unless its prompt has not been read yet. ``error``: the reason for its failure, for people. ``code``: the client
    protocol's code for the failure, if it has one."""

    turn: str
    outcome: Literal["completed", "failed", "interrupted"]
    error: str | None = None
    code: str | None = None


Entry: TypeAlias = Prompt | Message | Mode | Context | TurnOver


class ProcessState(Struct, frozen=True):
    """Facts that no hook reports about a process with an open conversation."""

    moved_to: str | None = None
    """The beginning of the id of the session in which the user continued the conversation in the background."""
    idle_since: float | None = None
    """The time at which the agent began to wait for a prompt (seconds since 1970); None if it is not waiting, or if
    that is not known."""


class TerminalReports(Protocol):
    """Reads what an agent reports about itself in its transcript."""

    @property
    def state(self) -> AgentState: ...

    def recorded(self, data: bytes) -> object:
        """Reads a line of the transcript."""
        ...


class AskingAgent(Protocol):
    """An agent that a person started: how its questions are answered, and how prompts are sent to it. The methods are
    pure. Those that return a value here do what most agents do, so that only the others have their own.
    """

    accepts_changed_input: bool
    """Whether an answer to a hook may change the input of the call."""

    accepts_typing: bool
    """Whether prompts can be typed into its terminal."""

    reports_tasks: bool
    """Whether its hooks report what is left running in the background when it stops."""

    names_turns: bool
    """Whether its transcript names the turn that a prompt begins. If not, the hook that reports the prompt runs before
    the prompt is in the transcript, and begins the turn."""

    reports_mode: bool
    """Whether its hooks or its transcript report its permission mode."""

    def hides_dialog(self, asked_by: AskedBy | None) -> bool:
        """Whether the dialog about a question of the subagent ``asked_by`` (None for the main agent) appears only after
        the hook has ended."""
        return False

    def asks_people(self, mode: str | None) -> bool:
        """Whether a person answers the questions that a hook reports in this permission mode. Otherwise, the agent
        usually answers them itself when the hook has ended."""
        return True

    def is_same_call(self, tool: str, before: Mapping[str, Any], after: Mapping[str, Any], *, as_run: bool) -> bool:
        """Whether a call to ``tool`` with the input ``after`` is the call that the agent asked about with the input
        ``before``. ``as_run``: whether ``after`` is what the call ran with. It may then contain additional fields
        (answers), or differ because a person edited the text, but the file is still the same."""
        return before == after

    def reports_input(self, tool: str) -> bool:
        """Whether the hook after a call to ``tool`` reports the input that the call ran with."""
        return True

    def is_command(self, prompt: str) -> bool:
        """Whether the agent's program would treat ``prompt`` as a command."""
        ...

    def words(self, prompt: str) -> str:
        """A reported prompt without the marks that the agent's program adds to it."""
        return prompt


class TerminalAgent(AskingAgent, Protocol):
    """An agent in a terminal, with hooks that report its sessions. The methods are pure unless their docstrings state
    that they block. Those that return a value here do what most agents do, or are for an agent that does not report
    the value.
    """

    # Hooks.

    def event(self, payload: Raw) -> HookEvent:
        """Reads what a hook sent. Raises ``ValueError`` if it is not valid."""
        ...

    def is_spare(self, event: HookEvent) -> bool:
        """Whether a background session that has nothing to do yet sends this event."""
        return False

    def answer(self, decision: Decision, tool_name: str, given: Raw, suggestions: Raw) -> Mapping[str, Any]:
        """The answer to a hook that asks about a tool call with the input ``given``. Raises ``BadArgument`` for an
        edited input, unless the agent ``accepts_changed_input``."""
        ...

    def proposal(self, tool: str, given: Mapping[str, Any], read: Reader) -> base.Proposal | None:
        """The change that a call to ``tool`` with the input ``given`` would make to a file. The file is read with
        ``read``. None if the call does not change a file, or if the result can't be predicted."""
        return None

    # The transcript.

    def checked(self, path: str, session_id: str, config: str) -> str:
        """Returns ``path`` if it can be the path of the session's transcript. Otherwise raises ``NotItsFile``.
        ``config``: the program's own directory, as set in the agent's environment; empty if it is not set there.
        Blocking."""
        ...

    def entries(self, line: bytes, session_id: str) -> Sequence[Entry]:
        """The entries in a line of the transcript of the conversation ``session_id``, in order; empty if the line
        contains none."""
        ...

    def end_of(self, uuid: str, data: bytes) -> int | None:
        """The position in ``data``, which is part of a transcript, at which the line with the entry ``uuid`` ends; None
        if ``data`` does not contain it."""
        ...

    def title(self, transcript: Path) -> str | None:
        """The title of the conversation; None if the beginning of its transcript contains none. Blocking."""
        return None

    def reports(self, state: AgentState) -> TerminalReports:
        """Returns an object that reads the agent's reports about itself. ``state``: what is already known."""
        ...

    def last_state(self, lines: Sequence[bytes], session_id: str) -> AgentState:
        """See ``Reconstructs.last_state``."""
        return AgentState()

    # Processes.

    def start_mode(self, pid: int, directory: Path) -> str | None:
        """The permission mode in which the process ``pid`` was started in ``directory``; None if it can't be
        determined. Blocking."""
        return None

    def process(self, transcript: str, pid: int, session_id: str) -> ProcessState:
        """The state of the process ``pid`` and the session according to the program's own files. ``transcript``: its
        checked path. Blocking."""
        return ProcessState()


class _OnlyInEditor(AskingAgent):
    """An agent that is known only from the proposals that it sends to an editor: without hooks and a transcript."""

    accepts_changed_input = reports_tasks = names_turns = True
    accepts_typing = reports_mode = False

    def is_command(self, prompt: str) -> bool:
        return prompt.startswith("/")


ONLY_IN_EDITOR: Final[AskingAgent] = _OnlyInEditor()
