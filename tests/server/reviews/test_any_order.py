"""Edits by an agent and by the user, and decisions, in any order, with the real git: after each step, the files and the
review match the model.

The files consist of slots between lines that nobody changes. Each edit gives a slot a new text or an empty one, so a
simple model can predict the review. A file's name is one more slot, which the agent changes by renaming the file.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.reviews.change_set import NotEditable
from drawbridge.server.reviews.reviews import HunkGone, Open, Review, Wish
from tests import programs
from tests.server.checkpoints.rig import git

FILES = ("a.txt", "b.txt")
SLOTS = 5
STEPS = 14
NAME = -1
"""The number of the slot that contains the file's name."""


class World:
    """``base`` and ``disk``: the text of each slot as of the last decision, and in the file."""

    def __init__(self, directory: Path, chance: random.Random, *, in_git: bool) -> None:
        directory.mkdir()
        self.folder = None if in_git else directory.parent
        """The directory of the server's data, with the private repository; None if the project is in git."""
        if in_git:
            git(directory, "init", "-q")
        self.directory = directory
        self.chance = chance
        self.base = {(file, number): f"{number}\n" for file in FILES for number in range(SLOTS)}
        self.base |= {(file, NAME): file for file in FILES}
        self.disk = dict(self.base)
        self.values = 0
        self.runs = 0
        self.write()
        self.restart()

    def restart(self) -> None:
        """Continues like a new server, which knows only what is in the repository."""
        self.review = Review("proj_1")
        self.checkpoints = Checkpoints(self.directory, "proj_1", folder=self.folder, on_stored=self.review.extend)

    def text(self, file: str) -> str:
        return "".join(
            f"{self.disk[file, number]}--- a line of {file} that nobody changes: {number}\n" for number in range(SLOTS)
        )

    def write(self) -> None:
        for file in FILES:
            (self.directory / self.disk[file, NAME]).write_text(self.text(file))

    def rename(self) -> None:
        self.values += 1
        file = self.chance.choice(FILES)
        (self.directory / self.disk[file, NAME]).unlink()
        self.disk[file, NAME] = f"{self.values}-{file}"

    def value(self) -> str:
        self.values += 1
        lines = self.chance.choice([0, 1, 1, 2])
        return "".join(f"value {self.values} {line}\n" for line in range(lines))

    def change(self) -> None:
        slots = sorted(slot for slot in self.disk if slot[1] != NAME)
        for slot in self.chance.sample(slots, self.chance.randint(1, 3)):
            self.disk[slot] = self.value()
        self.write()

    async def step_run(self) -> None:
        self.runs += 1
        await self.checkpoints.snapshotter.create(f"run_{self.runs}", "before")
        if self.chance.random() < 0.4:
            self.rename()
        self.change()
        if self.chance.random() < 0.8:
            await self.checkpoints.snapshotter.create(f"run_{self.runs}", "after")
        else:  # the server is killed
            self.restart()
            await self.seen()

    async def step_person(self) -> None:
        """Changes slots as the user would. A change in a slot without a hunk is not part of the review."""
        open_slots = self.open_slots()
        before = dict(self.disk)
        self.change()
        for slot, text in self.disk.items():
            if text != before[slot] and slot not in open_slots:
                self.base[slot] = text

    async def step_restart(self) -> None:
        self.restart()

    async def step_decide(self) -> None:
        review = await self.seen()
        ids = self.ids(review)
        if not ids:
            return
        some = self.chance.sample(sorted(ids), self.chance.randint(1, len(ids)))
        match self.chance.choice(["keep", "undo", "edit", "all", "file"]):
            case "keep":
                await self.decide(Wish("me", "keep", tuple(ids[slot] for slot in some)))
                self.base |= {slot: self.disk[slot] for slot in some}
            case "undo":
                await self.decide(Wish("me", "undo", tuple(ids[slot] for slot in some)))
                self.disk |= {slot: self.base[slot] for slot in some}
            case "edit" if some[0][1] == NAME:
                with pytest.raises(NotEditable):
                    await self.decide(Wish("me", "edit", (ids[some[0]],), text="name.txt"))
            case "edit":
                text = self.value()
                await self.decide(Wish("me", "edit", (ids[some[0]],), text=text))
                self.base[some[0]] = self.disk[some[0]] = text
            case "all":
                await self.decide(Wish("me", "undo", all=True, version=review.version))
                self.disk = dict(self.base)
            case "file":
                file = some[0][0]
                await self.decide(Wish("me", "keep", files=(self.disk[file, NAME],), version=review.version))
                self.base |= {slot: text for slot, text in self.disk.items() if slot[0] == file}
        for slot in some:
            if self.base[slot] == self.disk[slot]:
                with pytest.raises(HunkGone):
                    await self.decide(Wish("me", "undo", (ids[slot],)))

    async def decide(self, wish: Wish) -> None:
        async with self.checkpoints.operations.exclusive() as running:
            await self.review.decide(running, self.checkpoints.work_tree, wish)

    async def seen(self) -> Open:
        async with self.checkpoints.operations.exclusive() as running:
            return await self.review.current(running, self.checkpoints.work_tree)

    def open_slots(self) -> set[tuple[str, int]]:
        return {slot for slot, text in self.disk.items() if text != self.base[slot]}

    def ids(self, review: Open) -> dict[tuple[str, int], str]:
        """Returns the hunk id of each slot that was changed. The review must not have other hunks."""
        found = {
            (file.path, "".join(part.removed), "".join(part.added)): part.hunk.id
            for file in review.files
            for part in file.parts()
        }
        expected = {
            (self.disk[slot[0], NAME], *(("", "") if slot[1] == NAME else (self.base[slot], self.disk[slot]))): slot
            for slot in self.open_slots()
        }
        assert found.keys() == expected.keys()
        return {expected[parts]: id for parts, id in found.items()}

    async def check(self) -> None:
        for file in FILES:
            assert (self.directory / self.disk[file, NAME]).read_text() == self.text(file)
        assert len(list(self.directory.glob("*.txt"))) == len(FILES)
        self.ids(await self.seen())


@pytest.mark.parametrize(
    "seed",
    [
        *range(2),
        *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 6)),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 300)),
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


async def run(seed: int, tmp_path: Path, *, in_git: bool) -> None:
    chance = random.Random(seed)
    world = World(tmp_path / "project", chance, in_git=in_git)
    await world.step_run()
    for _ in range(STEPS):
        step = chance.choice(
            [world.step_run, world.step_person, world.step_decide, world.step_decide, world.step_restart]
        )
        await step()
        if step != world.step_restart:
            await world.check()
