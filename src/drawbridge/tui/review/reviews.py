"""The state of the reviews of all projects: what the server reported, and what the user wrote. Does no I/O."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from drawbridge.text.review_visits import ReviewVisits
from drawbridge.text.review_words import Numbers, numbers
from drawbridge.tui.review.comments import Writing

REMEMBERED: Final = 100
"""The maximum number of ``review_changed`` updates that are stored for a review that is not on the screen."""


NEWS: Final = frozenset(
    {"review_changed", "review_commented", "review_committed", "review_pushed", "run_finished", "queue_changed"}
)
"""The updates after which a review, its comments or what can be committed or pushed may have changed. ``queue_changed``
is one of them because comments are sent with a prompt, and become drafts again if the prompt is removed from the
queue."""


class Draft(NamedTuple):
    """The user's edit of a hunk that has not been decided on yet. ``path``: the path of its file."""

    path: str
    text: str


@dataclass(slots=True, eq=False)
class Commit:
    """The user's input for a commit, and its result. ``without``: the paths of kept files that are left for later;
    ``output``: git's output after a refusal; ``done``: a ``ReviewCommitted``, or None before the commit."""

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
    """The user's input for a push, and its result. ``title``, ``body``: of the pull request; ``proposed``: the title
    and body that the server proposed last; ``output``: the output of git and its hooks after a refusal; ``done``: a
    ``ReviewPushed``, or None before the push."""

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
        """The user's edits, by project and hunk."""
        self.writings: defaultdict[str, list[Writing]] = defaultdict(list)
        """The comments and changes to drafts that the user began and that the server does not have, by project."""
        self.commits: defaultdict[str, Commit] = defaultdict(Commit)
        """The user's input for a commit, and its result, by project."""
        self.pushes: defaultdict[str, Push] = defaultdict(Push)
        """The user's input for a push, and its result, by project."""
        self.visits: dict[str, ReviewVisits] = {}
        """The user's visits to the reviews that were opened, by project."""
        self._stale: set[str] = set()
        self.connections = 0
        """The number of connections so far. Changes that were made between two of them were not reported."""
        self._numbers: dict[str, Numbers] = {}
        self._changes: defaultdict[str, deque[Mapping[str, Any]]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    def begin(self) -> None:
        """Records a new connection, on which all numbers have to be requested again."""
        self.connections += 1
        self._numbers.clear()

    def apply(self, message: Mapping[str, Any]) -> None:
        """Applies one message of any type."""
        id, data = str(message.get("project_id", "")), message["data"]
        if message["type"] == "review":
            self._numbers[id] = numbers(data)
        elif message["type"] == "agent_message" and any(one.get("review") for one in data["messages"]):
            self._stale.add(id)  # comments were sent with this prompt
        elif message["type"] == "update" and data["update_type"] in NEWS:
            self._stale.add(id)
            if data["update_type"] == "run_finished" and id in self.visits:
                self.visits[id].begin()
        if message["type"] == "update" and data["update_type"] == "review_changed":
            changed = data["data"]
            self._numbers[id] = Numbers(changed["files"], changed["added"], changed["removed"])
            self._changes[id].append(changed)

    def clear_commit(self, project: str) -> None:
        """Forgets the user's input for a commit, and its result."""
        self.commits[project] = Commit()

    def committed(self, project: str, done: Mapping[str, Any]) -> None:
        """Replaces the user's input for a commit with the result."""
        self.commits[project] = Commit(done=done)

    def expect(self, project: str) -> bool:
        """Whether the numbers of this project have to be requested. They are requested only once per connection, since
        changes are reported."""
        is_new = project not in self._numbers
        self._numbers.setdefault(project, Numbers())
        return is_new

    def open(self, project: str) -> Numbers | None:
        """The numbers of a project's open review; None if nothing is left to review, or if they are not known."""
        found = self._numbers.get(project)
        return found if found and found.files else None

    def mark_stale(self, project: str) -> None:
        """Records that the review of a project may have changed."""
        self._stale.add(project)

    def is_stale(self, project: str) -> bool:
        """Whether the review of a project may have changed since the last call."""
        found = project in self._stale
        self._stale.discard(project)
        return found

    def changes(self, project: str) -> list[Mapping[str, Any]]:
        """The ``review_changed`` updates about a project since the last call, at most ``REMEMBERED``."""
        return list(self._changes.pop(project, ()))
