"""What Claude Code schedules for itself in the formats of 2.1.329. Anything else is ignored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drawbridge.agents.base import Exited, ScheduleChanged
from drawbridge.agents.claude import schedule
from drawbridge.agents.claude.schedule import RECURS_SECONDS
from drawbridge.agents.reported import MOST
from tests.agents.rig import Session
from tests.rigs.messages_stub import MessagesStub, text, tool_use

from .stream import Stream

AT = 1_795_679_280.0


def call(
    stream: Stream, tool: str, result: object, *, id: str = "toolu_1", is_error: bool = False
) -> list[float | None]:
    """Plays a call of the tool and its result. Returns the ``until`` of each reported change: the time at which the
    schedule ends, or None once it has ended.
    """
    block = {"type": "tool_use", "id": id, "name": tool, "input": {}}
    stream.receives(type="assistant", message={"content": [block]}, session_id="s1")
    answer = {"type": "tool_result", "tool_use_id": id, "content": "…", "is_error": is_error}
    output = stream.receives(type="user", message={"content": [answer]}, tool_use_result=result, session_id="s1")
    return [event.until for event in output if isinstance(event, ScheduleChanged)]


def wake_up(seconds: float) -> dict[str, Any]:
    return {"scheduledFor": int(seconds * 1000), "clampedDelaySeconds": 70, "wasClamped": False}


def job(id: str, seconds: float, *, recurring: bool = False) -> dict[str, Any]:
    return {"id": id, "humanSchedule": "…", "recurring": recurring, "durable": False, "nextFireAt": seconds * 1000}


def test_a_wake_up_replaces_the_previous_one_and_can_be_canceled() -> None:
    stream = Stream()
    assert call(stream, "ScheduleWakeup", wake_up(AT)) == [AT]
    assert call(stream, "ScheduleWakeup", wake_up(AT)) == [], "nothing has changed"
    assert call(stream, "ScheduleWakeup", wake_up(AT - 60)) == [AT - 60]
    cancelled = {"scheduledFor": 0, "clampedDelaySeconds": 0, "wasClamped": False, "stopped": True}
    assert call(stream, "ScheduleWakeup", cancelled) == [None]


def test_jobs_are_scheduled_until_they_expire_or_are_deleted() -> None:
    stream = Stream()
    assert call(stream, "CronCreate", job("once", AT)) == [AT]
    assert call(stream, "CronCreate", job("daily", AT + 60, recurring=True)) == [AT + 60 + RECURS_SECONDS]
    assert call(stream, "CronDelete", {"id": "unknown"}) == []
    assert call(stream, "CronDelete", {"id": "daily"}) == [AT]
    assert call(stream, "CronDelete", {"id": "once"}) == [None]


def in_file(tool: str, result: object, *, id: str) -> list[bytes]:
    """Returns a call of the tool and its result as lines of the conversation's file."""
    block = {"type": "tool_use", "id": id, "name": tool, "input": {}}
    answer = {"type": "tool_result", "tool_use_id": id, "content": "…"}
    called: dict[str, Any] = {"type": "assistant", "message": {"content": [block]}}
    answered = {"type": "user", "message": {"content": [answer]}, "toolUseResult": result}
    return [json.dumps(line).encode() + b"\n" for line in (called, answered)]


def test_resuming_a_conversation_restores_its_scheduled_jobs() -> None:
    """Jobs whose time has passed or that were deleted are not restored, and neither are wake-ups."""
    lines = [
        *in_file("CronCreate", job("passed", AT - 60), id="toolu_1"),
        *in_file("CronCreate", job("daily", AT, recurring=True), id="toolu_2"),
        *in_file("CronCreate", job("deleted", AT + 60), id="toolu_3"),
        *in_file("CronDelete", {"id": "deleted"}, id="toolu_4"),
        *in_file("ScheduleWakeup", wake_up(AT + 60), id="toolu_5"),
        b'{"type": "user", "message": 7, "toolUseResult": "CronCreate"}\n',
        b"not JSON, CronCreate\n",
    ]
    left = schedule.jobs_in(lines, AT)
    assert left == {"daily": AT + RECURS_SECONDS}
    stream = Stream(jobs=left)
    for _ in range(2):
        stream.receives(type="system", subtype="init", session_id="s1")
    assert stream.all(ScheduleChanged) == [ScheduleChanged(AT + RECURS_SECONDS)]
    assert call(stream, "CronDelete", {"id": "daily"}) == [None]


def test_a_schedule_ends_with_the_process() -> None:
    stream = Stream()
    call(stream, "CronCreate", job("once", AT))
    assert stream.conversation.ended(0, "", None) == [ScheduleChanged(None), Exited(0, "")]


@pytest.mark.parametrize(
    "result",
    [None, "x", [], {}, {"id": "a"}, job("", AT), job("a", -1), job("a", 1e300), {"id": "a", "nextFireAt": "soon"}],
)
def test_a_result_with_an_unexpected_shape_schedules_nothing(result: object) -> None:
    stream = Stream()
    assert call(stream, "CronCreate", result) == []
    assert call(stream, "ScheduleWakeup", result) == []


def test_failed_calls_and_other_tools_schedule_nothing() -> None:
    stream = Stream()
    assert call(stream, "CronCreate", job("a", AT), is_error=True) == []
    assert call(stream, "mcp__calendar__CronCreate", job("a", AT)) == []


def test_only_the_latest_jobs_are_remembered() -> None:
    stream = Stream()
    reported = [call(stream, "CronCreate", job(str(n), AT + n)) for n in range(MOST + 50)]
    assert reported == [[AT + n] for n in range(MOST + 50)]
    deleted = [call(stream, "CronDelete", {"id": str(n)}) for n in reversed(range(MOST + 50))]
    assert deleted[MOST - 1] == [None], "more than MOST jobs are remembered"
    assert deleted[MOST:] == [[]] * 50


def test_a_call_with_a_very_long_id_is_ignored() -> None:
    stream = Stream()
    assert call(stream, "ScheduleWakeup", wake_up(AT), id="x" * 1_000_000) == []
    assert call(stream, "ScheduleWakeup", wake_up(AT)) == [AT]


def test_only_results_of_scheduling_calls_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results can be large, so only the result of a scheduling call is decoded."""
    stream = Stream()
    block = {"type": "tool_use", "id": "toolu_0", "name": "ScheduleWakeup", "input": {}}
    stream.receives(type="assistant", message={"content": [block]}, session_id="s1")
    read = list[bytes]()
    monkeypatch.setattr(schedule, "decoded", lambda data, kind: read.append(data))
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "toolu_0"}
    stream.receives(type="user", message={"content": [answer]}, session_id="s1")
    assert read == []


async def test_the_schedule_of_the_real_cli_is_reported(warm: Session, model: MessagesStub) -> None:
    def until() -> float | None:
        return warm.received.all(ScheduleChanged)[-1].until

    model.will_say(tool_use("ScheduleWakeup", delaySeconds=600, reason="CI", prompt="Look at CI"), text("Later."))
    await warm.turn("Watch CI")
    first = until()
    assert first is not None

    model.will_say(
        tool_use("ToolSearch", query="select:CronCreate,CronDelete"),
        tool_use("CronCreate", cron="7 9 * * *", prompt="Report"),
        text("Every day."),
    )
    await warm.turn("Report every day")
    [created] = [line["tool_use_result"] for line in warm.received.messages if "nextFireAt" in str(line)]
    assert until() == created["nextFireAt"] / 1000 + RECURS_SECONDS

    model.will_say(tool_use("CronDelete", id=created["id"]), text("No more."))
    await warm.turn("Stop that")
    assert until() == first
