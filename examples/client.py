"""A small client of `drawbridge serve`: runs one prompt, shows the agent's messages, and asks you for its approvals.

    python examples/client.py URL DATA_DIRECTORY PROJECT_DIRECTORY AGENT PROMPT

`drawbridge serve` shows the URL, and the path of the token file in the data directory. Requires the `websockets`
package. If the connection is lost, the client reconnects automatically and continues after the last message that it has
received.
"""

import asyncio
import json
import ssl
import sys
import uuid
from contextlib import suppress
from pathlib import Path

from websockets import ConnectionClosed, connect


class Client:
    def __init__(self, directory, agent, prompt):
        self.directory, self.agent, self.prompt = directory, agent, prompt
        self.request_id = str(uuid.uuid4())  # an execute with the same one never runs twice
        self.project = self.run = self.seq = None  # seq is the cursor: everything up to it was received
        self.outcomes, self.answered = {}, set()

    async def talk(self, socket):
        self.socket = socket
        await self.send("project_list")
        while self.run not in self.outcomes:
            message = json.loads(await socket.recv())
            self.seq = message.get("seq", self.seq)
            await self.receive(message["type"], message["data"])
        return self.outcomes[self.run]

    async def send(self, type, request_id=None, **data):
        message = {"type": type, "project_id": self.project, "request_id": request_id, "data": data}
        await self.socket.send(json.dumps(message))

    async def receive(self, type, data):
        match type, data:
            case "project_list", {"projects": projects}:
                self.project = next((one["id"] for one in projects if one["path"] == self.directory), None)
                if self.project is None:
                    await self.send("project_create", path=self.directory, agent=self.agent)
                    return await self.send("project_list")
                await self.send("project_join", after_seq=self.seq)
            case "update", {"update_type": "project_joined", "data": {"open_approvals": questions}}:
                await self.send("execute", self.request_id, prompt=self.prompt)
                for question in questions:
                    await self.ask(question)
            case "accepted", {"run_id": run}:
                self.run = run
            case "agent_message", {"direction": "claude", "messages": [{"type": "assistant", "message": said}]}:
                print(*(one.get("text") or f"[{one.get('name', one['type'])}]" for one in said["content"]), sep="\n")
            case "permission_request", question:
                await self.ask(question)
            case "update", {"update_type": "run_finished", "data": {"run_id": run, "outcome": outcome}}:
                self.outcomes[run] = outcome
            case "error", {"code": code, "message": text} if code != "APPROVAL_RESOLVED":  # another client was quicker
                raise SystemExit(f"{code}: {text}")

    async def ask(self, question):
        if question["approval_id"] in self.answered:
            return
        given, answer = question["input"], {"decision": "deny"}
        if question.get("kind") == "question":
            answers = {one["question"]: await self.read(f"{json.dumps(one, indent=2)}\n") for one in given["questions"]}
            answer = {"decision": "allow", "updated_input": {**given, "answers": answers}}
        elif (
            (await self.read(f"{question['tool_name']} {json.dumps(given, indent=2)}\n[y/n] ")).lower().startswith("y")
        ):
            answer = {"decision": "allow"}
        self.answered.add(question["approval_id"])
        await self.send("permission_response", approval_id=question["approval_id"], **answer)

    async def read(self, words):
        return await asyncio.to_thread(input, words)


async def main(client, url, data):
    headers = {"Authorization": f"Bearer {(Path(data) / 'token').read_text().strip()}"}
    tls = ssl.create_default_context(cafile=Path(data) / "tls" / "cert.pem") if url.startswith("wss:") else None
    async for socket in connect(url, additional_headers=headers, ssl=tls, proxy=None):
        with suppress(ConnectionClosed):  # connect() tries again, at growing intervals
            return await client.talk(socket)


print(asyncio.run(main(Client(*sys.argv[3:6]), *sys.argv[1:3])))
