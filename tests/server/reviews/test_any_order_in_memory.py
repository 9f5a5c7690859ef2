"""Edits by an agent and by the user, decisions and reverted runs in any order, in memory: thousands of sequences in
seconds.

``test_any_order`` uses the real git and the whole review, for a few hundred sequences without reverted runs. Here the
operations on two versions of a file are combined as the review combines them. A simple model predicts the file and its
hunks: slots between lines that nobody changes, each with its own texts.
"""

from __future__ import annotations

import random
import subprocess
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
STEPS = 20

Slots = dict[int, str]


def version(slots: Slots) -> Version:
    """A version whose blob id is derived from its text."""
    text = "".join(f"{slots[number]}--- {number}\n" for number in range(SLOTS))
    return Version("100644", "blob of " + text, text)


def stored(side: Version | None) -> Version:
    """The version as git returns it, with an id that follows from its content."""
    assert side is not None
    return Version(side.mode, f"blob of {side.text}", side.text)


class World:
    """``base`` and ``disk``: the text of each slot as of the last decision, and in the file. ``old`` and ``new``: the
    two versions in the review, which must always have the texts of ``base`` and ``disk``."""

    def __init__(self, seed: int, directory: Path | None = None) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        """The directory in which git merges the same texts for comparison; None if they are not compared with git."""
        self.base: Slots = {number: f"{number}\n" for number in range(SLOTS)}
        self.disk = dict(self.base)
        self.old = self.new = version(self.base)
        self.runs: list[tuple[Slots, Slots]] = []
        self.decided: set[str] = set()
        self.ids: dict[tuple[str, str], str] = {}
        self.values = 0
        self.compare()

    def compare(self) -> None:
        self.change = changed("file", self.old, self.new, self.decided)

    def value(self, slot: int) -> str:
        """A text for the slot. It is often an earlier one, so that changes that were already decided are made again."""
        if self.runs and self.chance.random() < 0.3:
            return self.chance.choice(self.runs)[self.chance.randint(0, 1)][slot]
        self.values += 1
        return "".join(f"{slot}: {self.values} {line}\n" for line in range(self.chance.choice([0, 1, 1, 2])))

    def changes(self) -> None:
        for slot in self.chance.sample(range(SLOTS), self.chance.randint(1, 3)):
            self.disk[slot] = self.value(slot)

    def step_run(self) -> None:
        before = dict(self.disk)
        self.changes()
        self.runs.append((before, dict(self.disk)))
        self.new = version(self.disk)
        self.compare()

    def step_person(self) -> None:
        before = dict(self.disk)
        self.changes()
        self.absorb(before)

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
            result = merged(version(after), self.new, version(before))
        except Overlapping:
            assert clash, "nothing of the run had changed since"
        else:
            assert not clash, "the same lines had changed since"
            assert result is not None
            assert result.text == version(self.disk).text
        if self.directory is not None:
            assert self.by_git(there, after, before) == (None if clash else version(self.disk).text)
        self.absorb(there)

    def by_git(self, *sides: Slots) -> str | None:
        """The result of the merge by git; None if git reports a conflict."""
        assert self.directory is not None
        names = [self.directory / name for name in ("ours", "old", "theirs")]
        for name, side in zip(names, sides, strict=True):
            name.write_text(version(side).text or "")
        done = subprocess.run([programs.git(), "merge-file", "-p", *names], capture_output=True, text=True, check=False)
        assert 0 <= done.returncode < 128, done.stderr
        return done.stdout if done.returncode == 0 else None

    def absorb(self, before: Slots) -> None:
        """Takes over changes that no agent made since ``before``. Changes outside of hunks do not become part of the
        review.
        """
        for slot, text in self.disk.items():
            if before[slot] == self.base[slot]:
                self.base[slot] = text
        now = version(self.disk)
        self.old, self.new = stored(absorbed(self.old, self.new, now)), now
        self.compare()

    def step_decide(self) -> None:
        hunks = self.hunks()
        if not hunks:
            return
        some = self.chance.sample(sorted(hunks), self.chance.randint(1, len(hunks)))
        ids = {hunks[slot] for slot in some}
        match self.chance.choice(["keep", "undo", "edit", "both"]):
            case "keep":
                self.change = decide(self.change, keep=ids)
                self.base |= {slot: self.disk[slot] for slot in some}
            case "undo":
                self.change = decide(self.change, undo=ids)
                self.disk |= {slot: self.base[slot] for slot in some}
            case "both":
                self.change = decide(self.change, keep=ids, undo=set(hunks.values()) - ids)
                ids = set(hunks.values())
                self.base |= {slot: self.disk[slot] for slot in some}
                self.disk = dict(self.base)
            case "edit":
                slot, ids = some[0], {hunks[some[0]]}
                text = self.value(slot)
                self.change = edit(self.change, hunks[slot], text)
                self.base[slot] = self.disk[slot] = text
        self.decided |= ids
        self.old, self.new = stored(self.change.old), stored(self.change.new)
        self.change = msgspec.structs.replace(self.change, old=self.old, new=self.new)

    def step_restart(self) -> None:
        """Continues like a new server, which knows only the versions and the ids of the decided hunks."""
        self.compare()

    def hunks(self) -> dict[int, str]:
        """The hunk id of each slot that was changed; there must be no other hunk."""
        found = {("".join(removed), "".join(added)): hunk.id for hunk, removed, added in self.change.parts()}
        slots = {(self.base[slot], text): slot for slot, text in self.disk.items() if text != self.base[slot]}
        assert found.keys() == slots.keys()
        assert not self.decided & set(found.values()), "a hunk that was decided is never shown again"
        for texts in found.keys() & self.ids.keys():
            assert self.ids[texts] == found[texts], "a hunk keeps its id as long as its lines are the same"
        self.ids = found
        return {slots[texts]: id for texts, id in found.items()}

    def check(self) -> None:
        assert self.new.text == version(self.disk).text
        assert self.old.text == version(self.base).text
        self.hunks()


def sequence(seed: int, directory: Path | None = None) -> None:
    world = World(seed, directory)
    steps = [world.step_run, world.step_person, world.step_revert, world.step_decide, world.step_decide]
    try:
        world.step_run()
        for _ in range(STEPS):
            world.chance.choice([*steps, world.step_restart])()
            world.check()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def test_a_thousand_sequences() -> None:
    for seed in range(1_000):
        sequence(seed)


@pytest.mark.slow
def test_ten_thousand_sequences() -> None:
    for seed in range(1_000, 11_000):
        sequence(seed)


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 60), marks=pytest.mark.thorough)], ids=str)
def test_git_merges_a_reverted_run_in_the_same_way(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        sequence(seed, tmp_path)
