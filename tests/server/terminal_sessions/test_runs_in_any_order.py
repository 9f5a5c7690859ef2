"""However late hooks and the conversation's file are, each run begins once, ends once, and contains its messages."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from drawbridge.server.terminal_sessions import continuation
from drawbridge.server.terminal_sessions import reports as reports_module
from tests import seeds
from tests.server.core_rig import check_list

from .socket_rig import Message, Session, socket_rig
from .test_sessions import prompt, result, said, used

TEXTS: Final = ("Done.", "Done.", "All is well.")

INTERRUPTED: Final = prompt("[Request interrupted by user]")

Hook = tuple[str, Message]


def turn_of(random: Random, id: str) -> tuple[list[Hook], list[Message]]:
    """The reports of a turn's hooks, and the lines about the turn in the conversation's file."""
    text, failure = random.choice(TEXTS), "API Error: 529"
    hooks: list[Hook] = [("UserPromptSubmit", {"prompt": id})]
    lines: list[Message] = [prompt(id)]
    for call in range(random.randrange(3)):
        if random.random() < 0.5:
            lines.append(said(random.choice(TEXTS)))
        given = {"command": f"echo {call}"}
        hooks.append(("PreToolUse", {"tool_name": "Bash", "tool_input": given}))
        hooks.append(("PostToolUse", {"tool_name": "Bash", "tool_input": given}))
        lines += [used(f"{id}-{call}", given), result(f"{id}-{call}")]
    match random.choice(["stops", "stops", "stops", "fails", "interrupted"]):
        case "stops":
            hooks.append(("Stop", {"last_assistant_message": text}))
            lines.append(said(text))
        case "fails":
            hooks.append(("StopFailure", {"error": "unknown", "last_assistant_message": failure}))
            lines.append(said(failure))
        case _:
            lines.append(INTERRUPTED)
    return [(event, {**more, "prompt_id": id}) for event, more in hooks], [{**line, "promptId": id} for line in lines]


def runs_in(records: list[Message]) -> list[tuple[str, str]]:
    """The starts and ends of runs, and the prompts, each with the id of its run."""
    found = []
    for record in records:
        message: Any = record["message"]
        if record["direction"] == "server" and message.get("subtype") in ("run_started", "run_finished"):
            found.append((message["subtype"], message["message"]["run_id"]))
        elif record["direction"] == "client":
            found.append(("prompt", message["run_id"]))
    return found


ROUNDS = pytest.mark.parametrize(
    "rounds",
    [
        5,
        pytest.param(30, marks=[pytest.mark.thorough, pytest.mark.timeout(900)]),
        pytest.param(2_000, marks=[pytest.mark.slow, pytest.mark.timeout(14_400)]),
    ],
)


@ROUNDS
async def test_each_run_ends_once(rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports_module, "RECORD_SECONDS", 0.02)
    seed = seeds.seed()
    random = Random(seed)
    async with socket_rig(tmp_path) as rig:
        for number in range(rounds):
            session = Session(rig)
            await session.reports("SessionStart", source="startup")
            turns = [turn_of(random, f"turn {number} {at}") for at in range(random.randrange(1, 4))]
            hooks = [hook for of_turn, _ in turns for hook in of_turn]
            lines = [line for _, of_turn in turns for line in of_turn]
            order = ["hook"] * len(hooks) + ["line"] * len(lines)
            random.shuffle(order)
            for what in order:
                if what == "hook":
                    event, more = hooks.pop(0)
                    await session.reports(event, **more)
                else:
                    session.writes(lines.pop(0))
                check_list(rig.server)
            await session.reports("SessionEnd")
            check_list(rig.server)
            answer = await rig.does("get_messages", session.project, after_seq=0)
            check(runs_in(answer["data"]["messages"]), seed, number)


@ROUNDS
async def test_each_run_ends_once_across_restarts(rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of hooks are lost while no server runs, and some reports of earlier turns arrive late. Servers read so
    few records of a history at a time that they need several pages.
    """
    monkeypatch.setattr(continuation, "PAGE", 3)
    monkeypatch.setattr(reports_module, "RECORD_SECONDS", 0.02)
    monkeypatch.setattr(reports_module, "PROMPT_SECONDS", 0.02)
    seed = seeds.seed()
    random = Random(seed)
    for number in range(rounds):
        folder = tmp_path / str(number)
        folder.mkdir()
        steps = steps_of(random, [turn_of(random, f"turn {number} {at}") for at in range(random.randrange(1, 4))])
        restarts = min(random.randrange(1, 4), len(steps) - 1)
        cuts = sorted(random.sample(range(1, len(steps)), restarts))
        session: Session | None = None
        for first, end in zip([0, *cuts], [*cuts, len(steps)], strict=True):
            lost = random.randrange(first, end) if session and random.random() < 0.5 else first
            for step in steps[first:lost]:
                if session and isinstance(step, dict):
                    session.writes(step)
            async with socket_rig(folder) as rig:
                session = session.at(rig) if session else Session(rig)
                await rig.idle()
                for step in steps[lost:end]:
                    if isinstance(step, dict):
                        session.writes(step)
                    else:
                        await session.reports(step[0], **step[1])
                if end == len(steps):
                    await session.reports("SessionEnd")
                    answer = await rig.does("get_messages", session.project, after_seq=0)
                await rig.idle()
        check(runs_in(answer["data"]["messages"]), seed, number, steps, cuts)


def steps_of(random: Random, turns: list[tuple[list[Hook], list[Message]]]) -> list[Hook | Message]:
    """Hooks and lines, turn by turn. A hook of an earlier turn may be repeated in a later turn."""
    found: list[Hook | Message] = []
    for at, (hooks, lines) in enumerate(turns):
        order = ["hook"] * (len(hooks) - 1) + ["line"] * len(lines)
        random.shuffle(order)
        begun, left_hooks, left_lines = len(found) + 1, iter(hooks[1:]), iter(lines)
        found.append(hooks[0])
        for what in order:
            found.append(next(left_hooks) if what == "hook" else next(left_lines))
        late = [hook for old, _ in turns[:at] for hook in old if hook[0] in ("PostToolUse", "Stop")]
        if late and random.random() < 0.7:
            found.insert(random.randrange(begun, len(found) + 1), random.choice(late))
    return found


def check(events: list[tuple[str, str]], *where: object) -> None:
    """Checks that each run begins at most once and ends exactly once, after everything else about it."""
    assert all(count == 1 for count in Counter(events).values()), (*where, events)
    ended = {run for what, run in events if what == "run_finished"}
    assert {run for _, run in events} == ended, (*where, events)
    for run in ended:
        last = max(at for at, (_, one) in enumerate(events) if one == run)
        assert events.index(("run_finished", run)) == last, (*where, events)


@ROUNDS
async def test_the_messages_of_a_run_are_inside_it(rounds: int, tmp_path: Path) -> None:
    """The lines after a turn's last call may be written after the hook that reports the end of the turn."""
    seed = seeds.seed()
    random = Random(seed)
    async with socket_rig(tmp_path) as rig:
        for number in range(rounds):
            session = Session(rig)
            await session.reports("SessionStart", source="startup")
            runs: dict[str, str] = {}
            for at in range(random.randrange(1, 4)):
                id = f"turn {number} {at}"
                hooks, lines = turn_of(random, id)
                lines = [{**line, "uuid": str(uuid.uuid4())} for line in lines]
                runs |= {line["uuid"]: id for line in lines}
                await plays_turn(random, session, hooks, lines)
            await session.reports("SessionEnd")
            answer = await rig.does("get_messages", session.project, after_seq=0)
            records = answer["data"]["messages"]
            events = runs_in(records)
            where = seed, number, records
            run, found = "", 0
            for record in records:
                if record["direction"] == "claude":
                    assert runs[record["message"]["uuid"]] == run, where
                    found += 1
                elif runs_in([record]):
                    [(what, about)] = runs_in([record])
                    run = "" if what == "run_finished" else about
            assert found == len(runs) - len([what for what, _ in events if what == "prompt"]), where


async def plays_turn(random: Random, session: Session, hooks: list[Hook], lines: list[Message]) -> None:
    """Plays one turn, with its hooks and lines interleaved at random. If a hook reports the end of the turn, some lines
    may arrive after that report.
    """
    late: list[Message] = []
    ends = [hooks.pop()] if hooks[-1][0] in ("Stop", "StopFailure") else []
    if ends:
        last_call = max((at for at, line in enumerate(lines) if "tool_use" in str(line)), default=-1)
        at = random.randrange(last_call + 1, len(lines) + 1)
        lines, late = lines[:at], lines[at:]
    order = ["hook"] * len(hooks) + ["line"] * len(lines)
    random.shuffle(order)
    for what in order:
        if what == "hook":
            event, more = hooks.pop(0)
            await session.reports(event, **more)
        else:
            session.writes(lines.pop(0))
    for event, more in ends:
        stops = asyncio.create_task(session.reports(event, **more))
        for _ in range(random.randrange(20)):
            await asyncio.sleep(0)
        session.writes(*late)
        await stops
    if not ends:
        await session.reports("Notification", notification_type="idle_prompt")
