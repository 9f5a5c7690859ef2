"""The messages before the first prompt of an Agent Client Protocol conversation, and the agent's capabilities. Pure."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Final

from msgspec import Raw, Struct

from drawbridge.agents import modes
from drawbridge.agents.acp import messages as wire
from drawbridge.agents.acp.messages import Incoming
from drawbridge.agents.base import (
    AgentRefused,
    AgentUnusable,
    Launch,
    ModeChanged,
    ModeOffer,
    Options,
    check_options,
)
from drawbridge.agents.reported import LONGEST_DESCRIPTION, each, name_of, text_of
from drawbridge.agents.results import FAILED, NO_SESSION, not_logged_in

FENCE: Final = "_drawbridge/fence"
"""The method of a request that no agent supports. Its error response arrives after everything that the agent sent
before, and so marks the end of a replay. Gemini CLI (0.61.0) continues to replay an old session after it has reported
that the session is loaded.
"""

SUPPORTED: Final = ("dangerously_skip_permissions", "permission_mode", "model", "add_dirs", "partial_messages")
"""The options that can be passed to the agent. If any other option is set, the agent is not started, because it would
ignore that option.
"""


NOT_SENT: Final = "The prompt was not sent."

LONGEST_NAME: Final = 200
"""The maximum length of a mode's or a model's name, in characters. Longer names are ignored."""

MOST_MODES: Final = 50
"""The maximum number of an agent's modes that are shown to clients."""


class Choices(Struct, frozen=True):
    """A choice that the session offers. ``method``: the method that sets it, with the parameters ``fixed`` and the
    value in the parameter ``name``. ``values``: its possible values. ``current``: its current value; None if that is
    not known."""

    method: str
    fixed: dict[str, str]
    name: str
    values: tuple[str, ...]
    current: str | None = None


class Abilities(Struct):
    """The optional capabilities in the answer to ``initialize``."""

    loads: bool = False
    resumes: bool = False
    forks: bool = False
    lists: bool = False
    add_dirs: bool = False
    prompts: dict[str, Any] = {}


class _Capabilities(Struct):
    loadSession: Any = False  # noqa: N815 - the protocol's own names
    promptCapabilities: Any = None  # noqa: N815
    sessionCapabilities: Any = None  # noqa: N815


class Initialized(Struct):
    """The answer to ``initialize``."""

    protocolVersion: Any = None  # noqa: N815
    agentCapabilities: Raw = Raw(b"{}")  # noqa: N815

    @property
    def abilities(self) -> Abilities:
        offered = wire.read_as(_Capabilities, self.agentCapabilities) or _Capabilities()
        of_session = offered.sessionCapabilities if isinstance(offered.sessionCapabilities, dict) else {}
        return Abilities(
            loads=offered.loadSession is True,
            resumes=isinstance(of_session.get("resume"), dict),
            forks=isinstance(of_session.get("fork"), dict),
            lists=isinstance(of_session.get("list"), dict),
            add_dirs=isinstance(of_session.get("additionalDirectories"), dict),
            prompts=offered.promptCapabilities if isinstance(offered.promptCapabilities, dict) else {},
        )


class Opened(Struct):
    """The answer to ``session/new``, ``session/load`` and similar requests."""

    sessionId: Any = None  # noqa: N815
    modes: Any = None
    models: Any = None
    configOptions: Any = None  # noqa: N815

    def choices(self, what: str) -> Choices | None:
        """The choices for "mode" or "model", which are set by their own method or as an option of the session. None if
        the session does not offer that choice."""
        listed, word = (self.modes, "mode") if what == "mode" else (self.models, "model")
        if isinstance(listed, dict):
            key = "id" if word == "mode" else "modelId"
            values = tuple(_strings(listed.get("availableModes" if word == "mode" else "availableModels"), key))
            current = _text(listed.get("currentModeId" if word == "mode" else "currentModelId"))
            return Choices(f"session/set_{word}", {}, f"{word}Id", values, current)
        for option in self.configOptions if isinstance(self.configOptions, list) else ():
            if isinstance(option, dict) and option.get("category") == what and isinstance(option.get("id"), str):
                values = tuple(_values(option.get("options")))
                current = _text(option.get("currentValue"))
                return Choices("session/set_config_option", {"configId": option["id"]}, "value", values, current)
        return None

    def listed(self, what: str) -> list[Any]:
        """The available values of "mode" or "model", as the agent describes them."""
        own = self.modes if what == "mode" else self.models
        if isinstance(own, dict):
            listed = own.get("availableModes" if what == "mode" else "availableModels")
            return listed if isinstance(listed, list) else []
        options = self.configOptions if isinstance(self.configOptions, list) else []
        found = (one.get("options") for one in options if isinstance(one, dict) and one.get("category") == what)
        return list(_flat(next(found, None)))

    def with_options(self, options: object) -> None:
        """Records the agent's new options. codex-acp (2.6.0) reports a new mode only in this way."""
        self.configOptions = options
        changed = Opened(configOptions=options).choices("mode")
        if changed is not None and changed.current is not None:
            self.in_mode(changed.current)

    def in_mode(self, mode: object) -> None:
        """Records the agent's new mode."""
        if isinstance(self.modes, dict):
            self.modes["currentModeId"] = mode
        self._set("mode", mode)

    def with_model(self, model: object) -> None:
        """Records the agent's new model."""
        if isinstance(self.models, dict):
            self.models["currentModelId"] = model
        self._set("model", model)

    def _set(self, category: str, value: object) -> None:
        for option in self.configOptions if isinstance(self.configOptions, list) else ():
            if isinstance(option, dict) and option.get("category") == category:
                option["currentValue"] = value


class Request(Struct, frozen=True):
    method: str
    params: dict[str, Any]


class Opening:
    """Opens a session: exchanges all messages up to the first prompt. See ``steps``."""

    def __init__(self, name: str, launch: Launch, version: str) -> None:
        """``name``: the agent's display name; ``version``: Drawbridge's version."""
        self._name = name
        self._launch = launch
        self._version = version
        self.session_id = ""
        self.opened = Opened()
        self.abilities = Abilities()

    def steps(self) -> Generator[Request, Incoming, None]:
        """Yields each request, and expects its answer to be sent back. Raises ``AgentUnusable`` if the session can't be
        opened, or if its mode or model can't be set."""
        self.abilities = self._introduced((yield Request("initialize", introduction(self._version))))
        self._opened_with((yield self._session()))
        if self._launch.resume:
            yield Request(FENCE, {})
        options = self._launch.options
        for what, prefix, wanted in (self._mode_to_set(), ("model", "options.model: ", options.model)):
            if wanted:
                try:
                    answer = yield self.choice(what, wanted)
                except AgentRefused as error:
                    raise AgentUnusable("VALIDATION_FAILED", f"{prefix}{error} {NOT_SENT}") from None
                if answer.failed:
                    reason = wire.fault(answer.error).text
                    text = f"{prefix}{self._name} rejected the {wanted} {what}: {reason} {NOT_SENT}"
                    raise AgentUnusable("VALIDATION_FAILED", text)
                if what == "mode":
                    self.opened.in_mode(modes.chosen(wanted, self._offered()))
                else:
                    self.opened.with_model(wanted)

    def _offered(self) -> tuple[str, ...]:
        choices = self.opened.choices("mode")
        return choices.values if choices else ()

    def _mode_to_set(self) -> tuple[str, str, str | None]:
        """Returns "mode", the beginning of an error about the mode, and the mode to set (None to keep the current one).
        The beginning names the option that chose the mode; it is empty if none did. Raises the same errors as
        ``_usual_mode``."""
        options = self._launch.options
        if options.dangerously_skip_permissions:
            return "mode", "options.dangerously_skip_permissions: ", modes.BYPASS
        if options.permission_mode:
            return "mode", "options.permission_mode: ", options.permission_mode
        return "mode", "", self._usual_mode()

    def _usual_mode(self) -> str | None:
        """The mode to set if none was chosen: "default", whatever the agent's settings are. None to keep the current
        mode, because it is "default" or is not known, or the agent has no "default" mode and its current mode can ask.

        If an agent without a "default" mode would start in a mode that never asks, returns its first mode that can ask.
        Raises ``AgentUnusable`` if it has none.
        """
        choices = self.opened.choices("mode")
        current = choices.current if choices else None
        if choices is None or current is None:
            return None
        usual = modes.chosen("default", choices.values)
        if usual is not None:
            return None if usual == current else "default"
        if modes.word(current) != modes.BYPASS:
            return None
        other = next((name for name in choices.values if modes.word(name) != modes.BYPASS), None)
        if other is None:
            text = (
                f"{self._name} has only modes that never ask, such as {current[:100]}. Choose one of them, if the server "
                "allows that, or use another agent."
            )
            raise AgentUnusable("PERMISSION_DENIED", f"{text} {NOT_SENT}")
        return other

    def current_mode(self) -> ModeChanged | None:
        """The current mode and the available ones, by their names in the client protocol; None if the agent does not
        report its mode."""
        choices = self.opened.choices("mode")
        if choices is None or choices.current is None:
            return None
        offered = tuple(dict.fromkeys(modes.word(name) for name in choices.values))[:MOST_MODES]
        described = {one.name: one for one in each(self.opened.listed("mode"), _described) if one.name in offered}
        return ModeChanged(modes.word(choices.current), offered, tuple(described.values()))

    def choice(self, what: str, wanted: str) -> Request:
        """The request that sets "mode" or "model". Raises ``AgentRefused`` if the agent does not offer the mode, or
        does not let its caller choose a model. Whether the model exists is not checked."""
        choices = self.opened.choices(what)
        value = modes.chosen(wanted, choices.values if choices else ()) if what == "mode" else wanted
        if choices is None or value is None:
            if choices is None:
                raise AgentRefused(f"{self._name} does not let clients choose a {what}.")
            there = ", ".join(choices.values[:10]) or "none"
            raise AgentRefused(f"{self._name} does not offer the {wanted} {what}. Available: {there}.")
        return Request(choices.method, {"sessionId": self.session_id, **choices.fixed, choices.name: value})

    def _introduced(self, answer: Incoming) -> Abilities:
        initialized = wire.read_as(Initialized, answer.result)
        if initialized is None:
            raise AgentUnusable(FAILED, f"{self._name} could not be initialized: {_fault(answer).text}")
        if initialized.protocolVersion != wire.VERSION:
            version = initialized.protocolVersion
            spoken = f"{self._name} supports version {version} of the Agent Client Protocol"
            if not isinstance(version, int):
                spoken = f"{self._name} did not report its version of the Agent Client Protocol"
            text = f"{spoken}; version {wire.VERSION} is required."
            if isinstance(version, int) and version > wire.VERSION:
                raise AgentUnusable(FAILED, f"{text} Update Drawbridge.")
            raise AgentUnusable("AGENT_TOO_OLD", f"{text} Update the agent.")
        return initialized.abilities

    def _session(self) -> Request:
        launch, abilities = self._launch, self.abilities
        params: dict[str, Any] = {"cwd": launch.directory, "mcpServers": []}
        if launch.options.add_dirs:
            if not abilities.add_dirs:
                raise AgentUnusable(
                    "VALIDATION_FAILED", f"options.add_dirs: {self._name} does not accept additional directories."
                )
            params["additionalDirectories"] = list(launch.options.add_dirs)
        if launch.files is not None and abilities.add_dirs:
            params["additionalDirectories"] = [*launch.options.add_dirs, launch.files]
        if launch.fork_from is not None:
            if not abilities.forks:
                can_resume = abilities.resumes or abilities.loads
                remedy = "Resume the conversation instead." if can_resume else "Start a new session."
                raise AgentUnusable("NOT_SUPPORTED", f"{self._name} can't fork a conversation. {remedy}")
            return Request("session/fork", {"sessionId": launch.fork_from, **params})
        if not launch.resume:
            return Request("session/new", params)
        if not (abilities.resumes or abilities.loads):
            text = f"{self._name} can't continue a conversation in a new process. Start a new session."
            raise AgentUnusable("NOT_SUPPORTED", text)
        method = "session/resume" if abilities.resumes else "session/load"
        return Request(method, {"sessionId": launch.session_id, **params})

    def _opened_with(self, answer: Incoming) -> None:
        opened = wire.read_as(Opened, answer.result)
        if opened is None:
            raise self._not_opened(_fault(answer))
        known = self._launch.session_id if self._launch.resume else ""
        self.session_id = opened.sessionId if isinstance(opened.sessionId, str) and opened.sessionId else known
        if not self.session_id:
            raise AgentUnusable(FAILED, f"{self._name} could not start a conversation: it reported no ID.")
        self.opened = opened

    def _not_opened(self, fault: wire.Fault) -> AgentUnusable:
        if fault.code == wire.AUTH_REQUIRED:
            failure = not_logged_in(self._name, fault.reason)
            return AgentUnusable(failure.code, failure.text)
        if self._launch.resume or self._launch.fork_from:
            text = f"{self._name} could not open the earlier conversation: {fault.text}"
            return AgentUnusable(NO_SESSION, f"{text} If it no longer exists, start a new session.")
        return AgentUnusable(FAILED, f"{self._name} could not start a conversation: {fault.text}")


def check(options: Options, name: str) -> None:
    """Raises ``AgentUnusable`` (VALIDATION_FAILED) if an option is set that is not in ``SUPPORTED``."""
    check_options(options, SUPPORTED, name)


def _fault(answer: Incoming) -> wire.Fault:
    """The reason why ``answer`` can't be used: its error, or that its result is not valid."""
    return wire.fault(answer.error) if answer.failed else wire.Fault(message="its answer is not valid")


def introduction(version: str) -> dict[str, Any]:
    """The parameters of ``initialize``. Files and terminals are not offered, because an agent's permissions already
    cover its own access to both.
    """
    return {
        "protocolVersion": wire.VERSION,
        "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
        "clientInfo": {"name": "drawbridge", "title": "Drawbridge", "version": version},
    }


def _described(given: Any) -> ModeOffer | None:
    """A mode that only this agent has, as the session lists it (``id``) or as a value of one of its options
    (``value``); None for any other mode."""
    name = name_of(given.get("id") or given.get("value")) if isinstance(given, dict) else None
    if name is None or modes.word(name) != name or name in modes.NAMES:
        return None
    return ModeOffer(name, name_of(given.get("name")), text_of(given.get("description"), LONGEST_DESCRIPTION))


def _text(value: object) -> str | None:
    """``value`` if it is a valid name, otherwise None."""
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST_NAME else None


def _strings(listed: object, key: str) -> Iterator[str]:
    for one in listed if isinstance(listed, list) else ():
        name = _text(one.get(key)) if isinstance(one, dict) else None
        if name is not None:
            yield name


def _values(listed: object) -> Iterator[str]:
    yield from _strings(list(_flat(listed)), "value")


def _flat(listed: object) -> Iterator[dict[str, Any]]:
    """The options and the groups in a list, each group followed by its options."""
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            yield one
            yield from _flat(one.get("options"))
