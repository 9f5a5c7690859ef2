"""The files of a project in the web UI: how they are found and read, and why some are not shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import programs
from tests.server.checkpoints.rig import git
from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser, Person

pytestmark = pytest.mark.thorough

CODE = "".join(f"def step{number}() -> int:\n    return {number}\n\n\n" for number in range(100))


@pytest.fixture
def files(directory: Path) -> Path:
    """A project with a module, an image, and files that are not shown."""
    (directory / "src").mkdir()
    (directory / "src" / "bridge.py").write_text(CODE)
    (directory / "logo.png").write_bytes((programs.ROOT / "web" / "static" / "icon-192.png").read_bytes())
    (directory / ".env").write_text("TOKEN=secret\n")
    (directory / "data.bin").write_bytes(bytes(range(256)) * 10)
    (directory / "large.txt").write_text("x" * 3_000_000)
    return directory


def opens(person: Person, path: str) -> None:
    person.runs(f"location.hash = location.hash.replace(/(#.p.[^/]+).*/, '$1/files/{path}')")


async def test_s2_14_a_file_is_found_and_read(browser: Browser, server: Server, files: Path) -> None:
    project = await project_in(server, files)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}", width=1440, height=900) as person:
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('Files')")
        person.clicks(".tree button:has-text('src')")
        person.clicks(".tree a:has-text('bridge.py')")
        person.sees(".viewer .cm-line", "def step0() -> int:")
        person.sees(".opened .hint", "400 lines")
        assert person("visible", css=".views") is False, "outside of a git work tree no changes are known"
        person.fills(".tree input", "lgo")
        person.clicks(".tree a:has-text('logo.png')")
        person.until("document.querySelector('.picture img')?.naturalWidth === 192")
        assert person.complaints() == []
        assert person("axe", file=str(programs.axe())) == []


@pytest.fixture
def changed(files: Path) -> Path:
    """The project as a git work tree: two files are changed, one is new, and one is deleted with its directory."""
    (files / "old").mkdir()
    (files / "old" / "gone.py").write_text("gone = True\n")
    git(files, "init", "-q")
    git(files, "add", ".")
    git(files, "commit", "-q", "-m", "first")
    (files / "src" / "bridge.py").write_text(CODE.replace("return 50\n", "return 5050\n"))
    (files / "new.py").write_text("new = True\n")
    (files / "logo.png").write_bytes((files / "logo.png").read_bytes() + b"more")
    (files / "old" / "gone.py").unlink()
    (files / "old").rmdir()
    return files


@pytest.mark.slow
async def test_s2_14_a_changed_file_opens_its_diff(browser: Browser, server: Server, changed: Path) -> None:
    project = await project_in(server, changed)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}", width=1440, height=900) as person:
        person.sees("#prompt")
        opens(person, "")
        person.clicks(".tree button:has-text('src')")
        person.clicks(".tree a:has-text('bridge.py')")
        person.sees(".compared .line.added", "return 5050")
        person.sees(".compared .line.removed", "return 50")
        person.clicks(".compared .skipped")
        person.sees(".compared .line", "def step0() -> int:")
        assert person("axe", file=str(programs.axe())) == []

        person.clicks(".views a:has-text('File')")
        person.sees(".viewer .cm-line", "def step0() -> int:")
        person.loses(".compared")
        assert person.runs("document.activeElement.innerText") == "File", "the focus stays on the switch"
        person.presses("Shift+Tab")
        person.presses("Enter")
        person.sees(".compared .line.added", "return 5050")

        person.clicks(".tree a:has-text('new.py')")
        person.sees(".compared", "New, and not tracked by git.")
        assert person.reads(".compared .line.added") == ["new = True"]
        person.clicks(".tree a:has-text('notes.md')")
        person.sees(".viewer .cm-line", "# Notes")
        person.clicks(".views a:has-text('Changes')")
        person.sees(".compared", "The content is the same as in the last commit.")
        person.clicks(".tree a:has-text('logo.png')")
        person.sees(".opened .notice", "Changes are shown for text files only.")
        person.until("document.querySelector('.picture img')?.naturalWidth === 192")
        assert person.complaints() == []


@pytest.mark.slow
async def test_a_deleted_file_opens_with_its_old_content(browser: Browser, server: Server, changed: Path) -> None:
    project = await project_in(server, changed)
    address = f"{page_of(server)}#token={server.token}&project={project}"
    with browser.person(address, width=390, height=844) as person:
        person.sees("#prompt")
        opens(person, "")
        person.clicks(".tree button:has-text('old')")
        person.clicks(".tree a:has-text('gone.py')")
        person.sees(".compared .line.removed", "gone = True")
        person.sees(".compared", "Deleted since the last commit.")
        assert person.reads(".views a") == ["Changes"], "there is no file to show"
        assert person("axe", file=str(programs.axe())) == []
        opens(person, "src/bridge.py?line=201")
        person.sees(".viewer .cm-activeLine", "def step50() -> int:")
        person.clicks(".views a:has-text('Changes')")
        person.sees(".compared .line.added", "return 5050")
        for path, words in ((".env", "is private"), ("none.py", "doesn’t exist"), ("data.bin", "it is binary")):
            opens(person, f"{path}?changes")
            person.sees(".opened .notice", words)
            person.loses(".compared")
        assert person.complaints() == []


@pytest.mark.parametrize(("name", "code"), [("a.py", "def a(): pass"), ("a.kt", "fun main() {}"), ("a.pl", "my $a;")])
async def test_a_file_is_highlighted_in_its_language(
    browser: Browser, server: Server, directory: Path, name: str, code: str
) -> None:
    """The file view supports the same languages as diffs."""
    (directory / name).write_text(code)
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.sees("#prompt")
        opens(person, name)
        person.sees(".viewer .cm-line", code)
        person.until("document.querySelector('.viewer').shadowRoot.querySelector('.cm-line > span[class]')")


async def test_a_link_to_a_line_scrolls_to_it(browser: Browser, server: Server, files: Path) -> None:
    project = await project_in(server, files)
    address = f"{page_of(server)}#token={server.token}&project={project}"
    with browser.person(address, width=390, height=844) as person:
        person.sees("#prompt")
        opens(person, "src/bridge.py?line=201")
        person.sees(".viewer .cm-activeLine", "def step50() -> int:")
        assert person("visible", css=".tree") is False, "on a phone the file has the screen for itself"
        drawn = person.runs("document.querySelector('.viewer').shadowRoot.querySelectorAll('.cm-line').length")
        assert drawn < 200, "only the lines in view are drawn"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (".env", "is private"),
        ("data.bin", "it is binary"),
        ("src", "it is a directory"),
        ("large.txt", "too large to show: 3.0 MB"),
        ("none.py", "This file doesn’t exist"),
        ("../other/notes.md", "could lead outside the project"),
    ],
)
async def test_files_that_are_not_shown_have_a_reason(
    browser: Browser, server: Server, files: Path, path: str, words: str
) -> None:
    project = await project_in(server, files)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.sees("#prompt")
        opens(person, path)
        person.sees(".opened .notice", words)
        assert "TOKEN" not in person.runs("document.body.innerText")


@pytest.mark.slow
async def test_a_link_to_a_directory_opens_it_in_the_tree(browser: Browser, server: Server, files: Path) -> None:
    project = await project_in(server, files)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}", width=1440, height=900) as person:
        person.prompts(f"/say {json.dumps('The code is in [the folder](src/).')}")
        person.sees(".finished")
        person.clicks(".said .file-link")
        person.until("location.hash.endsWith('/files/src')")
        person.sees(".opened .notice", "it is a directory")
        person.sees(".tree a", "bridge.py")


async def test_strange_characters_in_files_are_shown_as_escapes(
    browser: Browser, server: Server, directory: Path
) -> None:
    (directory / "fi\u202elis").write_text("one\u202etwo\n")
    (directory / "<img src=x>.txt").write_text("<b>bold</b>")
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}", width=1440, height=900) as person:
        person.sees("#prompt")
        opens(person, "")
        person.sees(".tree", "<img src=x>.txt")
        person.clicks(".tree a:has-text('lis')")
        person.sees(".opened h3", "fi\\u202elis")
        person.sees(".viewer .cm-specialChar", "\\u202e")
        assert person.complaints() == []


async def test_the_tree_shows_git_status_marks(browser: Browser, server: Server, files: Path) -> None:
    """The marks are M, A and U, and screen readers read words."""
    (files / ".gitignore").write_text(".env\n")
    git(files, "init", "-q")
    git(files, "add", "notes.md", "src", ".gitignore")
    git(files, "commit", "-q", "-m", "first")
    (files / "notes.md").write_text("# Other notes\n")
    (files / "toll.py").write_text("TOLL = 22\n")
    git(files, "add", "toll.py")
    project = await project_in(server, files)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}", width=1440, height=900) as person:
        person.sees("#prompt")
        opens(person, "")
        person.sees(".tree .entry:has-text('notes.md') .mark-M", "M")
        person.sees(".tree .entry:has-text('toll.py') .mark-A", "A")
        person.sees(".tree .entry:has-text('logo.png') .mark-U", "U")
        assert person.runs("document.querySelector('.tree .mark-U .unseen').innerText") == "not tracked by git"
        assert person.reads(".tree .entry:has-text('src') .mark") == []


@pytest.mark.slow
async def test_a_tool_row_opens_its_file(browser: Browser, server: Server, files: Path) -> None:
    read = {
        "type": "tool_use",
        "id": "1",
        "name": "Read",
        "input": {"file_path": str(files / "src/bridge.py"), "offset": 201},
    }
    result = {"type": "tool_result", "tool_use_id": "1", "content": "   201\tdef step50() -> int:\n"}
    lines = [
        {"type": "assistant", "message": {"role": "assistant", "content": [read]}, "parent_tool_use_id": None},
        {"type": "user", "message": {"role": "user", "content": [result]}, "parent_tool_use_id": None},
    ]
    project = await project_in(server, files)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.prompts(f"/emit {json.dumps(lines)}")
        person.sees(".finished")
        person.clicks(".tool > summary:has-text('src/bridge.py')")
        person.clicks(".tool-file .file-link")
        person.until("location.hash.endsWith('/files/src/bridge.py?line=201')")
        person.sees(".viewer .cm-activeLine", "def step50() -> int:")


async def test_a_file_opened_while_offline_loads_after_reconnecting(
    browser: Browser, server: Server, files: Path
) -> None:
    project = await project_in(server, files)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.sees("#prompt")
        opens(person, "")
        person.sees(".tree", "logo.png")
        person("offline", on=True)
        person.sees(".connection", "offline")
        opens(person, "src/bridge.py")
        person.sees(".opened h3", "bridge.py")
        person("offline", on=False)
        person.sees(".viewer .cm-line", "def step0")
        assert person.reads(".opened [role=alert]") == []
