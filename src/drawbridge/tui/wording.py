"""The wording of states and calls, the same as on the page; and any text from outside as harmless text. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from drawbridge.agents import catalog
from drawbridge.core.terminal_text import harmless

TAB: Final = 4

TITLES: Final = {
    "Edit": "wants to change",
    "MultiEdit": "wants to change",
    "Write": "wants to write",
    "NotebookEdit": "wants to change",
    "Bash": "wants to run a command",
    "WebFetch": "wants to read a web page",
    "AskUserQuestion": "asks you",
    "edit": "wants to change",
    "delete": "wants to delete",
    "move": "wants to move",
    "search": "wants to search",
    "execute": "wants to run a command",
    "fetch": "wants to read a web page",
}
MODES: Final = {
    "default": "Ask before changes",
    "acceptEdits": "Accept edits",
    "plan": "Plan only",
    "bypassPermissions": "Never ask",
    "auto": "Auto",
}
OUTCOMES: Final = {
    "completed": "Finished",
    "failed": "Failed",
    "killed": "Ended by force",
    "timeout": "Took too long and was ended",
    "interrupted": "Interrupted",
}
STATES: Final = {"IDLE": "Ready", "EXECUTING": "Working", "ERROR": "Last run failed"}
TERMINAL_STATES: Final = {
    "working": "Working",
    "waiting": "Waits in its terminal",
    "finished": "Ready",
    "ended": "Ended",
}
QUESTIONS: Final = "AskUserQuestion"
"""The tool with which an agent asks a person questions of its own."""

IN_TERMINAL: Final = ("answered elsewhere", "asked in the terminal", "overruled")
"""How the reason begins if an approval of a terminal session was answered in its terminal: it was not withdrawn."""


def mode(project: Mapping[str, Any], name: str) -> str:
    """A permission mode in words. Agents that can't ask never ask, whatever the mode's name."""
    return f"{name}: never asks" if project.get("asks") is False else MODES.get(name, name)


def one_line(text: object) -> str:
    """Anything as one harmless line."""
    return harmless(str(text))


def lines(text: str) -> list[str]:
    """A text's lines, each harmless, with spaces for tabs: as wide on the screen as they are long."""
    return [harmless(line.expandtabs(TAB)) for line in text.replace("\r\n", "\n").split("\n")]


def block(text: str) -> str:
    """A text of several lines, harmless."""
    return "\n".join(lines(text))


def base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def shown_path(path: str, root: str) -> str:
    """ "notes.md" of a file in the project, the whole path of another one."""
    return path.removeprefix(f"{root}/") if root else path


def agent_title(agent: str) -> str:
    row = catalog.AGENTS.get(agent)
    return row.label if row is not None else f"The {agent} agent"


def money(dollars: float) -> str:
    return f"${dollars:.4f}" if dollars < 0.1 else f"${dollars:.2f}"


def size(count: int) -> str:
    """Of bytes."""
    return f"{-(-count // 1000)} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"


def duration(milliseconds: float) -> str:
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s"


def when(timestamp: str) -> datetime | None:
    """A time of the server's; None where it is none."""
    try:
        found = datetime.fromisoformat(timestamp)
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def clock(timestamp: str) -> str:
    """ "09:41", here."""
    found = when(timestamp)
    return found.astimezone().strftime("%H:%M") if found else ""


def ago(timestamp: str, now: datetime) -> str:
    found = when(timestamp)
    if found is None:
        return ""
    seconds = max(0.0, (now - found).total_seconds())
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600:.0f} h ago"
    local = found.astimezone()
    return f"{local.day} {local:%b}"


def project_state(project: Mapping[str, Any]) -> str:
    waiting = len(project.get("approvals") or ())
    if waiting:
        return "Waits for you" if waiting == 1 else f"{waiting} questions wait for you"
    if desk := project.get("desk"):
        if desk.get("in_terminal"):
            return "Waits in its terminal"
        if desk.get("continued_in"):
            return "Continued in the background"
        if desk.get("background_tasks") and desk.get("state") == "working":
            return "Works in the background"
        return TERMINAL_STATES.get(desk.get("state", ""), "In a terminal")
    if project.get("problem") and project.get("state") != "EXECUTING":
        return harmless(str(project["problem"]))
    if until := resumes_at(project):
        return f"Resumes at {until}"
    return STATES.get(project.get("state", ""), str(project.get("state", "")))


def resumes_at(project: Mapping[str, Any]) -> str:
    """When a project that a rate limit has stopped resumes by itself; empty if it does not, or is running."""
    until = project.get("continues_at") if project.get("state") != "EXECUTING" else None
    return clock(until) if until else ""


def lifted(until: str, now: datetime) -> str:
    """What is known about a limit of the agent's account."""
    found = when(until)
    if found is None:
        return ""
    return f"The limit is lifted at {clock(until)}." if found > now else "The limit has been lifted."


def tool_words(given: Mapping[str, Any], root: str) -> str:
    """The most informative part of a call, in one line."""
    questions = given.get("questions")
    first = questions[0] if isinstance(questions, list) and questions and isinstance(questions[0], dict) else {}
    names = ("file_path", "notebook_path", "path", "command", "pattern", "url", "description")
    said = next((given[name] for name in names if given.get(name)), first.get("question", ""))
    return one_line(shown_path(said, root).partition("\n")[0][:200]) if isinstance(said, str) else ""


def always_words(suggestions: Any) -> str:
    """What "always" would allow, from the agent's suggestions; empty without any. As on the server, a mode, which covers far
    more than this question, counts only if nothing else is suggested.
    """
    if not isinstance(suggestions, list) or not all(isinstance(one, dict) for one in suggestions):
        return ""
    found = [one for one in suggestions if one.get("type") != "setMode"] or suggestions
    said = " and ".join(filter(None, map(_suggestion, found)))
    lasting = any(one.get("destination", "session") != "session" for one in found)
    return one_line(f"{said} {'from now on' if lasting else 'for this session'}") if said else ""


def _suggestion(one: Mapping[str, Any]) -> str:
    match one:
        case {"type": "setMode", "mode": "acceptEdits"}:
            return "accept all edits"
        case {"type": "setMode", "mode": mode}:
            return f"switch to the mode “{mode}”"
        case {"type": "addRules", "rules": [*rules]}:
            verb = "refuse" if one.get("behavior") == "deny" else "allow"
            return f"{verb} {', '.join(_rule(rule) for rule in rules if isinstance(rule, dict))}"
        case {"type": "addDirectories", "directories": [*directories]}:
            return f"allow {', '.join(map(str, directories))}"
        case {"type": str()}:
            # Unknown suggestions are remembered too. Options of other agents have no type.
            return f"apply {json.dumps(one, ensure_ascii=False)}"
    return ""


def _rule(rule: Mapping[str, Any]) -> str:
    content = rule.get("ruleContent")
    return f"{rule.get('toolName', '')}({content})" if content else str(rule.get("toolName", ""))


def settled_words(answer: Mapping[str, Any], request: Mapping[str, Any], *, is_mine: bool = False) -> str:
    """How an approval ended, in one line. ``is_mine``: it was answered from this terminal."""
    if "reason" in answer:
        reason = str(answer["reason"])
        return one_line(_capital(reason) if reason.startswith(IN_TERMINAL) else f"Withdrawn: {reason}")
    by, message = answer.get("by"), answer.get("message")
    if answer.get("decision") != "allow":
        return one_line(f"Rejected by {by}{f': “{message}”' if message else ''}")
    if (given := _answers(answer, request)) is not None:
        return one_line(f"Answered by {by}: {given}")
    if answer.get("edited"):
        return one_line("Accepted with your edits" if is_mine else f"Accepted with edits by {by}")
    return one_line(f"Accepted by {by}")


def _answers(answer: Mapping[str, Any], request: Mapping[str, Any]) -> str | None:
    """The answers to the agent's own questions; None if they are not known."""
    given = answer.get("updated_input") if request.get("tool_name") == QUESTIONS else None
    answers = given.get("answers") if isinstance(given, Mapping) else None
    return "; ".join(map(str, answers.values())) if isinstance(answers, Mapping) else None


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def first_words(answer: Mapping[str, Any]) -> str:
    """As ``settled_words``, for a person who was about to answer."""
    if "reason" in answer:
        reason = str(answer["reason"])
        in_terminal = reason.startswith(IN_TERMINAL)
        return one_line(f"{_capital(reason)}." if in_terminal else f"The question was withdrawn ({reason}).")
    verb = "accepted" if answer.get("decision") == "allow" else "rejected"
    return one_line(f"{answer.get('by')} {verb} this first.")


def whole_text(message: Any) -> str:
    """The complete text of a record."""
    inner = message.get("message") if isinstance(message, dict) else None
    content = inner.get("content", inner.get("prompt")) if isinstance(inner, dict) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json.dumps(message, indent=2, ensure_ascii=False)
    return "\n\n".join(map(_block_text, content))


def _block_text(one: Any) -> str:
    if isinstance(one, dict):
        for name in ("text", "content"):
            if isinstance(one.get(name), str):
                return str(one[name])
    return json.dumps(one, indent=2, ensure_ascii=False)
