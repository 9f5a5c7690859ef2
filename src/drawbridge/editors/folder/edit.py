"""Edits text in the user's own editor, in a private temporary file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Final, TextIO

from drawbridge.core.errors import Refused
from drawbridge.editors import files

STOP_SECONDS: Final = 2.0
"""Seconds that the user's editor has to restore the terminal when the bridge ends."""


async def edit(path: str, text: str, terminal: int | None, output: TextIO) -> str:
    """Returns ``text`` as the user saved it in the editor that $VISUAL or $EDITOR names (``vi`` if neither is set), in
    a file with the same name as ``path``.

    Raises ``Refused`` if that editor can't be run, fails or removes the file, and ``UnusableFile`` if the saved file is
    not a text file.
    """
    directory = await asyncio.to_thread(tempfile.mkdtemp, prefix="drawbridge-")  # 0700
    try:
        file = Path(directory, os.path.basename(path) or "proposal.txt")
        await asyncio.to_thread(file.write_bytes, text.encode("utf-8", "surrogateescape"))
        await _run_editor(file, terminal, output)
        edited = await asyncio.to_thread(files.read_text, str(file))
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
    if edited is None:
        raise Refused("The edited file was removed. The proposal is unchanged.")
    return edited


async def _run_editor(file: Path, terminal: int | None, output: TextIO) -> None:
    named = (os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))
    command = next(filter(None, named), "vi")
    screen = _descriptor(output)
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            str(file),
            stdin=terminal if terminal is not None and os.isatty(terminal) else asyncio.subprocess.DEVNULL,
            stdout=screen,
            stderr=screen,
        )
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise Refused(
            f"{command} can't be started: {reason}. The proposal is unchanged. Set $VISUAL or $EDITOR to your editor."
        ) from None
    try:
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
        if process.returncode is None:
            process.kill()
            await process.wait()
    if status:
        how = f"exited with code {status}" if status > 0 else f"was killed by signal {-status}"
        raise Refused(f"{command} {how}. The proposal is unchanged.")


def _descriptor(output: TextIO) -> int:
    try:
        return output.fileno()
    except (OSError, ValueError):
        return asyncio.subprocess.DEVNULL
