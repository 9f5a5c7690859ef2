"""Devices of a smaller scope: what one may not do is not there to be clicked, and the server would refuse it anyway."""

from __future__ import annotations

from pathlib import Path

from drawbridge.server.devices import Devices
from drawbridge.server.scopes import Scope
from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser

CONTROLS = {
    "the prompt box": "#prompt",
    "stop": ".stop",
    "accept": ".approval footer .yes",
    "edit": ".approval button:has-text('Edit')",
    "reject": ".approval footer .no",
    "always": ".approval .always",
    "mode": ".tools select",
    "sessions": "button[aria-label=Sessions]",
    "add": ".side .add",
    "remove": "button[aria-label='Remove this project']",
}
APPROVE = {"stop", "accept", "edit", "reject"}
RUN = APPROVE | {"the prompt box", "always", "mode", "sessions"}
THERE: dict[Scope, set[str]] = {"view": set(), "approve": APPROVE, "run": RUN, "admin": RUN | {"add", "remove"}}


def given(server: Server, name: str, scope: Scope) -> str:
    """A new device's token, as its owner makes it."""
    return Devices(server.data).add(name, scope)[1]


async def test_only_what_its_scope_allows_is_there(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    async with server.client() as owner:
        await owner.ask("project_join", project_id=project)
        await owner.ask("execute", {"prompt": "Something"}, project)
        await owner.hear("permission_request")
        for scope, there in THERE.items():
            address = f"{page_of(server)}#token={given(server, f'the {scope} pad', scope)}&project={project}"
            with browser.person(address) as person:
                person.sees(".approval .line.added", "You said: Something")
                person.until("localStorage.getItem('drawbridge.features') !== null")
                assert {name for name, css in CONTROLS.items() if person("visible", css=css)} == there, scope
                if scope == "view":
                    person.sees(".approval .hint", "may watch only")
                    for key in "are":
                        person.presses(key)
                    person.sees(".approval .hint", "may watch only")
        with browser.person(
            f"{page_of(server)}#token={given(server, 'the phone', 'approve')}&project={project}"
        ) as phone:
            phone.sees(".approval")
            phone.presses("e")
            phone.fills(".approval textarea", "by a phone\n")
            phone.clicks("text=Accept with my edits")
            phone.sees(".settled-line", "Accepted by the phone")
        await owner.hear("update", "run_finished")
    assert (directory / "notes.md").read_text() == "by a phone\n"


async def test_a_device_that_is_revoked_is_told_so_and_forgets_its_token(
    browser: Browser, server: Server, directory: Path
) -> None:
    token = given(server, "a lost phone", "run")
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={token}&project={project}") as person:
        person.sees("h2", "blog")
        person.fills("#prompt", "a thought")
        Devices(server.data).revoke("a lost phone")
        person.sees(".connect .problem", "revoked by the owner")
        assert person.runs("localStorage.getItem('drawbridge.token')") is None
        person.fills("#token", server.token)
        person.clicks("text=Connect")
        person.sees("h2", "blog")
        assert person("value", css="#prompt") == "a thought"
