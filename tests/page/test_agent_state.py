"""What the agent reports about itself, the queue, stopping runs, and what a user can do after an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.server.processes import Server
from tests.server.wire_client import WireClient

from .conftest import page_of, project_in
from .rig import Browser, Person
from .test_message_box import HOLD, INIT, emits

pytestmark = pytest.mark.thorough


def system(subtype: str, **fields: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, **fields}


def assistant(*content: dict[str, Any]) -> dict[str, Any]:
    message = {"type": "message", "role": "assistant", "model": "demo", "content": list(content)}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None}


def call(id: str, name: str, **arguments: object) -> dict[str, Any]:
    return assistant({"type": "tool_use", "id": id, "name": name, "input": arguments})


RETRY = system(
    "api_retry", attempt=3, max_retries=10, retry_delay_ms=38_000, error_status=401, error="authentication_failed"
)
TODOS = [
    {"content": "Read the code", "status": "completed", "activeForm": "Reading the code"},
    {"content": "Close the bridge", "status": "in_progress", "activeForm": "Closing the bridge"},
    {"content": "Write tests", "status": "pending", "activeForm": "Writing tests"},
]


def bubbles(person: Person) -> list[str]:
    found: list[str] = person.runs(
        "[...document.querySelectorAll('.items .prompt .words, .items .finished > p:first-child')]"
        ".map((one) => one.innerText.split(' · ')[0].slice(0, 20))"
    )
    return found


@pytest.mark.slow
def test_s2_9_retries_are_shown(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        emits(person, INIT, RETRY, HOLD)
        person.sees(".run .state", "Retrying 3 of 10: 401 authentication · next attempt in 3")
    with browser.person(address) as late:
        late.sees(".run .state", "Retrying 3 of 10: 401 authentication")


@pytest.mark.slow
def test_the_current_activity_is_shown_with_a_verb(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        emits(person, call("t1", "Bash", command="npm test"), HOLD)
        person.until(r"/^Running tests · \d/.test(document.querySelector('.run .state')?.innerText)")
        person.clicks(".stop")
        person.sees(".finished", "Stopped")
        emits(person, system("status", status="compacting"), HOLD)
        person.sees(".run .state", "Compacting the conversation")


@pytest.mark.slow
def test_s2_9_background_tasks_have_a_line_each(browser: Browser, address: str) -> None:
    one = system("task_started", task_id="1", description="Wait for the build", task_type="local_bash")
    two = system("task_started", task_id="2", description="Look for callers", task_type="local_agent")
    with browser.person(address) as person:
        emits(person, one | {"is_backgrounded": True}, two | {"subagent_type": "explorer"}, HOLD)
        person.sees(".tasks summary", "2 tasks are running")
        assert person.reads(".tasks li small") == ["Command · running in the background", "explorer · running"]
        person.clicks(".stop")
        person.sees(".finished")
        emits(person, system("task_notification", task_id="1", status="completed"), HOLD)
        person.sees(".tasks summary", "1 task is running")


def test_s2_22_the_todo_list_is_shown_in_a_panel(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        emits(person, call("t1", "TodoWrite", todos=TODOS), HOLD)
        person.sees(".todo-panel summary", "To-do list: 1 of 3 done")
        person.sees(".todo-panel .now", "Closing the bridge")
        person.clicks(".todo-panel summary")
        person.sees(".todo-panel .in_progress", "Close the bridge")
        assert person.runs("document.querySelector('.todo-panel .completed').textContent") == "Done: Read the code"


RECTANGLES = "[...document.querySelectorAll({})].map((one) => one.getBoundingClientRect().toJSON())"


def taps_send(person: Person, *lines: dict[str, Any]) -> None:
    """Like ``emits``, on a phone, where Enter starts a new line."""
    person.fills("#prompt", f"/emit {json.dumps(lines)}")
    person.clicks(".composer .yes")


def test_panels_share_a_line_on_a_small_phone(browser: Browser, address: str) -> None:
    task = system("task_started", task_id="1", description="Wait for the build", task_type="local_bash")
    with browser.person(address, width=320, height=568) as person:
        taps_send(person, call("t1", "TodoWrite", todos=TODOS), task, HOLD)
        person.sees(".tasks summary")
        left, right = person.runs(RECTANGLES.format("'.panel summary'"))
        assert left["right"] < right["left"]
        assert left["height"] >= 44, "a finger hits it"
        person.clicks(".tasks summary")
        person.sees(".tasks li", "Wait for the build")
        upper, lower = person.runs(RECTANGLES.format("'.panel'"))
        assert upper["bottom"] <= lower["top"]


def test_a_request_has_the_space_of_the_panels(browser: Browser, address: str) -> None:
    """The panels used to cover the buttons that answer it on a small phone."""
    asked = {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "input": {"command": "npm test -- --coverage tests/bridge"},
    }
    request = {"type": "control_request", "request_id": "1", "request": asked | {"tool_use_id": "t2"}}
    task = system("task_started", task_id="1", description="Wait for the build", task_type="local_bash")
    with browser.person(address, width=320, height=568) as person:
        taps_send(person, call("t1", "TodoWrite", todos=TODOS), task, request, HOLD)
        person.sees(".approval .yes")
        person.loses(".panels")
        [button], [foot] = (person.runs(RECTANGLES.format(f"'{css}'")) for css in (".approval .yes", ".foot"))
        assert button["bottom"] <= foot["top"]
        person.clicks_until(".approval .no", ".approval textarea")
        person.clicks(".approval .no")
        person.sees(".panels .tasks summary")


@pytest.mark.slow
def test_s2_22_the_context_and_the_cost_are_shown(browser: Browser, address: str) -> None:
    answer = assistant({"type": "text", "text": "Hello."})
    answer["message"]["usage"] = {"input_tokens": 70_000, "cache_read_input_tokens": 6_000, "output_tokens": 0}
    with browser.person(address) as person:
        emits(person, INIT, answer)
        person.sees(".context", "76k tokens")
        person.prompts("/quick")
        person.sees(".cost", "in this project")
        assert "$" in person.reads(".cost")[0]
        person.sees(".side .project .state", "Ready")
        assert "$" not in person.reads(".side")[0], "the list shows no cost"


@pytest.mark.slow
def test_s1_7_a_queued_prompt_is_shown_once_in_the_right_order(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/slow 600")
        person.sees(".live .markdown", "I keep writing")
        person.prompts("/quick")
        person.sees(".queued", "/quick")
        assert bubbles(person) == ["/slow 600"]
        with browser.person(address) as other:
            other.sees(".queued", "/quick")
            other.sees(".run .state", "1 queued")
            person.clicks(".stop")
            for one in (person, other):
                one.until("document.querySelectorAll('.finished').length === 2")
                one.loses(".queued")
                assert bubbles(one) == ["/slow 600", "Stopped", "/quick", "Finished"]
            person("reload")
            person.until("document.querySelectorAll('.finished').length === 2")
            assert bubbles(person) == ["/slow 600", "Stopped", "/quick", "Finished"]


@pytest.mark.slow
def test_s1_7_a_queued_prompt_is_edited_moved_and_removed(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/slow 600")
        person.sees(".live .markdown")
        for text in ("first", "second", "third"):
            person.prompts(text)
            person.sees(".queued", text)
        person.clicks("button[aria-label='Move up “third”']")
        person.until(
            "[...document.querySelectorAll('.queued-text')].map((one) => one.innerText).join() === 'first,third,second'"
        )
        person.clicks("button[aria-label='Remove “first” from the queue']")
        person.loses(".queued", "first")
        assert person.runs("document.activeElement.closest('.queued') !== null"), "the focus stays in the queue"
        person.clicks("button[aria-label='Edit “third”']")
        person.fills(".queued textarea", "/quick")
        person.clicks(".queued button:has-text('Save')")
        person.sees(".queued-text", "/quick")
        person.clicks("button[aria-label='Remove “second” from the queue']")
        person.clicks("button[aria-label='Stop the run and send “/quick” now']")
        person.until("document.querySelectorAll('.finished').length === 2")
        assert bubbles(person) == ["/slow 600", "Stopped", "/quick", "Finished"]
        assert person.reads(".toast") == []


async def queue_of(client: WireClient, project: str) -> list[dict[str, Any]]:
    """Returns the queue once it is not empty. The web UI shows a queued prompt before the server has accepted it."""
    queue: list[dict[str, Any]] = (await client.ask("project_join", project_id=project))["data"]["data"]["queue"]
    while not queue:
        queue = (await client.receive("update", "queue_changed"))["data"]["data"]["queue"]
    return queue


async def test_a_user_sees_when_someone_else_removes_their_prompt(
    browser: Browser, server: Server, directory: Path
) -> None:
    """They can edit the prompt and send it again."""
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.prompts("/slow 600")
        person.sees(".live .markdown")
        person.prompts("a fine idea")
        person.sees(".queued", "a fine idea")
        async with server.client() as other:
            [queued] = await queue_of(other, project)
            await other.ask("queue_remove", {"run_id": queued["run_id"]}, project)
        person.sees(".box-notice", "removed your message from the queue: “a fine idea”")
        person.clicks("button:has-text('Edit and resend')")
        assert person("value", css="#prompt") == "a fine idea"
        person.loses(".box-notice")
        person.sees(".divider", "removed a queued message: “a fine idea”")
        assert not any(divider.startswith("You ") for divider in person.reads(".divider")), "another device removed it"


@pytest.mark.slow
async def test_the_author_of_a_removed_prompt_is_reminded_of_its_file(
    browser: Browser, server: Server, directory: Path, tmp_path: Path
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Close the bridge at ten.\n")
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.prompts("/slow 600")
        person.sees(".live .markdown")
        person("choose", css=".composer input[type=file]", files=[str(note)])
        person.sees(".pictures .file", "note.txt")
        person.prompts("a fine idea")
        person.sees(".queued", "a fine idea")
        async with server.client() as other:
            [queued] = await queue_of(other, project)
            await other.ask("queue_remove", {"run_id": queued["run_id"]}, project)
        person.sees(".box-notice", "To resend it, attach its file again.")


@pytest.mark.slow
@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_user_who_returns_sees_that_their_prompt_was_removed(
    browser: Browser, server: Server, directory: Path, is_closed: bool
) -> None:
    """The author is in another view, or has closed the web UI. Later records must not hide the notice."""
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.prompts("/slow 600")
        person.sees(".live .markdown")
        person.prompts("a fine idea")
        person.sees(".queued", "a fine idea")
        here = person.leaves()
        if is_closed:
            person("goto", url="about:blank")
        async with server.client() as other:
            [queued] = (await other.ask("project_join", project_id=project))["data"]["data"]["queue"]
            await other.ask("queue_remove", {"run_id": queued["run_id"]}, project)
            await other.ask("agent_interrupt", project_id=project)
            await other.receive("update", "run_finished")
            await other.ask("execute", {"prompt": "/lines 130"}, project)
            await other.receive("update", "run_started")
            await other.receive("update", "run_finished")
        person("goto", url=page_of(server) + here)
        person.sees(".box-notice", "removed your message from the queue: “a fine idea”")
        person("reload")
        person.sees(".box-notice", "removed your message from the queue: “a fine idea”")
        person.clicks("button:has-text('Edit and resend')")
        assert person("value", css="#prompt") == "a fine idea"
        person.loses(".box-notice")
        assert person.runs("localStorage.getItem('drawbridge.sent')") is None
        assert person.reads(".toast") == []


def test_stop_all_empties_the_queue(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/slow 600")
        person.sees(".live .markdown")
        assert not person("visible", css=".stop.all")
        person.prompts("/quick")
        person.sees(".queued")
        person.clicks(".stop.all")
        person.sees(".finished", "Stopped")
        person.loses(".queued")
        person.loses(".stop")
        person.sees(".divider", "You removed a queued message: “/quick”")
        assert bubbles(person) == ["/slow 600", "Stopped"]


def test_s3_41_esc_twice_stops_the_run(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/slow 600")
        person.sees(".live .markdown")
        person.runs("(() => { const at = Date.now(); Date.now = () => at })()")  # no time passes before the second Esc
        person.presses("Escape")
        person.sees(".run", "Press Esc again to stop")
        person.sees(".stop")
        person.presses("Escape")
        person.sees(".finished", "Stopped")


@pytest.mark.slow
def test_s3_41_an_agent_that_does_not_stop_is_killed(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        emits(person, INIT, assistant({"type": "text", "text": "Not listening."}), {"deaf": True})
        person.sees(".said", "Not listening.")
        person.clicks(".stop")
        person.clicks("button:has-text('Force stop')")
        person.sees(".finished")
        person.loses(".stop")


def test_esc_does_not_stop_a_run_that_waits_for_a_user(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("Something")
        person.sees(".approval")
        person.presses("Escape")
        person.presses("Escape")
        person.clicks(".approval .yes")
        person.sees(".finished", "Finished")


@pytest.mark.slow_for(
    "API Error: 529-server_error-The model is not available-help1",
    "Prompt is too long-invalid_request-no longer fits-help2",
    "Something odd-unknown-The run failed-help3",
)
@pytest.mark.parametrize(
    ("error", "kind", "title", "help"),
    [
        ("Invalid API key", "authentication_failed", "isn’t logged in", ["How to log in", "Retry"]),
        ("API Error: 529", "server_error", "The model is not available", ["Retry"]),
        ("Prompt is too long", "invalid_request", "no longer fits", ["Compact", "New session"]),
        ("Something odd", "unknown", "The run failed", ["Retry", "New session"]),
    ],
)
def test_s2_23_an_error_offers_suitable_buttons(
    browser: Browser, address: str, error: str, kind: str, title: str, help: list[str]
) -> None:
    with browser.person(address) as person:
        emits(person, INIT, assistant({"type": "text", "text": error}) | {"error": kind}, {"fail": error})
        person.sees(".error-card", title)
        assert person.reads(".error-card .acts button:not([aria-label])") == help
        count = person.runs(f"document.querySelector('.scroller').innerText.split({json.dumps(error)}).length - 1")
        assert count == 3, "twice in the prompt, and once as the error"
        assert person("axe", file=str(programs.axe())) == []


@pytest.mark.slow
def test_s2_23_compact_is_sent_to_the_agent(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        emits(person, INIT, {"fail": "Prompt is too long"})
        person.clicks(".error-card button:has-text('Compact')")
        person.loses(".error-card")
        person.until("[...document.querySelectorAll('.prompt .words')].at(-1).innerText === '/compact'")


def test_s2_23_retry_sends_the_prompt_again(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/fail")
        person.sees(".error-card", "The run failed")
        person.clicks(".error-card button:has-text('Retry')")
        person.until("document.querySelectorAll('.finished').length === 2")
        assert bubbles(person) == ["/fail", "Failed", "/fail", "Failed"]
        person.clicks(".error-card button[aria-label=Close]")
        person.loses(".error-card")
        person.prompts("/crash")
        person.sees(".error-card", "process ended unexpectedly")
        person.clicks(".error-card button:has-text('New session')")
        person.sees(".toast", "New session. Your next message starts fresh.")
        person.loses(".error-card")


@pytest.mark.slow
def test_retry_says_which_files_have_to_be_added_again(browser: Browser, address: str, tmp_path: Path) -> None:
    (tmp_path / "plan.pdf").write_bytes(b"%PDF-1.4\n\x00")
    with browser.person(address) as person:
        person("choose", css=".composer input[type=file]", files=[str(tmp_path / "plan.pdf")])
        person.sees(".composer", "plan.pdf")
        person.prompts("/fail")
        person.sees(".error-card", "The run failed")
        person.fills("#prompt", "A draft")
        person.clicks(".error-card button:has-text('Retry')")
        person.sees(".toast", "Add 1 file again, then send the message.")
        assert person("value", css="#prompt") == "/fail\n\nA draft"


def test_s3_31_the_state_is_not_ready_while_offline(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees(".run .state", "Ready")
        person("offline", on=True)
        person.sees(".box-notice", "You’re offline. Messages will be sent when you reconnect.")
        person.sees(".run .state", "Disconnected")
        person.loses(".run .state", "Ready")
        person("offline", on=False)
        person.sees(".run .state", "Ready")
        person.loses(".box-notice")
