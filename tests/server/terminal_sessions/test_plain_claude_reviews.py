"""The changes of a plain ``claude`` in auto mode are reviewed afterwards, because it asks nobody before it makes
them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drawbridge.server.checkpoints import private
from tests.rigs.claude_rig import Claude
from tests.rigs.messages_stub import HOLD, Block, edit, read, text, tool_use, write
from tests.server.checkpoints.rig import git
from tests.server.processes import Server, serving
from tests.server.reviews.rig import POEM, hunks, id_of

from .rig import Message, Phone, ServedWorkstation, following

pytestmark = pytest.mark.thorough

TASK = "Write the sub file"
BEGIN = tool_use("Agent", description="do it", prompt=TASK, subagent_type="general-purpose")


def run(command: str) -> Block:
    return tool_use("Bash", command=command, description="Change a file")


def project(rig: ServedWorkstation, kind: str) -> None:
    """Creates the project's files, in a repository if ``kind`` is "git"."""
    shutil.rmtree(rig.project / ".git", ignore_errors=True)
    for name in ("poem.txt", "song.txt", "old.txt", "here.txt"):
        rig.file(name, POEM if name in ("poem.txt", "song.txt") else f"{name}\n")
    if kind == "git":
        git(rig.project, "init", "-q")
        git(rig.project, "add", ".")
        git(rig.project, "commit", "-q", "-m", "first")


def begin(rig: ServedWorkstation) -> Claude:
    rig.model.checks = True
    return rig.plain_claude("--permission-mode", "auto", "--model", "opus")


async def review(phone: Phone) -> Message:
    """The open review."""
    answer = await phone.client.ask("review_get", project_id=phone.project)
    data: Message = answer["data"]
    return data


async def finished(phone: Phone, outcome: str = "completed") -> None:
    """Returns once the next run with this outcome has ended, and the checkpoint after it was taken."""
    await phone.client.receive("update", "run_finished", outcome=outcome)
    await phone.client.receive("update", "review_changed")


@pytest.mark.slow_for("no git")
@pytest.mark.parametrize("kind", ["git", "no git"])
async def test_all_changes_of_a_run_in_auto_mode_are_reviewed(
    kind: str, rig: ServedWorkstation, server: Server
) -> None:
    """The run uses tools, commands, and a subagent in the background. The model answers immediately."""
    project(rig, kind)
    poem = rig.project / "poem.txt"
    rig.model.subagent_will_say(TASK, write(rig.project / "sub.txt", "by the subagent\n"))
    rig.model.will_say(
        run("sed -i 's/line 17$/LINE 17/' song.txt"),
        run("rm old.txt"),
        run("mv here.txt there.txt"),
        read(poem),
        edit(poem, "line 3\n", "LINE 3\n"),
        write(rig.project / "new.txt", "new\n"),
        BEGIN,
        text("It has begun."),
        text("All is done."),
    )
    async with following(server) as phone:
        claude = begin(rig)
        await phone.session()
        claude.prompt("Do it")
        await finished(phone)
        found = await review(phone)
        assert found["repository"] == ("project" if kind == "git" else "private")
        assert hunks(found) == [
            ("new.txt", "", "new\n"),
            ("old.txt", "old.txt\n", ""),
            ("poem.txt", "line 3\n", "LINE 3\n"),
            ("song.txt", "line 17\n", "LINE 17\n"),
            ("sub.txt", "", "by the subagent\n"),
            ("there.txt", "", ""),
        ]
        assert [file.get("old_path") for file in found["files"] if file["path"] == "there.txt"] == ["here.txt"]
        undone = [id_of(found, part) for part in ("old.txt", "LINE 17\n", "new.txt")]
        answer = await phone.client.ask("review_decide", {"hunks": undone, "decision": "undo"}, phone.project)
        assert len(hunks(answer["data"])) == 3
    assert (rig.project / "old.txt").read_text() == "old.txt\n"
    assert (rig.project / "song.txt").read_text() == POEM
    assert not (rig.project / "new.txt").exists()
    assert poem.read_text() == POEM.replace("line 3\n", "LINE 3\n")


@pytest.mark.slow
async def test_an_interrupted_run_is_reviewed(rig: ServedWorkstation, server: Server) -> None:
    """Changes that the user makes afterwards are not reviewed. A second run extends the review."""
    project(rig, "git")
    rig.model.will_say(write(rig.project / "new.txt", "new\n"), [text("Let me see"), HOLD, text("…")])
    async with following(server) as phone:
        claude = begin(rig)
        await phone.session()
        claude.prompt("Go")
        claude.pane.wait_for("Let me see")
        claude.pane.press("Escape")
        await finished(phone, "interrupted")
        rig.model.go_on()
        rig.file("mine.txt", "by a person\n")
        assert hunks(await review(phone)) == [("new.txt", "", "new\n")]
        rig.model.will_say(run("rm old.txt"), text("Gone."))
        claude.prompt("Continue")
        await finished(phone)
        assert [path for path, _, _ in hunks(await review(phone))] == ["new.txt", "old.txt"]


@pytest.mark.slow
async def test_two_terminals_in_one_directory_share_the_review(rig: ServedWorkstation, server: Server) -> None:
    project(rig, "no git")
    async with following(server) as phone:
        for name in ("one.txt", "two.txt"):
            rig.model.will_say(write(rig.project / name, f"{name}\n"), text("Written."))
            claude = begin(rig)
            await phone.session()
            claude.prompt("Go")
            await finished(phone)
        assert [path for path, _, _ in hunks(await review(phone))] == ["one.txt", "two.txt"]
    (place,) = Path(server.data).glob(f"directories/*/{private.NAME}")
    assert (place / "HEAD").exists()


@pytest.mark.slow
async def test_kept_changes_are_committed_with_the_prompt(rig: ServedWorkstation, home: Path) -> None:
    project(rig, "git")
    git(rig.project, "config", "user.name", "Ada")
    git(rig.project, "config", "user.email", "ada@example.org")
    poem = rig.project / "poem.txt"
    rig.model.will_say(read(poem), edit(poem, "line 3\n", "LINE 3\n"), run("rm old.txt"), text("Done."))
    async with serving(home / "data", "--no-tls", "--allow-commit") as server, following(server) as phone:
        claude = begin(rig)
        await phone.session()
        claude.prompt("Shout line 3")
        await finished(phone)
        kept = {"hunks": [id_of(await review(phone), "LINE 3\n")], "decision": "keep"}
        offer = (await phone.client.ask("review_decide", kept, phone.project))["data"]["commit"]
        assert offer["message"] == "Shout line 3"
        answer = await phone.client.ask("review_commit", {"message": offer["message"]}, phone.project)
        assert answer["data"]["data"]["files"] == ["poem.txt"]
    assert git(rig.project, "log", "-1", "--format=%an: %s").strip() == "Ada: Shout line 3"
    assert git(rig.project, "show", "HEAD:poem.txt") == POEM.replace("line 3\n", "LINE 3\n")
    assert git(rig.project, "status", "--porcelain").splitlines() == [" D old.txt"]
