"""Reviews in editors that are connected to the private socket: which review an editor is shown, what it may decide, and
what it is sent."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core.errors import DrawbridgeError, NotPrivate
from drawbridge.core.review_memory import ReviewMemory
from drawbridge.server.checkpoints.errors import GitFailed
from drawbridge.server.checkpoints.work_tree import WorkTree
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.reviews.commenting import Commenting
from drawbridge.server.reviews.review_commits import ReviewCommits
from drawbridge.server.sessions.options.limits import Limits
from tests.chaos.rig import seeded
from tests.server.core_rig import Client
from tests.server.reviews.rig import POEM, killed, make_repository

from .socket_rig import Line, Message, SocketRig, in_editors, socket_rig
from .test_handover import at_work, has, leaves, receives_by_hook
from .test_reviewed_directories import At

NUMBERS = itertools.count(1)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path, Limits()) as rig:
        yield rig


@contextlib.asynccontextmanager
async def bridge(*, reviews: bool = True, **about: Any) -> AsyncIterator[Line]:
    async with Line.open() as line:
        line.send(**({"type": "bridge", "editor": "Neovim", "folders": [], "reviews": reviews} | about))
        if reviews:
            assert await line.receive() == {"type": "welcome", "remembers": True, "suggests": True}
        yield line


async def receives(line: Line, type: str) -> Message:
    while (message := await line.receive()) is not None:
        if message["type"] == type:
            return message
    raise AssertionError("the server has closed the connection")


async def asks(line: Line, type: str = "review_get", /, **fields: Any) -> Message:
    """Sends this request. Returns the answer."""
    id = str(next(NUMBERS))
    line.send(type=type, id=id, **fields)
    answer = await receives(line, "review")
    assert answer["id"] == id
    return answer


async def changed(rig: SocketRig, name: str) -> At:
    """A terminal session in a new directory with this name. Its agent has changed the first line of the poem."""
    make_repository(rig.folder / name)
    at = At(rig, rig.folder / name)
    await at.begins()
    (at.place / "poem.txt").write_text(POEM.replace("line 1\n", "LINE 1\n"))
    await at.stops()
    return at


def hunk_of(answer: Message) -> str:
    [file] = answer["review"]["files"]
    [hunk] = file["hunks"]
    return str(hunk["id"])


async def test_an_editor_is_shown_the_review_of_its_file_or_directory(rig: SocketRig) -> None:
    """The file takes precedence if it belongs to another review than the editor's directory."""
    one, two = await changed(rig, "one"), await changed(rig, "two")
    async with bridge() as line:
        for given, found in (
            ({"folder": str(one.place)}, one),
            ({"folder": str(one.place), "path": str(two.place / "deep" / "new.txt")}, two),
            ({"folder": str(one.place), "path": "/elsewhere/file.txt"}, one),
            ({"project": two.session.project}, two),
        ):
            answer = await asks(line, **given)
            assert (answer["project"], answer["directory"]) == (found.session.project, str(found.place))
            assert answer["review"]["files"][0]["path"] == "poem.txt"
        (rig.folder / "link").symlink_to(two.place)
        assert (await asks(line, folder=str(rig.folder / "link")))["directory"] == str(two.place)


async def test_a_review_below_a_name_that_is_not_utf8_is_shown(rig: SocketRig) -> None:
    """A link leads there, because clients can't send such a name. The editor gets U+FFFD for each undecodable byte."""
    place = rig.folder / "caf\udce9"
    place.mkdir()
    (rig.folder / "link").symlink_to(place)
    one = await changed(rig, "link/one")
    shown = str(rig.folder / "caf\ufffd" / "one")
    async with bridge() as line:
        answer = await asks(line, project=one.session.project)
        assert (answer["directory"], answer["review"]["files"][0]["path"]) == (shown, "poem.txt")
        answer = await asks(line, "review_decide", project=one.session.project, hunk="unknown", decision="keep")
        assert (answer["directory"], answer["code"]) == (shown, "HUNK_GONE")
        await one.decide(hunks=[hunk_of(await asks(line, project=one.session.project))], decision="keep")
        assert (await receives(line, "review_changed"))["directory"] == shown


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ((WorkTree, "write"), "wanted to undo 1 change in 1 file, but the server was restarted. Nothing was changed."),
        ((ReviewCommits, "set"), "undid 1 change in poem.txt (the server was restarted in the meantime)."),
    ],
)
async def test_an_editor_is_notified_of_an_interrupted_decision(
    tmp_path: Path, point: tuple[type, str], words: str
) -> None:
    """The notice is sent once, also to an editor with the name of the one that decided, because the person may have two.
    An editor that is opened later is not notified."""
    async with socket_rig(tmp_path, Limits()) as rig:
        at = await changed(rig, "one")
        [hunk] = [hunk["id"] for file in (await at.get())["files"] for hunk in file["hunks"]]
        with killed(*point):
            await at.decide(hunks=[hunk], decision="undo")
    async with socket_rig(tmp_path, Limits()) as rig:
        at.rig = rig
        at.session.at(rig)
        given = {"folder": str(at.place)}
        async with bridge(editor=rig.client.name) as line:
            assert (await asks(line, **given))["notice"] == f"{rig.client.name} {words}"
            assert (await asks(line, **given))["notice"] == ""
        async with bridge() as later:
            assert (await asks(later, **given))["notice"] == ""


async def test_a_later_decision_replaces_an_earlier_notice(tmp_path: Path) -> None:
    async with socket_rig(tmp_path, Limits()) as rig:
        at = await changed(rig, "one")
        [hunk] = [hunk["id"] for file in (await at.get())["files"] for hunk in file["hunks"]]
        with killed(WorkTree, "write"):
            await at.decide(hunks=[hunk], decision="undo")
    async with socket_rig(tmp_path, Limits()) as rig:
        at.rig = rig
        at.session.at(rig)
        await at.get()
        await at.decide(hunks=[hunk], decision="keep")
        async with bridge() as line:
            assert (await asks(line, folder=str(at.place)))["notice"] == ""


async def test_an_open_review_is_chosen_before_an_empty_one(rig: SocketRig) -> None:
    one, two = await changed(rig, "one"), await changed(rig, "two")
    (two.place / "poem.txt").write_text(POEM)
    async with bridge() as line:
        answer = await asks(line, folder=str(one.place), path=str(two.place / "poem.txt"))
        assert answer["directory"] == str(one.place)
        answer = await asks(line, folder="/", path=str(two.place / "poem.txt"))
        assert (answer["directory"], answer["review"]["files"]) == (str(two.place), [])


async def test_a_directory_without_a_session_has_no_review(rig: SocketRig) -> None:
    async with bridge() as line:
        answer = await asks(line, folder=str(rig.folder))
        assert (answer["code"], answer["review"]) == ("PROJECT_NOT_FOUND", None)
        assert answer["text"] == "Nothing to review: the server has no session in this directory."
        assert (await asks(line, project="desk_unknown"))["code"]


async def test_the_first_decision_counts_and_names_its_author(rig: SocketRig) -> None:
    one = await changed(rig, "one")
    project = one.session.project
    async with bridge() as first, bridge() as second:
        hunk = hunk_of(await asks(first, folder=str(one.place)))
        left = await asks(first, "review_decide", project=project, decision="undo", hunk=hunk)
        assert left["review"]["files"] == []
        assert (one.place / "poem.txt").read_text() == POEM
        assert await receives(second, "review_changed") == {
            "type": "review_changed",
            "project": project,
            "by": "Neovim",
            "directory": str(one.place.resolve()),
        }
        [record] = rig.client.updates("review_changed")[-1:]
        assert (record["by"], record["state"]) == ("Neovim", "decided")
        late = await asks(second, "review_decide", project=project, decision="keep", hunk=hunk)
        assert (late["code"], late["details"]["by"], late["details"]["decision"]) == ("HUNK_GONE", "Neovim", "undo")
        assert in_editors(rig) == [("review_decided", "Neovim", {"decision": "undo", "hunks": 1, "files": 1})]


class Race:
    """The web UI, a phone and an editor decide on the same hunk."""

    def __init__(self, rig: SocketRig, at: At, line: Line) -> None:
        self.rig = rig
        self.project = at.session.project
        self.line = line
        self.clients = {name: Client(name) for name in ("page", "phone")}
        self.names = (*self.clients, "Neovim")

    async def decide(self, name: str, hunk: str, decision: str) -> Message:
        """Returns the code and the details of the error. Both are empty if the decision was accepted."""
        if name == "Neovim":
            wish = {"project": self.project, "hunk": hunk, "decision": decision}
            answer = await asks(self.line, "review_decide", **wish)
            return {"code": answer["code"], **answer["details"]} if answer["code"] else {}
        try:
            await self.rig.server.does(
                self.clients[name], "review_decide", self.project, hunks=[hunk], decision=decision
            )
        except ClientError as error:
            return {"code": error.code, **(error.details or {})}
        return {}

    async def reviews(self) -> list[Message]:
        """What each of them is then shown."""
        of_clients = [
            (await self.rig.server.does(client, "review_get", self.project))["data"] for client in self.clients.values()
        ]
        return [*of_clients, (await asks(self.line, project=self.project))["review"]]

    async def decisions(self) -> list[tuple[str, str]]:
        """Who has decided, and how, as recorded in the history."""
        answer = await self.rig.does("get_messages", self.project, after_seq=0, limit=1_000)
        records = [one["message"] for one in answer["data"]["messages"]]
        decided = [one["message"] for one in records if one.get("subtype") == "review_decided"]
        return [(one["by"], one["decision"]) for one in decided]


@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
async def test_one_of_three_simultaneous_decisions_counts(rounds: int, rig: SocketRig) -> None:
    """The others are notified of the decision that counts, and then all are shown the same review."""
    make_repository(rig.folder / "one")
    at = At(rig, rig.folder / "one")
    poem, expected = at.place / "poem.txt", list[tuple[str, str]]()
    with seeded() as random:
        async with bridge() as line:
            race = Race(rig, at, line)
            for number in range(rounds):
                before, after = poem.read_text(), POEM.replace("line 1\n", f"by the agent {number}\n")
                await at.begins()
                poem.write_text(after)
                await at.stops()
                hunk = hunk_of(await asks(line, project=race.project))
                wishes = {name: random.choice(["keep", "undo"]) for name in race.names}
                order = random.sample(race.names, 3)
                errors = await asyncio.gather(*(race.decide(name, hunk, wishes[name]) for name in order))
                [winner] = [name for name, error in zip(order, errors, strict=True) if not error]
                gone = {"code": "HUNK_GONE", "gone": hunk, "by": winner, "decision": wishes[winner]}
                assert [error for error in errors if error] == [gone, gone]
                assert poem.read_text() == {"keep": after, "undo": before}[wishes[winner]]
                page, phone, neovim = await race.reviews()
                assert (page["state"], page) == ("none", phone)
                assert page == neovim
                expected.append((winner, wishes[winner]))
                assert await race.decisions() == expected


async def test_an_internal_error_is_reported_to_the_editor(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    one = await changed(rig, "one")

    async def fails(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(rig.server.built.reviews, "review_get", fails)
    async with bridge() as line:
        answer = await asks(line, folder=str(one.place))
        assert (answer["code"], answer["text"]) == (
            "INTERNAL",
            "Internal server error. The server's log has the details.",
        )


async def test_deciding_a_whole_file_requires_the_shown_version(rig: SocketRig) -> None:
    one = await changed(rig, "one")
    about: Message = {"project": one.session.project, "decision": "keep", "file": "poem.txt"}
    async with bridge() as line:
        version = (await asks(line, folder=str(one.place)))["review"]["version"]
        assert (await asks(line, "review_decide", **about))["code"] == "VALIDATION_FAILED"
        assert (await asks(line, "review_decide", version="another", **about))["code"] == "HUNK_GONE"
        assert (await asks(line, "review_decide", version=version, **about))["review"]["files"] == []


async def test_comments_of_an_editor_wait_for_an_agent_elsewhere(rig: SocketRig) -> None:
    one = await changed(rig, "one")
    about: Message = {"project": one.session.project}
    async with bridge() as line:
        given = {
            "path": "poem.txt",
            "line": 1,
            "end_line": 1,
            "quote": "LINE 1\n",
            "text": "",
            "suggestion": "line one",
        }
        review = (await asks(line, "review_comment", **about, **given))["review"]
        assert [(draft["by"], draft["suggestion"]) for draft in review["comments"]] == [("Neovim", "line one\n")]
        review = (await asks(line, "review_submit", **about, drafts=review["drafts"]))["review"]
        assert ([draft["state"] for draft in review["comments"]], review["handover"]["by"]) == (["waiting"], "Neovim")
        [draft] = review["comments"]
        assert in_editors(rig) == [
            ("review_commented", "Neovim", {"comment_id": draft["comment_id"], "path": "poem.txt"}),
            ("review_submitted", "Neovim", {"run_id": ""}),
        ]
        await one.session.reports("SessionEnd")
        review = (await asks(line, folder=str(one.place)))["review"]
        refused = await asks(line, "review_submit", **about, drafts=review["drafts"])
        assert (refused["code"], refused["review"]) == ("NOT_SUPPORTED", None)
        assert refused["text"].startswith("The comments can't be sent")


async def test_an_editor_resolves_and_reopens_a_comment(rig: SocketRig) -> None:
    at = await at_work(rig)
    (id,) = await leaves(at)
    about: Message = {"project": at.session.project, "comment": id}
    async with bridge() as line:
        assert (await asks(line, "review_comment", **about, resolved=True))["code"] == "VALIDATION_FAILED"
        has(at, "Stop", await receives_by_hook(at, "Stop"))
        await at.may_write()
        for resolved, state in ((True, "resolved"), (False, "sent")):
            answer = await asks(line, "review_comment", **about, resolved=resolved)
            assert [comment["state"] for comment in answer["review"]["comments"]] == [state]
        fields = {"comment_id": id, "path": "poem.txt"}
        assert in_editors(rig) == [
            ("review_commented", "Neovim", fields | {"resolved": resolved}) for resolved in (True, False)
        ]


async def test_what_an_editor_sends_again_is_audited_once(rig: SocketRig) -> None:
    one = await changed(rig, "one")
    async with bridge() as line:
        review = (await asks(line, folder=str(one.place)))["review"]
        comment = {"path": "poem.txt", "line": 1, "end_line": 1, "quote": "LINE 1\n", "text": "Why?"}
        decision = {"decision": "keep", "hunk": review["files"][0]["hunks"][0]["id"]}
        for type, id, fields in (("review_comment", "7", comment), ("review_decide", "8", decision)):
            for _ in range(2):
                line.send(type=type, id=id, project=one.session.project, **fields)
                assert (await receives(line, "review"))["code"] == ""
        assert [event for event, *_ in in_editors(rig)] == ["review_commented", "review_decided"]


@pytest.mark.parametrize("error", [GitFailed("git was killed"), NotPrivate("The folder is not private.")])
async def test_a_comment_is_stored_even_if_the_review_cannot_be_read(
    error: GitFailed | DrawbridgeError, rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user would otherwise write the comment again."""
    one = await changed(rig, "one")
    about: Message = {"project": one.session.project}

    async def fails(*_: object) -> None:
        raise error

    async with bridge() as line:
        with monkeypatch.context() as broken:
            broken.setattr(Commenting, "located", fails)
            given = {"path": "poem.txt", "line": 1, "end_line": 1, "quote": "LINE 1\n", "text": "Why?"}
            unread = await asks(line, "review_comment", **about, **given)
            assert (unread["done"], unread["review"], bool(unread["text"])) == (True, None, True)
            assert not (await asks(line, **about))["done"]
        [draft] = (await asks(line, **about))["review"]["comments"]
        assert draft["text"] == "Why?"
        refused = await asks(line, "review_comment", **about, **given | {"quote": "line 1\n"})
        assert (refused["code"], refused["done"]) == ("HUNK_GONE", False)


async def test_an_older_bridge_is_not_sent_messages_it_does_not_know(rig: SocketRig) -> None:
    one = await changed(rig, "one")
    async with bridge(reviews=False) as earlier, bridge() as line:
        hunk = hunk_of(await asks(line, folder=str(one.place)))
        await asks(line, "review_decide", project=one.session.project, decision="keep", hunk=hunk)
        assert await earlier.receives_nothing()


async def directories(line: Line) -> list[str]:
    """The directories of the reviews that concern the editor's folders."""
    line.send(type="review_list", id="list")
    answer = await receives(line, "reviews")
    assert answer["id"] == "list"
    return sorted([(await asks(line, project=project))["directory"] for project in answer["projects"]])


async def test_an_editor_gets_the_reviews_of_its_folders(rig: SocketRig) -> None:
    one, two = await changed(rig, "one"), await changed(rig, "two")
    await At(rig, one.place).begins()
    (rig.folder / "link").symlink_to(two.place)
    for folders, found in (
        ([one.place], [one]),
        ([rig.folder], [one, two]),
        ([two.place / "deep", one.place], [one, two]),
        ([rig.folder / "link"], [two]),
        ([rig.folder / "on"], []),
        ([], []),
    ):
        async with bridge(folders=[str(folder) for folder in folders]) as line:
            assert await directories(line) == [str(at.place) for at in found]


async def test_keeping_a_whole_review_requires_the_shown_version(rig: SocketRig) -> None:
    one = await changed(rig, "one")
    (one.place / "old.txt").unlink()
    about: Message = {"project": one.session.project, "decision": "keep", "all": True}
    async with bridge() as line:
        version = (await asks(line, project=one.session.project))["review"]["version"]
        assert (await asks(line, "review_decide", version="another", **about))["code"] == "HUNK_GONE"
        assert (await asks(line, "review_decide", version=version, **about))["review"]["files"] == []
    assert not (one.place / "old.txt").exists()


async def seen(line: Line, project: str, **fields: Any) -> tuple[list[str], bool]:
    """What the user has seen of a review, including ``fields``, and whether its notice has to be shown."""
    line.send(type="review_seen", id="seen", project=project, **fields)
    answer = await receives(line, "review_remembered")
    assert answer["id"] == "seen"
    return answer["hunks"], answer["notice"]


async def test_changes_seen_in_an_editor_are_shared_with_terminals(rig: SocketRig) -> None:
    one = await changed(rig, "one")
    project, directory = one.session.project, str(one.place)
    ReviewMemory().saw(directory, ["a"], ["a", "b", "c"])
    async with bridge() as line:
        assert await seen(line, project, hunks=["b"], review=["a", "b", "c"]) == (["a", "b"], False)
        assert ReviewMemory().of(directory).seen == ("a", "b")
        assert await seen(line, project, hunks=["c"], review=["b", "c"]) == (["b", "c"], False)
        assert await seen(line, "desk_unknown", hunks=["b"], review=["b"]) == ([], False)


async def test_an_editor_shows_a_notice_only_once(rig: SocketRig) -> None:
    one = await changed(rig, "one")
    async with bridge() as line, bridge() as other:
        assert await seen(line, one.session.project, notice=True) == ([], True)
        assert await seen(other, one.session.project, notice=True) == ([], False)
    assert ReviewMemory().of(str(one.place)).notice


async def test_an_editor_that_only_shows_reviews_gets_no_proposals(rig: SocketRig) -> None:
    at = At(rig, rig.folder)
    (rig.folder / "a.txt").write_text("old")
    asked: Message = {"file_path": str(rig.folder / "a.txt"), "content": "new"}
    folders = [str(rig.folder)]
    async with (
        bridge(folders=folders, offers=False) as line,
        bridge(folders=folders) as other,
        at.session.asks("Write", **asked),
    ):
        assert (await receives(other, "offer"))["path"] == asked["file_path"]
        assert await line.receives_nothing()
