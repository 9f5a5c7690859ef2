"""``drawbridge setup vscode``: the extension, packed here and installed by the editor's own command."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import drawbridge
from drawbridge.core.errors import NoProgram
from drawbridge.setup import copies, record, vsix
from drawbridge.setup.plan import Plan
from drawbridge.setup.programs import output_of
from drawbridge.setup.record import Record

PROGRAMS = ("code", "code-insiders", "codium", "cursor", "windsurf", "code-server")
"""VS Code, its Insiders build and compatible editors, in the order in which they are tried."""


@dataclass(frozen=True)
class Install:
    """The step that makes the editor install the extension. ``path``: the extension's folder."""

    program: str
    path: Path
    identity: str
    kind: str = "create"

    def lines(self) -> list[str]:
        return [f"+ {self.program} --install-extension {self.identity}.vsix"]

    def apply(self) -> None:
        with tempfile.TemporaryDirectory(prefix="drawbridge-") as directory:
            packed = Path(directory) / f"{self.identity}.vsix"
            vsix.pack(self.path, packed)
            output_of(self.program, "--install-extension", str(packed), "--force")


@dataclass(frozen=True)
class Uninstall:
    program: str
    path: Path
    identity: str
    kind: str = "delete"

    def lines(self) -> list[str]:
        return [f"- {self.program} --uninstall-extension {self.identity}"]

    def apply(self) -> None:
        output_of(self.program, "--uninstall-extension", self.identity)


def plan(program: str | None, *, remove: bool) -> Plan:
    """The plan for the extension. ``program``: the editor's command (default: the first of ``PROGRAMS`` on PATH).
    Raises ``NoProgram`` if the command is not found, ``ProgramFailed`` if it fails, and ``UnusableFile`` if the extension
    is missing or damaged."""
    found, folder = _find(program), extension_directory()
    package = vsix.manifest(folder)
    identity = f"{package['publisher']}.{package['name']}"
    listed = dict(line.partition("@")[::2] for line in output_of(found, "--list-extensions", "--show-versions").split())
    there = {name.lower(): version for name, version in listed.items()}.get(identity.lower())
    if remove:
        return Plan(
            [] if there is None else [Uninstall(found, folder, identity)],
            done=f"Done: the extension was removed from {found}. Open windows keep it until they are reloaded.",
            nothing=f"Nothing to remove: {identity} is not installed in {found}.",
            finish=lambda: _forget(found),
        )
    content = copies.digest(folder, (str(file.relative_to(folder)) for file in vsix.files(folder)))
    made = record.load(Path(found))
    # The version alone does not show whether the extension is current: between releases, it stays the same.
    current = there == package["version"] and made is not None and made.content == content
    return Plan(
        [] if current else [Install(found, folder, identity)],
        done=f"Done: the extension was installed in {found}. Reload open windows to use it.",
        nothing=f"Nothing to change: {identity} {there} is installed in {found}.",
        finish=lambda: record.save(Path(found), Record(content=content)),
    )


def _forget(program: str) -> None:
    record.save(Path(program), None)
    with contextlib.suppress(OSError):
        copies.data_directory().rmdir()


def extension_directory() -> Path:
    """The extension's folder: inside this package if it is installed from a wheel, otherwise in the checkout."""
    package = Path(drawbridge.__file__).parent
    installed = package / "runtime" / "vscode"
    return installed if installed.is_dir() else package.parent.parent / "extensions" / "vscode"


def _find(program: str | None) -> str:
    for name in [os.path.expanduser(program)] if program else PROGRAMS:
        if found := shutil.which(name):
            return found
    missing = (
        f"{program} does not exist or is not executable" if program else f"None of {', '.join(PROGRAMS)} is on PATH"
    )
    raise NoProgram(f"{missing}. Install VS Code's command, or give its path with --program PATH.")
