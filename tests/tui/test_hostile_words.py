"""Text from an agent, a file or another person is never interpreted as markup, and can't control the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawbridge.core.terminal_text import harmless
from drawbridge.tui.colors import DARK, LIGHT
from drawbridge.tui.conversation import Item, Kind, Result
from drawbridge.tui.drawing import Painter
from drawbridge.tui.fields import pasted
from tests.server.processes import Server

from .conftest import make_directory, make_project
from .rig import Alone, attached, shown

EVIL = "[red]x[/red][/] [@click=app.quit]y[/] $ink \x1b[2J\x1b]52;c;AAAA\x07 \x9b31m \u202egnp.\u202c \0\b\r &#27; &#x202e;"
"""Markup for Rich and Textual, escape sequences, control characters, and references to such characters in Markdown."""

EDITED = {"by": EVIL, "decision": "allow", "edited": True, "updated_input": {EVIL: EVIL, "answers": {"": EVIL}}}

SHAPES: list[tuple[Kind, dict[str, Any]]] = [
    ("prompt", {"text": EVIL, "by": EVIL}),
    ("text", {"text": EVIL}),
    ("text", {"text": f"# {EVIL}\n\n- {EVIL}\n\n> {EVIL}\n\n```{EVIL}\n{EVIL}\n```\n\n[{EVIL}](http://{EVIL})\n\n`{EVIL}`"}),
    ("text", {"text": f"|{EVIL}|b|\n|-|-|\n|{EVIL}|![{EVIL}](x)|"}),
    ("aside", {"text": EVIL}),
    ("tool", {"name": EVIL, "input": {"command": EVIL, EVIL: EVIL}, "result": Result(EVIL, True, None, False)}),
    ("tool", {"name": "Bash", "input": {"command": EVIL}, "result": None}),
    ("tool", {"name": "Write", "input": {"file_path": EVIL, "content": EVIL}, "result": Result(EVIL, False, None, False)}),
    ("tool", {"name": "Edit", "input": {"old_string": EVIL, "new_string": f"{EVIL}\n\t{EVIL}"}, "result": None}),
    ("question", {"request": {"tool_name": EVIL, "input": EVIL}, "answer": {"by": EVIL, "message": EVIL}}),
    ("question", {"request": {"tool_name": EVIL, "input": {}}, "answer": {"reason": EVIL}}),
    ("question", {"request": {"tool_name": "Bash", "input": {}}, "answer": EDITED}),
    ("question", {"request": {"tool_name": "AskUserQuestion", "input": {}}, "answer": EDITED}),
    ("finished", {"outcome": EVIL, "error": EVIL}),
    ("notice", {"text": EVIL}),
]  # fmt: skip


def is_harmless(line: str) -> bool:
    return harmless(line) == line


@pytest.mark.parametrize(("kind", "data"), SHAPES)
@pytest.mark.parametrize("width", [100, 12])
def test_no_drawn_text_controls_the_terminal(kind: Kind, data: dict[str, Any], width: int) -> None:
    item = Item(1, 1, "2026-11-21T09:00:00Z", kind, data)
    painter = Painter(DARK)
    for folded in (True, False):
        strips = painter.item(item, width, folded=folded, whole=EVIL)
        assert strips
        assert [strip.text for strip in strips if not is_harmless(strip.text)] == []


@pytest.mark.parametrize(("kind", "start"), [("prompt", "▎ {}  "), ("notice", "── {} did it ")])
def test_who_did_something_is_decided_by_client(kind: Kind, start: str) -> None:
    """Records of older servers have no ``client_id``, so only their names can be compared."""
    painter = Painter(DARK, lambda data: data["client_id"] == "c1")
    painter.me = "ada"

    def drawn(**client: str) -> str:
        item = Item(1, 1, "2026-11-21T09:00:00Z", kind, {"text": "did it", **client})
        return painter.item(item, 60, folded=True, whole=None)[0].text

    for client, who in (
        ({"by": "ada", "client_id": "c1"}, "You"),
        ({"by": "ada", "client_id": "c2"}, "ada"),
        ({"by": "ada"}, "You"),
        ({"by": "bob"}, "bob"),
    ):
        assert drawn(**client).startswith(start.format(who))


def test_markup_is_shown_literally() -> None:
    strips = Painter(LIGHT).item(Item(1, 1, "", "text", {"text": "[red]a[/red] [/] $ink"}), 60, folded=True, whole=None)
    assert strips[0].text.rstrip() == "[red]a[/red] [/] $ink"


def questions() -> Iterator[dict[str, Any]]:
    suggestions = [{"type": "setMode", "mode": EVIL}, {"type": "addRules", "rules": [{"toolName": EVIL}]}]
    same: dict[str, Any] = {"approval_id": "a", "suggestions": suggestions}
    yield same | {"tool_name": EVIL, "input": {EVIL: EVIL, "file_path": EVIL}}
    yield same | {"tool_name": "Bash", "input": {"command": EVIL, "description": EVIL}}
    yield same | {"tool_name": "Bash", "input": EVIL}
    proposal = {"path": f"/{EVIL}/x.py", "old_text": EVIL, "new_text": f"{EVIL}\n# {EVIL}"}
    yield same | {"tool_name": "Write", "input": {}, "proposal": proposal}
    option = {"label": EVIL, "description": EVIL}
    asked = {"question": EVIL, "header": EVIL, "options": [option, option]}
    yield same | {"tool_name": "AskUserQuestion", "input": {"questions": [asked, asked | {"multiSelect": True}]}}


@pytest.mark.parametrize("request_", list(questions()), ids=lambda one: one["tool_name"][:5])
async def test_the_words_of_a_question_are_shown_as_text(request_: dict[str, Any]) -> None:
    app = Alone(request_, EVIL)
    async with app.run_test(size=(120, 40)) as pilot:
        app.view.fit(40)
        await pilot.pause()
        app.view.edit()
        app.view.reject()
        app.view.settle({"by": EVIL, "decision": "allow"})
        await pilot.pause()
        lines = shown(app)
        assert any("[red]x[/red]" in line for line in lines)
        assert [line for line in lines if not is_harmless(line)] == []
        assert app.is_running


@pytest.mark.thorough
async def test_a_hostile_conversation_is_harmless(server: Server, directory: Path) -> None:
    async with server.client() as owner, attached(server, directory, name=EVIL.replace("\x00", "")) as person:
        project = person.app.client.projects.named(str(directory), "")[0]["id"]
        await owner.send("execute", {"prompt": EVIL, "options": {"partial_messages": True}}, project)
        await person.is_asked("You said: [red]x[/red]")
        await person.sees("\\x1b[2J")
        assert [line for line in person.screen.splitlines() if not is_harmless(line)] == []
        await person.presses("e")
        await person.sees("The text contains characters that a terminal can't show")
        await person.presses("a")
        await person.reads("✓ Accepted by")
        assert [line for line in person.screen.splitlines() if not is_harmless(line)] == []


async def test_a_hostile_directory_name_is_harmless(server: Server, directory: Path) -> None:
    evil = make_directory(directory.parent / f"{directory.name} [red]x[/red] $ink")
    await make_project(server, evil)
    async with attached(server, None) as person:
        await person.sees(f"{evil.name}  ● Ready")
    async with attached(server, evil) as person:
        await person.sees(f"{evil.name}  Connected")


def test_a_line_of_a_megabyte_loses_no_text() -> None:
    text = "word " * 200_000 + "漢" * 1_000
    strips = Painter(DARK).plain(text, 90, DARK.ink)
    assert "".join(strip.text for strip in strips) == text
    assert max(strip.cell_length for strip in strips) <= 90


@settings(max_examples=30)
@given(st.text())
def test_pasted_text_is_harmless(text: str) -> None:
    assert all(is_harmless(line) for line in pasted(text).replace("\t", "").split("\n"))


MARKS = "a \u0301\u200d\ufe0f\U0001f3fb\n\t界`#*_-"
"""Characters that combine with the previous character, and characters that may precede them."""


@settings(max_examples=50)
@given(st.text() | st.text(MARKS), st.integers(min_value=4, max_value=60))
@example("\u0301a\n\u200d", 60)
@example("\U0001f3fb", 4)
def test_any_text_is_drawn_harmlessly(text: str, width: int) -> None:
    painter = Painter(DARK)
    strips = [
        *painter.markdown(text, width),
        *painter.plain(text, width, "#ffffff"),
        *painter.code(text, "sh", width),
        *painter.diff({"path": "/x/a.py", "old_text": text[::-1], "new_text": text}, width),
    ]
    result = Result(text, False, None, False)
    shapes: list[tuple[Kind, dict[str, Any]]] = [
        ("prompt", {"text": text, "by": text}),
        ("tool", {"name": "Write", "input": {"file_path": text, "content": text}, "result": result}),
        ("tool", {"name": "Bash", "input": {"command": text, "field": text}, "result": result}),
    ]
    for kind, data in shapes:
        item = Item(1, 1, "2026-11-21T09:00:00Z", kind, data)
        strips += painter.item(item, width, folded=False, whole=text)
    assert [strip.text for strip in strips if not is_harmless(strip.text)] == []
