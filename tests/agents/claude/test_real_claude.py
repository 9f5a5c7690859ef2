"""The real ``claude`` CLI as the server's agent: prompts, conversations, questions.

``DRAWBRIDGE_TEST_RECORD=tests/transcripts/server pytest tests/agents/claude`` records the sessions of the tests marked
with ``recorded`` again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import (
    AgentLine,
    Attachment,
    Decision,
    Exited,
    Options,
    Question,
    SessionIdentified,
    TurnEnded,
)
from drawbridge.agents.claude.driver import Claude
from tests.agents.rig import Session, changed, session
from tests.rigs.messages_stub import HOLD, MessagesStub, edit, read, text, tool_use, write

from .conftest import POEM
from .recording import recorded

# Prompts.


async def test_its_version_is_known(claude: Claude) -> None:
    assert tuple(map(int, (await claude.probe()).split("."))) >= (2, 0, 0)


@recorded("prompt", "One prompt, one answer.")
async def test_a_prompt_is_answered(warm: Session, model: MessagesStub) -> None:
    model.will_say(text("Hello there."))

    done = await warm.turn("Say hello")

    assert (done.ok, done.session_id, done.error) == (True, warm.id, None)
    assert done.cost_usd is not None
    assert done.cost_usd > 0
    assert warm.received.words == "Hello there."
    assert warm.received.all(SessionIdentified) == [SessionIdentified(warm.id)]
    assert "Say hello" in model.requests[0].new_text


@recorded("streaming", "Partial messages.")
async def test_partial_text_is_sent_first_and_not_stored(claude: Claude, project: Path, model: MessagesStub) -> None:
    model.will_say([text("Hello"), HOLD, text("there")])
    async with session(claude, project, Options(partial_messages=True)) as warm:
        warm.process.prompt("Say hello")
        while b'"text_delta"' not in (line := await warm.received.next(AgentLine)).raw:
            pass
        assert not line.durable
        assert warm.received.all(TurnEnded) == []
        model.go_on()
        assert (await warm.ended()).ok

    lines = {
        (message["type"], line.durable)
        for message, line in zip(warm.received.messages, warm.received.all(AgentLine), strict=True)
    }
    assert {("stream_event", False), ("assistant", True), ("result", True)} <= lines
    assert ("stream_event", True) not in lines


@recorded("two-prompts", "Two prompts in one process.")
async def test_a_warm_process_receives_the_next_prompt(warm: Session, model: MessagesStub) -> None:
    model.will_say(text("One."), text("Two."))
    first, second = await warm.turn("First"), await warm.turn("Second")
    assert (first.ok, second.ok) == (True, True)
    assert first.cost_usd == second.cost_usd
    assert warm.received.words == "One.\nTwo."
    assert "One." in json.dumps(model.requests[1].body["messages"])


@pytest.mark.thorough
async def test_a_prompt_of_200_kb_arrives_whole(warm: Session, model: MessagesStub) -> None:
    words = "".join(f"{number} und weiter äöü\n" for number in range(11_000))
    assert len(words) > 200_000
    assert (await warm.turn(words)).ok
    assert words.strip() in model.requests[0].new_text


async def test_a_prompt_is_always_sent_as_text(warm: Session, model: MessagesStub) -> None:
    prompts = ["--version", "-p", '"; rm -rf / #', "one\n\ntwo\r\n\t'three'", "{}", '{"type":"user"}', "$(id) `id` \\n"]
    for number, words in enumerate([*prompts, "\u2028 \x07 😀"]):
        assert (await warm.turn(words)).ok
        assert words.strip() in model.requests[number].new_text


@pytest.mark.thorough
async def test_images_and_texts_are_sent_with_a_prompt(warm: Session, model: MessagesStub) -> None:
    picture = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da6364f8cf500f0003860180"
        "5a347d6b0000000049454e44ae426082"
    )
    attachments = (Attachment("image/png", picture, "a.png"), Attachment("text/plain", b"a secret", "a.txt"))
    warm.process.prompt("Look at these", attachments)
    assert (await warm.ended()).ok
    content = json.dumps(model.requests[0].body["messages"])
    assert '"image/png"' in content
    assert "a secret" in content


# Conversations.


@recorded("resume", "A conversation continues in another process.")
async def test_a_conversation_continues_in_a_new_process(claude: Claude, project: Path, model: MessagesStub) -> None:
    model.will_say(text("I am Ada."), text("Ada, as I said."))
    async with session(claude, project) as first:
        paid = await first.turn("Who are you?")
        await first.process.stop()
        assert first.received.events[-1] == Exited(0, "")

    async with session(claude, project, session_id=first.id, resume=True) as second:
        done = await second.turn("Who?")

    assert (done.ok, done.session_id, done.cost_usd) == (True, first.id, paid.cost_usd)
    assert "I am Ada." in json.dumps(model.requests[1].body["messages"])


@pytest.mark.slow
async def test_a_fork_has_the_history_and_the_given_id(claude: Claude, project: Path, model: MessagesStub) -> None:
    model.will_say(text("I am Ada."), text("Ada, as I said."))
    async with session(claude, project) as first:
        paid = await first.turn("Who are you?")
    async with session(claude, project, fork_from=first.id) as fork:
        done = await fork.turn("Who?")
    assert (done.ok, done.session_id, done.cost_usd) == (True, fork.id, paid.cost_usd)
    assert fork.id != first.id
    assert "I am Ada." in json.dumps(model.requests[1].body["messages"])


async def test_a_conversation_continues_after_a_kill_in_mid_sentence(
    claude: Claude, project: Path, model: MessagesStub
) -> None:
    model.will_say(text("I am Ada."), [text("Again"), HOLD], text("Ada, as I said."))
    async with session(claude, project) as first:
        await first.turn("Who are you?")
        first.process.prompt("Again")
        await asyncio.to_thread(model.wait_for_request, 2)
        os.kill(first.process.pid, signal.SIGKILL)
        assert not (await first.ended()).ok
    async with session(claude, project, session_id=first.id, resume=True) as second:
        assert (await second.turn("Who?")).ok
    assert "I am Ada." in json.dumps(model.requests[-1].body["messages"])


@pytest.mark.thorough
async def test_a_conversation_without_a_turn_cannot_be_resumed(claude: Claude, project: Path) -> None:
    async with session(claude, project) as first:
        await first.process.stop()
    async with session(claude, project, session_id=first.id, resume=True) as second:
        assert (await second.turn("Who?")).code == "SESSION_NOT_FOUND"
    async with session(claude, project, session_id=first.id) as third:
        assert (await third.turn("Who?")).session_id == first.id


@recorded("bad-session", "A conversation that does not exist.")
async def test_an_unknown_conversation_is_reported(claude: Claude, project: Path) -> None:
    id = str(uuid.uuid4())
    async with session(claude, project, session_id=id, resume=True) as lost:
        done = await lost.turn("Who?")
        assert (done.ok, done.code) == (False, "SESSION_NOT_FOUND")
        assert done.error is not None
        assert f"No conversation found with session ID: {id}" in done.error
        assert (await lost.received.next(Exited)).code == 1
    assert lost.received.all(SessionIdentified) == []


async def test_a_late_prompt_also_reports_an_unknown_conversation(claude: Claude, project: Path) -> None:
    async with session(claude, project, session_id=str(uuid.uuid4()), resume=True) as lost:
        await lost.received.next(AgentLine)
        lost.process.prompt("Who?")
        assert (await lost.ended()).code == "SESSION_NOT_FOUND"


@recorded("clear", "A prompt that begins a new conversation.")
@pytest.mark.thorough
async def test_clearing_a_conversation_gives_it_a_new_id(warm: Session, model: MessagesStub) -> None:
    model.will_say(text("One."), text("Two."))
    first = await warm.turn("First")

    cleared = await warm.turn("/clear")

    second = await warm.turn("Second")
    known = [event.session_id for event in warm.received.all(SessionIdentified)]
    assert known[0] == warm.id
    assert len(set(known)) == 2
    assert cleared.session_id == second.session_id == known[1]
    assert (cleared.cost_usd, second.cost_usd) == (0, first.cost_usd)


# Questions.


@recorded("allow", "An Edit, allowed.")
async def test_an_allowed_edit_writes_what_was_shown(warm: Session, model: MessagesStub, project: Path) -> None:
    poem = project / "poem.txt"
    model.will_say(read(poem), edit(poem, "two", "2"), text("Done."))
    warm.process.prompt("Change it")

    question = await warm.asked()
    assert question.tool_name == "Edit"
    assert question.proposal is not None
    assert (question.proposal.path, question.proposal.old_text) == (str(poem), POEM)
    assert poem.read_text() == POEM
    warm.process.answer(question.question_id, Decision(allow=True))

    assert (await warm.ended()).ok
    assert poem.read_text() == question.proposal.new_text == "one\n2\nthree\n"


@recorded("deny", "An Edit, denied.")
async def test_a_denied_edit_writes_nothing_and_gets_the_reason(
    warm: Session, model: MessagesStub, project: Path
) -> None:
    poem = project / "poem.txt"
    model.will_say(read(poem), edit(poem, "two", "2"), text("I see."))
    warm.process.prompt("Change it")

    question = await warm.asked()
    warm.process.answer(question.question_id, Decision(allow=False, message="Leave it."))
    warm.process.answer(question.question_id, Decision(allow=True))

    assert (await warm.ended()).ok
    assert poem.read_text() == POEM
    assert model.requests[-1].tool_results == ["Leave it."]


@recorded("allow-edited", "An Edit, allowed with another text: the whole file as old and new.")
async def test_an_edit_allowed_with_changes_writes_them(warm: Session, model: MessagesStub, project: Path) -> None:
    poem = project / "poem.txt"
    model.will_say(read(poem), edit(poem, "two", "2"), text("I see."))
    warm.process.prompt("Change it")
    question = await warm.asked()

    warm.process.answer(question.question_id, changed(question, old_string=POEM, new_string="all mine\n"))

    assert (await warm.ended()).ok
    assert poem.read_text() == "all mine\n"


NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "id": "c1",
            "metadata": {},
            "outputs": [],
            "execution_count": 1,
            "source": ["a = 1.5\n", "b"],
        },
        {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": "# Ä"},
    ],
    "metadata": {"kernelspec": {"name": "python3", "language": "python"}, "empty": {}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def cell(path: Path, **fields: Any) -> dict[str, Any]:
    return tool_use("NotebookEdit", notebook_path=str(path), **fields)


async def test_each_allowed_change_is_written_as_shown(warm: Session, model: MessagesStub, project: Path) -> None:
    crlf, lf, new, notebook = (project / name for name in ("crlf.txt", "lf.txt", "new.txt", "n.ipynb"))
    crlf.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    lf.write_bytes(b"one\ntwo\none\n\xc3\xa4")
    notebook.write_text(json.dumps(NOTEBOOK) + "\n")
    calls = [
        (crlf, edit(crlf, "two", "2\n2b")),
        (crlf, edit(crlf, "one\n", "")),
        (lf, edit(lf, "two", "")),
        (lf, tool_use("Edit", file_path=str(lf), old_string="one", new_string="1", replace_all=True)),
        (new, tool_use("Edit", file_path=str(new), old_string="", new_string="fresh\n")),
        (new, write(new, "again\nand again")),
        (crlf, write(crlf, "now\nwithout\n")),
        (notebook, cell(notebook, cell_id="c1", new_source="a = 2")),
        (notebook, cell(notebook, cell_id="cell-1", new_source="x", cell_type="markdown")),
        (notebook, cell(notebook, cell_id="c1", new_source="", edit_mode="delete")),
    ]
    for file, call in calls:
        model.will_say(read(file), call, text("Done."))
        warm.process.prompt("Change it")
        question = await warm.asked()
        assert question.proposal is not None, call
        assert question.proposal.old_text.encode() == (file.read_bytes() if file.exists() else b"")

        warm.process.answer(question.question_id, Decision(allow=True))

        assert (await warm.ended()).ok
        assert file.read_bytes() == question.proposal.new_text.encode(), call


async def test_after_a_remembered_decision_claude_does_not_ask_again(warm: Session, model: MessagesStub) -> None:
    call = tool_use("Bash", command="touch a", description="d")
    model.will_say(call, text("Done."), tool_use("Bash", command="touch a", description="d"), text("Done."))
    warm.process.prompt("Touch it")
    question = await warm.asked()
    assert {rule["type"] for rule in json.loads(bytes(question.suggestions))} >= {"addRules", "setMode"}
    warm.process.answer(question.question_id, Decision(allow=True, remember=True))
    await warm.ended()

    assert (await warm.turn("Touch it again")).ok

    assert len(warm.received.all(Question)) == 1
    assert {message["permissionMode"] for message in warm.received.messages if message.get("subtype") == "init"} == {
        "default"
    }


@recorded("ask-user", "AskUserQuestion, answered.")
async def test_a_question_with_choices_is_answered(warm: Session, model: MessagesStub) -> None:
    options = [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]
    questions = [{"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}]
    model.will_say(tool_use("AskUserQuestion", questions=questions), text("Red it is."))
    warm.process.prompt("Paint it")

    question = await warm.asked()
    assert question.tool_name == "AskUserQuestion"
    warm.process.answer(question.question_id, changed(question, answers={"Which colour?": "Red"}))

    assert (await warm.ended()).ok
    assert '"Which colour?"="Red"' in model.requests[-1].tool_results[0]
