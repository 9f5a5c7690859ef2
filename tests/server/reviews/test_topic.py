"""Clients that follow the topic ``reviews`` receive the events of all reviews that they may see, each once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.auth.devices import Devices
from drawbridge.server.events import Announced, ReviewChanged
from drawbridge.server.protocol import commands
from drawbridge.server.sessions.audience import Audience
from drawbridge.server.sessions.options.limits import Limits
from tests.server.checkpoints.rig import make_project
from tests.server.core_rig import Client
from tests.server.processes import serving
from tests.server.reviews.rig import Reviewed, reviewing
from tests.server.reviews.test_committing import keep, three_changes
from tests.server.reviews.test_pushing import push, pushing_from
from tests.server.reviews.test_real_server import a_run
from tests.server.terminal_sessions.socket_rig import socket_rig
from tests.server.terminal_sessions.test_review_comments import changed, second_session
from tests.server.wire_client import connected

ALL: tuple[commands.Topic, ...] = ("reviews", "projects", "approvals")
HAPPENED = [
    *("review_changed", "review_commented", "review_decided", "review_changed", "review_committed", "review_pushed"),
    *("review_changed", "run_reverted", "review_changed"),
]
"""The events of everything that ``work`` does, in their order."""


async def work(one: Reviewed) -> None:
    await one.run(three_changes)
    await one.write(3, "LINE 3\n")
    await keep(one, "LINE 3\n")
    await one.commit()
    await push(one)
    run = await one.run(lambda directory: (directory / "later.txt").write_text("later\n"))
    await one.server.does(one.phone, "run_revert", one.project, run_id=run)


def received(client: Client) -> list[str]:
    """The update type of each message that the client was sent or, if it is not an update, its type."""
    return [one["data"]["update_type"] if one["type"] == "update" else one["type"] for one in client.received]


def of_review(client: Client) -> list[str]:
    return [kind for kind in received(client) if kind in HAPPENED]


async def test_a_follower_receives_only_events_of_reviews(tmp_path: Path) -> None:
    watch = Client("watch")
    async with pushing_from(tmp_path) as one:
        one.server.core.follow(("reviews",), watch)
        await work(one)
        assert received(watch) == HAPPENED
        assert {message["project_id"] for message in watch.received} == {one.project}
        recorded = [kind for kind, message in zip(received(watch), watch.received, strict=True) if "seq" in message]
        assert recorded == [kind for kind in HAPPENED if kind != "review_changed"]


async def test_each_event_arrives_once_whatever_a_client_follows(tmp_path: Path) -> None:
    everything, joined, twice = Client("everything"), Client("joined"), Client("twice")
    async with pushing_from(tmp_path) as one:
        server = one.server
        server.core.follow(ALL, everything)
        await server.does(joined, "project_join", one.project)
        server.core.follow(ALL, joined)
        server.core.follow(("reviews", "reviews"), twice)
        server.core.follow(("reviews",), twice)
        server.core.follow(("reviews",), one.phone)  # has joined the project, and sends the requests
        await work(one)
        assert [of_review(client) for client in (everything, joined, twice)] == [HAPPENED] * 3
        without_its_decision = HAPPENED[:3] + HAPPENED[4:]  # the reply has the numbers, so it gets no `review_changed`
        assert sorted(of_review(one.phone)) == sorted(without_its_decision)
        for client in (joined, one.phone):
            assert len(set(client.seqs)) == len(client.seqs)


async def test_followers_of_projects_receive_no_decisions(tmp_path: Path) -> None:
    page = Client("page")
    async with pushing_from(tmp_path) as one:
        one.server.core.follow(("projects", "approvals"), page)
        await work(one)
        assert of_review(page) == [kind for kind in HAPPENED if kind not in ("review_decided", "run_reverted")]


async def test_nothing_arrives_after_unsubscribing(tmp_path: Path) -> None:
    watch, both, gone = Client("watch"), Client("both"), Client("gone")
    async with reviewing(tmp_path) as one:
        core = one.server.core
        before = core.subscriptions()
        for client, topics in ((watch, ("reviews",)), (both, ALL), (gone, ("reviews",))):
            core.follow(topics, client)
        assert core.subscriptions() == before + 5
        await one.run(three_changes)
        assert [of_review(client) for client in (watch, both, gone)] == [["review_changed"]] * 3
        core.unfollow(("reviews",), watch)
        core.unfollow(("reviews",), both)
        core.remove_client(gone)
        assert core.subscriptions() == before + 2
        await keep(one, "LINE 3\n")
        assert [of_review(client) for client in (watch, gone)] == [["review_changed"]] * 2
        assert of_review(both) == ["review_changed"] * 2, "the topic `projects` continues"


def test_a_client_that_catches_up_gets_nothing_through_the_topic() -> None:
    """Its cursor would skip the records that it has missed."""
    sent: list[str] = []

    def broadcast(clients: Sequence[Any], _: object) -> None:
        sent.extend(client.name for client in clients)

    audience = Audience(broadcast)
    slow, quick, watch = Client("slow"), Client("quick"), Client("watch")
    audience.join("p1", quick)
    audience.catch_up("p1", slow)
    for client in (slow, quick, watch):
        audience.follow(ALL, client)
    changed = ReviewChanged(state="open", files=1, hunks=2, added=3, removed=4)
    audience.published(Announced("p1", Path("/p"), changed))
    assert sorted(sent) == ["quick", "watch"]
    sent.clear()
    audience.published(Announced("p1", Path("/p"), changed, quiet=True))
    assert sent == ["quick"], "a quiet event needs no attention"
    sent.clear()
    audience.published(Announced("p1", Path("/p"), changed, sender=watch.id))
    assert sent == ["quick"], "the client that caused it learns of it from the reply"


async def test_each_session_that_shares_a_review_has_its_own_messages(tmp_path: Path) -> None:
    watch = Client("watch")
    async with socket_rig(tmp_path, Limits()) as rig:
        one = await changed(rig)
        two = await second_session(rig)
        rig.server.core.follow(ALL, watch)
        await two.write(3, "LINE 3\n")
        review = await two.get()
        data = {"all": True, "version": review["version"], "decision": "keep"}
        await rig.does("review_decide", two.session.project, **data)
        ids = [one.session.project, two.session.project]
        for kind, expected in (("review_commented", ids), ("review_decided", ids[1:]), ("review_changed", ids)):
            about = [message["project_id"] for message in watch.received if message["data"].get("update_type") == kind]
            assert sorted(about) == sorted(expected), kind


class Confined(Client):
    """A client of a device that is confined to ``place``."""

    def __init__(self, place: Path) -> None:
        super().__init__("confined")
        self._place = place

    def sees(self, path: Path) -> bool:
        return path.is_relative_to(self._place)


async def test_a_confined_client_receives_nothing_about_other_projects(tmp_path: Path) -> None:
    async with pushing_from(tmp_path) as one:
        other, own = Confined(one.directory.parent / "another"), Confined(one.directory)
        for client in (other, own):
            one.server.core.follow(ALL, client)
        await work(one)
        assert received(other) == []
        assert of_review(own) == HAPPENED


async def test_a_view_only_device_follows_reviews_of_its_own_projects(tmp_path: Path) -> None:
    mine, secret = make_project(tmp_path / "mine"), make_project(tmp_path / "secret")
    options = ("--allow", mine, "--allow", secret, "--no-tls")
    async with serving(tmp_path / "data", *options) as server, server.client() as owner:
        token = Devices(server.data).add("tv", "view", projects=[str(mine)])[1]
        ids = []
        for directory in (secret, mine):
            created = await owner.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
            ids.append(created["project_id"])
        async with connected(server.url, token) as tv:
            await tv.connection.send('{"type": "subscribe", "data": {"topics": ["reviews", "review"]}}')
            refused = (await tv.receive("error"))["data"]
            assert (refused["code"], refused["field"]) == ("VALIDATION_FAILED", "data.topics[1]")
            assert (await tv.ask("unsubscribe", {"topics": ["stats"]}))["data"]["topics"] == []
            assert (await tv.ask("subscribe", {"topics": ["reviews"]}))["data"]["topics"] == ["reviews"]
            before = len(tv.received)
            for project in ids:
                await a_run(owner, project)
            changed = await tv.receive("update", "review_changed")
            assert (changed["project_id"], changed["data"]["data"]["state"]) == (ids[1], "open")
            review = (await owner.ask("review_get", {}, ids[1]))["data"]
            await owner.ask("review_decide", {"all": True, "version": review["version"], "decision": "keep"}, ids[1])
            await tv.receive("update", "review_changed", state="decided")
            got = [(one["project_id"], one["data"]["update_type"]) for one in tv.received[before:]]
            assert got == [(ids[1], kind) for kind in ("review_changed", "review_decided", "review_changed")]
            assert (await tv.ask("unsubscribe", {"topics": ["reviews"]}))["data"]["topics"] == []
            seen = len(tv.received)
            await a_run(owner, ids[1])
            await tv.ask("hello")
            assert [one["type"] for one in tv.received[seen:]] == ["hello"]


@pytest.mark.parametrize("topic", ["review", "Reviews", "", "runs"])
def test_an_unknown_topic_is_refused(topic: str) -> None:
    message = json.dumps({"type": "subscribe", "data": {"topics": ["reviews", topic]}})
    with pytest.raises(commands.ClientError) as refused:
        commands.parse(message, {"subscribe": commands.Subscribe})
    assert (refused.value.code, refused.value.field) == ("VALIDATION_FAILED", "data.topics[1]")
