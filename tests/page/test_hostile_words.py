"""Texts from agents are only data. No code in them runs, and nothing is loaded because of them."""

from __future__ import annotations

from pathlib import Path

from tests.server.processes import Server

from .conftest import page_of, project_in
from .history import serving_history
from .rig import Browser

SCRIPT = "<script>window.hurt=1</script><img src=x onerror='window.hurt=1'><svg onload='window.hurt=1'>"
HOSTILE = [
    SCRIPT,
    "[click](javascript:window.hurt=1) [data](data:text/html,<script>window.hurt=1</script>) [ok](https://example.com/a)",
    "![picture](https://example.com/tracker.png) <https://example.com/b>",
    "```html\n" + SCRIPT + "\n```\n\n`" + SCRIPT + "`",
    "| a | b |\n|---|---|\n| " + SCRIPT + " | **" + SCRIPT + "** |",
    '[x](https://e.com/"onmouseover="window.hurt=1) \\<b\\> &lt;script&gt; **bold** {{constructor}} ${hurt}',
    ">" * 5_000 + "deep",
    "*" * 20_000 + "_" * 20_000 + "[" * 20_000 + "`" * 5_000,
    "\u202etxt.exe \u0000 \ud83d\ude00 \u200b",
]


def hostile_records() -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [
        {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}} for text in HOSTILE
    ]
    tool = {"type": "tool_use", "id": "t1", "name": SCRIPT, "input": {"file_path": SCRIPT, "old_string": SCRIPT}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": SCRIPT, "is_error": True}
    messages.append({"type": "assistant", "message": {"content": [tool]}})
    messages.append({"type": "user", "message": {"content": [result]}})
    messages += [
        {"type": "assistant", "message": shape} for shape in (None, {}, {"content": None}, {"content": [None, 5]})
    ]
    messages += [{"type": "user", "message": {"content": "last words"}}, {"type": 5}]
    return messages


async def test_no_code_in_a_text_from_an_agent_runs(browser: Browser, tmp_path: Path, directory: Path) -> None:
    async with serving_history(tmp_path, directory, hostile_records()) as (server, project):
        address = f"{page_of(server)}#token={server.token}&project={project}"
        with browser.person(address, worker=True) as person:
            person.sees(".aside", "last words")
            person.clicks("details.tool summary")
            person.sees(".tool-body")
            assert person.runs("window.hurt") is None
            assert (
                person.runs(
                    "document.querySelectorAll('.items :is(script, img, svg:not(.icon), iframe, [onerror])').length"
                )
                == 0
            )
            links = person.runs("[...document.querySelectorAll('.items a')].map((one) => [one.protocol, one.rel])")
            assert links
            assert {tuple(link) for link in links} == {("https:", "noopener noreferrer")}
            hosts = {url.split("/")[2] for url in person("requests") if url.startswith("http")}
            assert hosts == {server.url.split("/")[2]}
            assert SCRIPT in "\n".join(person.reads(".said")), "code is shown as text"
            assert person.complaints() == []


async def test_a_hostile_question_is_shown_as_plain_text(browser: Browser, server: Server, directory: Path) -> None:
    (directory / "notes.md").unlink()
    (directory / "<img src=x onerror=window.hurt=1>.md").write_text(SCRIPT + "\n")
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}", worker=True) as person:
        person.prompts(SCRIPT)
        person.sees(".approval")
        assert "<img src=x onerror" in person.reads(".approval h3")[0]
        assert person.runs("window.hurt") is None
        assert person.complaints() == []
        person.clicks(".approval button:has-text('Reject')")
        person.clicks(".rejecting button:has-text('Reject')")
        person.sees(".finished")


async def test_the_policy_forbids_what_the_web_ui_does_not_need(browser: Browser, server: Server) -> None:
    with browser.person(page_of(server), worker=True) as person:
        person.sees("#token")
        for code in (
            "document.body.innerHTML = '<b>x</b>'",
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hurt=1'}))",
        ):
            assert (
                person.runs(f"(() => {{ try {{ {code}; return 'done' }} catch (error) {{ return error.name }} }})()")
                == "TypeError"
            ), code
        assert person.runs("fetch('https://example.com/').then(() => 'loaded', () => 'refused')") == "refused"
        assert person.runs("window.hurt") is None
