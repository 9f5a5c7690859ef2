"""How the items of a conversation are drawn, folded and in full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents import registry
from drawbridge.tui.colors import DARK
from drawbridge.tui.conversation import Conversation, Item, Kind, Record, Result
from drawbridge.tui.drawing import DIFF_LINES, RESULT_CHARACTERS, Painter
from drawbridge.tui.history import History
from tests.server.processes import Server

from .rig import attached

SUMMARY = "This session is being continued from a previous conversation. " + "It went well. " * 50 + "The end."
CONTEXT = "<system-reminder>" + "Files have changed. " * 50 + "\nThe end.</system-reminder>"
OUTPUT = f"<local-command-stdout>\x1b[1mContext usage\x1b[22m\n{'x' * 900}\nThe end.</local-command-stdout>"

WHY = {"questions": [{"question": "Why?"}]}


def drawn(kind: Kind, data: dict[str, Any], *, folded: bool = True, everything: bool = False, **more: Any) -> str:
    painter = Painter(DARK)
    painter.acts = registry.tools("claude").acts
    item = Item(1, 1, "", kind, data, truncated=more.get("truncated"))
    whole = more.get("whole")
    strips = painter.item(item, 100, folded=folded, whole=whole, everything=everything)
    return "\n".join(strip.text.rstrip() for strip in strips)


def call(
    name: str, given: dict[str, Any], result: str | None = "", *, error: bool = False, **more: Any
) -> dict[str, Any]:
    found = None if result is None else Result(result, error, None, False)
    return {"name": name, "input": given, "result": found, **more}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (SUMMARY, "▸ Summary that the agent continues from"),
        (CONTEXT, "▸ Context added for the agent"),
        (OUTPUT, "▸ Output Context usage"),
    ],
)
def test_long_text_that_the_user_did_not_type_is_folded(text: str, label: str) -> None:
    assert drawn("aside", {"text": text}) == label
    shown = drawn("aside", {"text": text}, folded=False)
    assert shown.startswith(label.replace("▸", "▾"))
    assert "The end." in shown
    assert "local-command" not in shown


UNDONE = """diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -9,3 +9,3 @@
 nine
-TEN
+ten
 eleven
@@ -20 +20,2 @@
 twenty
+more
diff --git a/b.png b/b.png
new file mode 100755
Binary files /dev/null and b/b.png differ
"""


def test_a_decision_unfolds_to_what_it_changed() -> None:
    paths = ["a.py", "b.png", "c.py"]
    data = {"by": "Ada", "text": "undid 9 changes in 5 files", "files": 5, "paths": paths, "diff": UNDONE}
    line = drawn("notice", data)
    assert line.startswith("▸ Ada undid 9 changes in 5 files ──")
    assert "\n" not in line
    shown = drawn("notice", {**data, "diff_truncated": True}, folded=False).split("\n")
    assert shown[0].startswith("▾ Ada undid")
    assert shown[1:] == [
        "  a.py",
        "    ⋯   8 lines unchanged",
        "    9   nine",
        "   10 − TEN",
        "   10 + ten",
        "   11   eleven",
        "    ⋯   8 lines unchanged",
        "   20   twenty",
        "   21 + more",
        "  b.png",
        "  Its content is not shown: git does not compare it as text, or it is too large.",
        "  c.py",
        "and 2 more files",
        "Only the beginning of the diff was recorded.",
    ]
    assert drawn("notice", {"by": "Ada", "text": "kept 1 change in a.py", "paths": ["a.py"]}).startswith("── Ada")


def test_a_file_with_a_strange_name_is_listed_once() -> None:
    """git quotes such a path in the diff, but the record contains it as it is."""
    path = 'odd "name"\t\x01\\é.py'
    old, new = (rf'"{side}/odd \"name\"\t\001\\é.py"' for side in "ab")
    diff = f"diff --git {old} {new}\n--- {old}\n+++ {new}\n@@ -1 +1 @@\n-TEN\n+ten\n"
    shown = drawn(
        "notice", {"by": "Ada", "text": "undid 1 change", "files": 1, "paths": [path], "diff": diff}, folded=False
    )
    assert shown.count("odd") == 1
    assert "TEN" in shown


def test_a_summary_is_recognized_by_its_field() -> None:
    assert drawn("aside", {"text": "Short.", "summary": True}) == "▸ Summary that the agent continues from"


@pytest.mark.parametrize("tag", ["local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr"])
def test_a_short_output_is_shown_without_its_tag_and_colors(tag: str) -> None:
    assert drawn("aside", {"text": f"<{tag}>\x1b[31mCompacted\x1b[0m </{tag}>\n"}) == "Compacted"
    assert drawn("aside", {"text": f"<{tag}> </{tag}>"}) == ""
    assert drawn("aside", {"text": f"<{tag}>a</{tag}> and more"}).startswith("▸ Context")


def test_a_preview_is_replaced_by_the_whole_text() -> None:
    preview: dict[str, Any] = {"truncated": {"bytes": 5_000, "blob_id": "b"}}
    assert "Enter shows all" not in drawn("aside", {"text": SUMMARY}, **preview)
    assert "Enter shows all" in drawn("aside", {"text": SUMMARY}, folded=False, **preview)
    assert "All of it." in drawn("aside", {"text": SUMMARY}, folded=False, whole=f"{SUMMARY} All of it.", **preview)
    result = call("Bash", {"command": "make"}, "begin")
    result["result"] = result["result"]._replace(truncated=preview["truncated"])
    assert "Enter shows all" in drawn("tool", result, folded=False)
    shown = drawn("tool", result, folded=False, whole="begin and \x1b[32mend")
    assert shown.endswith("begin and end")
    assert shown.count("begin") == 1


def test_a_long_result_ends_with_the_key_that_shows_all() -> None:
    data = call("Bash", {"command": "make"}, "x" * RESULT_CHARACTERS + "The end.")
    assert drawn("tool", data, folded=False).endswith("… 1 kB more (Enter: show all)")
    assert drawn("tool", data, folded=False, everything=True).endswith("The end.")


@pytest.mark.parametrize("kind", ["tool", "question"])
def test_a_long_diff_ends_with_the_key_that_shows_all(kind: Kind) -> None:
    text = "".join(f"line {number}\n" for number in range(DIFF_LINES + 50))
    data = call("Write", {"file_path": "/p/a", "content": text}, None)
    if kind == "question":
        proposal = {"path": "/p/a", "old_text": "", "new_text": text}
        request = {"tool_name": "Write", "input": {}, "proposal": proposal}
        data = {"request": request, "answer": {"decision": "allow", "by": "Ada"}}
    assert "more lines (Enter: show all)" in drawn(kind, data, folded=False)
    shown = drawn(kind, data, folded=False, everything=True)
    assert f"line {DIFF_LINES + 49}" in shown
    assert "Enter" not in shown


def test_colors_are_stripped_only_from_what_a_command_printed() -> None:
    green = "\x1b[38;5;2mgreen\x1b[0m \x1b[2J"
    for name in ("Bash", "BashOutput"):
        assert drawn("tool", call(name, {}, green), folded=False).endswith("green \\x1b[2J")
    for data in (call("Read", {"file_path": "a"}, green), call("Bash", {"command": green}, "done")):
        assert "\\x1b[38;5;2mgreen\\x1b[0m" in drawn("tool", data, folded=False)
    assert "\\x1b[38;5;2mgreen" in drawn("prompt", {"text": green, "by": ""})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (call("Bash", {"command": "npm test"}), "▸ Ran npm test  ✓"),
        (call("Bash", {"command": "npm test"}, None), "▸ Running npm test  …"),
        (call("Bash", {"command": "npm test"}, None, waiting=True), "▸ Run npm test  waiting for approval"),
        (call("Bash", {"command": "npm test"}, None, waiting=True, stopped=True), "▸ Ran npm test  stopped"),
        (call("Bash", {"command": "npm test"}, error=True), "▸ Ran npm test  ✗ failed"),
        (call("Bash", {"command": "npm test"}, error=True, rejected=True), "▸ Run npm test  ✗ rejected"),
        (call("AskUserQuestion", WHY, None, waiting=True), "▸ Asking Why?  waiting for an answer"),
        (call("AskUserQuestion", {}, error=True, rejected=True), "▸ Asked a question  ✗ skipped"),
        (call("TodoWrite", {"todos": []}), "▸ Updated the to-do list  ✓"),
        (call("mcp__github__list", {"owner": "ada"}), "▸ Used list (github): ada  ✓"),
    ],
)  # fmt: skip
def test_a_tool_call_is_described_by_what_it_does(data: dict[str, Any], words: str) -> None:
    assert drawn("tool", data) == words


def test_an_answered_question_unfolds_to_questions_and_answers() -> None:
    request = {"tool_name": "ask_user", "kind": "question", "input": {}}
    answers = {"Which wood?": ["oak", "ash"], "Which color?": "red"}
    answer = {"decision": "allow", "by": "Ada", "edited": True, "updated_input": {"answers": answers}}
    data = {"request": request, "answer": answer}
    assert drawn("question", data).startswith("✓ Answered by Ada: oak, ash; red")
    assert drawn("question", data, folded=False).endswith("Which wood? → oak, ash\nWhich color? → red")


BASH = {"command": "make"}
ASKED = {"approval_id": "a", "tool_name": "Bash", "input": BASH}


def _server(seq: int, subtype: str, **data: Any) -> Record:
    return Record(seq, "", "server", {"type": "system", "subtype": subtype, "message": data})


def _called(seq: int) -> Record:
    block = {"type": "tool_use", "id": "t", "name": "Bash", "input": BASH}
    return Record(seq, "", "claude", {"type": "assistant", "message": {"content": [block]}})


@pytest.mark.parametrize("is_first", [True, False])
def test_a_call_waits_until_its_request_is_resolved(*, is_first: bool) -> None:
    """In a terminal session, the agent asks before its call is recorded."""
    conversation = Conversation("p")
    conversation.join({"last_seq": 0, "run": None, "queue": [], "open_approvals": []}, restart=True)
    order = (_called, lambda seq: _server(seq, "permission_request", **ASKED))
    for seq, record in enumerate(order if is_first else reversed(order), 1):
        conversation.apply(record(seq))
    (tool,) = (item for item in conversation.items if item.kind == "tool")
    assert tool.data["waiting"]
    version = tool.version
    conversation.apply(_server(3, "permission_resolved", approval_id="a", by="Ada", decision="allow"))
    assert (tool.data["waiting"], tool.version > version) == (False, True)


@pytest.mark.parametrize("pages", [[1, 2], [2]])
def test_a_call_without_a_result_ends_with_its_run(pages: list[int]) -> None:
    """``pages``: the records that are loaded at once."""
    conversation = Conversation("p")
    conversation.join({"last_seq": 2, "run": None, "queue": [], "open_approvals": []}, restart=True)
    records = {1: _called(1), 2: _server(2, "run_finished", run_id="r", outcome="interrupted")}
    conversation.prepend(records[seq] for seq in pages)
    conversation.prepend(records[seq] for seq in (1, 2) if seq not in pages)
    assert conversation.items[0].data["stopped"]


def lines(result: str) -> str:
    """The prompt for a call whose result is ``result``, and for the output of one of the agent's own commands."""
    block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "npm test"}}
    done = {"type": "tool_result", "tool_use_id": "toolu_1", "content": result}
    emitted = [
        {"type": "assistant", "message": {"role": "assistant", "content": [block]}, "parent_tool_use_id": None},
        {"type": "user", "message": {"role": "user", "content": [done]}, "parent_tool_use_id": None},
        {"type": "user", "message": {"role": "user", "content": OUTPUT}, "parent_tool_use_id": None},
    ]
    return f"/emit {json.dumps(emitted)}"


@pytest.mark.thorough
@pytest.mark.parametrize("length", [2 * RESULT_CHARACTERS, 200_000])
async def test_enter_shows_all_of_a_long_result(server: Server, directory: Path, length: int) -> None:
    """The server sends only a preview of the longer one."""
    words = "word " * (length // 5) + "The \x1b[32mend of it.\x1b[0m"
    async with attached(server, directory) as person:
        await person.prompts(lines(words))
        await person.reads("▸ Ran npm test  ✓", "▸ Output Context usage", "Finished")
        await person.presses("escape")
        history = person.app.screen.query_one(History)
        (tool,) = (item for item in history._items if item.kind == "tool")
        history.current = tool.key
        await person.presses("enter")
        await person.reads("▾ Ran npm test", "word word", "nter")
        assert "The end of it." not in person.history
        await person.presses("enter")
        await person.reads("The end of it.")
        await person.presses("enter")
        await person.reads("▸ Ran npm test")
        assert "word word" not in person.history.partition("▸ Ran")[2]
        await person.presses("j", "enter")
        await person.reads("▾ Output Context usage", "The end.")
        assert "local-command" not in person.history.partition("▾ Output")[2]
