"""The input of Gemini CLI's hooks, and the answers to them. Loaded at every guard call, so it imports nothing.

Source: ``docs/hooks/reference.md`` of version 0.61.0 and the program itself (``ask`` is not documented there, but the
program supports it).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

EVENTS = {
    "BeforeTool": "before",
    "AfterTool": "after",
    "BeforeAgent": "prompt",
    "SessionStart": "start",
    "Notification": "notice",
    "AfterAgent": "stop",
    "SessionEnd": "end",
}

TOOLS = {
    "replace": ("edit", ("file_path",)),
    "write_file": ("edit", ("file_path",)),
    "read_file": ("read", ("file_path", "absolute_path")),
    "run_shell_command": ("shell", ("command",)),
}

ASKS = RESOLVES_DOTS = True
WATCHES = CALLED_BY_CLIENT = False
WAKES = ""
NO_CONTEXT = ("before",)
hides_dialog = None

COMMENTS = "<review_comments>", "</review_comments>"
"""The marks around the text with which Gemini CLI continues after it has stopped. To the program, it is a new
prompt."""

SHELLS = (b"bash", b"sh")
"""The programs that Gemini CLI starts a hook's command with."""

UNATTENDED = (b"-p", b"--prompt", b"--acp", b"--experimental-acp")
"""The arguments with which Gemini CLI runs without its own user interface."""


def paths(value: str) -> "list[str]":
    return [value]


def deny(event: str, reason: str) -> "dict[str, Any]":
    return {"decision": "deny", "reason": reason}


def ask(event: str, reason: str) -> "dict[str, Any]":
    return {"decision": "ask", "reason": reason, "systemMessage": reason}


def continue_with(event: str, text: str) -> "dict[str, Any]":
    begin, end = COMMENTS
    return {"decision": "block", "reason": f"{begin}\n{text}\n{end}"}


def session(
    environ: "Mapping[bytes, bytes]", ancestors: "Iterable[tuple[int, Sequence[bytes]]]"
) -> "dict[str, Any] | None":
    """The report to the server about the session that calls the hook. None if Gemini CLI runs without its own user
    interface, or if its process can't be found. The hook's parent is the shell that runs its command."""
    if b"true" in (environ.get(b"CI"), environ.get(b"GITHUB_ACTIONS")):
        return None
    home = environ.get(b"GEMINI_CLI_HOME")
    for process, (program, *words) in ancestors:
        if program.rpartition(b"/")[2] in SHELLS:
            continue
        if any(word.partition(b"=")[0] in UNATTENDED for word in words):
            return None
        return {"pid": process, **({"config": home.decode("utf-8", "replace")} if home else {})}
    return None
