"""What a new user sees of the demo agent."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import AgentLine, Decision, Exited, Options, Question, QuestionCancelled, TurnEnded
from drawbridge.agents.demo.driver import Demo
from tests.agents.rig import Session, lives, session
from tests.waiting import until

HASTY = "from drawbridge.agents.demo import script as it; it.WORD_SECONDS = 0.001; it.main()"
"""A program that runs the demo agent with hardly any pauses between words."""

README = "# My project\n\nIt does things.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text(README)
    return tmp_path


@pytest.fixture
async def demo(project: Path) -> AsyncIterator[Session]:
    async with session(hasty(), project) as started:
        yield started


def hasty() -> Demo:
    return Demo([sys.executable, "-P", "-c", HASTY])


async def asked(demo: Session, words: str) -> Question:
    demo.process.prompt(words)
    return await demo.received.next(Question)


async def decide(demo: Session, question: Question, decision: Decision) -> TurnEnded:
    demo.process.answer(question.question_id, decision)
    return await demo.received.next(TurnEnded)


async def test_it_proposes_a_change_and_makes_it_when_allowed(demo: Session, project: Path) -> None:
    question = await asked(demo, "Make it shine")
    proposal = question.proposal
    assert proposal is not None
    assert (proposal.path, proposal.old_text) == (str(project / "README.md"), README)
    assert proposal.new_text == README + "> You said: Make it shine\n"
    assert (project / "README.md").read_text() == README

    ended = await decide(demo, question, Decision(allow=True))

    assert (project / "README.md").read_text() == proposal.new_text
    assert demo.received.words == (
        "You said: “Make it shine”. I will write that into `README.md` if you allow it.\nDone: `README.md` has the new line."
    )
    assert (ended.ok, ended.session_id, ended.cost_usd) == (True, demo.id, 0.0012)


async def test_it_writes_the_edited_change(demo: Session, project: Path) -> None:
    question = await asked(demo, "Make it shine")
    given = json.loads(bytes(question.input)) | {"old_string": README, "new_string": "Mine.\n"}

    await decide(demo, question, Decision(allow=True, updated_input=given))

    assert (project / "README.md").read_text() == "Mine.\n"
    assert demo.received.words.endswith("Done: `README.md` has your version of it.")


async def test_a_denied_change_leaves_the_file_unchanged(demo: Session, project: Path) -> None:
    question = await asked(demo, "Make it shine")
    ended = await decide(demo, question, Decision(allow=False, message="It shines already."))
    assert ended.ok
    assert (project / "README.md").read_text() == README
    assert demo.received.words.endswith("All right, I did not write to `README.md`. I was told: “It shines already.”")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"file_path": "/etc/motd"}, "I only write in the directory that I was started in."),
        ({"file_path": "../README.md"}, "I only write in the directory that I was started in."),
        ({"old_string": "not there"}, "the text to replace does not occur exactly once in the file."),
        ({"file_path": "gone.md"}, "No such file or directory: gone.md."),
    ],
)
async def test_it_explains_a_change_it_does_not_make(demo: Session, project: Path, changes: Any, words: str) -> None:
    question = await asked(demo, "Make it shine")
    given = json.loads(bytes(question.input)) | changes
    await decide(demo, question, Decision(allow=True, updated_input=given))
    assert (project / "README.md").read_text() == README
    assert words in demo.received.words.splitlines()[-1]


async def test_it_changes_the_file_that_the_prompt_names(demo: Session, project: Path) -> None:
    (project / "hello.py").write_text("print('hello')")
    question = await asked(demo, "Look at hello.py")
    assert question.proposal is not None
    assert question.proposal.new_text == "print('hello')\n# You said: Look at hello.py\n"


async def test_without_a_usable_file_it_creates_one(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_bytes(b"\xff\xfe")
    (tmp_path / ".hidden.md").write_text("x")
    (tmp_path / "binary.py").write_bytes(b"a\0b")
    (tmp_path / "windows.txt").write_bytes(b"a\r\n")
    async with session(hasty(), tmp_path) as demo:
        question = await asked(demo, "Write  " + "very " * 30 + "much")
        assert question.tool_name == "Write"
        await decide(demo, question, Decision(allow=True))
    assert (tmp_path / "notes1.md").read_text() == f"# Notes\n\n> You said: {('Write ' + 'very ' * 30)[:59]}…\n"


async def test_it_finds_the_position_in_a_repetitive_file(demo: Session, project: Path) -> None:
    (project / "README.md").write_text("a\na\na\n")
    question = await asked(demo, "Go on")
    await decide(demo, question, Decision(allow=True))
    assert (project / "README.md").read_text() == "a\na\na\n> You said: Go on\n"


async def test_it_asks_a_question_with_choices(demo: Session) -> None:
    question = await asked(demo, "/ask")
    assert (question.tool_name, question.proposal) == ("AskUserQuestion", None)
    given = json.loads(bytes(question.input))
    assert [option["label"] for option in given["questions"][0]["options"]] == ["Red", "Oak"]
    given["answers"] = {given["questions"][0]["question"]: "Red"}

    await decide(demo, question, Decision(allow=True, updated_input=given))

    assert demo.received.words == "Red it is."


async def test_it_streams_words_if_partial_messages_are_requested(project: Path) -> None:
    async with session(hasty(), project, Options(partial_messages=True)) as demo:
        await demo.turn("/fail")
        pieces = [json.loads(line.raw) for line in demo.received.all(AgentLine) if not line.durable]
    texts = [event["delta"]["text"] for event in (piece["event"] for piece in pieces) if "delta" in event]
    assert len(texts) > 5
    assert "".join(texts) == demo.received.words


async def test_it_is_interrupted_in_mid_sentence(project: Path) -> None:
    async with session(hasty(), project, Options(partial_messages=True)) as demo:
        demo.process.prompt("/slow")
        while (await demo.received.next(AgentLine)).durable:
            pass
        demo.process.interrupt()

        done = await demo.ended()

        assert (done.ok, done.interrupted) == (False, True)
        assert demo.received.words.startswith("I")
        assert (await demo.turn("/quick")).ok


async def test_an_interrupt_withdraws_the_approval_request(demo: Session, project: Path) -> None:
    question = await asked(demo, "Make it shine")
    demo.process.interrupt()
    assert (await demo.received.next(TurnEnded)).interrupted
    assert demo.received.all(QuestionCancelled) == [QuestionCancelled(question.question_id, "the run was interrupted")]
    demo.process.answer(question.question_id, Decision(allow=True))
    await demo.turn("/quick")
    assert (project / "README.md").read_text() == README


async def test_it_does_not_ask_in_accept_edits_mode(demo: Session, project: Path) -> None:
    await demo.process.set_mode("acceptEdits")
    await demo.process.set_model("demo-large")
    assert (await demo.turn("Go")).ok
    assert (project / "README.md").read_text() == README + "> You said: Go\n"
    used = {"costUSD": 0.0012, "inputTokens": 30, "outputTokens": 30}
    assert demo.received.messages[-1]["model_usage_since_last_result"] == {"demo-large": used}


async def test_a_remembered_decision_avoids_the_next_question(demo: Session, project: Path) -> None:
    question = await asked(demo, "One")
    await decide(demo, question, Decision(allow=True, remember=True))
    assert (await demo.turn("Two")).ok
    assert (project / "README.md").read_text() == README + "> You said: One\n> You said: Two\n"


async def test_it_resumes_a_conversation(project: Path) -> None:
    async with session(hasty(), project, resume=True) as demo:
        question = await asked(demo, "More")
        ended = await decide(demo, question, Decision(allow=True))
    assert demo.received.words.startswith("Let's continue where we left off. You said: “More”.")
    assert (ended.session_id, ended.cost_usd) == (demo.id, 0.0012)


async def test_help_lists_its_commands(demo: Session) -> None:
    await demo.turn("/help")
    for command in ("/ask", "/slow 20", "/lines 1000", "/fail", "/crash", "/quick"):
        assert f"`{command}`" in demo.received.words


async def test_it_fails_on_request(demo: Session) -> None:
    ended = await demo.turn("/fail")
    assert (ended.ok, ended.error) == (False, "The demo agent failed, as it was told to.")
    assert (await demo.turn("/quick")).ok


async def test_it_crashes_on_request(demo: Session) -> None:
    ended = await demo.turn("/crash")
    assert ended.error == (
        "The demo agent exited with code 3 before it had finished: The demo agent crashed, as it was told to."
    )


async def test_it_sends_many_lines(demo: Session) -> None:
    assert (await demo.turn("/lines 500")).ok
    assert demo.received.words.splitlines()[-1] == "Line 500"
    assert len(demo.received.all(AgentLine)) == 502


@pytest.mark.parametrize("words", ["/slow 600", "Make it shine"])
async def test_it_can_be_killed_at_any_time(demo: Session, words: str) -> None:
    demo.process.prompt(words)
    await demo.received.next(Question if words[0] != "/" else AgentLine)
    await demo.process.kill()
    assert demo.received.events[-1] == Exited(0, "")
    assert not lives(demo.process.pid)


async def test_a_signal_ends_it_like_any_other_process(demo: Session) -> None:
    await demo.turn("/quick")
    demo.process.prompt("/slow 600")
    await demo.received.next(AgentLine)
    os.kill(demo.process.pid, signal.SIGTERM)
    await until(lambda: demo.received.all(Exited), "its end")
    assert demo.received.events[-1] == Exited(-signal.SIGTERM, "")


async def test_a_module_in_the_project_is_not_imported(project: Path) -> None:
    (project / "drawbridge.py").write_text("raise SystemExit('hijacked')")
    (project / "json.py").write_text("raise SystemExit('hijacked')")
    async with session(Demo(), project) as demo:
        assert (await demo.turn("/quick")).ok
