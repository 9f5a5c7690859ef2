"""The settings of ``drawbridge hook``, which ``drawbridge setup`` writes into the installed guard."""

# No `from __future__ import annotations`: it would turn the annotations, which `settings.of` reads, into strings.

from typing import Annotated, Final, Literal, NamedTuple

from drawbridge.agents import catalog
from drawbridge.settings import Spec

AGENTS: Final = tuple(row.name for row in catalog.ROWS if row.hooks)


class HookSettings(NamedTuple):
    """The settings of one guard. ``guard.settings.Settings`` has the same keys and types, since the guard can't import
    this class."""

    agent: Annotated[str, Spec("the agent that runs the hook", choices=AGENTS)] = AGENTS[0]
    policy: Annotated[
        Literal["current", "visible", "any"],
        Spec(
            "which files with unsaved changes are protected: the one that you are editing, those on the screen, or all"
        ),
    ] = "current"
    policy_for: Annotated[
        tuple[str, ...],
        Spec(
            "another policy for one tool, such as Write=any or NotebookEdit=visible",
            metavar="TOOL={current,visible,any}",
            pattern=r"\w+=(current|visible|any)",
        ),
    ] = ()
    answer: Annotated[
        Literal["deny", "ask", "wait", "save", "merge"],
        Spec(
            "the answer to an edit of a protected file: deny it, ask you, wait until you save, save for you, or merge "
            "afterwards"
        ),
    ] = "deny"
    wait: Annotated[
        int, Spec("with answer = wait: how long to wait for you to save, in seconds", metavar="SECONDS", range=(1, 300))
    ] = 30
    unknown: Annotated[
        Literal["allow", "ask", "deny"],
        Spec("the answer if an editor does not respond in time: allow the edit, ask you, or deny it"),
    ] = "allow"
    fail: Annotated[
        Literal["open", "closed"], Spec("the answer if the guard itself fails: allow the edit, or deny it")
    ] = "open"
    deadline: Annotated[
        int, Spec("how long all editors together may take to respond, in milliseconds", metavar="MS", range=(20, 5_000))
    ] = 300
    socket_dir: Annotated[
        tuple[str, ...] | None,
        Spec(
            "a directory with editors' sockets, instead of /tmp, the temporary directory and the runtime directory",
            metavar="DIR",
        ),
    ] = None
    selection: Annotated[bool, Spec("do not add your selection to prompts", flag="--no-selection")] = True
    diagnostics: Annotated[
        bool, Spec("do not report new diagnostics to the agent after its edits", flag="--no-diagnostics")
    ] = True
    ignore: Annotated[
        tuple[str, ...] | None,
        Spec("a pattern for files to hide from agents, instead of the built-in patterns", metavar="PATTERN"),
    ] = None
    log_file: Annotated[
        str | None, Spec("log to this file instead of guard.log in the state directory", metavar="FILE")
    ] = None
