"""The Neovim editor. Its other half is ``lua/drawbridge/``: Lua does what requires Neovim itself, such as opening
windows and reading buffers, while diffs and positions are computed in Python.

Except at startup and for transfers of text, each call is one ``require('drawbridge.link').handle(method, params)`` in
Neovim, which answers ``{ok, value}`` or ``{ok, code, message}``. Lua reports with ``rpcnotify(channel, 'drawbridge',
event, payload)``. A column is sent as a number if the line is ASCII up to it, otherwise as the bytes before it, from
which the column in UTF-16 code units is computed here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from drawbridge import text
from drawbridge.core import plugin
from drawbridge.core.errors import DrawbridgeError, Refused, UnusableFile
from drawbridge.editors.neovim import rpc as neovim_rpc
from drawbridge.editors.neovim.reviews import NeovimReviews
from drawbridge.editors.neovim.rpc import Session
from drawbridge.editors.port import (
    DIAGNOSTICS_LIMIT,
    SELECTION_LIMIT,
    BridgeState,
    BufferStatus,
    Diagnostic,
    FileDiagnostics,
    FoldersChanged,
    Gone,
    Level,
    Listener,
    Mentioned,
    OpenedFile,
    OpenRequest,
    Overwritten,
    Position,
    Range,
    Review,
    ReviewCommented,
    ReviewCommentRemoved,
    ReviewCommentResolved,
    ReviewDecided,
    ReviewOutdated,
    ReviewSeen,
    ReviewSubmitted,
    ReviewWanted,
    Selection,
    SelectionChanged,
    Severity,
    Tab,
    TerminalsChanged,
)

ADD_RUNTIME: Final = """
local found = vim.api.nvim_get_runtime_file('lua/drawbridge/link.lua', false)
if not package.loaded['drawbridge.link'] and #found == 0 then
  vim.o.runtimepath = vim.o.runtimepath .. ',' .. vim.fn.escape(..., '\\\\,')
end
if not vim.g.loaded_drawbridge then
  vim.cmd('runtime plugin/drawbridge.lua')
end
return require('drawbridge.link').REVISION
"""
"""The Lua code that loads the plugin and returns its revision. It looks for the file first, because ``require`` alone
would run a ``drawbridge/link.lua`` in the current directory."""

REVISION: Final = 7
"""The version of the messages between the two halves. ``link.lua`` has the same number."""

NOT_SHOWN: Final = (
    "The agent's terminal did not show exactly the prompt that was pasted, so it was not sent. Someone may have typed there. "
    "Try again later."
)

CLOSE_SECONDS: Final = 1.0
"""Seconds to wait for a busy Neovim when the bridge ends. Neovim notices the closed connection in any case."""

PASTE_SECONDS: Final = 2.0
"""Seconds that an agent in a terminal has to show pasted text. On an idle machine, it took 0.1 to 0.3 s."""

PASTE_LOOK_SECONDS: Final = 0.03

SEVERITIES: Final[dict[int, Severity]] = {1: "Error", 2: "Warning", 3: "Info", 4: "Hint"}

ERRORS: Final[dict[str, type[DrawbridgeError]]] = {"REFUSED": Refused, "UNUSABLE_FILE": UnusableFile}

logger = logging.getLogger("drawbridge.neovim")


class Neovim:
    """A running Neovim (0.7.2 and newer), created by ``connect`` or ``stdio``. Call ``start`` next."""

    name = "Neovim"

    def __init__(self, session: Session) -> None:
        self._session = session
        self._listener: Listener | None = None
        self._pid = 0
        self._attached = False
        self._reviews = NeovimReviews(session, self._ask)
        self.show = self._reviews.show
        self.proposed_text = self._reviews.proposed_text
        self.withdraw = self._reviews.withdraw

    @classmethod
    async def connect(cls, address: str) -> Neovim:
        """The Neovim that listens on ``address``: the path of a socket, or ``host:port``. Raises ``EditorGone``."""
        return cls(await neovim_rpc.connect(address))

    @classmethod
    async def stdio(cls) -> Neovim:
        """The Neovim that started this process with ``jobstart(..., {'rpc': v:true})``. Raises ``EditorGone``.

        From then on, stdout carries only messages to Neovim, and printed text goes to stderr.
        """
        return cls(await neovim_rpc.inherited())

    @property
    def pid(self) -> int:
        """Neovim's process id; 0 before ``start``."""
        return self._pid

    async def start(self, listener: Listener) -> None:
        """Attaches to the plugin. Raises ``Refused`` if it has a different version or serves another bridge."""
        self._session.listen(self._heard, self._ended)
        channel = (await self._session.call("nvim_get_api_info"))[0]
        revision = await self._session.call("nvim_exec_lua", ADD_RUNTIME, [str(plugin.directory())])
        if revision != REVISION:
            raise Refused(
                f"The Drawbridge plugin in this Neovim has protocol revision {revision}, but this bridge has "
                f"{REVISION}. Update both to the same version, then restart Neovim."
            )
        self._listener = listener
        answer = await self._ask("attach", channel=channel)
        self._pid, self._attached = answer["pid"], True

    async def close(self) -> None:
        self._listener = None
        if self._attached and not self._session.is_gone:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._ask("detach")
            except (DrawbridgeError, TimeoutError) as error:
                logger.info("Neovim did not confirm that the bridge ended: %s", str(error) or "no answer")
        self._session.close()
        await self._reviews.close()

    async def announce(self, state: BridgeState) -> None:
        await self._ask(
            "announce", port=state.port, token=state.token, agents=state.agents, pids=state.pids, unasked=state.unasked
        )

    async def folders(self) -> tuple[str, ...]:
        return tuple(await self._ask("folders"))

    async def selection(self) -> Selection | None:
        found = await self._ask("selection")
        return _selection(found) if found else None

    async def tabs(self) -> Sequence[Tab]:
        return [
            Tab(tab["path"], tab["active"], tab["modified"], tab["language"], tab["line_count"])
            for tab in await self._ask("tabs")
        ]

    async def diagnostics(self, path: str | None) -> Sequence[FileDiagnostics]:
        found = await self._ask("diagnostics", path=path, limit=DIAGNOSTICS_LIMIT)
        return [FileDiagnostics(file["path"], tuple(map(_diagnostic, file["diagnostics"]))) for file in found]

    async def status(self, path: str) -> BufferStatus | None:
        found = await self._ask("status", path=path)
        return BufferStatus(found["modified"], found["untitled"]) if found else None

    async def unsaved_text(self, path: str) -> str | None:
        found = await self._ask("unsaved", path=path)
        if not found:
            return None
        lines = await self._session.call("nvim_buf_get_lines", found["buffer"], 0, -1, False)
        return text.join(
            [] if found["empty"] else lines, text.Format(found["eol"], found["bom"], found["final_newline"])
        )

    async def save(self, path: str) -> None:
        await self._ask("save", path=path)

    async def open_file(self, request: OpenRequest) -> OpenedFile:
        found = await self._ask(
            "open",
            path=request.path,
            focus=request.focus,
            start_text=request.start_text,
            end_text=request.end_text,
            to_end_of_line=request.to_end_of_line,
        )
        return OpenedFile(request.path, found["language"], found["line_count"], found["found"])

    async def written(self, path: str, text: str, proposal_id: str) -> None:
        await self._ask("written", path=path, id=proposal_id)

    async def overwritten(self, path: str) -> Overwritten | None:
        found: Overwritten | None = await self._ask("overwritten", path=path)
        return found

    async def reload(self, directory: str) -> None:
        await self._ask("reload", directory=directory)

    async def show_review(self, review: Review | None, *, is_wanted: bool) -> None:
        await self._ask("show_review", review=msgspec.to_builtins(review), wanted=is_wanted)

    async def suggested(self, window: int, *, is_added: bool) -> None:
        await self._ask("suggested", window=window, is_added=is_added)

    async def copy(self, text: str) -> str:
        return str(await self._ask("copy", text=text))

    async def notify(self, message: str, level: Level = "info") -> None:
        await self._ask("tell", message=message, level=level)

    async def type_prompt(self, terminal: int, text: str) -> None:
        await self._ask("paste", pid=terminal, text=text, before=_soon())
        until = time.monotonic() + PASTE_SECONDS
        try:
            while not await self._ask("submit", pid=terminal, before=_soon()):
                if time.monotonic() > until:
                    raise Refused(NOT_SHOWN)
                await asyncio.sleep(PASTE_LOOK_SECONDS)
        except Refused:
            with contextlib.suppress(Refused):  # the terminal may have been closed
                await self._ask("take_back", pid=terminal)
            raise

    async def _ask(self, method: str, **params: Any) -> Any:
        """Calls a function of the Lua plugin and returns its result. Parameters that are None are omitted. Raises ``Refused``,
        ``UnusableFile`` or what ``Session.call`` raises."""
        given = {name: value for name, value in params.items() if value is not None}
        answer = await self._session.lua(method, given)
        if answer["ok"]:
            return answer.get("value")
        raise ERRORS.get(answer["code"], neovim_rpc.NeovimError)(answer["message"])

    def _heard(self, method: str, params: list[Any]) -> None:
        match method, params:
            case "drawbridge", [str(event), dict(payload)]:
                try:
                    self._report(event, payload)
                except (KeyError, TypeError, ValueError):
                    logger.exception("An event from the plugin could not be read: %s", event)

    def _report(self, event: str, payload: dict[str, Any]) -> None:
        if event == "leaving":
            self._session.close()
        elif self._listener is None:
            return
        elif event == "selection":
            self._listener(SelectionChanged(_selection(payload)))
        elif event == "mentioned":
            lines = (payload["first"], payload["last"]) if "first" in payload else None
            self._listener(Mentioned(payload["path"], lines))
        elif event == "terminals":
            self._listener(TerminalsChanged(tuple(payload["pids"])))
        elif event == "folders":
            self._listener(FoldersChanged(tuple(payload["folders"])))
        elif event == "review_wanted":
            self._listener(ReviewWanted(payload["folder"], payload["path"], payload["only_new"]))
        elif event == "review_outdated":
            self._listener(ReviewOutdated())
        elif event == "review_seen":
            self._listener(ReviewSeen(tuple(payload["hunks"])))
        elif event == "review_decided":
            self._listener(
                ReviewDecided(
                    payload["decision"],
                    payload["version"],
                    payload.get("hunk"),
                    payload.get("file"),
                    payload.get("all", False),
                )
            )
        elif event == "review_commented":
            self._listener(
                ReviewCommented(
                    payload["file"],
                    payload["line"],
                    payload["end_line"],
                    payload["quote"],
                    payload["text"],
                    payload.get("suggestion"),
                    payload.get("window"),
                    payload.get("id"),
                )
            )
        elif event == "review_comment_removed":
            self._listener(ReviewCommentRemoved(payload["comment"]))
        elif event == "review_comment_resolved":
            self._listener(ReviewCommentResolved(payload["comment"], payload["resolved"]))
        elif event == "review_submitted":
            self._listener(ReviewSubmitted(payload["drafts"], payload["text"]))
        elif (decided := self._reviews.heard(event, payload)) is not None:
            self._listener(decided)

    def _ended(self) -> None:
        self._reviews.cancel()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener(Gone())


def _soon() -> float:
    """The latest time (in seconds since 1970) at which a call that is made now may be executed: one second before its
    timeout.
    """
    return time.time() + neovim_rpc.CALL_SECONDS - 1


def _position(value: dict[str, Any]) -> Position:
    column = value["column"]
    return Position(value["line"], column if isinstance(column, int) else text.utf16_length(column))


def _selection(value: dict[str, Any]) -> Selection:
    span = Range(_position(value["start"]), _position(value["end"]))
    return Selection(value["path"], value["text"][:SELECTION_LIMIT], span)


def _diagnostic(value: dict[str, Any]) -> Diagnostic:
    return Diagnostic(
        message=value["message"],
        severity=SEVERITIES.get(value["severity"], "Error"),
        range=Range(_position(value["start"]), _position(value["end"])),
        source=value.get("source"),
        code=value.get("code"),
    )
