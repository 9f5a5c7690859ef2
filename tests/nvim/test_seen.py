"""With random texts, windows, keys and mappings, a proposal in Neovim is accepted only after all of it was on the screen.

The test is a user interface of Neovim, and follows the cells that Neovim sends to it. In the changed lines, each
character except blanks and a few that Neovim shows in another form occurs only once. A character was on the screen if
a cell contained it at the end of an update.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

import pytest

from drawbridge.core.errors import EditorGone
from drawbridge.editors.neovim import rpc as neovim_rpc
from drawbridge.editors.port import Accepted, Gone
from tests import seeds
from tests.programs import each_nvim, nvim_version
from tests.waiting import PATIENCE

from .rig import POLL, Workstation, proposal, settled, workstation

SIZES = [(100, 30), (100, 30), (60, 20), (40, 12), (130, 40), (30, 9)]

NARROW = [*range(0x1401, 0x1676), *range(0x1200, 0x1248), *range(0x12000, 0x1236F), *range(0x13000, 0x1342F)]
"""Characters that take one cell."""

WIDE = range(0x4E00, 0x9FA6)
"""Characters that take two cells."""

ODD = ["\t", "\t\t", "\u200b", "\u202e", "\x01", "\x1b", "\u0301", "\xa0", " " * 7, " " * 90]
"""What may shift other characters."""

UNIQUE = frozenset(map(chr, chain(NARROW, WIDE)))


class Screen:
    """The cells of a user interface of Neovim, and every character that was in one of them at the end of an update."""

    def __init__(self) -> None:
        self.shown: set[str] = set()
        self._rows: list[list[str]] = []
        self._changed: set[int] = set()

    def receive(self, method: str, updates: list[Any]) -> None:
        if method != "redraw":
            return
        for name, *calls in updates:
            for call in calls:
                if handle := getattr(self, f"_{name}", None):
                    handle(*call)

    def _grid_resize(self, _grid: int, width: int, height: int) -> None:
        rows = self._rows[:height] + [[] for _ in range(height - len(self._rows))]
        self._rows = [(row + [" "] * width)[:width] for row in rows]
        self._changed = set(range(height))

    def _grid_clear(self, _grid: int) -> None:
        self._rows = [[" "] * len(row) for row in self._rows]

    def _grid_line(self, _grid: int, row: int, column: int, cells: list[list[Any]], *_: Any) -> None:
        for text, *rest in cells:
            count = rest[1] if len(rest) > 1 else 1
            self._rows[row][column : column + count] = [text] * count
            column += count
        self._changed.add(row)

    def _grid_scroll(self, _grid: int, top: int, bottom: int, left: int, right: int, by: int, _columns: int) -> None:
        targets = range(top, bottom - by) if by > 0 else range(bottom - 1, top - by - 1, -1)
        for row in targets:
            self._rows[row][left:right] = self._rows[row + by][left:right]
        self._changed.update(range(top, bottom))

    def _flush(self) -> None:
        for row in self._changed:
            self.shown.update(*self._rows[row])
        self._changed.clear()


class Text:
    """Makes lines of characters that no other line contains."""

    def __init__(self, random: Random) -> None:
        self._random = random
        narrow, wide = list(NARROW), list(WIDE)
        random.shuffle(narrow)
        random.shuffle(wide)
        self._narrow, self._wide = map(chr, narrow), map(chr, wide)

    def _some(self, count: int, kind: Iterator[str]) -> str:
        return "".join(next(kind, ".") for _ in range(count))

    def short(self) -> str:
        return self._some(self._random.randint(1, 5), self._narrow)

    def line(self) -> str:
        kind, random = self._random.choice([self._narrow, self._narrow, self._wide]), self._random
        match random.randrange(12):
            case 0 | 1 | 2 | 3:
                return self._some(random.randint(1, 12), kind)
            case 4 | 5:
                return self._some(random.randint(20, 110), kind)
            case 6 | 7:
                return "".join(random.choice(ODD) + self._some(random.randint(1, 4), kind) for _ in range(8))
            case 8:
                return "x" * random.randint(0, 3) + self._some(random.randint(90, 300), self._wide)
            case 9:
                return "".join(
                    self._some(1, kind) + " " * random.randint(5, 40) for _ in range(random.choice([20, 90]))
                )
            case 10:
                return "x" * random.choice([39, 49, 50, 98, 99, 100, 2_000]) + self._some(2, kind)
            case _:
                return ""

    def pair(self, *, inline: bool) -> tuple[str, str]:
        """The current text and the proposed one."""
        random = self._random
        old, new, number = list[str](), list[str](), 0
        for _ in range(random.choice([1, 2, 3, 5])):
            same = [f"line {number + n}" for n in range(random.choice([0, 1, 5, 40, 90]))]
            number += len(same)
            # The inline view cuts removed lines at the edge of the window.
            removed = [self.short() if inline else self.line() for _ in range(random.choice([0, 0, 1, 3, 12]))]
            added = [self.line() for _ in range(random.choice([0, 1, 1, 3, 12, 40]))]
            old += same + removed
            new += same + added
        return "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)


LOOKS = [
    *("<C-f>", "<C-f>", "<C-d>", "<C-b>", "<C-e>", "<C-y>", "3<C-e>", "G", "gg", "j", "k", "10j", "$", "0", "gj", "zz"),
    *("zt", "zb", "zL", "zH", "zl", "30|", "99|", "]c", "[c", "M", "L", "H", "500|", "g$"),
]

FOLDS = [
    *("zR", "zM", "zo", "zc", "zE", "zi", "zv", ":setlocal foldmethod=manual<CR>", ":FIRST,LASTfold<CR>"),
    ":setlocal foldmethod=manual<CR>:FIRST,LASTfold<CR>",
]

EDITS = [
    *(":FIRSTmove LAST<CR>", ":LASTmove FIRST<CR>", ":FIRST,LASTmove 0<CR>", ":$move 0<CR>", ":FIRST,LASTmove $<CR>"),
    *("ddp", "dd", "yyP", "u", "u", "<C-r>", ":%d<CR>u", ":FIRST,LASTd<CR>", "J", "xp", "D", "Omine<Esc>", "GddggP"),
    *(":FIRSTcopy LAST<CR>", ":g/./move 0<CR>", "u", "u", ":LASTyank<CR>ggp", "GD``P", ":FIRST,LASTjoin<CR>"),
]

OPTIONS = [
    *("wrap", "nowrap", "list", "nolist", "number", "nonumber", "number numberwidth=20", "signcolumn=yes:9"),
    *(
        "signcolumn=auto",
        "foldcolumn=9",
        "foldcolumn=0",
        "conceallevel=2",
        "conceallevel=0",
        "linebreak",
        "nolinebreak",
    ),
    *("showbreak=>>>>", "showbreak=", "scrolloff=5", "tabstop=3", "breakindent", "list listchars=extends:>,precedes:<"),
    *("display=truncate", "display=", "rightleft", "norightleft", "cpoptions+=n", "SMOOTH", "SMOOTH", "SMOOTH"),
]

WINDOWS = [
    *(
        ":split<CR>",
        ":vsplit<CR>",
        "<C-w>w",
        "<C-w>w",
        "<C-w>p",
        "<C-w>=",
        "20<C-w>|",
        "12<C-w>|",
        "2<C-w>_",
        "5<C-w>_",
    ),
    *("<C-w>|", "<C-w>_", ":tabnew<CR>", "gt", "gt", "<C-w>s<C-w>j:enew<CR>", "<C-w>s:enew<CR>", ":new<CR>"),
    *("<C-w>v<C-w>l:enew<CR>", "<C-w>t:enew<CR><C-w>b"),
]

ACCEPTS = [":w<CR>", ":w<CR>", ":w<CR>", ":DrawbridgeAccept<CR>", ":update<CR>", ":x<CR>", "ZZ"]

OTHERS = [
    "i<C-x><C-l>",
    "<Esc>",
    ':echo repeat("a\\n", 30)<CR><CR>',
    ':echo repeat("a\\n", 30)<CR>',
    ":call matchadd('Conceal', '.', 10, -1, {'conceal': 'x'})<CR>:setlocal conceallevel=2<CR>",
    ":set lazyredraw<CR>",
    "q:",
]

COVERS = """
local row, column, height, width, border = ...
_G.covers = _G.covers or {}
local options = { relative = 'editor', row = row, col = column, height = height, width = width, border = border }
table.insert(_G.covers, vim.api.nvim_open_win(vim.api.nvim_create_buf(false, true), false, options))
"""

UNCOVERS = "for _, one in ipairs(_G.covers or {}) do pcall(vim.api.nvim_win_close, one, true) end _G.covers = {}"

MAPS = "vim.keymap.set('n', 'Q', ..., { remap = true })"

AT_REST = """
require('drawbridge.review').open()
for _, name in ipairs({ 'wrap', 'conceallevel=0', 'signcolumn=auto', 'foldcolumn=0', 'nonumber', 'norightleft', 'nolist' }) do
  vim.cmd('setlocal ' .. name)
end
vim.cmd('set nolazyredraw cpoptions& showbreak= scrolloff=0')
vim.cmd('wincmd _ | wincmd |')
"""


def within(random: Random, keys: str) -> str:
    """``keys`` with random lines for FIRST and LAST."""
    first, last = sorted(random.choice([1, 2, 5, 20, 60, 100, 200]) for _ in range(2))
    return keys.replace("FIRST", str(first)).replace("LAST", str(last))


def option(random: Random, has_smoothscroll: bool) -> str:
    found = random.choice(OPTIONS)
    if found == "SMOOTH":
        found = "smoothscroll" if has_smoothscroll else "wrap"
    return f":setlocal {found}<CR>"


async def answers_until(rig: Workstation, call: Coroutine[Any, Any, Any]) -> None:
    """Waits until the call returns. Answers what Neovim asks meanwhile."""
    running = asyncio.ensure_future(call)
    try:
        while not running.done():
            mode = await rig.person.call("nvim_get_mode")
            if mode["blocking"]:
                await rig.person.types("<CR>" if mode["mode"].startswith("r") else "<Esc>")
            await asyncio.wait([running], timeout=POLL)
    finally:
        running.cancel()
        await asyncio.wait([running])
    running.result()


async def is_free(rig: Workstation) -> None:
    """Returns when Neovim has done what was typed. Answers what it asks, also if it asks later."""
    await answers_until(rig, rig.quiet())


async def acts(random: Random, rig: Workstation, has_smoothscroll: bool) -> str:
    """Does something at random, and returns its description."""
    kind = random.randrange(20)
    match kind:
        case 0 | 1 | 2 | 3 | 4:
            keys = random.choice(LOOKS)
        case 5 | 6:
            keys = within(random, random.choice(FOLDS))
        case 7 | 8:
            keys = within(random, random.choice(EDITS))
        case 9 | 10:
            keys = option(random, has_smoothscroll)
        case 11 | 12:
            keys = random.choice(WINDOWS)
        case 13:
            keys = random.choice(OTHERS)
        case 14:
            width, height = random.choice(SIZES)
            # A message that no longer fits on the screen is shown in parts (`-- More --`), before the call returns.
            await answers_until(rig, rig.person.call("nvim_ui_try_resize", width, height))
            await is_free(rig)
            return f"resizes to {width}x{height}"
        case 15:
            area = [random.choice(many) for many in ([0, 1, 9, 20], [0, 1, 30, 51], [1, 5, 40], [1, 3, 30, 150])]
            border = random.choice(["none", "rounded"])
            await rig.person.lua(COVERS, *area, border)
            await is_free(rig)
            return f"covers {area} {border}"
        case 16:
            await rig.person.lua(UNCOVERS)
            await is_free(rig)
            return "uncovers"
        case _:
            before = random.choices([*LOOKS, *LOOKS, *FOLDS, *EDITS], k=random.choice([0, 0, 1, 1, 5]))
            keys = within(random, "".join(before)) + random.choice(ACCEPTS)
            if random.random() < 0.4:
                await rig.person.lua(MAPS, keys)
                await rig.person.types("Q")
                await is_free(rig)
                return f"presses a key that is mapped to {keys}"
    await rig.person.types(keys)
    await is_free(rig)
    return keys


def unseen(screen: Screen, old: str, accepted: str) -> str:
    """The characters of the change that were never on the screen."""
    changed = (set(old) ^ set(accepted)) & UNIQUE
    return "".join(sorted(changed - screen.shown))


Outcome: TypeAlias = Literal["accepted", "rejected", "open", "crashed"]


async def takes_time(rig: Workstation) -> None:
    """Accepts the proposal as a user does who reads all of it, if that is possible."""
    await rig.person.types("<Esc><Esc>")
    await is_free(rig)
    if await rig.person.lua("return vim.fn.getcmdwintype() ~= ''"):
        await rig.person.types("<C-w>c")
        await is_free(rig)
    await rig.person.lua(UNCOVERS)
    await answers_until(rig, rig.person.call("nvim_ui_try_resize", 130, 40))
    await rig.person.lua(AT_REST)
    for _ in range(80):
        await is_free(rig)
        if rig.decisions:
            return
        await rig.person.types(":DrawbridgeAccept<CR>")


async def has_quit(rig: Workstation) -> bool:
    """Whether Neovim, which has ended, has quit, because its last window was closed (`:x`). Returns when the bridge has
    received everything that Neovim reported before."""
    assert rig.person.process is not None
    code = await asyncio.wait_for(rig.person.process.wait(), PATIENCE)
    await settled(lambda: Gone() in rig.events, "the bridge has noticed the end")
    return code == 0


async def plays(random: Random, program: Path, folder: Path, story: list[Any]) -> Outcome:
    """Plays one round: a proposal, random actions, and then the user takes the time to accept it."""
    layout = random.choice(["vertical", "horizontal", "inline"])
    old, new = Text(random).pair(inline=layout == "inline")
    story += [layout, old, new]
    if old == new:
        return "open"
    folder.mkdir()
    screen = Screen()
    async with workstation(program, folder) as rig:
        rig.person.receives(screen.receive)
        width, height = random.choice(SIZES)
        story.append((width, height))
        await rig.person.call("nvim_ui_attach", width, height, {"rgb": True, "ext_linegrid": True})
        has_smoothscroll = await rig.person.lua("return vim.fn.exists('+smoothscroll') == 1")
        await rig.options(f"{{ diff = {{ layout = '{layout}' }} }}")
        context = random.choice([3, 1000])
        await rig.person.lua(f"vim.o.diffopt = 'internal,filler,context:{context}' vim.o.shortmess = 'aoOtTI'")
        path = await rig.opened("a.txt", old)
        await rig.shows(proposal(path, old, new))
        await is_free(rig)
        for step in range(21):
            try:
                if step < 20:
                    story.append(await acts(random, rig, has_smoothscroll))
                else:
                    await takes_time(rig)
            except EditorGone:
                if not await has_quit(rig):
                    raise
            if rig.decisions:
                decision = rig.decisions[0][1]
                if not isinstance(decision, Accepted):
                    return "rejected"
                assert unseen(screen, old, decision.text) == "", decision.text
                return "accepted"
            if Gone() in rig.events:
                return "open"
    return "open"


AT_ONCE = 4
"""The number of rounds that are played at the same time, each in its own Neovim, because a round mostly waits for Neovim."""


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(150, marks=[pytest.mark.thorough, pytest.mark.timeout(1_800)]),
        pytest.param(3_000, marks=[pytest.mark.slow, pytest.mark.timeout(14_400)]),
    ],
)
@pytest.mark.parametrize("program", each_nvim())
async def test_nothing_unseen_is_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: Path, rounds: int
) -> None:
    """A failure shows its ``DRAWBRIDGE_TEST_SEED``. With the same value, the proposals and the keys are the same."""
    monkeypatch.setattr(neovim_rpc, "CALL_SECONDS", PATIENCE)
    seed = seeds.seed()
    random, outcomes, failures = Random(seed), Counter[Outcome](), list[Exception]()
    places = asyncio.Semaphore(AT_ONCE)

    async def play(number: int, own: Random) -> None:
        async with places:
            if failures:
                return
            story: list[Any] = []
            try:
                outcomes[await plays(own, program, tmp_path / str(number), story)] += 1
            except Exception as error:
                # Neovim 0.7 crashes in some rounds, for example when windows in diff mode show other buffers.
                if isinstance(error, EditorGone) and nvim_version(program) < (0, 10):
                    outcomes["crashed"] += 1
                    return
                error.add_note(f"DRAWBRIDGE_TEST_SEED={seed}, round {number}: {story}")
                failures.append(error)

    await asyncio.gather(*[play(number, Random(random.randrange(2**32))) for number in range(rounds)])
    if failures:
        raise failures[0]
    assert outcomes["accepted"] > rounds / 4, outcomes
