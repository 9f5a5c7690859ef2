"""Edits by several agents and by the user, decisions, refusals and reverted runs in any order, with the real git: after
each step, the files and the reviews match the model.

Two agents work in terminals in the same directory, so they share its review. The third one is the agent of a project in
this directory, which has its own review of the same files. Their runs overlap.

The files consist of slots between lines that nobody changes. Each edit gives a slot a new text or an empty one, so a
simple model can predict the reviews. A file's name is one more slot, which agents change by renaming the file. In half
of the sequences, the slots are so far from each other that git has one hunk for each: there, ``git checkout -p`` has to
discard the same lines as an undo, and ``git apply -R`` the same as the revert of a run.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import Changed
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.refs import When
from drawbridge.server.checkpoints.unsaved import FindUnsaved, UnsavedChanges
from drawbridge.server.reviews.change_set import NotEditable
from drawbridge.server.reviews.decisions import HunkGone, RequestedDecision, ReviewMoved
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.server.reviews.reviews import Review
from tests import programs
from tests.server.checkpoints.rig import git

FILES = ("a.txt", "b.txt")
SLOTS = 5
STEPS = 16
NAME = -1
"""The number of the slot that contains the file's name."""

NEAR, FAR = 1, 7
"""How many lines that nobody changes are after each slot."""

AGENTS = {"claude": "directory", "codex": "directory", "managed": "project"}
"""The review to which each agent's runs belong."""

Slot = tuple[str, int]
Slots = dict[Slot, str]


class SomeReview:
    """One review, its checkpoints, and the model of it. ``base`` and ``head``: the text of each slot as of the last
    decision, and in the file when the review was last read. ``running``: the id of the active run of each agent that has
    one."""

    def __init__(self, id: str, directory: Path, folder: Path | None, find_unsaved: FindUnsaved, disk: Slots) -> None:
        self._id = id
        self._directory = directory
        self._folder = folder
        self._find_unsaved = find_unsaved
        self.base, self.head = dict(disk), dict(disk)
        self.running: dict[str, str] = {}
        self._has_begun = False
        self.restart()

    def restart(self) -> None:
        """Continues like a new server, which knows only what is in the repository."""
        self.review = Review(self._id, self._folder or self._directory.parent)
        self.checkpoints = Checkpoints(
            self._directory,
            self._id,
            folder=self._folder,
            on_stored=self._extend,
            active=lambda: list(self.running.values()),
            find_unsaved=self._find_unsaved,
        )

    async def _extend(self, running: Git, run: str, when: When, commit: str) -> None:
        """Like ``ReviewedDirectory``: a run that ends during another one does not end the agents' work."""
        if when == "before" or not self.running:
            await self.review.extend(running, run, when, commit)

    def model_read(self, disk: Slots) -> None:
        """Updates the model for a reading of the review. What has changed during a run is the agents' work. Any other
        change is absorbed: outside of hunks, it does not become part of the review."""
        if not self._has_begun:
            self.base = dict(disk)
        elif not self.running:
            self.base = self.base | {slot: disk[slot] for slot in disk if self.head[slot] == self.base[slot]}
        self.head = dict(disk)

    async def begin(self, agent: str, run: str, disk: Slots) -> None:
        self.model_read(disk)
        self._has_begun = True
        self.running[agent] = run
        await self.checkpoints.snapshotter.create(run, "before")

    async def end(self, agent: str, run: str, disk: Slots) -> None:
        self.model_read(disk)
        del self.running[agent]
        await self.checkpoints.snapshotter.create(run, "after")

    async def decide(self, wish: RequestedDecision) -> None:
        async with self.checkpoints.operations.exclusive() as running:
            await self.review.decide(running, self.checkpoints.work_tree, wish)

    async def seen(self, disk: Slots) -> OpenReview:
        """Reads the review. Returns it."""
        self.model_read(disk)
        async with self.checkpoints.operations.exclusive() as running:
            return await self.review.current(running, self.checkpoints.work_tree)

    def open_slots(self) -> set[Slot]:
        return {slot for slot, text in self.head.items() if text != self.base[slot]}

    def ids(self, review: OpenReview) -> dict[Slot, str]:
        """The hunk id of each slot that was changed; the review must not have other hunks."""
        found = {
            (file.path, "".join(part.removed), "".join(part.added)): part.hunk.id
            for file in review.files
            for part in file.parts()
        }
        expected = {
            (self.head[slot[0], NAME], *(("", "") if slot[1] == NAME else (self.base[slot], self.head[slot]))): slot
            for slot in self.open_slots()
        }
        assert found.keys() == expected.keys()
        return {expected[parts]: id for parts, id in found.items()}


class World:
    """``disk``: the text of each slot in the file. ``unsaved``: the files with unsaved changes in an editor."""

    def __init__(self, directory: Path, chance: random.Random, *, in_git: bool) -> None:
        directory.mkdir()
        if in_git:
            git(directory, "init", "-q")
        self.directory = directory
        self.chance = chance
        self.distance = chance.choice([NEAR, FAR])
        self.oracle = Oracle(directory.parent / "oracle") if self.distance == FAR else None
        self.disk = {(file, number): f"{number}\n" for file in FILES for number in range(SLOTS)}
        self.disk |= {(file, NAME): file for file in FILES}
        self.unsaved: set[str] = set()
        self.values = 0
        self.begun: dict[str, tuple[str, Slots]] = {}
        """The id of the active run of each agent that has one, and the files before it."""
        self.ended: list[tuple[str, str, Slots, Slots]] = []
        """The agent and the id of each run that has ended, and the files before and after it."""
        self.refusals = 0
        self.write()
        self.reviews: dict[str, SomeReview] = {}
        for name in ("directory", "project"):
            folder = None if in_git else directory.parent / f"data-{name}"
            if folder is not None:
                folder.mkdir()
            self.reviews[name] = SomeReview(name, directory, folder, self.find_unsaved, self.disk)

    def find_unsaved(self, paths: Sequence[str]) -> Mapping[str, str]:
        unsaved = {str(self.directory / self.disk[file, NAME]) for file in self.unsaved}
        return dict.fromkeys(unsaved.intersection(paths), "Neovim")

    def text(self, file: str, slots: Slots) -> str:
        kept = [f"--- a line of {file} that nobody changes: {number}\n" for number in range(SLOTS * self.distance)]
        lines = (
            [slots[file, number], *kept[number * self.distance : (number + 1) * self.distance]]
            for number in range(SLOTS)
        )
        return "".join(text for some in lines for text in some)

    def write(self) -> None:
        for file in FILES:
            (self.directory / self.disk[file, NAME]).write_text(self.text(file, self.disk))

    def value(self) -> str:
        self.values += 1
        lines = self.chance.choice([0, 1, 1, 2])
        return "".join(f"value {self.values} {line}\n" for line in range(lines))

    def change(self) -> None:
        slots = sorted(slot for slot in self.disk if slot[1] != NAME)
        for slot in self.chance.sample(slots, self.chance.randint(1, 3)):
            self.disk[slot] = self.value()
        self.write()

    def may_rename(self, file: str, review: SomeReview) -> bool:
        """Whether the model covers a new name of the file. It does not if the file has open hunks in another review,
        and no run to which the new name belongs there."""
        others = (one for one in self.reviews.values() if one is not review and not one.running)
        return not any(slot[0] == file for one in others for slot in one.open_slots())

    def rename(self, review: SomeReview) -> None:
        file = self.chance.choice(FILES)
        if self.may_rename(file, review):
            self.values += 1
            (self.directory / self.disk[file, NAME]).unlink()
            self.disk[file, NAME] = f"{self.values}-{file}"
            self.write()

    # What may happen next.

    async def step_agent(self) -> None:
        """An agent begins a run, works, or ends its run."""
        agent = self.chance.choice(sorted(AGENTS))
        review = self.reviews[AGENTS[agent]]
        if agent not in self.begun:
            self.values += 1
            run = f"run_{self.values}"
            await review.begin(agent, run, self.disk)
            self.begun[agent] = run, dict(self.disk)
        elif self.chance.random() < 0.3:
            self.rename(review)
        self.change()
        if self.chance.random() < 0.7:
            run, before = self.begun.pop(agent)
            await review.end(agent, run, self.disk)
            self.ended.append((agent, run, before, dict(self.disk)))

    async def step_person(self) -> None:
        self.change()

    async def step_editor(self) -> None:
        """A file gets unsaved changes in an editor, or is saved without them."""
        self.unsaved ^= {self.chance.choice(FILES)}

    async def step_restart(self) -> None:
        """The server is killed, and what runs changed after that is read when the next server begins."""
        self.begun.clear()
        for review in self.reviews.values():
            review.model_read(self.disk)
            review.running.clear()
            review.restart()
            await review.seen(self.disk)

    async def step_decide(self) -> None:
        review = self.chance.choice(list(self.reviews.values()))
        found = await review.seen(self.disk)
        ids = review.ids(found)
        if not ids:
            return
        some = self.chance.sample(sorted(ids), self.chance.randint(1, len(ids)))
        # During a run, the server refuses everything else.
        ways = ["keep", "file"] if self.begun else ["keep", "file", "undo", "undo", "edit", "all", "stale", "moved"]
        way = self.chance.choice(ways)
        undone = {"undo": some, "all": sorted(ids)}.get(way, [])
        if not all(self.may_rename(file, review) for file, number in undone if number == NAME):
            way = "keep"
        match way:
            case "stale" | "moved":
                await self.refuse_outdated(review, ids[some[0]], some[0], way)
                return
            case "keep":
                await review.decide(RequestedDecision("me", "keep", tuple(ids[slot] for slot in some)))
                self.decided(review, some, self.disk)
            case "file":
                file = some[0][0]
                await review.decide(
                    RequestedDecision("me", "keep", files=(self.disk[file, NAME],), version=found.version)
                )
                self.decided(review, [slot for slot in self.disk if slot[0] == file], self.disk)
            case "undo":
                if not await self.undo(
                    review, RequestedDecision("me", "undo", tuple(ids[slot] for slot in some)), some
                ):
                    return
            case "all":
                if not await self.undo(
                    review, RequestedDecision("me", "undo", all=True, version=found.version), undone
                ):
                    return
            case "edit" if some[0][1] == NAME:
                with pytest.raises(NotEditable):
                    await review.decide(RequestedDecision("me", "edit", (ids[some[0]],), text="name.txt"))
                return
            case "edit":
                text, some = self.value(), some[:1]
                wish = RequestedDecision("me", "edit", (ids[some[0]],), text=text)
                if text != self.disk[some[0]] and self.is_refused(some):
                    await self.refuse_unsaved(review, wish)
                    return
                await review.decide(wish)
                self.decided(review, some, {some[0]: text})
        for slot in some:
            if review.base[slot] == review.head[slot]:
                with pytest.raises(HunkGone):
                    await review.decide(RequestedDecision("me", "undo", (ids[slot],)))

    def decided(self, review: SomeReview, slots: Collection[Slot], texts: Slots) -> None:
        """Gives slots these texts, in the files and in the review."""
        for slot in slots:
            self.disk[slot] = review.head[slot] = texts[slot]
            review.base[slot] = texts[slot]

    async def undo(self, review: SomeReview, wish: RequestedDecision, slots: Sequence[Slot]) -> bool:
        """Undoes the changes in these slots, as ``git checkout -p`` does. Returns whether that was possible."""
        if self.is_refused(slots):
            await self.refuse_unsaved(review, wish)
            return False
        expected = {}
        for file in {file for file, _ in slots}:
            changed = [number for number in range(SLOTS) if (file, number) in review.open_slots()]
            answers = ["y" if (file, number) in slots else "n" for number in changed]
            if self.oracle is not None and "y" in answers:
                texts = self.text(file, review.base), self.text(file, self.disk)
                expected[file] = self.oracle.discarded(*texts, answers)
        await review.decide(wish)
        self.decided(review, slots, review.base)
        for file, text in expected.items():
            assert (self.directory / self.disk[file, NAME]).read_text() == text
        return True

    def is_refused(self, slots: Collection[Slot]) -> bool:
        return any(file in self.unsaved for file, _ in slots)

    async def refuse_unsaved(self, review: SomeReview, wish: RequestedDecision) -> None:
        self.refusals += 1
        with pytest.raises(UnsavedChanges):
            await review.decide(wish)

    async def refuse_outdated(self, review: SomeReview, id: str, slot: Slot, way: str) -> None:
        """Decides on what the user saw before the file was changed."""
        self.refusals += 1
        if way == "moved" or slot[1] == NAME:
            with pytest.raises(ReviewMoved):
                await review.decide(RequestedDecision("me", "undo", all=True, version="outdated"))
            return
        self.values += 1
        self.disk[slot] = f"value {self.values}, in the meantime\n"
        self.write()
        with pytest.raises(HunkGone):
            await review.decide(RequestedDecision("me", "undo", (id,)))

    async def step_revert(self) -> None:
        """Reverts a run completely, or not at all if the same lines have changed since."""
        names = [(file, NAME) for file in FILES]
        some = [one for one in self.ended if all(one[2][name] == one[3][name] == self.disk[name] for name in names)]
        if self.begun or not some:
            return
        agent, run, before, after = self.chance.choice(some)
        slots = [slot for slot in self.disk if before[slot] != after[slot]]
        reverter = self.reviews[AGENTS[agent]].checkpoints.reverter
        if any(self.disk[slot] not in (before[slot], after[slot]) for slot in slots):
            self.refusals += 1
            with pytest.raises(Changed):
                await reverter.revert(run)
        elif self.is_refused(slots):
            self.refusals += 1
            with pytest.raises(UnsavedChanges):
                await reverter.revert(run)
        else:
            there = {file: self.text(file, self.disk) for file, _ in slots}
            await reverter.revert(run)
            self.disk |= {slot: before[slot] for slot in slots}
            for file, text in there.items():
                if self.oracle is not None:
                    texts = self.text(file, before), self.text(file, after), text
                    assert self.oracle.reverted(*texts) in (None, self.text(file, self.disk))

    async def check(self) -> None:
        for file in FILES:
            assert (self.directory / self.disk[file, NAME]).read_text() == self.text(file, self.disk)
        assert len(list(self.directory.glob("*.txt"))) == len(FILES)
        for review in self.reviews.values():
            review.ids(await review.seen(self.disk))


class Oracle:
    """The user's git, in its own repository."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        git(directory, "init", "-q")
        self._directory = directory
        self._file = directory / "file"

    def discarded(self, base: str, text: str, answers: Sequence[str]) -> str:
        """What ``git checkout -p`` makes of ``text``. ``answers``: "y" or "n" for each hunk between it and ``base``."""
        self._add(base, text)
        assert self._git("diff").stdout.count("\n@@ ") == len(answers)
        self._git("checkout", "-p", "--", "file", input="".join(f"{answer}\n" for answer in answers))
        return self._file.read_text()

    def reverted(self, before: str, after: str, text: str) -> str | None:
        """What ``git apply -R`` makes of ``text`` with the changes from ``before`` to ``after``; None if the patch does
        not apply."""
        self._add(before, after)
        patch = self._git("diff").stdout
        self._file.write_text(text)
        return self._file.read_text() if self._git("apply", "-R", input=patch).returncode == 0 else None

    def _add(self, base: str, text: str) -> None:
        self._file.write_text(base)
        git(self._directory, "add", "file")
        self._file.write_text(text)

    def _git(self, *words: str, input: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(programs.git()), *words]
        return subprocess.run(
            command, cwd=self._directory, input=input, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.mark.slow_for("2", "3", "4", "5", "6", "7")
@pytest.mark.parametrize(
    "seed",
    [
        *range(2),
        *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 8)),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 300)),
    ],
)
async def test_the_review_matches_any_order_of_runs_and_decisions(seed: int, tmp_path: Path) -> None:
    await run(seed, tmp_path, in_git=True)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(0, marks=pytest.mark.thorough),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 100)),
    ],
)
async def test_the_review_matches_any_order_without_git(seed: int, tmp_path: Path) -> None:
    programs.git()
    await run(seed, tmp_path, in_git=False)
    assert all(file.suffix == ".txt" for file in (tmp_path / "project").iterdir())


@pytest.mark.slow
async def test_the_sequences_contain_refusals(tmp_path: Path) -> None:
    worlds = []
    for seed in range(20):
        (tmp_path / str(seed)).mkdir()
        worlds.append(await run(seed, tmp_path / str(seed), in_git=True))
    assert sum(world.refusals for world in worlds) >= 20
    assert {world.distance for world in worlds} == {NEAR, FAR}


async def run(seed: int, tmp_path: Path, *, in_git: bool) -> World:
    chance = random.Random(seed)
    world = World(tmp_path / "project", chance, in_git=in_git)
    often = [world.step_agent, world.step_agent, world.step_decide, world.step_decide]
    await world.step_agent()
    for _ in range(STEPS):
        step = chance.choice([*often, world.step_person, world.step_editor, world.step_revert, world.step_restart])
        await step()
        await world.check()
    return world
