"""Edits by several agents and by the user, decisions and reverted runs in any order, in memory: thousands of sequences
in seconds.

Two agents work in terminals in the same directory, so they share its review. The third one is the agent of a project in
this directory, which has its own review of the same file. Their runs overlap, and each review is read at any time.

``test_any_order`` uses the real git and the whole review, for a few hundred sequences. Here the operations on two
versions of a file are combined as the review combines them. A simple model predicts the file and its hunks: slots
between lines that nobody changes, each with its own texts.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from drawbridge.server.reviews.change_set import (
    Overlapping,
    Version,
    absorbed,
    changed,
    decide,
    edit,
    merged,
)
from tests import programs

SLOTS = 6
STEPS = 24

AGENTS = {"claude": "directory", "codex": "directory", "managed": "project"}
"""The review to which each agent's runs belong."""

Slots = dict[int, str]


def version(slots: Slots) -> Version:
    """A version whose blob id is derived from its text."""
    text = "".join(f"{slots[number]}--- {number}\n" for number in range(SLOTS))
    return Version("100644", "blob of " + text, text)


def stored(side: Version | None) -> Version:
    """The version as git returns it, with an id that follows from its content."""
    assert side is not None
    return Version(side.mode, f"blob of {side.text}", side.text)


class Review:
    """One review. ``base`` and ``head``: the text of each slot as of the last decision, and in the file when the review
    was last read. ``old`` and ``new``: the two versions in the review, which must always have these texts.
    ``running``: the agents whose runs are active.
    """

    def __init__(self, slots: Slots) -> None:
        self.base = dict(slots)
        self.head = dict(slots)
        self.old = self.new = version(slots)
        self.running: set[str] = set()
        self.decided: set[str] = set()
        self.ids: dict[tuple[str, str], str] = {}
        self.compare()

    def compare(self) -> None:
        self.change = changed("file", self.old, self.new, self.decided)

    def read(self, disk: Slots) -> None:
        """Compares the file. What has changed during a run is the agents' work. Otherwise it is absorbed: outside of
        hunks, it does not become part of the review.
        """
        now = version(disk)
        if not self.running:
            self.base |= {slot: text for slot, text in disk.items() if self.head[slot] == self.base[slot]}
            self.old = stored(absorbed(self.old, self.new, now))
        self.new, self.head = now, dict(disk)
        self.compare()

    def decide(self, chance: random.Random, value: Callable[[int], str]) -> Slots:
        """Decides on some of the hunks. ``value``: returns a text for a slot. Returns what this changes in the file.
        During a run, hunks can only be kept.
        """
        hunks = self.hunks()
        if not hunks:
            return {}
        some = chance.sample(sorted(hunks), chance.randint(1, len(hunks)))
        ids, written = {hunks[slot] for slot in some}, Slots()
        match "keep" if self.running else chance.choice(["keep", "undo", "edit", "both"]):
            case "keep":
                self.change = decide(self.change, keep=ids)
                self.base |= {slot: self.head[slot] for slot in some}
            case "undo":
                self.change = decide(self.change, undo=ids)
                written = {slot: self.base[slot] for slot in some}
            case "both":
                self.change = decide(self.change, keep=ids, undo=set(hunks.values()) - ids)
                ids = set(hunks.values())
                self.base |= {slot: self.head[slot] for slot in some}
                written = {slot: self.base[slot] for slot in hunks}
            case "edit":
                slot, ids = some[0], {hunks[some[0]]}
                text = value(slot)
                self.change = edit(self.change, hunks[slot], text)
                written = {slot: text}
                self.base[slot] = text
        self.head |= written
        self.decided |= ids
        self.ids = {texts: id for texts, id in self.ids.items() if id not in ids}
        self.old, self.new = stored(self.change.old), stored(self.change.new)
        self.change = msgspec.structs.replace(self.change, old=self.old, new=self.new)
        return written

    def hunks(self) -> Slots:
        """Returns the hunk id of each slot that was changed. There must be no other hunk."""
        found = {("".join(removed), "".join(added)): hunk.id for hunk, removed, added in self.change.parts()}
        slots = {(self.base[slot], text): slot for slot, text in self.head.items() if text != self.base[slot]}
        assert found.keys() == slots.keys()
        assert not self.decided & set(found.values()), "a hunk that was decided is never shown again"
        for texts in found.keys() & self.ids.keys():
            assert self.ids[texts] == found[texts], "a hunk keeps its id as long as its lines are the same"
        self.ids = found
        return {slots[texts]: id for texts, id in found.items()}

    def check(self) -> None:
        assert self.new.text == version(self.head).text
        assert self.old.text == version(self.base).text
        self.hunks()


class World:
    """``disk``: the text of each slot in the file."""

    def __init__(self, seed: int, directory: Path | None = None) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        """The directory in which git merges the same texts for comparison; None if they are not compared with git."""
        self.disk: Slots = {number: f"{number}\n" for number in range(SLOTS)}
        self.reviews = {name: Review(self.disk) for name in ("directory", "project")}
        self.begun: dict[str, Slots] = {}
        """The file before the active run of each agent that has one."""
        self.runs: list[tuple[Slots, Slots]] = []
        """The file before and after each run that has ended."""
        self.overlaps = 0
        """How many runs have begun during another one."""
        self.values = 0

    def value(self, slot: int) -> str:
        """A text for the slot. It is often an earlier one, so that changes that were already decided are made again."""
        if self.runs and self.chance.random() < 0.3:
            return self.chance.choice(self.runs)[self.chance.randint(0, 1)][slot]
        self.values += 1
        return "".join(f"{slot}: {self.values} {line}\n" for line in range(self.chance.choice([0, 1, 1, 2])))

    def changes(self) -> None:
        for slot in self.chance.sample(range(SLOTS), self.chance.randint(1, 3)):
            self.disk[slot] = self.value(slot)

    def step_begin(self) -> None:
        agent = self.chance.choice(sorted(AGENTS))
        if agent not in self.begun:
            self.overlaps += bool(self.begun)
            review = self.reviews[AGENTS[agent]]
            review.read(self.disk)
            review.running.add(agent)
            self.begun[agent] = dict(self.disk)

    def step_agent(self) -> None:
        if self.begun:
            self.changes()

    def step_end(self) -> None:
        if self.begun:
            agent = self.chance.choice(sorted(self.begun))
            review = self.reviews[AGENTS[agent]]
            review.read(self.disk)
            review.running.remove(agent)
            self.runs.append((self.begun.pop(agent), dict(self.disk)))

    def step_person(self) -> None:
        self.changes()

    def step_revert(self) -> None:
        """Reverts a run in the current file completely, or not at all if the same lines have changed since."""
        if not self.runs:
            return
        before, after = self.chance.choice(self.runs)
        there = dict(self.disk)
        clash = False
        for slot in range(SLOTS):
            if before[slot] != after[slot] and there[slot] != before[slot]:
                clash = clash or there[slot] != after[slot]
                self.disk[slot] = before[slot]
        if clash:
            self.disk = there
        try:
            result = merged(version(after), version(there), version(before))
        except Overlapping:
            assert clash, "nothing of the run had changed since"
        else:
            assert not clash, "the same lines had changed since"
            assert result is not None
            assert result.text == version(self.disk).text
        if self.directory is not None:
            assert self.by_git(there, after, before) == (None if clash else version(self.disk).text)

    def by_git(self, *sides: Slots) -> str | None:
        """The result of the merge by git, or None if git reports a conflict."""
        assert self.directory is not None
        names = [self.directory / name for name in ("ours", "old", "theirs")]
        for name, side in zip(names, sides, strict=True):
            name.write_text(version(side).text or "")
        done = subprocess.run([programs.git(), "merge-file", "-p", *names], capture_output=True, text=True, check=False)
        assert 0 <= done.returncode < 128, done.stderr
        return done.stdout if done.returncode == 0 else None

    def step_decide(self) -> None:
        review = self.chance.choice(list(self.reviews.values()))
        review.read(self.disk)
        self.disk |= review.decide(self.chance, self.value)
        review.check()

    def step_restart(self) -> None:
        """Continues like a new server, which knows only the versions and the ids of the decided hunks."""
        for review in self.reviews.values():
            review.compare()

    def check(self, *, some: bool) -> None:
        """Reads the reviews, or only ``some`` of them, and checks them."""
        for review in self.reviews.values():
            if not some or self.chance.random() < 0.5:
                review.read(self.disk)
                review.check()


def sequence(seed: int, directory: Path | None = None) -> World:
    world = World(seed, directory)
    agents = [world.step_begin, world.step_begin, world.step_agent, world.step_agent, world.step_end]
    others = [world.step_person, world.step_revert, world.step_decide, world.step_decide, world.step_decide]
    try:
        for _ in range(STEPS):
            world.chance.choice([*agents, *others, world.step_restart])()
            world.check(some=True)
        world.check(some=False)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return world


def test_the_model_predicts_a_thousand_sequences() -> None:
    worlds = [sequence(seed) for seed in range(1_000)]
    assert sum(world.overlaps for world in worlds) > 1_000
    assert all(any(world.reviews[name].decided for world in worlds) for name in ("directory", "project"))


@pytest.mark.slow
def test_the_model_predicts_ten_thousand_sequences() -> None:
    for seed in range(1_000, 11_000):
        sequence(seed)


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 60), marks=pytest.mark.thorough)], ids=str)
def test_git_merges_a_reverted_run_in_the_same_way(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        sequence(seed, tmp_path)
