"""A real ``claude`` in a terminal, and a client of the server on another device."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.e2e.guard.workstation import GuardedWorkstation
from tests.rigs.claude_rig import Claude
from tests.rigs.messages_stub import Block, MessagesStub, text, tool_use, write
from tests.server.processes import Server
from tests.server.wire_client import WireClient

Message = dict[str, Any]


class Models(MessagesStub):
    """A scripted model with a script for each subagent. Words in the subagent's task select the script."""

    def __init__(self) -> None:
        super().__init__()
        self._of_subagents: dict[str, list[Block]] = {}
        self._plan = ""

    def subagent_will_say(self, task: str, *turns: Block) -> None:
        self._of_subagents[task] = list(turns)

    def will_plan(self, plan: str, *turns: Block) -> None:
        """Scripts the model to write a plan to the file that the CLI names, to present the plan, and to continue with
        ``turns`` once a decision on it has been made.
        """
        self._plan = plan
        self.will_say(tool_use("ExitPlanMode"), *turns)

    def answer(self, body: dict[str, Any]) -> list[Block]:
        begins_with = json.dumps(body["messages"][:2])
        for task, turns in self._of_subagents.items():
            if body.get("tools") and task in begins_with:
                return [turns.pop(0) if turns else text("The task is done.")]
        planned = re.search(r"create your plan at (\S+\.md)", begins_with)
        if body.get("tools") and self._plan and planned:
            plan, self._plan = self._plan, ""
            return [write(Path(planned[1]), plan)]
        return super().answer(body)


class ServedWorkstation(GuardedWorkstation):
    """A workstation on which ``drawbridge setup claude`` is run before the first ``claude`` starts."""

    model: Models

    def plain_claude(self, *flags: str) -> Claude:
        """Starts the CLI in a terminal, as a person does."""
        if "claude" not in self.guards:
            self.set_up()
        return self.unconnected_claude(*flags)


class Phone:
    """A client that follows all projects and approval requests."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.project = ""

    async def follow(self) -> None:
        await self.client.ask("subscribe", {"topics": ["projects", "approvals"]})

    async def session(self, **fields: Any) -> Message:
        """Joins the next terminal session that appears. Returns its description."""
        created = await self.client.receive("update", "project_created")
        info: Message = created["data"]["data"]
        self.project = info["id"]
        assert info["desk"], info
        await self.client.ask("project_join", project_id=self.project)
        return info

    async def question(self, tool: str) -> Message:
        """Waits for the next approval request about this tool. Returns its data."""
        received = await self.client.receive("permission_request", tool_name=tool)
        data: Message = received["data"]
        return data

    async def answer(self, question: Message, decision: str, **more: Any) -> Message:
        given = {"approval_id": question["approval_id"], "decision": decision, **more}
        return await self.client.ask("permission_response", given, self.project)

    async def withdrawn(self, question: Message) -> str:
        """Waits until the request is withdrawn. Returns the reason."""
        received = await self.client.receive("update", "permission_withdrawn", approval_id=question["approval_id"])
        reason: str = received["data"]["data"]["reason"]
        return reason

    async def state(self, state: str) -> Message:
        """Waits until the session is in that state. Returns its description."""
        while True:
            received = await self.client.receive("update", "project_state")
            info: Message = received["data"]["data"]
            if info["id"] == self.project and info["desk"]["state"] == state:
                return info


@contextlib.asynccontextmanager
async def following(server: Server) -> AsyncIterator[Phone]:
    async with server.client() as client:
        phone = Phone(client)
        await phone.follow()
        yield phone
