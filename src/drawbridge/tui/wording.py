"""The wording of states and calls, the same as in the web UI, and functions that make untrusted text harmless. Does no
I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from drawbridge.core.terminal_text import harmless
from drawbridge.text.counts import counted

TAB: Final = 4

_STYLE: Final = re.compile(r"\x1b\[[\d;:]{0,100}m")

OUTCOMES: Final = {
    "completed": "Finished",
    "failed": "Failed",
    "killed": "Killed",
    "timeout": "Timed out",
    "interrupted": "Stopped",
}
STATES: Final = {"IDLE": "Ready", "EXECUTING": "Working", "ERROR": "Last run failed"}
SCHEDULED: Final = "Scheduled until"
TERMINAL_STATES: Final = {
    "working": "Working in terminal",
    "waiting": "Waiting in terminal",
    "finished": "Idle in terminal",
    "ended": "Ended",
}
IN_TERMINAL: Final = ("answered elsewhere", "asked in the terminal", "overruled")
"""The beginnings of the reason for a withdrawal if the user decided in the agent's own dialog in the terminal, still
has to decide there, or decided too late in Drawbridge. Such a request is not shown as withdrawn."""


def mode(project: Mapping[str, Any], name: str, offers: Iterable[Mapping[str, Any]]) -> str:
    """A permission mode in words: its title or, without one, its name. If the project's agent never asks, returns the
    name with a note about that. ``offers``: the modes that the server describes."""
    if project.get("asks") is False:
        return f"{name} · doesn’t ask"
    titles = {one["name"]: one.get("title") for one in (*project.get("own_modes", ()), *offers)}
    return titles.get(name) or name


def one_line(text: object) -> str:
    """``text`` as one line of harmless text that can be drawn after a space or a symbol. An accent at its start, which
    would combine with that character, is escaped."""
    return harmless(f" {text}")[1:]


def lines(text: str) -> list[str]:
    """A text's lines, each harmless, with spaces instead of tabs."""
    return [one_line(line.expandtabs(TAB)) for line in text.replace("\r\n", "\n").split("\n")]


def block(text: str) -> str:
    """A text of several lines as harmless text."""
    return "\n".join(lines(text))


def without_colors(output: str) -> str:
    """What a program printed, without the sequences that set the colors and the style of a terminal. Only for output:
    in what will run, such a sequence must stay visible."""
    return _STYLE.sub("", output)


def base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def shown_path(path: str, root: str) -> str:
    """A path as it is shown: relative to the project's directory ``root`` if it is in it, otherwise whole."""
    return path.removeprefix(f"{root}/") if root else path


def agent_label(agent: str, described: Iterable[Mapping[str, Any]]) -> str:
    """An agent's display name at the beginning of a sentence. ``described``: the agents that the server describes."""
    return next((str(one["label"]) for one in described if one["name"] == agent), f"The {agent} agent")


def inside(label: str) -> str:
    """An agent's display name inside a sentence."""
    return f"t{label[1:]}" if label.startswith("The ") else label


def money(dollars: float) -> str:
    return f"${dollars:.4f}" if dollars < 0.01 else f"${dollars:.2f}"


def duration(milliseconds: float) -> str:
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s"


def when(timestamp: str) -> datetime | None:
    """A time from the server, in UTC if it names no time zone; None if it is not a valid time."""
    try:
        found = datetime.fromisoformat(timestamp)
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def clock(timestamp: str) -> str:
    """The time of day in the local time zone, such as 09:41; empty if the time is not valid."""
    found = when(timestamp)
    return found.astimezone().strftime("%H:%M") if found else ""


def day(timestamp: str) -> str:
    """The date and time in the local time zone, such as 21 Nov 09:41; empty if the time is not valid."""
    found = when(timestamp)
    if found is None:
        return ""
    local = found.astimezone()
    return f"{local.day} {local:%b %H:%M}"


def clock_or_day(timestamp: str) -> str:
    """Like ``clock`` for today; otherwise with the weekday, such as 09:41 on Wed, or with the date if that day is a week
    or more ahead."""
    found = when(timestamp)
    if found is None:
        return ""
    local = found.astimezone()
    days = (local.date() - datetime.now().astimezone().date()).days
    if days == 0:
        return clock(timestamp)
    return f"{clock(timestamp)} on {f'{local:%a}' if 0 < days < 7 else f'{local.day} {local:%b}'}"


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
        return "Needs you" if waiting == 1 else f"{waiting} requests need you"
    if desk := project.get("desk"):
        if desk.get("in_terminal"):
            return "Waiting in terminal"
        if desk.get("continued_in"):
            return "Continued in the background"
        if desk.get("background_tasks") and desk.get("state") == "working":
            return "Working in the background"
        return TERMINAL_STATES.get(desk.get("state", ""), "In a terminal")
    if project.get("problem") and project.get("state") != "EXECUTING":
        return one_line(project["problem"])
    if waits := waits_until(project):
        return waits
    return STATES.get(project.get("state", ""), str(project.get("state", "")))


def listed_state(project: Mapping[str, Any]) -> str:
    """The state in a list of projects. An idle or scheduled project, and a terminal session that is idle or has ended,
    show how much is left to review."""
    words = project_state(project)
    files = int((project.get("review") or {}).get("files", 0))
    at_rest = (TERMINAL_STATES["finished"], TERMINAL_STATES["ended"]) if project.get("desk") else (STATES["IDLE"],)
    if files and words.startswith(SCHEDULED):
        return f"{counted(files, 'file')} to review · {words[0].lower()}{words[1:]}"
    return f"{counted(files, 'file')} to review" if files and words in at_rest else words


def waits_until(project: Mapping[str, Any]) -> str:
    """The reason why an idle project continues automatically, with a time: a rate limit has stopped it (when it
    resumes), or its agent has scheduled something (when the last scheduled run begins). Empty if it is not idle or does
    not continue."""
    if project.get("state") == "EXECUTING":
        return ""
    if resumes := project.get("continues_at"):
        return f"Resumes at {clock_or_day(resumes)}"
    return f"{SCHEDULED} {clock_or_day(project['scheduled_until'])}" if is_scheduled(project) else ""


def is_scheduled(project: Mapping[str, Any]) -> bool:
    """Whether an idle project continues only because its agent has scheduled something."""
    return bool(
        project.get("state") != "EXECUTING" and not project.get("continues_at") and project.get("scheduled_until")
    )


def lifted(until: str, now: datetime) -> str:
    """A text with the time at which the limit of the agent's account resets; empty if that is not known."""
    found = when(until)
    if found is None:
        return ""
    return f"The limit resets at {clock_or_day(until)}." if found > now else "The limit has reset."


def agent_words(agent: Mapping[str, Any]) -> str:
    """Describes what the agent does instead of working, on one line: it retries a request to its API, or compacts its
    conversation. Empty if it does neither."""
    if retry := agent.get("retry"):
        reason = re.sub(" (failed|error)$", "", str(retry["reason"]).replace("_", " "))
        why = f"{retry.get('status') or ''} {reason}".strip()
        return one_line(f"Retrying {retry['attempt']} of {retry['attempts']}: {why}")
    return "Compacting the conversation" if agent.get("compacting") else ""


def context_words(agent: Mapping[str, Any]) -> str:
    """The used part of the agent's context, in percent or, if its size is unknown, in tokens; empty if the number of
    tokens is unknown.
    """
    tokens, window = agent.get("context_tokens"), agent.get("context_window")
    if not tokens:
        return ""
    return f"{round(100 * tokens / window)}% context" if window else f"{max(1, round(tokens / 1000))}k tokens"


def settled_words(answer: Mapping[str, Any], request: Mapping[str, Any], *, is_mine: bool = False) -> str:
    """Describes how an approval request was resolved or withdrawn, on one line. ``is_mine``: whether it was answered
    from this terminal."""
    is_plan = request.get("kind") == "plan"
    if "reason" in answer:
        reason = str(answer["reason"])
        return one_line(_capital(reason) if reason.startswith(IN_TERMINAL) else f"Withdrawn: {reason}")
    by, message = "you" if is_mine else answer.get("by"), answer.get("message")
    if answer.get("decision") != "allow":
        rejected = {"plan": "Plan rejected", "question": "Skipped"}.get(str(request.get("kind")), "Rejected")
        return one_line(f"{rejected} by {by}{f': “{message}”' if message else ''}")
    if (answers := answers_of(answer, request)) is not None:
        return one_line(f"Answered by {by}: {'; '.join(given for _, given in answers)}")
    if answer.get("edited"):
        return one_line("Accepted with your edits" if is_mine else f"Accepted with edits by {by}")
    return one_line(f"{'Plan approved' if is_plan else 'Accepted'} by {by}")


def answers_of(answer: Mapping[str, Any], request: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """Pairs of a question and its answer; None if the request contains none, or if the answers are not known."""
    given = answer.get("updated_input") if request.get("kind") == "question" else None
    answers = given.get("answers") if isinstance(given, Mapping) else None
    if not isinstance(answers, Mapping):
        return None
    texts = (", ".join(map(str, value)) if isinstance(value, list) else str(value) for value in answers.values())
    return [*zip(map(str, answers), texts, strict=True)]


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def verb(answer: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """What somebody did with a request. The web UI uses the same words."""
    is_allowed = answer.get("decision") == "allow"
    if request.get("kind") == "question":
        return "answered" if is_allowed else "skipped"
    return "accepted" if is_allowed else "rejected"


def first_words(answer: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """Like ``settled_words``, but for a user who was about to answer."""
    if "reason" in answer:
        return f"{settled_words(answer, {})}."
    return one_line(f"{answer.get('by')} {verb(answer, request)} this first.")


def rights(project: Mapping[str, Any], *, may_answer: bool) -> str:
    """The reason why the prompt box is missing. ``may_answer``: whether the device may answer approval requests."""
    if desk := project.get("desk"):
        return "This session has ended." if desk.get("state") == "ended" else "Send messages from the terminal."
    return "This device can approve requests and stop runs, but can’t send messages." if may_answer else "View only."


def whole_text(message: Any) -> str:
    """The complete text of a record; JSON if the record contains no text."""
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
        if isinstance(one.get("content"), list):
            return "\n".join(map(_block_text, one["content"]))
    return json.dumps(one, indent=2, ensure_ascii=False)
