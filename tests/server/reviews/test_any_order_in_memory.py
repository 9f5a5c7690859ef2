"""Edits by several agents and by the user, decisions, refusals, missing checkpoints and restarts in any order, in
memory: thousands of sequences. After each step, the files and the reviews match the model.

Two agents work in terminals in the same directory, so they share its review. The third one is the agent of a project in
this directory, which has its own review of the same files. Their runs overlap, and each review is read at any time.

The reviews are real. ``memory`` replaces only the git program and the work tree; ``test_any_order`` plays fewer
sequences with these, and reverts runs, too. As there, each file consists of slots between lines that nobody changes, so
a simple model can predict the hunks. The last slot is the end of the file, and may lack the last line feed.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from drawbridge.server.checkpoints.errors import Changed, NoCheckpoint
from drawbridge.server.checkpoints.refs import When
from drawbridge.server.reviews.change_set import FileChange, NotEditable
from drawbridge.server.reviews.change_set import Part as ShownPart
from drawbridge.server.reviews.decisions import (
    Decision,
    DecisionResult,
    HunkDecision,
    HunkGone,
    Plan,
    RequestedDecision,
    ReviewMoved,
)
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.server.reviews.reviews import Review
from tests.server.reviews.memory import File, MemoryGit, MemoryWorkTree, blob_id

FILES = ("a", "b", "c")
SLOTS = 4
STEPS, MORE_STEPS = 12, 24
"""The number of steps in a sequence, and in a sequence of the slow test."""

AGENTS = {"claude": "directory", "codex": "directory", "managed": "project"}
"""The review to which each agent's runs belong."""

Part = int | Literal["file", "mode", "name"]
"""What a hunk is about: the number of a slot, the whole file, its mode or its name."""

Shown = tuple[str, str, str, object, object, str]
"""A hunk as the review shows it: path, old path and kind, both versions of its lines, of the file (mode and blob) or of
the mode, and the line before its lines, which tells the slots apart."""


class Killed(Exception):
    """The server is killed."""


class AtWork(Exception):
    """An agent is at work, so no file may be written."""


class Modelled(NamedTuple):
    """One file. ``body``: the texts of its slots, or the bytes of a binary file."""

    path: str
    mode: str
    body: tuple[str, ...] | bytes

    @property
    def on_disk(self) -> File:
        return self.mode, content(self)

    @property
    def entry(self) -> tuple[str, str]:
        """Its mode and blob."""
        return self.mode, blob_id(content(self))

    def with_slot(self, slot: int, text: str) -> Modelled:
        assert isinstance(self.body, tuple)
        return self._replace(body=(*self.body[:slot], text, *self.body[slot + 1 :]))


@functools.cache
def content(file: Modelled) -> bytes:
    if isinstance(file.body, bytes):
        return file.body
    kept = ("".join(lines_before(file.path, slot)) for slot in range(SLOTS))
    return "".join(text for both in zip(kept, file.body, strict=True) for text in both).encode()


def lines_before(path: str, slot: int) -> list[str]:
    """Lines that nobody changes. There are several, so that a diff never shows a line of one slot as moved to another."""
    return [f"--- a line of {path[-5]} that nobody changes: {slot}, {number} ---\n" for number in range(3)]


State = dict[str, Modelled | None]
"""All files at one moment, by the first letter that each was given; None for those that do not exist."""


def shown_hunk(file: FileChange, part: ShownPart) -> Shown:
    old, new = file.old, file.new
    sides: dict[str, tuple[object, object]] = {
        "lines": ("".join(part.removed), "".join(part.added)),
        "file": (old and (old.mode, old.blob), new and (new.mode, new.blob)),
        "mode": (old and old.mode, new and new.mode),
        "name": ("", ""),
    }
    start = part.hunk.span.old_start
    before = old.lines[start - 1] if old and part.hunk.kind == "lines" else ""
    return (file.path, file.old_path, part.hunk.kind, *sides[part.hunk.kind], before)


def is_text(*files: Modelled) -> bool:
    return all(isinstance(file.body, tuple) for file in files)


def is_comparable(one: Modelled, other: Modelled) -> bool:
    """Whether git sees a renamed file in these two, not a deleted and an added one."""
    return one.path == other.path or one.body == other.body or is_text(one, other)


def parts(base: Modelled | None, head: Modelled | None) -> dict[Part, Shown]:
    """The hunks of a file."""
    if base == head:
        return {}
    if base is None or head is None:
        there = base or head
        assert there is not None
        return {"file": (there.path, "", "file", base and base.entry, head and head.entry, "")}
    found: dict[Part, Shown] = {}
    old_path = base.path if base.path != head.path else ""
    if isinstance(base.body, tuple) and isinstance(head.body, tuple):
        for slot, both in enumerate(zip(base.body, head.body, strict=True)):
            if both[0] != both[1]:
                found[slot] = (head.path, old_path, "lines", *both, lines_before(head.path, slot)[-1])
    elif base.body != head.body:
        return {"file": (head.path, "", "file", base.entry, head.entry, "")}
    if base.mode != head.mode:
        found["mode"] = (head.path, old_path, "mode", base.mode, head.mode, "")
    if old_path:
        found["name"] = (head.path, old_path, "name", "", "", "")
    return found


def absorbed(base: Modelled | None, head: Modelled | None, now: Modelled | None) -> Modelled | None:
    """``base`` after somebody else has changed the file from ``head`` to ``now``. What is in a hunk does not change."""
    if base == head:
        return now
    if base is None or head is None or now is None:
        return base
    if base.path == head.path:
        base = base._replace(path=now.path)
    if base.mode == head.mode:
        base = base._replace(mode=now.mode)
    if base.body == head.body:
        return base._replace(body=now.body)
    if isinstance(base.body, tuple) and isinstance(head.body, tuple) and isinstance(now.body, tuple):
        slots = zip(base.body, head.body, now.body, strict=True)
        return base._replace(body=tuple(new if old == seen else old for old, seen, new in slots))
    return base


class SomeReview:
    """One review, and the model of it. ``base`` and ``head``: the files as of the last decisions, and when the review
    was last read. ``running``: the id of the active run of each agent that has one."""

    def __init__(self, git: MemoryGit, tree: MemoryWorkTree, id: str, folder: Path, disk: State) -> None:
        self._git = git
        self._tree = tree
        self._id = id
        self._folder = folder
        self.review = Review(id, folder)
        self.base, self.head = dict(disk), dict(disk)
        self.running: dict[str, str] = {}
        self.decided: dict[str, HunkDecision] = {}
        """The hunks that were decided on, by id."""
        self._ids: dict[Shown, str] = {}
        self._has_begun = False
        self._is_in_run = False
        """Whether the last checkpoint, or reading, was during a run."""
        self._is_active = False
        """Whether that run is still active, or has left something running in the background."""
        self.is_left_open = False
        """Whether no run is active, and the last one has left something running in the background."""
        self._has_missed = self._has_lost = False
        """Whether the checkpoint before the latest run is missing; whether the review may lack what it changed."""

    @property
    def counts(self) -> bool:
        """Whether what changes until the next reading counts as an agent's work."""
        return self._is_in_run or self._has_missed

    def model_read(self, disk: State) -> None:
        if not self._has_begun:
            return
        if not self.counts:
            self.base = {id: absorbed(self.base[id], self.head[id], disk[id]) for id in FILES}
        self._is_in_run = self._is_in_run and self._is_active
        self.head = dict(disk)

    def model_extend(self, when: When, disk: State, *, stays_open: bool = False) -> None:
        if not self._has_begun:
            self.base = dict(disk)
        elif when == "before" and not self.counts:
            self.base = {id: absorbed(self.base[id], self.head[id], disk[id]) for id in FILES}
        if when == "before" or not self._has_begun:
            self._has_lost = self._has_missed and not self._has_begun
        self.head = dict(disk)
        self._has_begun, self._has_missed, self._is_in_run = True, False, when == "before" or stays_open
        self._is_active = self._is_active or when == "before" or stays_open

    async def begin(self, agent: str, run: str, disk: State, *, fails: bool) -> None:
        self.running[agent] = run
        self.is_left_open = False
        if fails:
            self._has_missed = True
            await self.review.miss("git failed.")
        else:
            self.model_extend("before", disk)
            await self._tree.checkpoint(self.review, run, "before")

    async def end(self, agent: str, disk: State, *, fails: bool, leaves: bool) -> None:
        """Ends a run. If it ends during another one, it does not end the agents' work. ``leaves``: whether it leaves
        something running in the background."""
        run = self.running.pop(agent)
        if not self.running and fails:
            self._is_active = False
            self.review.end()
        elif not self.running:
            self.is_left_open = leaves
            self.model_extend("after", disk, stays_open=leaves)
            await self._tree.checkpoint(self.review, run, "after", stays_open=leaves)

    async def close(self, disk: State) -> None:
        """Ends what the last run has left running."""
        self._is_active = self.is_left_open = False
        self.review.end()
        await self.read(disk)

    def restart(self, *, continues: bool) -> None:
        """Continues like a new server, which knows only what is stored. ``continues``: whether the runs are still
        active."""
        self.review = Review(self._id, self._folder)
        self._is_active = continues
        self.is_left_open = False
        if continues:
            self.review.continues()
        else:
            self.running.clear()

    def hunks(self) -> dict[Shown, tuple[str, Part]]:
        """What the review must show → the file and what the hunk is about."""
        return {shown: (id, part) for id in FILES for part, shown in parts(self.base[id], self.head[id]).items()}

    async def read(self, disk: State) -> OpenReview | None:
        """Reads the review, and checks it. None if it can't be read, because the checkpoint before a run is missing."""
        self.model_read(disk)
        if self._has_missed if not self._has_begun else self._has_lost and not self.hunks() and not self.decided:
            with pytest.raises(NoCheckpoint):
                await self.review.current(self._git.opened(), self._tree.port)
            return None
        found = await self.review.current(self._git.opened(), self._tree.port)
        self.ids(found)
        return found

    def ids(self, found: OpenReview) -> dict[tuple[str, Part], str]:
        """The id of each hunk. The review must show exactly the hunks of the model."""
        ids = {shown_hunk(file, part): part.hunk.id for file in found.files for part in file.parts()}
        expected = self.hunks()
        assert ids.keys() == expected.keys(), (ids.keys() ^ expected.keys(), self.base, self.head)
        assert not self.decided.keys() & set(ids.values()), "a hunk that was decided is never shown again"
        for shown in ids.keys() & self._ids.keys():
            assert ids[shown] == self._ids[shown], "a hunk keeps its id as long as its lines are the same"
        self._ids = ids
        return {expected[shown]: id for shown, id in ids.items()}

    def allows(self, id: str, new: Modelled | None) -> bool:
        """Whether the model covers this new version of a file: a renamed file is never taken for a deleted and an added
        one."""
        base, head = self.base[id], self.head[id]
        if new is None:
            return True
        if not all(is_comparable(side, new) for side in (base, head) if side):
            return False
        return head is not None or base is None or base.path == new.path or self.counts

    def after(self, some: Collection[tuple[str, Part]], decision: Decision, text: str) -> tuple[State, State]:
        """``base`` and ``head`` after a decision on these hunks."""
        base, head = dict(self.base), dict(self.head)
        for id, part in some:
            base[id], head[id] = decide(base[id], head[id], part, decision, text)
        return base, head

    async def decide(
        self, wanted: RequestedDecision, begin: Callable[[Plan], Any], check_at_rest: Callable[[], None]
    ) -> DecisionResult:
        return await self.review.decide(self._git.opened(), self._tree.port, wanted, begin, check_at_rest)


def decide(
    base: Modelled | None, head: Modelled | None, part: Part, decision: Decision, text: str
) -> tuple[Modelled | None, Modelled | None]:
    """Both versions of a file after a decision on one of its hunks. ``text``: for an edit, the text of the slot or, in
    an added file, of the only slot that is not empty then."""
    if part == "file":
        chosen = base if decision == "undo" else head
        if decision == "edit" and chosen is not None and is_text(chosen):
            chosen = chosen._replace(body=(text, *[""] * (SLOTS - 1)))
        return chosen, chosen
    assert base is not None
    assert head is not None
    if isinstance(part, int):
        assert isinstance(base.body, tuple)
        assert isinstance(head.body, tuple)
        kept = {"keep": head.body[part], "undo": base.body[part], "edit": text}[decision]
        return base.with_slot(part, kept), head.with_slot(part, kept)
    source = head if decision == "keep" else base
    if part == "mode":
        return base._replace(mode=source.mode), head._replace(mode=source.mode)
    return base._replace(path=source.path), head._replace(path=source.path)


async def nothing_first(plan: Plan) -> None:
    """Nothing happens before the decision is applied."""


class Wish(NamedTuple):
    """A decision that a user requests. ``hunks``: the hunks that it applies to, each with its id. ``base`` and
    ``head``: the files as they must be after it."""

    wanted: RequestedDecision
    hunks: Mapping[tuple[str, Part], str]
    base: State
    head: State


class World:
    """``disk``: the files as they must be."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        git = MemoryGit()
        self._tree = MemoryWorkTree(git)
        self._values = 0
        self._earlier: dict[tuple[str, int], list[str]] = {}
        """The texts that each slot has had, by file and slot."""
        self._decided: dict[str, list[Modelled]] = {}
        """The versions of each file that were decided on. An agent may make the same changes again."""
        self._requests: list[tuple[SomeReview, RequestedDecision]] = []
        """The decisions with a request id that were carried out."""
        self._seen: list[tuple[SomeReview, str, tuple[str, Part], str]] = []
        """Reviews with versions, and hunks in them with their ids, that clients may have seen."""
        self.disk: State = {}
        self.disk = {id: self.text_file(id) for id in FILES} | {"c": None}
        self.write()
        self.reviews: dict[str, SomeReview] = {}
        for name in ("directory", "project"):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "gaps.json").unlink(missing_ok=True)
            self.reviews[name] = SomeReview(git, self._tree, name, folder / name, self.disk)
        self.played: dict[str, int] = {}
        """How often something happened."""

    # What the files contain.

    def write(self) -> None:
        self._tree.disk = {file.path: file.on_disk for file in self.disk.values() if file}

    def text_file(self, id: str) -> Modelled:
        return Modelled(f"{id}.txt", "100644", tuple(self.value(id, slot) for slot in range(SLOTS)))

    def value(self, id: str, slot: int) -> str:
        """A text for the slot. It is often an earlier one, so that changes that were already decided are made again, or
        one that other slots have, too."""
        earlier = self._earlier.setdefault((id, slot), [])
        if earlier and self.chance.random() < 0.3:
            return self.chance.choice(earlier)
        self._values += 1
        file = self.disk.get(id)
        if file and is_text(file) and file.body[slot] == "common\n" and self.chance.random() < 0.7:
            return "also common\n"  # the same change as in other slots
        if self.chance.random() < 0.4:
            return "common\n"
        count = self.chance.choice([0, 1, 1, 2])
        text = "".join(f"{id}{slot} {self._values} {line}\n" for line in range(count))
        if slot == SLOTS - 1 and count == 1 and self.chance.random() < 0.5:
            text = text.removesuffix("\n")
        earlier.append(text)
        return text

    def changed(self, id: str) -> Modelled | None:
        """The file after some change."""
        file = self.disk[id]
        self._values += 1
        if file is None:
            known = [side for one in self.reviews.values() for side in (one.base[id], one.head[id]) if side]
            new = self.text_file(id)
            return new._replace(path=self.chance.choice(known).path) if known else new
        match self.chance.choice(["slots"] * 6 + ["again", "again", "mode", "name", "name", "binary", "deleted"]):
            case "again":
                return self.chance.choice([None, *self._decided.get(id, [file])])
            case "mode":
                return file._replace(mode={"100644": "100755", "100755": "100644"}[file.mode])
            case "name":
                return file._replace(path=f"{self._values}-{id}.txt")
            case "binary":
                start = self.chance.choice([b"\0", b"\xff"])
                return file._replace(body=start + b"%d" % self._values)
            case "deleted":
                return None
        if isinstance(file.body, bytes):
            return file._replace(body=self.text_file(id).body)
        for slot in self.chance.sample(range(SLOTS), self.chance.randint(1, 2)):
            file = file.with_slot(slot, self.value(id, slot))
        return file

    def change(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.change_file(self.chance.choice(FILES))

    def change_file(self, id: str) -> bool:
        """Changes a file, if the model covers the change. Returns whether it does."""
        new = self.changed(id)
        if not all(review.allows(id, new) for review in self.reviews.values()):
            return False
        self.disk[id] = new
        self.write()
        return True

    # What may happen next.

    @property
    def is_busy(self) -> bool:
        return any(review.running for review in self.reviews.values())

    def happens(self, what: str) -> None:
        self.played[what] = self.played.get(what, 0) + 1

    async def step_agent(self) -> None:
        """An agent begins a run, unless it is in one, and works."""
        agent = self.chance.choice(sorted(AGENTS))
        review = self.reviews[AGENTS[agent]]
        if agent not in review.running:
            if self.is_busy:
                self.happens("a run during another one")
            self._values += 1
            await review.begin(agent, f"run_{self._values}", self.disk, fails=self.chance.random() < 0.1)
        self.change()

    async def step_end(self) -> None:
        """A run ends or, if none is active, what the last one has left running."""
        running = sorted((agent, name) for agent, name in AGENTS.items() if agent in self.reviews[name].running)
        if running:
            agent, name = self.chance.choice(running)
            leaves = agent == "managed" and self.chance.random() < 0.5
            await self.reviews[name].end(agent, self.disk, fails=self.chance.random() < 0.1, leaves=leaves)
        elif self.reviews["project"].is_left_open:  # what was left running ends, or its time is over
            self.happens("work in the background")
            await self.reviews["project"].close(self.disk)

    async def step_person(self) -> None:
        self.change()

    async def step_restart(self) -> None:
        """The server is restarted. Agents in terminals may outlive it, and the project's agent does not."""
        if self.is_busy:
            self.happens("a restart during a run")
        self.reviews["directory"].restart(
            continues=bool(self.reviews["directory"].running) and self.chance.random() < 0.5
        )
        self.reviews["project"].restart(continues=False)

    async def step_decide(self) -> None:
        review = self.chance.choice(list(self.reviews.values()))
        found = await review.read(self.disk)
        ids = review.ids(found) if found else {}
        if found and ids:
            self._seen += [(review, found.version, hunk, id) for hunk, id in ids.items()]
            await self.decide(review, self.wish(review, found.version, ids))

    def wish(self, review: SomeReview, version: str, ids: Mapping[tuple[str, Part], str]) -> Wish:
        """A decision on some hunks, on all hunks of a file, or on all hunks."""
        decision: Decision = self.chance.choice(["keep", "undo", "undo", "edit"])
        if self.is_busy and self.chance.random() < 0.8:
            decision = "keep"
        way = self.chance.choice(["hunks", "hunks", "file", "all"]) if decision != "edit" else "hunks"
        most = 1 if decision == "edit" else min(3, len(ids))
        some = self.chance.sample(sorted(ids, key=str), self.chance.randint(1, most))
        if way != "hunks":
            some = [one for one in ids if way == "all" or one[0] == some[0][0]]
        id, part = some[0]
        text = self.value(id, part if isinstance(part, int) else 0) if decision == "edit" else ""
        base, head = review.after(some, decision, text)
        others = [one for one in self.reviews.values() if one is not review]
        if not all(other.allows(id, head[id]) for other in others for id in FILES if head[id] != review.head[id]):
            decision, text = "keep", ""
            base, head = review.after(some, decision, text)
        if decision == "edit" and part == "file" and (file := head[id]) is not None:
            text = content(file).decode(errors="replace")
        elif isinstance(part, int) and part < SLOTS - 1 and self.chance.random() < 0.3:
            text = text.removesuffix("\n")  # between other lines, it is added again
        self._values += 1
        wanted = RequestedDecision(
            "me",
            decision,
            tuple(ids[one] for one in some) if way == "hunks" else (),
            tuple({shown[0] for shown, one in review.hunks().items() if one in some}) if way == "file" else (),
            way == "all",
            None if way == "hunks" else version,
            text,
            f"request {self._values}" if self.chance.random() < 0.5 else "",
        )
        return Wish(wanted, {one: ids[one] for one in some}, base, head)

    async def decide(self, review: SomeReview, wish: Wish) -> None:
        """Decides, or is refused."""
        wanted, hunks, base, head = wish
        written = [id for id in FILES if head[id] != self.disk[id]]
        if wanted.decision != "keep" and self.is_busy:
            self.happens("a refusal during a run")
            await self.is_refused(AtWork, review, wanted)
            return
        if wanted.decision == "edit":
            ((id, part),) = hunks
            file = review.head[id]
            if part in ("mode", "name") or (part == "file" and (file is None or not is_text(file))):
                self.happens("an edit without lines")
                await self.is_refused(NotEditable, review, wanted)
                return
        if self.chance.random() < 0.1:
            self.happens("a server that is killed before a decision")
            await self.is_refused(Killed, review, wanted, self.kills)
            return
        if written and self.chance.random() < 0.2:
            changed = self.chance.choice(written)

            async def changes_a_file(plan: Plan) -> None:
                if not self.change_file(changed) or self.disk[changed] == review.head[changed]:
                    raise Killed

            self.happens("a file that changes in the meantime")
            await self.is_refused((Changed, Killed), review, wanted, changes_a_file)
            return
        result = await review.decide(wanted, nothing_first, self.check_at_rest)
        self.happens(wanted.decision)
        assert result.plan is not None
        assert (result.plan.files, result.plan.hunks) == (len({id for id, _ in hunks}), len(hunks))
        for id, _ in hunks:
            if (file := review.head[id]) is not None:
                self._decided.setdefault(id, []).append(file)
        review.base, review.head = base, head
        self.disk |= {id: head[id] for id in written}
        review.decided |= dict.fromkeys(hunks.values(), HunkDecision("me", wanted.decision))
        review.ids(result.review)
        if wanted.request_id:
            self._requests.append((review, wanted))

    async def kills(self, plan: Plan) -> None:
        raise Killed

    def check_at_rest(self) -> None:
        if self.is_busy:
            raise AtWork

    async def is_refused(
        self,
        error: type[Exception] | tuple[type[Exception], ...],
        review: SomeReview,
        wanted: RequestedDecision,
        begin: Callable[[Plan], Any] = nothing_first,
    ) -> Any:
        """The decision is refused, and changes nothing."""
        with pytest.raises(error) as refused:
            await review.decide(wanted, begin, self.check_at_rest)
        self.check_files()
        await review.read(self.disk)
        return refused.value

    async def step_repeat(self) -> None:
        """A client sends a decision again, because it has not received the answer."""
        if self._requests:
            review, wanted = self.chance.choice(self._requests)
            self.happens("a repeated request")
            review.model_read(self.disk)
            result = await review.decide(wanted, nothing_first, self.check_at_rest)
            assert result.plan is None
            review.ids(result.review)

    async def step_outdated(self) -> None:
        """A client decides on what it saw before."""
        if not self._seen:
            return
        review, version, hunk, id = self.chance.choice(self._seen)
        found = await review.read(self.disk)
        if found is None:
            return
        decision: Decision = "keep" if self.is_busy else self.chance.choice(["keep", "undo"])
        known = {id: hunk for hunk, id in review.ids(found).items()}
        assert known.get(id, hunk) == hunk, "an id never passes to another hunk"
        if id not in known:
            self.happens("an outdated hunk")
            error = await self.is_refused(HunkGone, review, RequestedDecision("me", decision, (id,)))
            assert error.decided == review.decided.get(id)
        if version != found.version:
            self.happens("an outdated version")
            await self.is_refused(ReviewMoved, review, RequestedDecision("me", decision, all=True, version=version))

    def check_files(self) -> None:
        assert self._tree.disk == {file.path: file.on_disk for file in self.disk.values() if file}

    async def check(self, *, some: bool) -> None:
        """Reads the reviews, or only ``some`` of them, and checks them."""
        self.check_files()
        for review in self.reviews.values():
            if not some or self.chance.random() < 0.3:
                await review.read(self.disk)


async def play(seed: int, folder: Path, steps: int = STEPS) -> World:
    world = World(seed, folder)
    agents = [world.step_agent] * 3 + [world.step_end] * 4
    others = [world.step_person, world.step_restart, world.step_repeat, world.step_outdated]
    choices = [*agents, *others, *[world.step_decide] * 5]
    try:
        await world.step_agent()
        for _ in range(steps):
            await world.chance.choice(choices)()
            await world.check(some=True)
        await world.check(some=False)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return world


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in the event loop what a review runs in threads: starting these would take most of the time."""

    async def at_once(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return function(*given, **named)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


async def test_the_review_matches_a_thousand_sequences(tmp_path: Path) -> None:
    played: dict[str, int] = {}
    for seed in range(1_000):
        for what, count in (await play(seed, tmp_path)).played.items():
            played[what] = played.get(what, 0) + count
    assert len(played) == 13, played
    assert min(played.values()) > 40, played


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_the_review_matches_ten_thousand_sequences(tmp_path: Path) -> None:
    for seed in range(1_000, 11_000):
        await play(seed, tmp_path, MORE_STEPS)
