"""In the terminal client, a person decides on what the runs have changed: by hunk, by file, and all at once."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Static

from drawbridge.tui.dialogs import ConfirmDialog
from drawbridge.tui.diff_view import LinesView
from drawbridge.tui.fields import PlainTextArea
from drawbridge.tui.review.view import ReviewView
from drawbridge.tui.screens import review as screen_review
from drawbridge.tui.screens.conversation import ConversationScreen
from drawbridge.tui.screens.review import ReviewScreen
from tests import programs
from tests.rigs.reviews import MISSING, WORK, decides, make_repository, misses_the_first_checkpoint, poem
from tests.server.checkpoints.rig import git
from tests.server.processes import Server, serving
from tests.tui.conftest import make_directory, make_project
from tests.tui.rig import Person, attached
from tests.tui.test_coming_back import free_port, is_cut_off
from tests.tui.test_deciding import device_token

Work = Mapping[str, str | bytes | None]


@pytest.fixture(autouse=True)
def _quick_decider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys decide on a change as soon as it is the current one, unless a test sets ``READING_SECONDS``."""
    monkeypatch.setattr(screen_review, "READING_SECONDS", 0.0)


@pytest.fixture
def repository(directory: Path) -> Path:
    return make_repository(directory)


async def project_of(server: Server, directory: Path) -> str:
    async with server.client() as client:
        projects = (await client.ask("project_list"))["data"]["projects"]
        return next(str(one["id"]) for one in projects if one["path"] == str(directory))


async def runs(server: Server, directory: Path, work: Work) -> str:
    """Executes a run during which these files are written or, if the content is None, removed. Returns the project's id
    once the review has changed.

    The agent's own proposal is denied, so that these are the only changes of the run.
    """
    project = await project_of(server, directory)
    async with server.client() as client:
        await client.ask("project_join", project_id=project)
        await client.ask("execute", {"prompt": "Something"}, project)
        asked = await client.receive("permission_request")
        for name, content in work.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        answer = {"approval_id": asked["data"]["approval_id"], "decision": "deny"}
        await client.ask("permission_response", answer, project)
        await client.receive("update", "review_changed")
    return project


async def hunks(server: Server, project: str) -> dict[str, list[str]]:
    """The ids of the hunks of each file."""
    async with server.client() as client:
        review = (await client.ask("review_get", project_id=project))["data"]
        return {file["path"]: [hunk["id"] for hunk in file["hunks"]] for file in review["files"]}


def view(person: Person) -> ReviewView:
    return person.app.screen.query_one(ReviewView)


def current(person: Person) -> str:
    """The path and the first new line of the change that keys decide on. Both are empty if keys decide on none."""
    part = view(person).part
    if part is None:
        return ""
    line = part.hunk["added"].partition("\n")[0] if part.hunk is not None else ""
    return f"{part.path}: {line}"


def row_of(person: Person, words: str) -> int:
    """The first row of the screen, from 0, that contains ``words``."""
    return next(at for at, line in enumerate(person.screen.splitlines()) if words in line)


async def is_at(person: Person, words: str) -> None:
    await person.waits_for(lambda: current(person) == words and view(person).is_seen(str(view(person).current)), words)


def about(person: Person) -> str:
    """The notice below the review, before wrapping, or "" if it is not shown."""
    line = person.app.screen.query_one("#about", Static)
    return str(line.content) if line.display else ""


async def is_told(person: Person, words: str) -> None:
    await person.waits_for(lambda: words in about(person), words)


async def opens(person: Person) -> None:
    await person.sees("Review: ")
    await person.presses("escape", "v")
    await person.waits_for(lambda: isinstance(person.app.screen, ReviewScreen) and current(person), "the review")


@contextlib.asynccontextmanager
async def reviewing(
    server: Server, directory: Path, work: Work | None = None, **how: Any
) -> AsyncIterator[tuple[Person, str]]:
    """A person who has opened the review of a run that made the changes ``work``, and the project's id."""
    project = await runs(server, directory, WORK if work is None else work)
    async with attached(server, directory, **how) as person:
        await opens(person)
        yield person, project


async def test_a_directory_outside_a_repository_is_mentioned_once(server: Server, directory: Path) -> None:
    programs.git()  # keeps the checkpoints of this directory too
    async with reviewing(server, directory, {"notes.md": "# Notes\n\nThe bridge is down.\n"}) as (person, _):
        await person.sees("in its own repository")
        await person.presses("escape", "v")
        await person.loses("in its own repository")


async def test_changes_that_may_be_missing_are_pointed_out(server: Server, repository: Path) -> None:
    misses_the_first_checkpoint(server, await project_of(server, repository))
    async with reviewing(server, repository, {"old.txt": None}) as (person, _):
        await is_told(person, MISSING)
        await person.sees("Changes of the latest run may be missing here, because no checkpoint was taken in time")
        await person.presses("u")
        await person.sees("Nothing to review", "Changes of the latest run may be missing here")


@pytest.mark.thorough
async def test_a_run_is_decided_hunk_by_hunk(server: Server, repository: Path) -> None:
    await runs(server, repository, WORK)
    async with attached(server, repository) as person:
        await person.sees("Review: 3 files +4 −3 (v: open)")
        await opens(person)
        await person.sees("old.txt  deleted", "3 files · 4 changes +4 −3", "1 of 4", "This file was deleted.")
        await is_at(person, "old.txt: ")
        await person.presses("u")
        await is_at(person, "poem.txt: LINE 5")
        assert (repository / "old.txt").read_text() == "old\n"
        await person.sees("▌   5 − line 5", "▌   5 + LINE 5", "▌   8   line 8", "2 files · 3 changes +4 −2")
        await person.presses("j", "u")
        await is_at(person, "src/new.py: def open_bridge() -> bool:")
        assert (repository / "poem.txt").read_text() == poem(line_5="LINE 5")
        await person.presses("e")
        await is_told(person, "What you write replaces the new lines.")
        field = person.app.screen.query_one(PlainTextArea)
        assert field.text == "def open_bridge() -> bool:\n    return True"
        field.text = "def close_bridge() -> bool:\n    return True"
        await person.presses("ctrl+s")
        await is_at(person, "poem.txt: LINE 5")
        assert (repository / "src" / "new.py").read_text() == "def close_bridge() -> bool:\n    return True\n"
        await person.presses("a")
        await person.sees("Nothing to review")
        await person.presses("escape")
        await person.loses("Review: ")
        await person.reads(
            "You undid 1 change in poem.txt", "You edited 1 change in src/new.py", "You kept 1 change in poem.txt"
        )
    assert (repository / "poem.txt").read_text() == poem(line_5="LINE 5")


@pytest.mark.slow
async def test_a_decision_in_a_review_is_shown_in_the_conversation(server: Server, repository: Path) -> None:
    """The server does not report a decision to the client that made it, but the records after it must be shown."""
    async with reviewing(server, repository) as (person, _):
        await is_at(person, "old.txt: ")
        await person.presses("a")
        await is_at(person, "poem.txt: LINE 5")
        await person.presses("escape")
        await person.reads("You kept 1 change in old.txt")
        await person.prompts("/lines 3")
        await person.reads("Line 3")


@pytest.mark.slow
async def test_a_review_follows_the_decisions_of_another_user(server: Server, repository: Path) -> None:
    async with reviewing(server, repository, size=(100, 16)) as (person, project):
        ids = await hunks(server, project)
        await person.presses("j", "j")
        await is_at(person, "poem.txt: LINE 30")
        await person.sees("LINE 30", "  33   line 33")
        place = row_of(person, "+ LINE 30")
        await decides(server, project, hunks=ids["old.txt"], decision="keep")
        await person.is_notified("made decisions in this review.")
        await person.sees("2 files · 3 changes")
        assert current(person) == "poem.txt: LINE 30"
        assert row_of(person, "+ LINE 30") == place
        await decides(server, project, hunks=ids["poem.txt"][1:], decision="undo")
        await is_at(person, "src/new.py: def open_bridge() -> bool:")
        await person.presses("a")
        await is_at(person, "poem.txt: LINE 5")
    assert (repository / "poem.txt").read_text() == poem(line_5="LINE 5")


@pytest.mark.thorough
async def test_the_second_of_two_users_sees_who_decided_first(server: Server, repository: Path) -> None:
    async with (
        reviewing(server, repository, name="Ada") as (ada, project),
        attached(server, repository, name="Bob") as bob,
    ):
        await opens(bob)
        await is_at(bob, "old.txt: ")
        await is_at(ada, "old.txt: ")
        screen = bob.app.screen
        assert isinstance(screen, ReviewScreen)
        [id] = (await hunks(server, project))["old.txt"]
        await ada.presses("u")
        await is_at(ada, "poem.txt: LINE 5")
        # As if Bob had pressed the key before he received Ada's decision.
        screen._send({"hunks": [id], "decision": "keep"}, id)
        await is_told(bob, "Ada already undid this change.")
        await is_at(bob, "poem.txt: LINE 5")
        await bob.presses("j")
        await bob.waits_for(lambda: not about(bob), "nothing more about it")
    assert (repository / "old.txt").read_text() == "old\n"


@pytest.mark.thorough
async def test_a_change_on_disk_is_shown_when_the_user_returns(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, _):
        await person.presses("j")
        await is_at(person, "poem.txt: LINE 5")
        (repository / "poem.txt").write_text(poem(line_5="Another 5", line_30="LINE 30"))
        await person.presses("a")
        await is_told(person, "poem.txt changed at line 5 since you looked.")
        await person.sees("+ Another 5")
        (repository / "poem.txt").write_text(poem(line_5="A third 5", line_30="LINE 30"))
        person.app.on_app_focus()
        await person.is_notified("The review has changed.")
        await person.sees("+ A third 5")
    assert (repository / "poem.txt").read_text() == poem(line_5="A third 5", line_30="LINE 30")


@pytest.mark.thorough
async def test_only_a_fully_shown_change_can_be_decided(server: Server, repository: Path) -> None:
    long = "".join(f"verse {number}\n" for number in range(1, 101))
    async with reviewing(server, repository, {"long.txt": long}, size=(80, 24)) as (person, _):
        await person.sees("verse 5")
        await person.presses("a", "u", "e")
        await is_told(person, "You have not seen all of this change: scroll through it")
        assert not person.app.screen.query_one(PlainTextArea).display
        await person.presses("G", "pagedown", "pagedown", "pagedown")
        await person.sees("verse 70")
        await person.presses("a")
        await is_told(person, "You have not seen all of this change: scroll through it")
        while not view(person).is_seen(str(view(person).current)):
            place = view(person).scroll_offset.y
            await person.presses("space")
            await person.waits_for(lambda place=place: view(person).scroll_offset.y > place, "the next page")  # type: ignore[misc]
            await person.pilot.pause()
        await person.presses("a")
        await person.sees("Nothing to review")


@pytest.mark.slow
async def test_a_change_behind_a_notice_cannot_be_decided(server: Server, repository: Path) -> None:
    async with reviewing(server, repository, {"new.txt": "".join(f"verse {n}\n" for n in range(6))}) as (person, _):
        person.app.notify("word " * 200, timeout=3600)
        await person.waits_for(lambda: any(one.region.height for one in person.app.screen.query("Toast")), "the notice")
        view(person)._seen.clear()
        view(person).show(view(person)._parts)
        await person.pilot.pause()
        assert not view(person).is_seen(str(view(person).current))
        await person.presses("a")
        assert "?? new.txt" in git(repository, "status", "--porcelain")
        person.app.clear_notifications()
        await person.waits_for(lambda: view(person).is_seen(str(view(person).current)), "the lines behind the notice")
        await person.presses("a")
        await person.sees("Nothing to review")


@pytest.mark.thorough
async def test_all_changes_of_a_file_are_decided_together(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, _):
        await person.presses("j", "U")
        await person.sees(
            "Undo 2 changes in poem.txt?", "Other changes to the same files are not affected.", "y Undo · Esc Cancel"
        )
        await person.presses("escape")
        await person.sees("3 files · 4 changes")
        await person.presses("U")
        await person.sees("Undo 2 changes in poem.txt?")
        await person.presses("y")
        await person.sees("2 files · 2 changes")
        assert (repository / "poem.txt").read_text() == poem()
        await person.presses("K")
        await person.sees("Keep 2 changes in 2 files?")
        await person.presses("y")
        await person.sees("Nothing to review")
    assert not (repository / "old.txt").exists()
    assert (repository / "src" / "new.py").exists()


@pytest.mark.slow
async def test_deciding_on_all_requires_the_shown_version(server: Server, repository: Path) -> None:
    async with reviewing(server, repository, size=(100, 12)) as (person, project):
        await person.presses("X")
        await person.sees("Undo 4 changes in 3 files?", "You have not fully seen")
        (repository / "more.txt").write_text("more\n")
        (repository / "poem.txt").write_text(poem(line_5="Another 5", line_30="LINE 30"))
        await person.presses("y")
        await is_told(person, "The review has changed since you saw it, so your decision was not applied.")
        await is_told(person, "Read what is new in poem.txt, then decide again.")
        await person.waits_for(lambda: current(person) and not person.app.screen.query(ConfirmDialog), "the review")
        assert not (repository / "old.txt").exists()
        assert len(await hunks(server, project)) == 3


@pytest.mark.thorough
async def test_a_view_only_device_cannot_decide(server: Server, repository: Path, tmp_path: Path) -> None:
    await runs(server, repository, WORK)
    token = tmp_path / "token"
    token.write_text(await device_token(server, "view"))
    async with attached(server, repository, token_file=str(token)) as person:
        await person.sees("Review: 3 files +4 −3")
        await person.presses("v")
        await is_told(person, "View only. Decide from another device.")
        await person.sees("3 files · 4 changes")
        await person.presses("a", "u", "e", "A", "U", "K", "X")
        await is_told(person, "View only. Decide from another device.")
        await person.sees("3 files · 4 changes")
        assert "keep all" not in person.screen
        await person.presses("escape")
        await person.sees("Ready")
    assert not (repository / "old.txt").exists()


@pytest.mark.slow
async def test_while_the_agent_works_changes_can_only_be_kept(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project), server.client() as owner:
        await owner.ask("execute", {"prompt": "/slow 600"}, project)
        await is_told(
            person, "The agent is working. Until it has finished, changes can be kept, but not undone or edited."
        )
        await person.presses("u", "e", "U", "X")
        assert isinstance(person.app.screen, ReviewScreen)
        assert not person.app.screen.query_one(PlainTextArea).display
        await is_at(person, "old.txt: ")
        await person.presses("a")
        await is_at(person, "poem.txt: LINE 5")
        await owner.ask("agent_interrupt", {"all": True}, project)
        await person.waits_for(lambda: not about(person), "the end of the run")
        await person.presses("u")
        await is_at(person, "poem.txt: LINE 30")
    assert not (repository / "old.txt").exists()


@pytest.mark.slow
async def test_an_edit_is_kept_as_a_draft_until_it_is_decided(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, _):
        await person.presses("j", "e")
        field = person.app.screen.query_one(PlainTextArea)
        await person.waits_for(lambda: field.has_focus, "the field")
        await person.presses("ctrl+s")
        await is_told(person, "You have not changed anything yet.")
        await person.types("My ")
        await person.presses("escape")
        await is_told(person, "Your edit is kept as a draft: e continues, d discards it.")
        await person.presses("K")
        await is_told(person, "Finish or discard your edit to decide on all changes at once.")
        await person.presses("escape")
        await person.sees("Ready")
        await opens(person)
        await person.presses("j")
        await is_told(person, "Your edit is kept as a draft")
        await person.presses("e")
        field = person.app.screen.query_one(PlainTextArea)
        assert field.text == "My LINE 5"
        await person.presses("escape", "d")
        await person.waits_for(lambda: not about(person), "the draft going")
        await person.presses("e")
        assert field.text == "LINE 5"
        await person.types("Mine: ")
        await person.presses("ctrl+s")
        await is_at(person, "poem.txt: LINE 30")
    assert (repository / "poem.txt").read_text() == poem(line_5="Mine: LINE 5", line_30="LINE 30")


@pytest.mark.thorough
async def test_an_edit_is_kept_when_another_user_decides(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project):
        await person.presses("j", "e")
        field = person.app.screen.query_one(PlainTextArea)
        await person.waits_for(lambda: field.has_focus, "the field")
        await person.types("My ")
        ids = await hunks(server, project)
        await decides(server, project, hunks=ids["poem.txt"][:1], decision="undo")
        await is_told(person, "What you wrote is kept here until you discard it (Esc, then d).")
        await person.sees("3 files · 3 changes")
        assert field.text == "My LINE 5"
        await person.presses("x", "ctrl+s")
        assert field.text == "My LINE 5"
        await person.presses("escape")
        await person.sees("poem.txt  Your edit", "My LINE 5")
        await person.presses("a")
        await is_told(person, "d discards what you wrote")
        await person.presses("d")
        await person.loses("Your edit")
        await person.sees("3 files · 3 changes")
    assert (repository / "poem.txt").read_text() == poem(line_30="LINE 30")


@pytest.mark.thorough
async def test_a_key_that_is_held_down_decides_only_one_change(
    server: Server, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reviewing(server, repository) as (person, project):
        await is_at(person, "old.txt: ")
        monkeypatch.setattr(screen_review, "READING_SECONDS", 3600.0)
        await person.presses("a")
        assert current(person) == "old.txt: ", "it had not been there for long enough"
        monkeypatch.setattr(screen_review, "READING_SECONDS", 0.0)
        await person.presses("a")
        monkeypatch.setattr(screen_review, "READING_SECONDS", 3600.0)
        await is_at(person, "poem.txt: LINE 5")
        await person.presses("a", "a", "u")
        assert sum(map(len, (await hunks(server, project)).values())) == 3


@pytest.mark.thorough
async def test_an_approval_behind_a_review_is_not_seen(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project), server.client() as owner:
        await owner.ask("execute", {"prompt": "Something"}, project)
        await person.sees("Needs you (Esc)")
        behind = next(screen for screen in person.app.screen_stack if isinstance(screen, ConversationScreen))
        await person.waits_for(lambda: behind.card is not None and behind.card.query(LinesView), "the approval")
        await person.pilot.pause()
        assert behind.card is not None
        assert behind.card.query_one(LinesView)._seen == 0
        await person.presses("a")
        await is_at(person, "poem.txt: LINE 5")
        assert behind.card is not None, "the key was for the review"
        await person.presses("escape")
        await person.is_asked("Something")
        await person.presses("a")
        await person.reads("Accepted by")


EVIL = "[red]x[/] $ink \x1b[2J \x1b]52;c;AAAA\x07 \u202egnp.\u202c \u200b \r漢字"


@pytest.mark.slow_for("40x16")
@pytest.mark.thorough
@pytest.mark.parametrize("size", [(100, 30), (40, 16)], ids=lambda size: "x".join(map(str, size)))
async def test_control_characters_in_names_and_texts_are_escaped(
    server: Server, repository: Path, size: tuple[int, int]
) -> None:
    name = EVIL.replace("/", "-")
    work: Work = {name: f"{EVIL}\n\tend\n", "poem.txt": poem(line_5=EVIL)}
    async with reviewing(server, repository, work, size=size) as (person, _):
        shown = view(person).text()
        assert "\\x1b[2J" in shown.replace("\n", "")
        assert not any(character in shown for character in "\x1b\x07\u202e\u202c\u200b\r")
        assert "漢字" in shown
        for _ in range(2):
            assert not any(character in person.screen for character in "\x1b\x07\u202e\u202c\u200b\r")
            await person.presses("j")
        await person.presses("e")
        await is_told(person, "edit them in the web UI, or edit the file in an editor.")


@pytest.mark.thorough
async def test_a_small_screen_shows_everything_and_can_be_resized(server: Server, repository: Path) -> None:
    work: Work = {"poem.txt": poem(line_5="LINE 5 " + "and so on " * 12), "src/" + "long/" * 12 + "name.txt": "x\n"}
    async with reviewing(server, repository, work, size=(40, 16)) as (person, _):
        await person.presses("k", "k")
        await is_at(person, f"poem.txt: LINE 5 {'and so on ' * 12}".rstrip("\n"))
        assert all(len(line) <= 40 for line in person.screen.splitlines())
        unwrapped = "".join(view(person).text().split())
        assert unwrapped.count("andsoon") == 12
        for width, height in ((100, 12), (30, 10), (80, 24)):
            await person.pilot.resize_terminal(width, height)
            await person.sees("poem.txt", "LINE 5")
            assert current(person).startswith("poem.txt"), "the change stays the current one"
            assert view(person).is_seen(str(view(person).current)), "what was shown whole stays so"
        await person.presses("a")
        await person.waits_for(lambda: current(person).endswith("name.txt: x"), "the other file")


@pytest.mark.slow
async def test_a_binary_file_is_described_in_words(server: Server, repository: Path) -> None:
    async with reviewing(server, repository, {"image.bin": b"\0\xff\n"}) as (person, _):
        await person.sees("image.bin  new · binary", "This is a new file. Its content is not shown")
        await is_at(person, "image.bin: ")
        await person.presses("e", "u")
        await person.sees("Nothing to review")
    assert not (repository / "image.bin").exists()


@pytest.mark.slow
async def test_a_directory_without_git_has_a_review(server: Server, directory: Path) -> None:
    before = (directory / "notes.md").read_text()
    async with reviewing(server, directory, {"notes.md": f"{before}More.\n"}) as (person, _):
        await is_at(person, "notes.md: More.")
        await person.presses("u")
        await person.sees("Nothing to review")
    assert (directory / "notes.md").read_text() == before


@pytest.mark.thorough
async def test_the_reason_for_a_missing_review_is_shown(server: Server, repository: Path) -> None:
    async with attached(server, repository) as person:
        repository.rename(repository.with_name(f"{repository.name} elsewhere"))
        await person.presses("escape", "v")
        await person.waits_for(lambda: isinstance(person.app.screen, ReviewScreen), "the review")
        await is_told(person, "The session's directory does not exist.")
        await person.presses("escape")
        await person.sees("● The session's directory does not exist.")
        repository.with_name(f"{repository.name} elsewhere").rename(repository)


@pytest.mark.slow
async def test_the_review_of_a_missing_directory_closes_with_a_reason(server: Server, repository: Path) -> None:
    """A drafted edit is still there once the directory exists again."""
    async with reviewing(server, repository) as (person, _):
        await person.presses("j", "e")
        field = person.app.screen.query_one(PlainTextArea)
        await person.waits_for(lambda: field.has_focus, "the field")
        await person.types("My ")
        await person.presses("escape", "k")
        await is_at(person, "old.txt: ")
        away = repository.rename(repository.with_name("elsewhere"))
        await person.presses("a")
        await person.waits_for(lambda: current(person) == "poem.txt: ", "only the draft")
        await is_told(person, "The session's directory does not exist.")
        await person.loses("3 files", "new.py")
        away.rename(repository)
        await person.presses("escape")
        await person.sees("Ready")
        await person.presses("v")
        await person.sees("3 files · 4 changes")
        await person.presses("j")
        await is_told(person, "Your edit is kept as a draft")


@pytest.mark.thorough
async def test_a_decision_made_offline_is_applied_once(tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "work" / "blog")
    make_repository(directory)
    arguments = (tmp_path / "data", "--no-tls", "--allow", directory.parent, "--port", str(free_port()))
    async with serving(*arguments) as first:
        await make_project(first, directory)
        project = await runs(first, directory, WORK)
        async with attached(first, directory) as person:
            await opens(person)
            await is_at(person, "old.txt: ")
            await first.end(signal.SIGKILL)
            await person.sees("Not connected to the server: ")
            await person.presses("u")
            await is_told(person, "Sending…")
            await person.presses("u", "a")
            (directory / "poem.txt").write_text(poem(line_5="LINE 5"))
            async with serving(*arguments) as second:
                person.app.client.connection.retry_now()
                await person.sees("Connected", "2 files · 2 changes")
                await is_at(person, "poem.txt: LINE 5")
                assert {name: len(ids) for name, ids in (await hunks(second, project)).items()} == {
                    "poem.txt": 1,
                    "src/new.py": 1,
                }
                await person.presses("escape")
                await person.reads_times(1, "You undid 1 change in old.txt")
    assert (directory / "old.txt").read_text() == "old\n"


@pytest.mark.thorough
async def test_an_offline_decision_is_applied_after_the_review_closes(
    server: Server, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reviewing(server, repository) as (person, _):
        await is_at(person, "old.txt: ")
        await is_cut_off(person, monkeypatch)
        await person.presses("u")
        await is_told(person, "Sending…")
        await person.presses("escape", "p")
        await person.waits_for(lambda: not person.in_project, "the list")
        person.app.client.connection.retry_now()
        await person.waits_for((repository / "old.txt").exists, "the undo")


@pytest.mark.thorough
async def test_a_refused_decision_is_reported_after_the_review_closes(
    server: Server, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reviewing(server, repository) as (person, project):
        await is_at(person, "old.txt: ")
        ids = await hunks(server, project)
        await is_cut_off(person, monkeypatch)
        await person.presses("a")
        await person.presses("escape")
        await decides(server, project, hunks=ids["old.txt"], decision="undo")
        person.app.client.connection.retry_now()
        await person.is_notified(f"Review of {repository.name}: ")
        assert "already undid this change." in person.notices[-1]


@pytest.mark.slow
async def test_deciding_on_a_file_too_large_to_show_asks_first(server: Server, repository: Path) -> None:
    async with reviewing(server, repository, {"big.txt": "a line of many\n" * 40_000}) as (person, project):
        await person.sees("big.txt  new  +40000 −0", "The changes to this file are too large to show here.")
        await is_at(person, "big.txt: ")
        await person.presses("e", "K")
        await is_told(person, "You can’t decide on all changes at once: some changes are not shown here.")
        await person.presses("u")
        await person.sees("Undo all changes in big.txt?", "Read them in an editor first.")
        await person.presses("n")
        assert (await hunks(server, project)) == {"big.txt": []}
        await person.presses("u")
        await person.sees("Undo all changes in big.txt?")
        await person.presses("y")
        await person.sees("Nothing to review")
    assert not (repository / "big.txt").exists()
