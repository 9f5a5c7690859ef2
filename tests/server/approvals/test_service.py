"""Of several decisions on one approval request, the first is recorded and reaches the agent once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from drawbridge.agents.base import Decision, Proposal, Question
from drawbridge.agents.claude import edits
from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.approvals.editors import Editors, Person
from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.approvals.service import Approvals, look_at
from drawbridge.server.events import ApprovalRequested, ApprovalResolved, PermissionWithdrawn, Recorded, Stored
from drawbridge.server.protocol.client_errors import ClientError

ALLOW, DENY = Decision(allow=True), Decision(allow=False, message="not now")
PHONE, EDITOR = Person("phone"), Person("Neovim")


class Asker:
    """An asker that records its notifications: the decisions that it is sent, and that it was closed."""

    pid: int | None = None
    in_editor = False
    known_as = ""

    def __init__(self) -> None:
        self.notifications: list[str] = []

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        self.notifications.append(f"{'allow' if decision.allow else 'deny'} by {by}")

    def closed(self) -> None:
        self.notifications.append("closed")


class Service:
    """The approval requests of one session. ``recorded`` is its history, to which nothing can be written while ``full``
    is set; ``published`` contains, for each published decision, what the agent's asker had been sent by then.
    """

    def __init__(self) -> None:
        self.recorded: list[Recorded] = []
        self.published: list[list[str]] = []
        self.full = False
        self.approvals = Approvals(
            "p1", "/p", self.append, self.publish, self.record, {}, Editors(Path), self.decided_in_an_editor
        )
        self.asking, self.other = Asker(), Asker()

    async def decided_in_an_editor(self, approval: PendingApproval, decision: Decision, by: object) -> None:
        raise AssertionError("no editor is connected")

    def record(self, event: ApprovalRequested | ApprovalResolved | PermissionWithdrawn) -> int:
        if self.full:
            raise HistoryNotWritten("The disk is full.", disk_full=True)
        self.recorded.append(event)
        return len(self.recorded)

    def append(self, event: ApprovalResolved, by: str) -> Stored:
        return Stored("p1", Path("/p"), event, by, seq=self.record(event), timestamp="2026-11-28T12:00:00.000000Z")

    def publish(self, stored: Stored) -> int:
        self.published.append([*self.asking.notifications])
        return stored.seq

    def requested(self) -> PendingApproval:
        """Adds a request from the agent that has two askers, and returns it."""
        approval = PendingApproval(ApprovalRequested("appr_1", "run_1", "Bash", Raw(b"{}"), Raw(b"[]")), "q1", "")
        self.approvals.request(approval, "claude", self.asking)
        self.approvals.add(approval, self.other)
        return approval


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.mark.parametrize("is_disk_silent", [False, True])
def test_an_approval_request_has_the_input_the_driver_decoded(is_disk_silent: bool) -> None:
    question = Question("q1", "Write", Raw(b'{"file_path":"/p/a.py","content":"new"}'), Raw(b"[]"))
    given = question.given
    question = question.about(Proposal("/p/a.py", "", "new"))
    look = None if is_disk_silent else look_at(question, "claude", "/p")
    assert PendingApproval.new(question, "run_1", "", look=look).request.given is given


WRITE = Question("q1", "Write", Raw(b'{"file_path":"/p/a.py","content":"new","mode":"x"}'), Raw(b"[]"))


@pytest.mark.parametrize("is_disk_silent", [False, True])
def test_a_request_names_the_fields_that_its_diff_shows(service: Service, is_disk_silent: bool) -> None:
    question = WRITE.about(Proposal("/p/a.py", "old", "new"))
    look = None if is_disk_silent else look_at(question, "claude", "/p")
    service.approvals.request(PendingApproval.new(question, "run_1", "", look=look), "claude", service.asking)
    [recorded] = service.recorded
    assert isinstance(recorded, ApprovalRequested)
    [shown] = service.approvals.shown(100_000)
    assert recorded.shown_fields == shown.shown_fields == ("file_path", "content")


@pytest.mark.parametrize(
    "proposal",
    [None, Proposal("/p/b.py", "old", "new"), Proposal("/p/a.py", "old", "else")],
    ids=["none", "another file", "another text"],
)
def test_a_field_that_differs_from_the_diff_is_not_named(proposal: Proposal | None) -> None:
    assert look_at(WRITE.about(proposal), "claude", "/p").shown_fields == ()


def test_the_text_after_an_edit_is_predicted_only_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prediction searches the file for each edit, so it may take long for a large file."""
    predicted: list[Mapping[str, Any]] = []

    def changed_text(tool: str, given: Mapping[str, Any], old_text: str) -> str | None:
        predicted.append(given)
        return real(tool, given, old_text)

    question = WRITE.about(Proposal("/p/a.py", "old", "new"))
    approval = PendingApproval.new(question, "run_1", "", look=look_at(question, "claude", "/p"))
    service.approvals.request(approval, "claude", service.asking)
    real = edits.changed_text
    monkeypatch.setattr(edits, "changed_text", changed_text)
    decision = Decision(allow=True, updated_input={"file_path": "/p/a.py", "content": "mine"})
    service.approvals.decide(approval, decision, PHONE)
    [_, resolved] = service.recorded
    assert isinstance(resolved, ApprovalResolved)
    assert resolved.new_text == approval.text_after(decision) == "mine"
    assert approval.text_after(ALLOW) == "new"
    assert predicted == [decision.updated_input, approval.request.given]


def test_only_the_first_asker_receives_the_decision(service: Service) -> None:
    approval = service.requested()
    service.approvals.decide(approval, ALLOW, PHONE)
    assert (service.asking.notifications, service.other.notifications) == (["allow by phone"], ["closed"])
    assert (approval.decided_by, approval.is_open, len(service.approvals)) == ("phone", False, 0)
    assert [type(event) for event in service.recorded] == [ApprovalRequested, ApprovalResolved]


def test_the_agent_receives_a_decision_before_it_is_published(service: Service) -> None:
    approval = service.requested()
    service.approvals.decide(approval, ALLOW, PHONE)
    assert service.published == [["allow by phone"]]


def test_a_decision_is_published_if_the_agent_is_unreachable(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def decided(approval: PendingApproval, decision: Decision, by: str) -> None:
        raise OSError("its process has ended")

    approval = service.requested()
    monkeypatch.setattr(service.asking, "decided", decided)
    with pytest.raises(OSError, match="has ended"):
        service.approvals.decide(approval, ALLOW, PHONE)
    assert service.published == [[]]


def test_an_asker_that_decides_is_not_notified(service: Service) -> None:
    approval = service.requested()
    *_, asking = service.approvals.decide(approval, DENY, EDITOR, service.other)
    assert asking is service.other
    assert (service.asking.notifications, service.other.notifications) == (["closed"], [])


def test_deciding_a_withdrawn_request_fails_with_the_reason(service: Service) -> None:
    approval = service.requested()
    service.approvals.withdraw(approval, "answered elsewhere")
    with pytest.raises(ClientError, match=r"was withdrawn \(answered elsewhere\)\.$") as refused:
        service.approvals.decide(approval, ALLOW, PHONE)
    assert refused.value.code == "APPROVAL_RESOLVED"
    assert refused.value.details == {"reason": "answered elsewhere"}


def test_a_second_decision_changes_nothing(service: Service) -> None:
    approval = service.requested()
    service.approvals.decide(approval, ALLOW, PHONE)
    with pytest.raises(ClientError) as refused:
        service.approvals.decide(approval, DENY, EDITOR)
    assert refused.value.code == "APPROVAL_RESOLVED"
    assert refused.value.details == {"by": "phone", "decision": "allow", "client_id": PHONE.id}
    assert service.asking.notifications == ["allow by phone"]
    assert len(service.recorded) == 2


def test_a_decision_that_cannot_be_written_is_not_sent(service: Service) -> None:
    approval = service.requested()
    service.full = True
    with pytest.raises(ClientError):
        service.approvals.decide(approval, ALLOW, PHONE)
    assert service.asking.notifications == service.other.notifications == []
    assert approval.is_open
    service.full = False
    service.approvals.decide(approval, DENY, PHONE)
    assert service.asking.notifications == ["deny by phone"]


def test_withdrawing_closes_every_asker_once(service: Service) -> None:
    approval = service.requested()
    assert service.approvals.withdraw(approval, "the run was stopped")
    assert not service.approvals.withdraw(approval, "again")
    assert service.asking.notifications == service.other.notifications == ["closed"]
    assert service.recorded[-1] == PermissionWithdrawn("appr_1", "the run was stopped")
