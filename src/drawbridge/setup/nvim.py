"""``drawbridge setup nvim``: the plugin for a Neovim without a plugin manager.

A link in Neovim's package directory points to the plugin: to the checkout that this command runs from, or to a lasting
copy. Next to it is a package of one file, which calls ``setup{}`` unless the user's configuration does.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from drawbridge.core import launcher, plugin
from drawbridge.core.errors import NotWritable, ProgramFailed
from drawbridge.setup import copies, files, record
from drawbridge.setup.files import Change, Step
from drawbridge.setup.interpreter import is_passing
from drawbridge.setup.plan import Plan
from drawbridge.setup.record import Record

PARTS = ("lua", "plugin", "doc")

STARTS = re.compile(
    r"""require\s*\(?\s*['"]drawbridge['"]\s*\)?\s*\.\s*setup\b|['"/]drawbridge\.nvim\b|\bdir\s*=\s*['"][^'"]*/drawbridge/?['"]"""
)
"""Matches a call to ``setup{}``, or a plugin manager's specification: by repository, or by the directory of a clone."""

ALONE = re.compile(r"""require\s*\(?\s*['"]lazy['"]""")
"""Matches a use of lazy.nvim, which removes all packages but its own from the package path."""

REMARK = re.compile(r'^\s*--.*|^\s*".*', re.MULTILINE)
MOST_FILES = 500
NVIM_SECONDS = 20

STARTER = """\
-- Written by `drawbridge setup nvim`, which removes it with --remove: starts Drawbridge unless your own configuration
-- has called require('drawbridge').setup{{...}} by then.
if vim.fn.has('nvim-0.7') == 1 then
  vim.api.nvim_create_autocmd('VimEnter', {{
    once = true,
    callback = function()
      if vim.g.loaded_drawbridge and not package.loaded['drawbridge.config'] then
        require('drawbridge').setup({options})
      end
    end,
  }})
end
"""


@dataclass(frozen=True)
class Copy:
    """The step that copies the plugin."""

    path: Path
    nvim: str
    kind: str = "create"

    def lines(self) -> list[str]:
        return [f"+++ {self.path}{os.sep}", "+ a copy of the plugin"]

    def apply(self) -> None:
        copies.install(plugin.directory(), PARTS, self.path, ".", self._make_help_tags)

    def _make_help_tags(self, folder: Path) -> None:
        lua = f"vim.cmd('helptags ' .. vim.fn.fnameescape({_lua(str(folder / 'doc'))}))"
        _ask(self.nvim, lua, "create the plugin's help tags")


@dataclass(frozen=True)
class Link:
    """The step that creates, changes or removes a symbolic link. ``before``, ``after``: its target; None if the link
    does not exist."""

    path: Path
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        return "create" if self.before is None else "delete" if self.after is None else "modify"

    def lines(self) -> list[str]:
        ends = ((mark, end) for mark, end in (("-", self.before), ("+", self.after)) if end is not None)
        return [f"{mark}{self.path} -> {end}" for mark, end in ends]

    def apply(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.before is not None:
                self.path.unlink()
            if self.after is not None:
                self.path.symlink_to(self.after, target_is_directory=True)
        except OSError as error:
            why = (error.strerror or "unknown reason").lower()
            raise NotWritable(f"{self.path} can't be {files.PAST[self.kind]}: {why}.") from None


@dataclass(frozen=True)
class Places:
    """One Neovim: its program and its directories."""

    nvim: str
    data: Path
    config: Path

    @property
    def start(self) -> Path:
        return self.data / "site" / "pack" / "drawbridge" / "start"

    @property
    def link(self) -> Path:
        return self.start / "drawbridge"

    @property
    def starter(self) -> Path:
        return self.start / "drawbridge-setup" / "plugin" / "drawbridge_setup.lua"


def plan_setup() -> Plan:
    places = _places()
    made = record.load(places.start)
    notes: list[str] = []
    wanted, steps = _wanted(places)
    link = _link_step(places.link, str(wanted), made, notes)
    starter = _starter_step(places, wanted, notes)
    steps += [step for step in (link, starter) if step.before != step.after]
    directories = made.directories if made else tuple(map(str, files.missing_directories(places.starter)))
    new = Record(directories=directories, link=str(wanted) if link.after == str(wanted) else None)

    def finish() -> None:
        record.save(places.start, new)
        _tidy(places, places.starter.parents[:2])

    done = f"Done: the plugin is set up for {places.nvim}. Restart Neovim, then check with :checkhealth drawbridge."
    return Plan(steps, done, f"Nothing to change in {places.start}.", notes, finish)


def plan_removal() -> Plan:
    places = _places()
    made = record.load(places.start)
    now = _leads_to(places.link)
    steps: list[Step] = []
    if now is not None and _is_replaceable(places.link, now, made):
        steps.append(Link(places.link, now, None))
    if (starter := files.read(places.starter)) is not None:
        steps.append(Change(places.starter, starter, None, keep=False))

    def finish() -> None:
        record.save(places.start, None)
        _tidy(places, [*places.starter.parents[:2], *map(Path, made.directories if made else ())])

    done = f"Done: what setup added to {places.start} was removed."
    return Plan(steps, done, f"Nothing to remove: {places.start} contains nothing from setup.", finish=finish)


def _places() -> Places:
    nvim = launcher.find_neovim()
    lua = "io.stdout:write(vim.fn.stdpath('data') .. '\\n' .. vim.fn.stdpath('config'))"
    data, config = _ask(nvim, lua, "report its directories").split("\n")
    return Places(nvim, Path(data), Path(config))


def _ask(nvim: str, lua: str, task: str) -> str:
    """The output of Lua code in a Neovim without any configuration. Raises ``ProgramFailed``. ``task``: what the code
    does, for the message."""
    command = [nvim, "-u", "NONE", "-i", "NONE", "-n", "--headless", "-c", f"lua {lua}", "-c", "qall!"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=NVIM_SECONDS, check=True, stdin=subprocess.DEVNULL
        ).stdout
    except OSError as error:
        why = f"it can't be run ({(error.strerror or 'unknown reason').lower()})"
    except subprocess.CalledProcessError as error:
        why = f"it exited with code {error.returncode}"
    except subprocess.TimeoutExpired:
        why = f"it did not answer within {NVIM_SECONDS} seconds"
    raise ProgramFailed(f"{nvim} did not {task}: {why}.")


def _wanted(places: Places) -> tuple[Path, list[Step]]:
    """The link's target, and the steps that create it. The target is the checkout that this command runs from, if that
    is permanent, otherwise a copy."""
    source = plugin.directory()
    if source.name != "runtime" and not is_passing(str(source)):
        return source, []
    copy = _copies() / copies.digest(source, PARTS)
    whole = copies.digest(copy, PARTS) == copy.name
    return copy, [] if whole else [Copy(copy, places.nvim)]


def _copies() -> Path:
    return copies.data_directory() / "nvim"


def _link_step(path: Path, wanted: str, made: Record | None, notes: list[str]) -> Link:
    now = _leads_to(path)
    if now is None and not os.path.lexists(path):
        return Link(path, None, wanted)
    if now is None:
        advice = "If it is not the plugin, move it elsewhere, then run this again."
        notes.append(f"{path} already exists and was not changed. {advice}")
        return Link(path, None, None)
    if now != wanted and not _is_replaceable(path, now, made):
        notes.append(f"{path} points to {now} and was not changed. Neovim loads the plugin from there.")
        return Link(path, now, now)
    return Link(path, now, wanted)


def _is_replaceable(path: Path, end: str, made: Record | None) -> bool:
    """Whether this link may be replaced, because setup made it or it is broken."""
    return (made is not None and made.link == end) or Path(end).is_relative_to(_copies()) or not path.exists()


def _leads_to(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _starter_step(places: Places, wanted: Path, notes: list[str]) -> Change:
    now, texts = files.read(places.starter), _configuration(places.config)
    for file in (file for file, text in texts.items() if STARTS.search(text)):
        notes.append(f"{file} mentions the plugin, so Drawbridge assumes that your configuration calls setup{{}}.")
        return Change(places.starter, now, None, keep=False)
    for file in (file for file, text in texts.items() if ALONE.search(text)):
        notes.append(f"{file} uses lazy.nvim, which loads only its own plugins: add Drawbridge there instead.")
    return Change(places.starter, now, STARTER.format(options=_options(wanted, notes)).encode(), keep=False)


def _options(wanted: Path, notes: list[str]) -> str:
    """The argument of ``setup{}``: the command to run; an empty table if the plugin finds the command automatically, or
    if Drawbridge is not installed permanently."""
    found = shutil.which("drawbridge")
    if (wanted / ".venv" / "bin" / "drawbridge").exists() or (found and not is_passing(found)):
        return "{}"
    if is_passing(sys.executable):
        notes.append(
            "`drawbridge` is not installed permanently. The plugin needs it on PATH: install it, for example with pipx."
        )
        return "{}"
    return f"{{ command = {{ {_lua(sys.executable)}, '-P', '-m', 'drawbridge' }} }}"


def _configuration(folder: Path) -> dict[Path, str]:
    """The texts of the user's own configuration files, at most ``MOST_FILES``, without comments."""
    texts = {}
    for file in islice((file for file in folder.rglob("*") if file.suffix in (".lua", ".vim")), MOST_FILES):
        with contextlib.suppress(OSError):
            texts[file] = REMARK.sub("", file.read_text("utf-8", "replace"))
    return texts


def _tidy(places: Places, directories: Iterable[Path]) -> None:
    """Removes copies that the link does not point to, and each of the ``directories`` that is empty."""
    copies.remove_unused(_copies(), lambda copy: _leads_to(places.link) == str(copy))
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()


def _lua(text: str) -> str:
    """A Lua literal that is safe in an Ex command, whatever the text contains."""
    return "'" + re.sub(rb"[^\w/.+@-]", lambda byte: b"\\%03d" % byte[0][0], os.fsencode(text)).decode() + "'"
