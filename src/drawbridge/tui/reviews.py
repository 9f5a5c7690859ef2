"""What is known of the reviews of all projects, made only from messages of the server, and what the person wrote. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from drawbridge.text.review_words import Numbers, numbers
from drawbridge.tui.review_comments import Writing

REMEMBERED: Final = 100
"""Changes of a review that nobody is looking at."""


NEWS: Final = frozenset(
    {"review_changed", "review_commented", "review_committed", "review_pushed", "run_finished", "queue_changed"}
)
"""The updates after which a review, its comments or what can be committed or pushed may be others. Comments are sent with a
prompt, and are drafts again if that is removed from the queue."""


class Draft(NamedTuple):
    """An edit that is not decided yet. ``path``: of the file."""

    path: str
    text: str


@dataclass(slots=True, eq=False)
class Commit:
    """What a person has entered for a commit, and what has become of it. ``without``: the paths of kept files that are left
    for later; ``output``: of git, after a refusal; ``done``: a ``ReviewCommitted``."""

    message: str = ""
    is_new_branch: bool = False
    branch: str = ""
    without: set[str] = field(default_factory=set)
    is_busy: bool = False
    problem: str = ""
    output: str = ""
    done: Mapping[str, Any] | None = None


@dataclass(slots=True, eq=False)
class Push:
    """What a person has entered for a push, and what has become of it. ``title``, ``body``: of the pull request; ``proposed``:
    those that the server has proposed last; ``output``: after a refusal; ``done``: a ``ReviewPushed``."""

    is_pull_request: bool = False
    title: str = ""
    body: str = ""
    proposed: tuple[str, str] = ("", "")
    is_busy: bool = False
    problem: str = ""
    output: str = ""
    done: Mapping[str, Any] | None = None


class Reviews:
    def __init__(self) -> None:
        self.drafts: defaultdict[str, dict[str, Draft]] = defaultdict(dict)
        """By project and hunk."""
        self.writings: defaultdict[str, list[Writing]] = defaultdict(list)
        """By project: the comments that a person has begun and that the server does not have."""
        self.commits: defaultdict[str, Commit] = defaultdict(Commit)
        """By project."""
        self.pushes: defaultdict[str, Push] = defaultdict(Push)
        """By project."""
        self._stale: set[str] = set()
        self.connections = 0
        """Counts connections: what has changed between two of them was not reported."""
        self._numbers: dict[str, Numbers] = {}
        self._changes: defaultdict[str, deque[Mapping[str, Any]]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    def begin(self) -> None:
        """There is a new connection."""
        self.connections += 1
        self._numbers.clear()

    def take(self, message: Mapping[str, Any]) -> None:
        """Applies one message of any type."""
        id, data = str(message.get("project_id", "")), message["data"]
        if message["type"] == "review":
            self._numbers[id] = numbers(data)
        elif message["type"] == "update" and data["update_type"] in NEWS:
            self._stale.add(id)
        if message["type"] == "update" and data["update_type"] == "review_changed":
            told = data["data"]
            self._numbers[id] = Numbers(told["files"], told["added"], told["removed"])
            self._changes[id].append(told)

    def expect(self, project: str) -> bool:
        """Whether the numbers of this project have to be requested: once for each connection, since changes are reported."""
        is_new = project not in self._numbers
        self._numbers.setdefault(project, Numbers())
        return is_new

    def open(self, project: str) -> Numbers | None:
        """The numbers of a review that is open, as far as that is known."""
        found = self._numbers.get(project)
        return found if found and found.files else None

    def is_stale(self, project: str) -> bool:
        """Whether the review of a project may be another one since the last call."""
        found = project in self._stale
        self._stale.discard(project)
        return found

    def changes(self, project: str) -> list[Mapping[str, Any]]:
        """The ``review_changed`` since the last call."""
        return list(self._changes.pop(project, ()))
