"""The state of a session that is derived from its records. Pure.

The state is saved with the metadata from time to time. After a restart, it is updated with the later records.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from drawbridge.server.approvals.pending import Verdict
from drawbridge.server.events import (
    ApprovalRequested,
    ApprovalResolved,
    PermissionWithdrawn,
    PromptAccepted,
    PromptEdited,
    Recorded,
    ReviewCommented,
    RunFinished,
    RunStarted,
    SessionChanged,
    SessionDeleted,
    SessionRenamed,
    SessionReset,
)
from drawbridge.server.reviews import remembered
from drawbridge.server.reviews.remembered import RememberedComment
from drawbridge.server.sessions.options.ceilings import day_of, forget_old
from drawbridge.server.store.texts import clean
from drawbridge.text.review_words import subject_of

REMEMBERED_REQUESTS: Final = 500

REMEMBERED_VERDICTS: Final = 50

REMEMBERED_ELSEWHERE: Final = 200

REMEMBERED_NAMES: Final = 1_000

LONGEST_TITLE: Final = 120

DAYS_KEPT: Final = 90
"""The number of days with runs for which the usage is kept."""

CONTINUE: Final = "The limit that stopped you has reset. Continue with what you were asked:\n\n"
"""The text before the prompt of a run that continues automatically."""


def request_key(request_id: str, text: str) -> str:
    """The key by which a repeated request is recognized: its id and its prompt, because clients that number their
    requests reuse the numbers after they reconnect."""
    return f"{request_id} {blake2b(text.encode(), digest_size=8).hexdigest()}"


def titled(prompt: str) -> str:
    """The title of a session with this first prompt: one line of at most ``LONGEST_TITLE`` characters."""
    return " ".join(clean(prompt[: LONGEST_TITLE * 10]).split())[:LONGEST_TITLE]


class Day(Struct, frozen=True):
    """The runs that ended on one day, and what the agents reported about them."""

    runs: int = 0
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


def count_run(days: dict[str, Day], day: str, run: RunFinished) -> None:
    """Adds a run to its ``day``: the local date, such as "2026-11-21". Only the latest days are kept."""
    before = days.get(day, Day())
    days[day] = Day(
        runs=before.runs + 1,
        cost_usd=before.cost_usd + (run.cost_usd or 0.0),
        input_tokens=before.input_tokens + (run.input_tokens or 0),
        output_tokens=before.output_tokens + (run.output_tokens or 0),
    )
    for old in sorted(days)[:-DAYS_KEPT]:
        del days[old]


class RecordedState(Struct):
    """The state that is derived from the records up to ``seq``."""

    seq: int = 0
    session_id: str = ""
    unfinished: dict[str, str] = {}
    """Maps each run that has not ended to the name of the client that requested it, or of the agent if the prompt is
    not known. In the order in which the runs were requested or began."""
    requests: dict[str, str] = {}
    """Maps a ``request_key`` to its run, newest last."""
    approvals: dict[str, str] = {}
    """Maps open approval requests to their runs."""
    verdicts: dict[str, Verdict] = {}
    """Approval requests that were resolved or withdrawn, each with its outcome; newest last."""
    unproven: bool = False
    """Whether the agent may have ended before storing the conversation, because the agent began it, and no run has
    completed since."""
    agent: str = ""
    """The agent of the conversation ``session_id``; empty if it is not known."""
    last_outcome: str | None = None
    cost_usd: float = 0.0
    title: str = ""
    """The first prompt of the conversation, shortened (see ``titled``), or its title if it was begun elsewhere."""
    titled_by: str = ""
    """The run that the ``title`` comes from. Empty if the title is not from a prompt, or if an older server accepted
    the prompt."""
    subject: str = ""
    """The first line of the last prompt that a person wrote, in the form of a commit message's subject."""
    begun: int = 0
    """The number of the first record of the conversation."""
    names: dict[str, str] = {}
    """Maps the ids of sessions to the names that users gave them, newest last."""
    days: dict[str, float] = {}
    """The cost in US dollars on each of the latest days, in local time."""
    usage: dict[str, Day] = {}
    """What the runs have used on each of the latest ``DAYS_KEPT`` days with runs, in local time."""
    comments: dict[str, RememberedComment] = {}
    """The comments on the review, by their ids, in the order in which they were written."""
    shares_comments: bool = False
    """Whether the review belongs to all terminal sessions in a directory. Its comments are then not derived from this
    session's records."""
    elsewhere: dict[str, str] = {}
    """Maps each run in which the agent worked outside the project, or in another work tree inside it, to the directory
    in which the agent worked. Newest last."""
    usage_complete: bool = False
    """Whether ``usage`` contains the runs of the whole history. An earlier version did not count them."""

    def run_of(self, request_id: str, text: str) -> str | None:
        """The run of this request if it was accepted before; None if it is new. Older servers stored requests only by
        their ids."""
        return self.requests.get(request_key(request_id, text)) or self.requests.get(request_id)

    def apply(self, event: Recorded | None, moment: datetime, seq: int | None = None) -> None:
        """Updates the state with an event that was recorded at ``moment`` as number ``seq`` (None if it could not be
        written). Agents' lines change nothing but ``seq``.
        """
        if self.seq == 0:
            self.usage_complete = True
        if seq is not None:
            self.seq = seq
            self.begun = self.begun or seq
        match event:
            case PromptAccepted(run_id, text, by, request_id):
                self.unfinished[run_id] = by
                self._prompted(run_id, text)
                if event.review is None:
                    self.subject = subject_of(text.removeprefix(CONTINUE))
                if request_id is not None:
                    self.requests[request_key(request_id, event.review.key if event.review else text)] = run_id
                    while len(self.requests) > REMEMBERED_REQUESTS:
                        del self.requests[next(iter(self.requests))]
                if event.review is not None:
                    is_active = event.steer
                    sent = event.review.comments
                    remembered.send(self.comments, sent, run_id, begun=is_active, steered=is_active)
            case PromptEdited(run_id, text):
                self._untitle(run_id)
                self._prompted(run_id, text)
            case RunStarted(run_id, _, agent):
                self.agent = agent
                for id in self._sent_with(run_id):
                    self.comments[id] = self.comments[id].now(begun=True)
                # Most runs are known from their prompt. In a terminal session, the prompt is recorded later.
                self.unfinished.setdefault(run_id, agent)
            case RunFinished(run_id=run_id, removed_by=str()):  # the run never started
                self.unfinished.pop(run_id, None)
                self._untitle(run_id)
                self._not_sent(run_id)
            case RunFinished():
                self._finished(event, moment)
            case ApprovalRequested(approval_id, run_id):
                self.approvals[approval_id] = run_id
            case ApprovalResolved():
                self._closed(event.approval_id, Verdict(event.by, event.decision, client_id=event.client_id))
            case PermissionWithdrawn(approval_id, reason):
                self._closed(approval_id, Verdict(reason=reason))
            case ReviewCommented(comment_id=comment_id, comment=comment):
                if not self.shares_comments:
                    remembered.change(self.comments, comment_id, comment, self.seq)
            case SessionChanged(session_id, agent=agent, title=title):
                if agent is not None or not session_id or self.session_id not in ("", session_id):
                    self._begins(title or "")
                elif (name := self.names.pop(self.session_key, "")) and not self.session_id:
                    self.names[session_id] = name
                self._in_session(session_id, agent)
            case SessionRenamed(session_id, name):
                self._named(session_id, name)
            case SessionDeleted(session_id):
                self.names.pop(session_id, None)
                self.subject = ""
            case SessionReset():
                self._begins("")
                self._in_session("", None)
                self.last_outcome = None

    @property
    def session_key(self) -> str:
        """The id of the current session for clients: the agent's, or one made from ``begun`` if the agent has not
        reported any."""
        return self.session_id or f"log_{self.begun or 1}"  # before the first record, which has the number 1

    @property
    def shown_title(self) -> str:
        """The name that a person gave to the current conversation or, without a name, its title, usually its first
        prompt."""
        return self.names.get(self.session_key) or self.title

    def _begins(self, title: str) -> None:
        self.title, self.titled_by, self.begun = title, "", self.seq

    def _prompted(self, run_id: str, prompt: str) -> None:
        if not self.title:
            self.title, self.titled_by = titled(prompt), run_id

    def _untitle(self, run_id: str) -> None:
        """Forgets the title if it came from the prompt of this run, which was edited or removed before it was sent."""
        if run_id == self.titled_by:
            self.title = self.titled_by = ""

    def _finished(self, event: RunFinished, moment: datetime) -> None:
        self.unfinished.pop(event.run_id, None)
        self._not_sent(event.run_id)
        self.last_outcome = event.outcome
        if event.directory is not None:
            self.elsewhere[event.run_id] = event.directory
            while len(self.elsewhere) > REMEMBERED_ELSEWHERE:
                del self.elsewhere[next(iter(self.elsewhere))]
        self.unproven = self.unproven and event.outcome != "completed"
        day, cost = day_of(moment), event.cost_usd
        count_run(self.usage, day, event)
        if cost:
            self.cost_usd += cost
            self.days[day] = self.days.get(day, 0.0) + cost
            forget_old(self.days)

    def _not_sent(self, run_id: str) -> None:
        """Called when the run ended or was removed. If it never started, the agent did not receive the comments that
        were sent with it, so they become drafts again.
        """
        for id in self._sent_with(run_id):
            if not self.comments[id].begun:
                self.comments[id] = self.comments[id].now(state="draft", run_id=None)

    def _sent_with(self, run_id: str) -> list[str]:
        return [id for id, one in self.comments.items() if one.comment.run_id == run_id]

    def _closed(self, approval_id: str, verdict: Verdict) -> None:
        self.approvals.pop(approval_id, None)
        self.verdicts.setdefault(approval_id, verdict)
        while len(self.verdicts) > REMEMBERED_VERDICTS:
            del self.verdicts[next(iter(self.verdicts))]

    def _named(self, session_id: str, name: str) -> None:
        self.names.pop(session_id, None)
        if name:
            self.names[session_id] = name
        while len(self.names) > REMEMBERED_NAMES:
            del self.names[next(iter(self.names))]

    def _in_session(self, session_id: str, agent: str | None) -> None:
        self.session_id = session_id
        self.unproven = bool(session_id) and agent is None  # a conversation that a user chose is known to exist
        self.agent = agent or self.agent
