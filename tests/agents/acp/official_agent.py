"""An agent written with the protocol's official library (agent-client-protocol), independent of our implementation.

It does what the first word of a prompt asks for: ``say A|B`` (sends these pieces), ``edit PATH|NEW TEXT`` (asks, then
writes), ``part PATH|OLD|NEW`` (like ``edit``, for a part of a file), ``report PATH|NEW TEXT`` (like ``edit``, but the
diff comes before the question), ``change PATH|OLD|NEW`` (reports the call, asks, and reports how the call ended),
``leave PLAN`` (asks whether to carry out a plan), ``plan A|B`` (reports to-dos), ``offer NAME|HINT`` (reports a
command), ``wait`` (until the turn is canceled), ``read PATH`` (requests a file from the client), ``spend 0.5``
(reports a cost), ``remember`` (repeats all prompts), ``mode_is`` (sends its mode), ``refuse`` (ends with a refusal),
``fail`` (ends with an error). It stores its conversations in ``conversations.json`` in its directory.

With ``--lists``, conversations can be listed; with ``--resumes``, they can be resumed without being replayed. With
``--locked``, new conversations require a login. With ``--elsewhere``, ``report`` also reports another call.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema

MODES = [schema.SessionMode(id=id, name=id) for id in ("ask", "auto-edit", "plan", "yolo")]
OPTIONS = [
    schema.PermissionOption(option_id="always", name="Always", kind="allow_always"),
    schema.PermissionOption(option_id="once", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Official:
    def __init__(self) -> None:
        self._cancelled = asyncio.Event()
        self._kept = Path("conversations.json")
        self._mode = "ask"

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        sessions = schema.SessionCapabilities(
            resume=schema.SessionResumeCapabilities() if "--resumes" in sys.argv else None,
            list=schema.SessionListCapabilities() if "--lists" in sys.argv else None,
        )
        capabilities = schema.AgentCapabilities(load_session=True, session_capabilities=sessions)
        return schema.InitializeResponse(protocol_version=protocol_version, agent_capabilities=capabilities)

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        if "--locked" in sys.argv:
            raise acp.RequestError.auth_required({"message": "Who are you?"})
        id = str(uuid.uuid4())
        self._keep(id, [])
        modes = schema.SessionModeState(available_modes=MODES, current_mode_id="ask")
        return schema.NewSessionResponse(session_id=id, modes=modes)

    async def list_sessions(self, cursor: str | None = None, cwd: str | None = None, **_: Any) -> Any:
        """Returns one conversation per page, oldest first."""
        at, kept = int(cursor or 0), list(self._conversations().items())
        page = [
            schema.SessionInfo(
                session_id=id, cwd=cwd or "", title=words[0] if words else None, updated_at=f"2026-11-22T06:00:0{at}Z"
            )
            for id, words in kept[at : at + 1]
        ]
        following = str(at + 1) if at + 1 < len(kept) else None
        return schema.ListSessionsResponse(sessions=page, next_cursor=following)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        for words in self._conversations().get(session_id) or self._unknown(session_id):
            await self._client.session_update(session_id, acp.update_user_message_text(words))
            await self._client.session_update(session_id, acp.update_agent_message_text(words))
        return schema.LoadSessionResponse(modes=schema.SessionModeState(available_modes=MODES, current_mode_id="ask"))

    async def resume_session(self, cwd: str, session_id: str, **_: Any) -> schema.ResumeSessionResponse:
        if session_id not in self._conversations():
            self._unknown(session_id)
        return schema.ResumeSessionResponse()

    def _unknown(self, session_id: str) -> Any:
        raise acp.RequestError.resource_not_found(session_id)

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        self._mode = mode_id
        return schema.SetSessionModeResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        self._cancelled.clear()
        words = prompt[-1].text
        self._keep(session_id, [*self._conversations()[session_id], words])
        what, _, rest = words.partition(" ")
        reason = await getattr(self, f"_{what}", self._say)(session_id, *rest.split("|"))
        return schema.PromptResponse(stop_reason=reason or "end_turn")

    async def _say(self, session_id: str, *pieces: str) -> None:
        for piece in pieces:
            await self._client.session_update(session_id, acp.update_agent_message_text(piece))

    async def _remember(self, session_id: str, *_: str) -> None:
        await self._say(session_id, " / ".join(self._conversations()[session_id]))

    async def _mode_is(self, session_id: str, *_: str) -> None:
        await self._say(session_id, self._mode)

    async def _edit(self, session_id: str, path: str, new: str) -> str | None:
        old = Path(path).read_text() if Path(path).exists() else None
        if await self._may(session_id, path, old, new):
            Path(path).write_text(new)
        return "cancelled" if self._cancelled.is_set() else None

    async def _report(self, session_id: str, path: str, new: str) -> None:
        old = Path(path).read_text() if Path(path).exists() else None
        diff = acp.tool_diff_content(path, new, old)
        start = schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id="call-2",
            title="Editing",
            kind="edit",
            status="pending",
            content=[diff],
        )
        await self._client.session_update(session_id, start)
        if "--elsewhere" in sys.argv:  # a report about another call, which must not affect this one
            other = schema.ToolCallProgress(session_update="tool_call_update", tool_call_id="call-3", title="Other")
            await self._client.session_update(session_id, other)
        call = schema.ToolCallUpdate(tool_call_id="call-2", title="Edit files")
        answer = await self._client.request_permission(session_id=session_id, tool_call=call, options=OPTIONS)
        if getattr(answer.outcome, "option_id", "") == "once":
            Path(path).write_text(new)

    async def _change(self, session_id: str, path: str, old: str, new: str) -> None:
        before = Path(path).read_text()
        after = before.replace(old, new)
        id = str(uuid.uuid4())
        start = schema.ToolCallStart(
            session_update="tool_call", tool_call_id=id, title="Editing", kind="edit", status="pending",
            locations=[schema.ToolCallLocation(path=path)],
        )  # fmt: skip
        await self._client.session_update(session_id, start)
        diff = acp.tool_diff_content(path, after, before)
        call = schema.ToolCallUpdate(tool_call_id=id, title="Editing", kind="edit", content=[diff])
        answer = await self._client.request_permission(session_id=session_id, tool_call=call, options=OPTIONS)
        may = getattr(answer.outcome, "option_id", "") in ("once", "always")
        if may:
            Path(path).write_text(after)
        end = schema.ToolCallProgress(
            session_update="tool_call_update", tool_call_id=id, status="completed" if may else "failed",
            content=[diff] if may else [],
        )  # fmt: skip
        await self._client.session_update(session_id, end)
        await self._say(session_id, "Changed." if may else "Not changed.")

    async def _leave(self, session_id: str, plan: str) -> None:
        content = schema.ContentToolCallContent(type="content", content=acp.text_block(plan))
        call = schema.ToolCallUpdate(tool_call_id="plan", title="Ready to code?", kind="switch_mode", content=[content])
        answer = await self._client.request_permission(session_id=session_id, tool_call=call, options=OPTIONS)
        await self._say(session_id, f"I was told: {getattr(answer.outcome, 'option_id', 'cancelled')}")

    async def _part(self, session_id: str, path: str, old: str, new: str) -> None:
        if await self._may(session_id, path, old, new):
            Path(path).write_text(Path(path).read_text().replace(old, new))

    async def _may(self, session_id: str, path: str, old: str | None, new: str) -> bool:
        diff = acp.tool_diff_content(path, new, old)
        call = schema.ToolCallUpdate(tool_call_id="call-1", title=f"Edit {path}", kind="edit", content=[diff])
        answer = await self._client.request_permission(session_id=session_id, tool_call=call, options=OPTIONS)
        chosen = getattr(answer.outcome, "option_id", "cancelled")
        await self._say(session_id, f"I was told: {chosen}")
        return chosen in ("once", "always")

    async def _wait(self, session_id: str, *_: str) -> str:
        await self._cancelled.wait()
        return "cancelled"

    async def _read(self, session_id: str, path: str) -> None:
        try:
            await self._client.read_text_file(session_id=session_id, path=path)
        except acp.RequestError as error:
            await self._say(session_id, str(error))

    async def _spend(self, session_id: str, amount: str) -> None:
        cost = schema.Cost(amount=float(amount), currency="USD")
        await self._client.session_update(
            session_id, schema.UsageUpdate(session_update="usage_update", used=1, size=2, cost=cost)
        )

    async def _plan(self, session_id: str, *todos: str) -> None:
        entries = [schema.PlanEntry(content=todo, priority="medium", status="pending") for todo in todos]
        await self._client.session_update(session_id, schema.AgentPlanUpdate(session_update="plan", entries=entries))

    async def _offer(self, session_id: str, name: str, hint: str) -> None:
        typed = schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=hint))
        command = schema.AvailableCommand(name=name, description=f"What {name} does", input=typed)
        update = schema.AvailableCommandsUpdate(
            session_update="available_commands_update", available_commands=[command]
        )
        await self._client.session_update(session_id, update)

    async def _refuse(self, session_id: str, *_: str) -> str:
        return "refusal"

    async def _fail(self, session_id: str, *_: str) -> None:
        raise acp.RequestError.internal_error({"details": "It does not work today"})

    def _conversations(self) -> dict[str, list[str]]:
        return dict(json.loads(self._kept.read_text())) if self._kept.exists() else {}

    def _keep(self, id: str, words: list[str]) -> None:
        self._kept.write_text(json.dumps(self._conversations() | {id: words}))


if __name__ == "__main__":
    asyncio.run(acp.run_agent(cast(acp.Agent, Official()), use_unstable_protocol=True))
