"""The message box: completion of commands and files, attached files, and chips for the agent, model and mode."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.server.processes import Server

from .conftest import page_of, project_in, serving
from .rig import Browser, Person
from .test_steering import STATIC

pytestmark = pytest.mark.thorough

INIT = {
    "type": "system",
    "subtype": "init",
    "model": "demo",
    "permissionMode": "default",
    "slash_commands": ["clear", "compact", "my:deploy"],
    "capabilities": ["interrupt_cancel_queued_v1"],
}
AT_WORK = {"type": "system", "subtype": "session_state_changed", "state": "running"}
HOLD = {"hold": True}

RETURNS = """new Promise((later) => {
  const box = document.querySelector('#prompt');
  box.blur();
  box.focus();
  setTimeout(later, 200); // the box reacts 150 ms after the focus has left it
})"""
"""Takes the focus from the box and returns it immediately."""

ACTIVE = "document.getElementById(document.querySelector('#prompt').getAttribute('aria-activedescendant'))?.innerText"


def emits(person: Person, *lines: dict[str, Any]) -> None:
    person.prompts(f"/emit {json.dumps(lines)}")


def types(person: Person, text: str) -> None:
    """Types key by key, as a person does."""
    person.clicks("#prompt")
    person("type", text=text)


def test_s2_13_commands_are_completed_by_keys(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        emits(person, INIT)
        person.sees(".finished")
        types(person, "/")
        person.until("document.querySelectorAll('.suggestions [role=option]').length === 3")
        assert "3 suggestions" in person.reads(".composer [role=status]")[0]
        person.runs(RETURNS)
        assert len(person.reads(".suggestions [role=option]")) == 3
        person("type", text="co")
        person.until(f"{ACTIVE} === '/compact'")
        person.presses("Enter")
        assert person("value", css="#prompt") == "/compact "
        person.loses(".suggestions")
        person.fills("#prompt", "/")
        person.presses("ArrowDown")
        person.until(f"{ACTIVE} === '/compact'")
        person.presses("Escape")
        person.loses(".suggestions")
        assert person.runs("document.activeElement.id") == "prompt", "the text keeps the focus"
        person.fills("#prompt", "/my")
        person.clicks(".suggestions [role=option]")
        assert person("value", css="#prompt") == "/my:deploy "
        assert person.complaints() == []


@pytest.mark.slow
def test_commands_that_arrive_after_a_slash_was_typed_are_listed(browser: Browser, address: str) -> None:
    with browser.person(address) as person, browser.person(address) as other:
        types(person, "/")
        emits(other, INIT)
        person.until("document.querySelectorAll('.suggestions [role=option]').length === 3")


@pytest.mark.slow
async def test_commands_and_models_are_listed_before_the_first_message(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    """They are known after a restart of the server. A new project has only those that are not specific to a
    directory."""
    data = tmp_path / "data"
    (directory.parent / "shop").mkdir()
    async with serving(data, "--no-tls", "--allow", directory.parent) as server:
        project = await project_in(server, directory)
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            emits(person, INIT)
            person.sees(".finished")
    # The demo agent reports no models.
    quick = {"name": "small", "title": "Small", "text": "For quick questions", "resolved": INIT["model"]}
    models = [{"name": "tiny"}, quick, {"name": "large", "title": "Large", "efforts": ["low", "high"]}]
    (data / "offers.json").write_text(json.dumps({"demo": {"models": models}}))
    async with serving(data, "--no-tls", "--allow", directory.parent) as server:
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            types(person, "/")
            person.until("document.querySelectorAll('.suggestions [role=option]').length === 3")
            person.fills("#prompt", "")
            person.sees(".chip.model > button[data-value=small]", "Small")  # the model that the agent has reported
            person.clicks(".chip.model > button")
            person.sees(".chip-menu [data-value=small] small", "For quick questions")
            assert person.complaints() == []
        project = await project_in(server, directory.parent / "shop")
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.picks("model", "large")
            person.sees(".chip.model > button[data-value=large]", "Large")
            person.picks("effort", "high")
            person.sees(".chip.effort > button[data-value=high]", "High")
            assert person.complaints() == []
        async with server.client() as client:
            offers = (await client.ask("project_join", project_id=project))["data"]["data"]["agent_offers"]
        assert [model["name"] for model in offers["models"]] == ["tiny", "small", "large"]
        assert "commands" not in offers


def test_s2_13_files_are_completed(browser: Browser, address: str, directory: Path) -> None:
    (directory / "src").mkdir()
    (directory / "src" / "bridge.py").write_text("x = 1\n")
    (directory / ".env").write_text("TOKEN=1\n")
    (directory / "dist").mkdir()
    (directory / "dist" / "bridge.js").write_text("")
    (directory / ".gitignore").write_text("dist\n")
    subprocess.run(["git", "-C", str(directory), "init", "-q"], check=True)
    with browser.person(address) as person:
        person.sees(".chip.mode")
        types(person, "Look at @brid")
        person.sees(".suggestions", "src/bridge.py")
        assert person.reads(".suggestions [role=option]") == ["src/bridge.py"], "what git ignores is not there"
        person.presses("Tab")
        assert person("value", css="#prompt") == "Look at @src/bridge.py "
        person.fills("#prompt", "@env")
        person.loses(".suggestions")
        person.fills("#prompt", "me@bridge")
        person.loses(".suggestions")
        assert person.complaints() == []


def test_the_placeholder_shows_what_happens_to_a_message(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees("#prompt")
        person.until("document.querySelector('#prompt').placeholder === 'Message the demo agent…'")
        person.prompts("/slow 600")
        person.until("document.querySelector('#prompt').placeholder === 'Queue a message…'")
        person.clicks(".stop")


@pytest.mark.slow
def test_a_text_file_is_sent_with_a_message(browser: Browser, address: str, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Close the bridge at ten.\n")
    with browser.person(address) as person:
        person.sees(".chip.mode")
        person("choose", css=".composer input[type=file]", files=[str(note)])
        person.sees(".pictures .file", "note.txt")
        person.prompts("/quick")
        person.sees(".prompt .attached", "note.txt")
        person.sees(".finished", "Finished")
        person.loses(".pictures")


@pytest.mark.thorough
def test_any_file_is_sent_with_a_message(browser: Browser, address: str, tmp_path: Path) -> None:
    """The history shows each file's name and size, even after a reload. A file that can't be attached is reported, and
    the others are attached."""
    files = {
        "report.zip": b"PK\x03\x04" + bytes(48_000),
        "empty.txt": b"",
        "big.log": b"x" * 1_100_000,
        "film.mp4": bytes(40_000_000),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    expected = ["report.zip 49 kB", "big.log 1.1 MB"]
    with browser.person(address) as person:
        person.sees(".chip.mode")
        person("choose", css=".composer input[type=file]", files=[str(tmp_path / name) for name in files])
        person.sees(".toast", "Can’t attach empty.txt: it is empty.")
        person.sees(".toast", "Can’t attach film.mp4: it is too large (40.0 MB). The limit is 33.5 MB.")
        assert person.reads(".pictures .file") == ["report.zip", "big.log"]
        person.prompts("/quick")
        person.sees(".finished", "Finished")
        assert person.runs(SENT) == expected
        person("reload")
        person.until(f"{SENT}.join() === {json.dumps(','.join(expected))}")
        assert "/files/" not in str(person.runs("document.body.innerText"))
        assert person.complaints() == []


SENT = "[...document.querySelectorAll('.prompt .attached .tag')].map((one) => one.innerText.replace(/\\s+/g, ' '))"
"""The names of the files in messages; for files that the agent opens by path, also their sizes."""

GIVES = """(([type, name, kind, base64]) => {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(atob(base64), (one) => one.charCodeAt(0))], name, { type: kind }));
  const how = { bubbles: true, cancelable: true };
  const event = type === 'paste' ? new ClipboardEvent(type, { clipboardData: data, ...how })
    : new DragEvent(type, { dataTransfer: data, ...how });
  document.querySelector('#prompt').dispatchEvent(event);
})"""
"""Pastes a file into the message box or drops it there."""


DROPS_A_FOLDER = """(() => {
  const data = new DataTransfer();
  data.items.add(new File(['x'], 'src'));
  const event = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
  DataTransferItem.prototype.webkitGetAsEntry = () => ({ isDirectory: true, name: 'src' });
  document.querySelector('#prompt').dispatchEvent(event);
})"""
"""Drops a folder on the message box. Scripts can't create a real one, so ``webkitGetAsEntry`` is replaced."""


def gives(person: Person, how: str, name: str, kind: str, content: bytes) -> None:
    person.runs(f"{GIVES}({json.dumps([how, name, kind, base64.b64encode(content).decode()])})")


def test_files_are_dropped_and_pasted(browser: Browser, address: str) -> None:
    """Attaches texts, a PDF, audio, and a file that is an image only by its name. A folder is refused."""
    pdf = b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n%%EOF\n"
    with browser.person(address) as person:
        person.sees(".chip.mode")
        gives(person, "drop", "bridge.py", "text/x-python", b"x = 1\n")
        person.sees(".pictures .file", "bridge.py")
        gives(person, "drop", "plan.pdf", "application/pdf", pdf)
        person.sees(".pictures .file", "plan.pdf")
        gives(person, "paste", "Makefile", "", b"all:\n\ttrue\n")
        person.sees(".pictures .file", "Makefile")
        gives(person, "paste", "song.mp3", "audio/mpeg", b"ID3\xff\x00")
        person.sees(".pictures .file", "song.mp3")
        gives(person, "drop", "torn.png", "image/png", b"\x89PNG\r\n\x1a\nnothing")
        person.sees(".pictures .file", "torn.png")
        person.runs(f"{DROPS_A_FOLDER}()")
        person.sees(
            ".toast",
            "Can’t attach src: it is a folder. Attach its files, or a .zip file that contains them.",
        )
        names = ["bridge.py", "plan.pdf", "Makefile", "song.mp3", "torn.png"]
        assert person.reads(".pictures .file") == names
        person.prompts("/quick")
        person.sees(".finished", "Finished")
        person("reload")
        person.sees(".prompt .attached", "Makefile")
        sizes = ["", "", "", " 1 kB", " 1 kB"]
        assert person.runs(SENT) == [name + size for name, size in zip(names, sizes, strict=True)]


@pytest.mark.slow
def test_up_to_ten_images_can_be_sent_without_text(browser: Browser, address: str, tmp_path: Path) -> None:
    image = tmp_path / "cat.png"
    image.write_bytes((STATIC / "icon-192.png").read_bytes())
    with browser.person(address) as person:
        person.sees(".chip.mode")
        assert person.runs("document.querySelector('.composer .yes').disabled")
        person("choose", css=".composer input[type=file]", files=[str(image)] * 11)
        person.sees(".toast", "You can attach up to 10 files.")
        assert len(person.reads(".pictures li")) == 10
        disc = "document.querySelector('.pictures button').getBoundingClientRect()"
        assert person.runs(f"[{disc}.width, {disc}.height]") == [24, 24], "S4: the remove button is round"
        for _ in range(9):
            person.clicks("button[aria-label='Remove cat.png']")
        person.clicks(".composer .yes")
        person.sees(".prompt .words", "Look at the attached image.")
        picture = "document.querySelector('.prompt .picture[title=\"cat.png\"] img')?.naturalWidth === 192"
        person.until(picture)
        person("reload")
        person.until(picture)


DRAWN = """(() => {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [WIDTH, 8];
  canvas.getContext('2d').fillRect(0, 0, 4, 4);
  return canvas.toDataURL('TYPE').split(',')[1];
})()"""

GIF = bytes.fromhex("47494638396101000100800000000000ffffff21f90400000000002c00000000010001000002024401003b")


def test_images_of_every_type_and_size_are_attached(browser: Browser, address: str, tmp_path: Path) -> None:
    """An image that is too large for a model is made smaller instead of being refused."""
    widths = "[...document.querySelectorAll('.pictures img')].map((one) => one.naturalWidth).join()"
    files = []
    with browser.person(address) as person:
        person.sees(".chip.mode")
        for type, width in (("jpeg", 8), ("webp", 8), ("png", 3000)):
            drawn = person.runs(DRAWN.replace("WIDTH", str(width)).replace("TYPE", f"image/{type}"))
            files.append(tmp_path / f"cat.{type}")
            files[-1].write_bytes(base64.b64decode(drawn))
        files.append(tmp_path / "cat.gif")
        files[-1].write_bytes(GIF)
        person("choose", css=".composer input[type=file]", files=[str(file) for file in files])
        person.until(f"{widths} === '8,8,2000,1'")
        assert person.reads(".toast") == []


def test_s3_26_on_a_touchscreen_enter_starts_a_line(browser: Browser, address: str) -> None:
    with browser.person(address, width=390, height=844) as person:
        person.sees(".chip.mode")
        assert person.runs("document.querySelector('#prompt').enterKeyHint") == "enter"
        person.fills("#prompt", "one")
        person.presses("Enter")
        person("type", text="two")
        assert person("value", css="#prompt") == "one\ntwo"
        person.clicks(".composer .yes")
        person.sees(".prompt .words", "two")
    with browser.person(address) as person:
        person.sees("#prompt")
        assert person.runs("document.querySelector('#prompt').enterKeyHint") == "send"


def test_a_menu_works_with_the_keyboard(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees(".chip.mode > button")
        person.runs("document.querySelector('.chip.mode > button').focus()")
        person.presses("Enter")
        person.sees(".chip-menu", "Changes nothing until you approve")
        person.presses("ArrowDown")
        person.presses("ArrowDown")
        person.presses("Enter")
        person.sees(".toast", "Mode: Plan")
        person.sees(".chip.mode > button[data-value=plan]")
        person.loses(".chip-menu")
        assert person.runs("document.activeElement.closest('.chip').className") == "chip mode"
        person.presses("Enter")
        person.sees(".chip-menu")
        person.presses("Escape")
        person.loses(".chip-menu")
        person.sees(".chip.mode > button[data-value=plan]")


async def test_s3_32_agents_that_are_not_installed_cannot_be_chosen(
    browser: Browser, own_server: Server, directory: Path
) -> None:
    project = await project_in(own_server, directory)
    with browser.person(f"{page_of(own_server)}#token={own_server.token}&project={project}") as person:
        person.clicks(".chip.agent > button")
        person.sees(".chip-menu [data-value=codex]:disabled", "Codex")
        person.sees(".chip-menu .hint", "your next message starts a new session")


@pytest.mark.slow
def test_s3_41_a_message_is_sent_into_the_running_turn(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees(".chip.mode")
        assert not person("visible", css=".steer"), "nothing is running"
        emits(person, INIT, AT_WORK, HOLD)
        person.sees(".steer")
        person.fills("#prompt", "and be quick")
        person.presses("Control+Enter")
        person.sees(".prompt .words", "and be quick")
        person.loses(".queued")
        assert person("value", css="#prompt") == ""


def test_a_message_is_queued_if_it_cannot_be_added_to_the_run(browser: Browser, address: str) -> None:
    """The agent does not accept messages during a run, so the web UI does not offer to add one."""
    with browser.person(address) as person:
        emits(person, INIT | {"capabilities": []}, AT_WORK, HOLD)
        person.until("document.querySelector('#prompt').placeholder === 'Queue a message…'")
        person.fills("#prompt", "/quick")
        person.sees(".composer .yes:enabled")
        assert not person("visible", css=".steer")
        person.presses("Control+Enter")
        person.sees(".queued", "/quick")
        assert person.reads(".toast") == []
        person.clicks(".stop.all")
        person.loses(".stop")


def test_a_message_that_the_turn_refuses_returns_to_the_box(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        emits(person, INIT, HOLD)  # the agent has not reported that it is working
        person.sees(".steer")
        person.fills("#prompt", "and be quick")
        person.clicks(".steer")
        person.sees(".toast", "The agent has not begun this run yet")
        assert person("value", css="#prompt") == "and be quick"


@pytest.mark.slow
def test_the_box_is_accessible(browser: Browser, address: str) -> None:
    from tests import programs

    with browser.person(address, width=390, height=844) as person:
        emits(person, INIT)
        person.clicks(".composer .yes")
        person.sees(".finished")
        for css in (".chip.mode > button", ".chip.agent > button"):
            person.clicks(css)
            person.sees(".chip-menu")
            assert person("axe", file=str(programs.axe())) == []
            person.presses("Escape")
        person.fills("#prompt", "/")
        person.sees(".suggestions")
        assert person("axe", file=str(programs.axe())) == []
