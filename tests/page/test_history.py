"""The history shows what happened: calls, their output, approvals, answers, images, times.

docs/internals/page.md lists the findings that the docstrings name, such as S2-18.
"""

from __future__ import annotations

import base64
import json
import random
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import programs

from .conftest import page_of
from .history import Line, serving_history
from .rig import Browser, Person
from .test_message_box import emits

pytestmark = pytest.mark.thorough

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000080000000808020000004b6d29dc"
        "0000001449444154789c63fccf8001fe33c000132340020006b0010f8f8c4a3a0000000049454e44ae426082"
    )
).decode()

TABLE = """## Result

| Function | Called by | Severity |
|:---------|:---------:|---------:|
| `is_open(bridge: Bridge, at: datetime)` | `toll` \\| `gate` | **high** |
| close | nobody | low |

See `src/bridge.py:11` and [the gate](src/gate.py#L3).

- [x] read
- [ ] write

```python
def is_open(self):
    \"\"\"Whether it's open.\"\"\"
    return self.angle < 3  # degrees
```
"""

PATCH = [
    {
        "oldStart": 41,
        "oldLines": 3,
        "newStart": 41,
        "newLines": 3,
        "lines": [" def toll(self):", "-    return 22", "+    return 23", " "],
    }
]


def said(text: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}


def call(id: str, name: str, parent: str | None = None, **given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": id, "name": name, "input": given}
    return {"type": "assistant", "parent_tool_use_id": parent, "message": {"content": [block]}}


def result(id: str, content: Any = "ok", parent: str | None = None, **more: Any) -> dict[str, Any]:
    error = more.pop("is_error", False)
    block = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": error}
    return {"type": "user", "parent_tool_use_id": parent, "message": {"content": [block]}, **more}


def thinking(text: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": text}]}}


def system(subtype: str, **more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, **more}


def conversation(root: Path) -> list[dict[str, Any]]:
    ansi = "\x1b[32m✓\x1b[0m 12 passed\n\x1b[1;31m✗ 1 failed\x1b[0m\x1b[2K\n"
    todos = [
        {"content": "Read the bridge", "status": "completed", "activeForm": "Reading"},
        {"content": "Close the gate", "status": "in_progress", "activeForm": "Closing the gate"},
        {"content": "Write tests", "status": "pending", "activeForm": "Writing tests"},
    ]
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    return [
        said("I look at the bridge first."),
        thinking("The toll is *odd*."),
        call("1", "Read", file_path=f"{root}/src/bridge.py", offset=10, limit=3),
        result("1", "10\timport os\n11\tdef is_open():\n12\t    return True\n"),
        call("2", "Read", file_path=f"{root}/src/gate.py"),
        result("2", "1\tclass Gate:\n2\t    '''a\n3\t    it's'''\n"),
        call("3", "Grep", pattern="is_open\\(", path=f"{root}/src"),
        result("3", "src/bridge.py:11"),
        call("4", "Bash", command="npm test", description="Run the tests"),
        result("4", ansi),
        call("5", "Bash", command="make frobnicate"),
        result("5", "make: *** No rule to make target 'frobnicate'.  Stop.\nsecond line", is_error=True),
        said("Then I change it."),
        call("6", "Edit", file_path=f"{root}/src/bridge.py", old_string="return 22", new_string="return 23"),
        result("6", "updated", tool_use_result={"structuredPatch": PATCH}),
        said(TABLE),
        call("7", "TodoWrite", todos=todos),
        result("7", "Todos have been modified"),
        call("8", "Task", description="Review the gate", prompt="Look at it", subagent_type="reviewer"),
        call("9", "Read", parent="8", file_path=f"{root}/src/gate.py"),
        result("9", "1\tclass Gate:\n", parent="8"),
        call("10", "Bash", parent="8", command="git log"),
        result("10", "", parent="8"),
        result("8", [{"type": "text", "text": "The gate is **fine**."}]),
        call("11", "Bash", command="sleep 100", run_in_background=True),
        system("task_started", task_id="t", tool_use_id="11", description="sleep 100"),
        result("11", "Command running in background with ID: t"),
        system("task_notification", task_id="t", tool_use_id="11", status="completed", summary="sleep 100 has ended"),
        said("Here is a picture."),
        call("12", "Read", file_path=f"{root}/plan.png"),
        result("12", [{"type": "image", "source": source}]),
        system("compact_boundary", compact_metadata={"trigger": "auto", "pre_tokens": 155_000}),
        {
            "type": "user",
            "message": {
                "content": "This session is being continued from a previous conversation that ran out of context."
            },
        },
        said("I continue."),
        call("13", "mcp__github__get_issue", repo="bridge", number=4),
        result("13", "x" * 30_000),
    ]


@pytest.fixture
async def history(browser: Browser, tmp_path: Path, directory: Path) -> AsyncIterator[str]:
    """The address of a project whose history is ``conversation``."""
    async with serving_history(tmp_path, directory, conversation(directory)) as (server, project):
        yield f"{page_of(server)}#token={server.token}&project={project}"


@pytest.fixture
def reader(browser: Browser, history: str) -> Iterator[Person]:
    with browser.person(history, width=1280, height=900) as person:
        person.sees(".said", "I continue.")
        yield person


def row(text: str) -> str:
    return f".tool > summary:has-text('{text}')"


def opened(text: str) -> str:
    return f".tool[open]:has(> summary:has-text('{text}')) > .tool-body"


def test_a_group_of_calls_is_one_line_that_expands(reader: Person) -> None:
    """Finding S2-18: each call had its own large row, with the tool's name instead of a verb."""
    reader.sees(row("Read 2 files, searched, ran 2 commands"), "1 failed")
    assert not reader("visible", css=row("npm test"))
    reader.clicks(row("Read 2 files"))
    reader.sees(row("Searched for"), "is_open\\( in src")
    reader.sees(row("make frobnicate"), "make: *** No rule to make target 'frobnicate'.")
    assert "second line" not in reader.reads(row("make frobnicate"))[0]
    reader.clicks(".group > summary")
    reader.loses(row("npm test"))


@pytest.mark.slow
def test_s3_30_calls_show_their_times(reader: Person) -> None:
    """A group, a call in it and a to-do list show their times. The tooltips show the full date and time."""
    reader.clicks(row("Read 2 files"))
    reader.sees(row("make frobnicate"))
    for css in (".group > summary", ".group-rows .tool > summary", "p.tool"):
        [time, title, day] = reader.runs(
            f"(() => {{ const time = document.querySelector('{css} > time');"
            " return [time.innerText, time.title, new Date(time.dateTime).toLocaleString()] })()"
        )
        assert ":" in time
        assert title == day
    # The pointer is on the group.
    reader.until("getComputedStyle(document.querySelector('.group > summary > time')).opacity === '1'")


@pytest.mark.slow
def test_a_read_file_has_its_own_line_numbers_and_colors(reader: Person) -> None:
    """Finding S2-18: the rows of tool calls showed few details."""
    reader.clicks(row("Read 2 files"))
    reader.clicks(row("src/bridge.py:10–12"))
    reader.sees(".tool[open] > .tool-body .file-lines")
    numbers = "document.querySelector('.tool[open] > .tool-body .file-lines').innerHTML.match(/data-number=.\\d+/g)"
    assert reader.runs(numbers) == ['data-number="10', 'data-number="11', 'data-number="12']
    reader.sees(f"{opened('src/bridge.py:10')} .code-word", "import")
    reader.clicks(row("src/gate.py"))
    reader.sees(f"{opened('src/gate.py')} .code-string", "it's'''")


@pytest.mark.slow
def test_terminal_colors_are_shown(reader: Person) -> None:
    """Finding S2-17: escape sequences were shown as text."""
    reader.clicks(row("Read 2 files"))
    reader.clicks(row("npm test"))
    reader.sees(f"{opened('npm test')} .ansi-green", "✓")
    reader.sees(f"{opened('npm test')} .ansi-red.ansi-bold", "✗ 1 failed")
    assert "[" not in reader.reads(f"{opened('npm test')} .result")[0]


def test_an_edit_shows_the_line_numbers_of_its_file(reader: Person) -> None:
    """Finding S2-18: lines were numbered from 1."""
    reader.sees(row("Edited"), "+1 −1")
    reader.clicks(row("Edited"))
    reader.sees(f"{opened('Edited')} .line.added", "return 23")
    assert reader.runs("document.querySelector('.tool[open] .number.added').dataset.number") == "42"
    reader.sees(f"{opened('Edited')} .line.added .code-word", "return")
    reader.clicks(f"{opened('Edited')} .tool-file .file-link")
    reader.until("location.hash.endsWith('/files/src/bridge.py?line=42')")


def test_lines_with_unknown_numbers_have_no_line_number(browser: Browser, address: str) -> None:
    """The input of an edit contains only part of the file, and only the result contains the line numbers."""
    given = {"file_path": "gate.py", "old_string": "return 22", "new_string": "return 23"}
    shown = (
        "[...document.querySelectorAll('.tool[open] > .tool-body .number:not(.none)')]"
        ".map((one) => getComputedStyle(one, '::before').content)"
    )
    with browser.person(address) as person:
        emits(person, call("1", "Edit", **given), result("1"))
        person.clicks(row("Edited"))
        person.sees(f"{opened('Edited')} .line.added", "return 23")
        assert set(person.runs(shown)) == {'""'}


@pytest.mark.slow
def test_tables_links_and_tasks_can_be_read(reader: Person) -> None:
    """Finding S2-10: columns of tables were as narrow as a letter, and escaped bars split cells."""
    cells = reader.reads(".said td")
    assert cells == ["is_open(bridge: Bridge, at: datetime)", "toll | gate", "high", "close", "nobody", "low"]
    reader.sees(".said .task input:checked")
    reader("resize", width=390, height=844)
    widths = "[...document.querySelectorAll('.said td')].map((cell) => cell.clientWidth)"
    assert min(reader.runs(widths)) > 40
    assert not reader.runs("document.documentElement.scrollWidth > innerWidth")


def test_code_can_be_copied_and_wrapped(reader: Person) -> None:
    """Finding S2-15: there was no copy button."""
    reader("allow", what=["clipboard-read", "clipboard-write"], url=reader.runs("location.origin"))
    reader.sees(".code-block .language", "python")
    reader.clicks(".code-block [aria-label='Copy code']")
    reader.sees(".code-block [role=status]", "Copied")
    assert str(reader.runs("navigator.clipboard.readText()")).startswith("def is_open(self):")
    reader.clicks(".code-block [aria-label='Wrap lines']")
    reader.sees(".code-block.wraps")


def copies(reader: Person, css: str, expected: str) -> None:
    """Presses a copy button, and waits until the text on the clipboard contains ``expected``."""
    reader.runs("navigator.clipboard.writeText('')")
    reader.clicks(css)
    reader.until(f"navigator.clipboard.readText().then((text) => text.includes({json.dumps(expected)}))")


@pytest.mark.slow
def test_every_kind_of_content_can_be_copied(reader: Person, directory: Path) -> None:
    """Finding S2-15: an answer, a message, a command and its output, a path and a plan can be copied."""
    reader("allow", what=["clipboard-read", "clipboard-write"], url=reader.runs("location.origin"))
    plan = {"name": "ExitPlanMode", "input": {"plan": "# Close on time\n\nFirst the **code**.\n"}}
    reader.prompts(f"/calls {json.dumps([plan])}")
    reader.clicks(".approval.current .yes")
    reader.sees(".finished")
    copies(reader, ".prompt [aria-label='Copy message']", "/calls")
    reader.clicks(row("Presented the plan"))
    copies(reader, "[aria-label='Copy plan']", "First the **code**.")
    copies(reader, ".said:has-text('Then I change it') [aria-label='Copy answer']", "Then I change it.")
    reader.clicks(row("Read 2 files"))
    reader.clicks(row("npm test"))
    copies(reader, f"{opened('npm test')} [aria-label='Copy code']", "npm test")
    copies(reader, f"{opened('npm test')} [aria-label='Copy output']", "12 passed")
    reader.clicks(row("src/gate.py"))
    copies(reader, f"{opened('src/gate.py')} [aria-label='Copy path']", f"{directory}/src/gate.py")
    copies(reader, f"{opened('src/gate.py')} [aria-label='Copy lines']", "class Gate:")


@pytest.mark.slow
async def test_a_very_long_output_is_shown_without_color_codes(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    """The colors of such a long output would take too long to draw."""
    lines = "".join(f"\x1b[32m✓\x1b[0m test {number}\n" for number in range(10_000))
    run = [said("Now the tests."), call("1", "Bash", command="npm test"), result("1", lines)]
    async with serving_history(tmp_path, directory, run) as (server, project):
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.clicks(row("npm test"))
            person.sees(".result span[class]", "✓")
            person.clicks(f"{opened('npm test')} button:has-text('Show all')")
            person.sees(".result", "test 9999")
            assert person.runs("/\\[\\d+m/.test(document.querySelector('.result').innerText)") is False


@pytest.mark.slow
def test_a_todo_list_is_shown_as_a_list(reader: Person) -> None:
    """Finding S2-22: the list was shown as JSON."""
    todos = reader.reads(".tool-row .todos li > span:not(.offscreen)")
    assert todos == ["Read the bridge", "Closing the gate", "Write tests"]


@pytest.mark.slow
def test_subagent_calls_are_shown_under_their_parent_call(reader: Person) -> None:
    """Finding S2-9: the calls of subagents were among the other calls."""
    reader.sees(".tool-row:has-text('Ran agent') > .nested-rows", "Read 1 file, ran 1 command")
    reader.clicks(row("Ran agent"))
    reader.sees(f"{opened('Ran agent')} .markdown strong", "fine")


@pytest.mark.slow
def test_a_background_task_is_shown_at_its_call(reader: Person) -> None:
    reader.sees(".tool-row:has(> .tool:has-text('sleep 100')) > .background", "sleep 100 has ended")


def test_images_are_shown(reader: Person) -> None:
    """Finding S2-14: images were shown as "[image]"."""
    reader.sees(".tool-row .images img")
    reader.until("document.querySelector('.images img').naturalWidth === 8")
    assert reader.runs("document.querySelector('.images img').src.startsWith('blob:')")
    assert "[image]" not in str(reader.runs("document.body.innerText"))


@pytest.mark.slow
async def test_a_large_image_is_shown_on_demand(browser: Browser, tmp_path: Path, directory: Path) -> None:
    """The server sends only the beginning of a message with a large image."""
    width, height = 600, 500
    rows = b"".join(b"\0" + random.Random(row).randbytes(3 * width) for row in range(height))
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0),
        b"IDAT": zlib.compress(rows),
        b"IEND": b"",
    }
    chunks = [struct.pack(">I", len(data)) + kind + data for kind, data in parts.items()]
    sums = [struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts.items()]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(chunk + check for chunk, check in zip(chunks, sums, strict=True))
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png).decode()}
    image = {"type": "image", "source": source}
    shot = call("1", "Screenshot", of="the gate")
    lines: list[Line] = [
        "Look",
        shot,
        result("1", [image]),
        {"type": "user", "message": {"content": [image]}},
        said("Seen."),
    ]
    async with serving_history(tmp_path, directory, lines) as (server, project):
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.sees(".said", "Seen.")
            for place in (".tool-row", ".item:not(:has(.tool-row))"):
                button = f"{place} button:has-text('Show image (1.2 MB)')"
                person.clicks(button)
                person.until(f"document.querySelector('{place} .images img')?.naturalWidth === {width}")
                person.loses(button)


@pytest.mark.slow
def test_thinking_and_the_summary_are_folded(reader: Person) -> None:
    """Finding S2-22: thinking was not shown."""
    reader.sees(".divider", "Conversation compacted (from 155k tokens)")
    reader.clicks(".thinking > summary:has-text('Summary')")
    reader.sees(".thinking .markdown", "This session is being continued")
    reader.clicks(row("Read 2 files"))
    reader.clicks(".group-rows .thinking > summary")
    reader.sees(".thinking .markdown em", "odd")


@pytest.mark.slow
def test_the_rest_of_a_long_output_is_shown_on_demand(reader: Person) -> None:
    reader.clicks(row("get_issue"))
    reader.sees(f"{opened('get_issue')} .fields", "bridge")
    reader.clicks("button:has-text('Show all (30 kB)')")
    reader.until("document.querySelector('.tool[open] > .tool-body .result').textContent.length > 29000")


@pytest.mark.slow
def test_short_outputs_keep_their_height_while_out_of_view(browser: Browser, address: str) -> None:
    """Only long outputs are drawn in parts, whose heights are not known until they have been in view."""
    count = 40
    calls = [line for n in range(count) for line in (call(str(n), "Bash", command=f"make {n}"), result(str(n)))]
    outputs = "[...document.querySelectorAll('.tool-body .output pre')]"
    with browser.person(address) as person:
        emits(person, *calls)
        person.sees(".finished")
        person.clicks(row(f"Ran {count} commands"))
        person.sees(row("make 1"))
        person.runs("document.querySelectorAll('.group-rows .tool > summary').forEach((one) => one.click())")
        person.until(f"{outputs}.length === {count}")
        heights = person.runs(
            "new Promise((later) => requestAnimationFrame(() => requestAnimationFrame(() =>"
            f" later({outputs}.map((one) => one.offsetHeight)))))"
        )
        assert len(set(heights)) == 1


@pytest.mark.slow
def test_expanded_rows_stay_expanded(reader: Person) -> None:
    reader.clicks(row("Edited"))
    reader.sees(opened("Edited"))
    reader.prompts("/quick")
    reader.sees(".finished")
    reader.sees(opened("Edited"))


@pytest.mark.slow
def test_the_history_is_accessible(reader: Person) -> None:
    reader.runs("document.querySelectorAll('summary').forEach((one) => one.click())")
    reader.runs("document.querySelectorAll('.group summary').forEach((one) => one.click())")
    assert reader("axe", file=str(programs.axe())) == []


SCROLLER = "document.querySelector('.scroller')"
CARD = "document.querySelector('.approval').getBoundingClientRect()"


def test_the_list_of_prompts_links_to_each_prompt(browser: Browser, address: str) -> None:
    """Finding S2-16: there was no way to find a prompt."""
    with browser.person(address) as person:
        person.prompts("/lines 300")
        person.sees(".finished")
        person.prompts("/quick")
        person.until("document.querySelectorAll('.finished').length === 2")
        person.clicks(".outline-button")
        person.sees(".outline li", "/quick")
        person.clicks(".outline button:has-text('/lines 300')")
        person.loses("dialog")
        person.until(
            "(() => { const { top, bottom } = document.querySelector('.prompt').getBoundingClientRect();"
            " return top > 0 && bottom < innerHeight })()"
        )
        person.sees(".jump", "Jump to latest")
        person.clicks(".jump")
        person.loses(".jump")


@pytest.mark.slow
async def test_all_prompts_of_a_session_are_listed(browser: Browser, tmp_path: Path, directory: Path) -> None:
    """Only the last records of a session are loaded, and the server finds the earlier prompts."""
    prompts = [f"Prompt {number}" for number in range(205)]
    messages = [said(f"message {number}") for number in range(4)]
    lines: list[dict[str, Any] | str] = []
    for prompt in prompts:
        lines += [prompt, *messages]
    async with serving_history(tmp_path, directory, lines) as (server, project):
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.sees(".said", "message 3")
            person.clicks(".outline-button")
            person.until(f"document.querySelectorAll('.outline li').length === {len(prompts)}")
            assert person.reads(".outline li span") == prompts
            assert person("visible", css="dialog button:has-text('Show earlier messages')") is False
            person.clicks(".outline button:has-text('Prompt 0')")
            person.loses("dialog")
            person.until(f"{CHOSEN}?.innerText.includes('Prompt 0')")


@pytest.mark.slow
def test_the_jump_button_counts_approvals_below(browser: Browser, address: str) -> None:
    """Finding S3-39: users who were reading further up did not notice a new approval request."""
    with browser.person(address) as person:
        person.prompts("/lines 300")
        person.sees(".finished")
        person.runs("document.querySelector('.scroller').scrollTop = 0")
        person.sees(".jump", "Jump to latest")
        person.prompts("Something")
        person.sees(".approval")
        person.runs("document.querySelector('.scroller').scrollTop = 0")
        person.sees(".jump", "1 request")
        person.clicks(".jump")
        person.sees(".approval.current .yes")


@pytest.mark.slow
def test_nothing_covers_an_approval_that_is_partly_in_view(browser: Browser, address: str) -> None:
    """Finding S4: the "Latest" button covered the buttons of the request."""
    with browser.person(address) as person:
        person.prompts("/lines 300")
        person.sees(".finished")
        person.prompts("Something")
        person.sees(".approval.current .yes")
        person.runs(f"{SCROLLER}.scrollTop -= {SCROLLER}.getBoundingClientRect().bottom - {CARD}.top + 50")
        person.sees(".jump", "1 request")
        person.runs(f"{SCROLLER}.scrollTop += 150")
        person.loses(".jump")
        left = person.runs(f"{SCROLLER}.getBoundingClientRect().bottom - {CARD}.top")
        assert 0 < left < person.runs(f"{CARD}.height"), "a part of it is below the view"
        person.runs(f"{SCROLLER}.scrollTop -= 150")
        person.sees(".jump", "1 request")


@pytest.mark.slow
def test_the_title_of_an_approval_is_visible_first(browser: Browser, address: str) -> None:
    """The buttons, which stay in view, do not cover the title of a request of which only the top is in view."""
    title = "document.querySelector('.approval h3')"
    with browser.person(address) as person:
        person.prompts("/lines 300")
        person.sees(".finished")
        person.prompts("Something")
        person.sees(".approval.current .yes")
        person.runs(f"{SCROLLER}.scrollTop -= {SCROLLER}.getBoundingClientRect().bottom - {CARD}.top - 50")
        assert 45 < person.runs(f"{SCROLLER}.getBoundingClientRect().bottom - {CARD}.top") < 55
        assert person.runs(
            f"(() => {{ const {{ left, top }} = {title}.getBoundingClientRect();"
            f" return {title}.contains(document.elementFromPoint(left + 5, top + 10)) }})()"
        )


def test_an_approval_with_edits_shows_what_was_written(browser: Browser, address: str) -> None:
    """Finding S1-5: the history showed the proposal instead of the accepted version."""
    with browser.person(address) as person:
        person.prompts("Something")
        person.sees(".approval.current")
        person.clicks(".approval button:has-text('Edit')")
        person.edits("# Notes\n\nMine.\n")
        person.accepts_edited()
        person.sees(".finished")
        person.clicks("summary:has-text('Accepted with your edits')")
        person.sees(".tool-body .line.added", "Mine.")
        person.sees(".tool-body .hint", "Proposed version")
        assert person.reads(".tool-body .hint") == ["Accepted version", "Proposed version"]


@pytest.mark.slow_for("False")
@pytest.mark.parametrize("has_call", [True, False])
def test_an_edited_plan_is_shown_as_it_was_accepted(browser: Browser, address: str, has_call: bool) -> None:
    """Claude Code's own call has no input. In a terminal session, the record of the call arrives later."""
    request = {"subtype": "can_use_tool", "tool_name": "ExitPlanMode", "input": {"plan": "# Old\n\n1. Theirs\n"}}
    asks: dict[str, Any] = {"type": "control_request", "request_id": "q", "request": request}
    with browser.person(address) as person:
        emits(person, *([call("1", "ExitPlanMode")] if has_call else []), asks, {"hold": True})
        person.sees(".approval .markdown li", "Theirs")
        person.clicks(".approval footer button[aria-keyshortcuts=e]")
        person.fills(".approval textarea", "# New\n\n1. Mine\n")
        person.accepts_edited()
        person.clicks("summary:has-text('Accepted with your edits')")
        person.sees(".tool-body .plan li", "Mine")
        [shown] = person.reads(".tool-body")
        assert "Theirs" not in shown
        assert '"plan"' not in shown
        assert person.runs("document.querySelectorAll('.tool').length") == has_call
        assert person.runs("document.querySelectorAll('.settled-words').length") == 1


@pytest.mark.slow
def test_a_rejected_call_shows_the_reason(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("Something")
        person.sees(".approval.current")
        person.clicks(".approval .no")
        person.fills(".approval textarea", "not this file")
        person.clicks(".approval .no")
        person.sees(".tool-row.rejected .settled-words", "Rejected by you: “not this file”")
        assert person.runs("document.querySelectorAll('.item .settled-words').length") == 1


@pytest.mark.slow
def test_answers_to_questions_are_in_view(browser: Browser, address: str) -> None:
    """Finding S3-42: the history showed only "Accepted by … AskUserQuestion"."""
    with browser.person(address) as person:
        person.prompts("/ask")
        person.sees(".approval .option")
        question = person.reads(".approval legend")[0]
        chosen = person.runs("document.querySelector('.approval .option strong').innerText")
        person.clicks(".approval .option")
        person.clicks(".approval .yes")
        person.sees(".answers dd")
        [asked] = person.reads(".answers dt")
        assert asked == "What should the drawbridge be painted with?"
        assert question.endswith(asked)
        assert person.reads(".answers dd") == [chosen]


@pytest.mark.slow
@pytest.mark.parametrize("answers", [{"Which?": "Oak", "What else?": ["a", "b"]}, None])
def test_answers_that_no_client_has_given_are_in_the_history(
    browser: Browser, address: str, answers: dict[str, Any] | None
) -> None:
    """The questions were answered in the agent's own terminal."""
    text = 'Your questions have been answered: "Which?"="Oak".'
    details: dict[str, Any] = {} if answers is None else {"tool_use_result": {"questions": [], "answers": answers}}
    with browser.person(address) as person:
        emits(person, call("1", "AskUserQuestion", questions=[{"question": "Which?"}]), result("1", text, **details))
        if answers is None:
            person.clicks(row("Asked Which?"))
            person.sees(f"{opened('Asked Which?')} .result", text)
        else:
            person.sees(".answers dd", "a, b")
            assert person.reads(".answers dt") == ["Which?", "What else?"]
            assert person.reads(".answers dd") == ["Oak", "a, b"]


def test_two_windows_of_one_user_are_distinguished(browser: Browser, address: str) -> None:
    """Finding S1-6: answers and prompts from another window are not shown as from this one."""
    with browser.person(address) as here, browser.person(address) as there:
        here.prompts("Something")
        here.sees(".prompt .who", "You")
        there.sees(".prompt .who", "Another window (")
        there.sees(".approval.current")
        here.sees(".approval.current")
        here.clicks(".approval .yes")
        here.sees(".settled-words", "Accepted by you")
        there.sees(".settled-words", "Accepted by another window")
        here("reload")
        here.sees(".settled-words", "Accepted by you")
        here.sees(".prompt .who", "You")
        there("reload")
        there.sees(".prompt .who", "Another window (")


# Records highlights, because an item is highlighted for only two seconds, which a test could miss.
NOTES_HIGHLIGHTS = """
window.highlighted = []
new MutationObserver((all) => {
  for (const { target } of all) if (target.matches('.item.found')) highlighted.push(target.innerText)
}).observe(document, { subtree: true, attributes: true, attributeFilter: ['class'] })
"""
CHOSEN = "document.activeElement.closest('.item')"


@pytest.mark.slow
async def test_an_address_with_a_record_number_opens_that_record(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    messages = [said(f"message {number}") for number in range(1000)]
    async with serving_history(tmp_path, directory, messages) as (server, project):
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.sees(".said", "message 999")
            first = person.runs("Number([...document.querySelectorAll('.item[data-seq]')].at(-1).dataset.seq) - 999")
            person.runs(NOTES_HIGHLIGHTS)
            person.runs(f"location.hash = '#/p/{project}?seq={first + 100}'")
            person.until("highlighted.some((text) => text.includes('message 100'))")
            person.until(f"{CHOSEN}?.innerText.includes('message 100')")
            person.until(
                f"((place) => place.top >= 0 && place.bottom <= innerHeight)({CHOSEN}.getBoundingClientRect())"
            )
            # This record is not loaded either, and comes after the loaded ones.
            person.runs(f"location.hash = '#/p/{project}?seq={first + 600}'")
            person.until("highlighted.some((text) => text.includes('message 600'))")
            person.clicks(".jump")
            person.sees(".said", "message 999")
            person("reload")
            person.runs(NOTES_HIGHLIGHTS)
            person.runs(f"location.hash = '#/p/{project}?seq={first + 500}'")
            person.until("highlighted.some((text) => text.includes('message 500'))")
            person.until(f"{CHOSEN}?.innerText.includes('message 500')")


@pytest.mark.slow
def test_files_are_links(reader: Person) -> None:
    """Finding S2-14: names of files were plain text, and links to files were shown as their source."""
    reader.sees(".said .file-link", "src/bridge.py:11")
    reader.clicks(".said .file-link:has-text('the gate')")
    reader.until("location.hash.endsWith('/files/src/gate.py?line=3')")


@pytest.mark.slow
def test_enter_expands_the_focused_item(reader: Person) -> None:
    """Finding S3-27: the focus was lost."""
    reader.runs("document.querySelector('.item[data-kind=tool]').tabIndex = -1")
    reader.runs("document.querySelector('.item[data-kind=tool]').focus()")
    reader.presses("Enter")
    reader.sees(opened("Edited"))


FOCUSED = (
    "[...document.querySelectorAll('.items > .item:not([hidden]), .card')]"
    ".indexOf(document.activeElement.closest('.item, .card'))"
)
TOP = "document.querySelector('.scroller').scrollTop"
AT_END = "((one) => one.scrollHeight - one.scrollTop - one.clientHeight < 2)(document.querySelector('.scroller'))"


@pytest.mark.slow
def test_s2_16_j_and_k_start_from_the_item_in_view(reader: Person) -> None:
    """Tested at the end of a long conversation, and after scrolling away from the focused item."""
    reader("resize", width=1280, height=500)
    reader.until(f"innerHeight === 500 && {TOP} > 300 && {AT_END}")
    reader.presses("Escape")
    end = reader.runs(TOP)
    reader.presses("j")
    first = reader.runs(FOCUSED)
    assert first > 0
    assert abs(reader.runs(TOP) - end) < 100
    reader.presses("j")
    assert reader.runs(FOCUSED) == first + 1
    reader.presses("k")
    assert reader.runs(FOCUSED) == first
    reader.runs("document.activeElement.blur()")
    reader.presses("k")
    last = reader.runs(FOCUSED)
    assert last > first
    assert abs(reader.runs(TOP) - end) < 100
    reader.runs("document.querySelector('.scroller').scrollTop = 0")
    reader.presses("j")
    assert reader.runs(FOCUSED) == 0
