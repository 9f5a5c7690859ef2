"""The terminal client's view of the server: the connection, the state that the server sent, and what the user can
do.
"""

from __future__ import annotations

import base64
import contextlib
import getpass
import json
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from drawbridge.core.review_memory import ReviewMemory
from drawbridge.tui import wording
from drawbridge.tui.connection import Connection, Message, RequestError
from drawbridge.tui.conversation import Conversation, Record, record_in, record_of
from drawbridge.tui.review.reviews import Reviews
from drawbridge.tui.server_address import ServerAddress
from drawbridge.tui.store import Project, Projects

PAGE: Final = 120
"""The number of records in one page of history."""

TOO_FAR: Final = 1_000
"""A client that is behind by more than this number of records reloads the end of the conversation instead of everything
that it missed.
"""

MESSAGE_BYTES: Final = 900_000
PIECE_BYTES: Final = 300_000


FAR_BACK: Final = 20
"""The maximum number of pages in which the client looks for the end of one of its prompts."""

LONGEST_SHOWN: Final = 100
"""The maximum number of characters of a prompt that a message about it shows."""


class Unsent(NamedTuple):
    """A prompt that the server has not confirmed. ``id``: the request's id, by which a prompt that is sent twice runs
    only once. ``steer``: whether it is added to the active run."""

    id: str
    project: str
    prompt: str
    steer: bool = False


class Sent(NamedTuple):
    """A prompt that waits for its run. ``seq``: its record in the history; 0 if it has none."""

    project: str
    prompt: str
    seq: int


class Client:
    """The state that the screens draw, and the requests to the server. ``report_to`` connects it to the screens."""

    def __init__(self, find: Callable[[], ServerAddress], name: str | None = None) -> None:
        self.name = name or own_name()
        self.connection = Connection(
            find,
            self.name,
            on_message=self._received,
            on_state=lambda: self.on_change(),
            on_open=lambda: self.on_open(),
        )
        self.projects = Projects()
        self.reviews = Reviews()
        self.memory = ReviewMemory()
        self.conversation: Conversation | None = None
        self.unsent: list[Unsent] = []
        self._sent: dict[str, Sent] = {}
        """Maps a run's id to this client's prompt that waits for the run."""
        self.features: frozenset[str] | None = None
        """The message types that the server accepts from this client; None until it has reported them."""
        self.modes: frozenset[str] | None = None
        """The permission modes that this server accepts; None if it reports none or has not reported them yet."""
        self.mode_offers: Sequence[Mapping[str, Any]] = ()
        """The modes that the server describes: each with a ``name`` and, if it has one, a ``title``."""
        self._ids: set[str] = set()
        """The ids that the server gave this client, which gets a new one on every connection."""
        self.scope = ""
        """The scope of this device, which determines what the device may do; empty until the server has reported it."""
        self.agents: list[str] = []
        """The agents that a new project can have, installed or not, the default one first."""
        self._agent_words: Sequence[Mapping[str, Any]] = ()
        """The agents that the server describes: each with a ``name``, a ``label`` and its ``tools``."""
        self.acts: Mapping[str, str] = {}
        """Maps a tool of any agent to what it does, as the server describes it."""
        self.on_change: Callable[[], None] = lambda: None
        self.on_refused: Callable[[Unsent, RequestError], None] = lambda unsent, error: None
        self.on_project_removed: Callable[[], None] = lambda: None
        self.on_warning: Callable[[str], None] = lambda words: None
        self.on_open: Callable[[], None] = lambda: None

    def report_to(
        self,
        *,
        on_change: Callable[[], None],
        on_refused: Callable[[Unsent, RequestError], None],
        on_project_removed: Callable[[], None],
        on_warning: Callable[[str], None],
        on_open: Callable[[], None],
    ) -> None:
        """Calls ``on_change`` when any state has changed, ``on_refused`` with a refused prompt and the reason,
        ``on_project_removed`` when the shown project was removed, ``on_warning`` with a message for the user, and
        ``on_open`` on each new connection. They must not block."""
        self.on_change = on_change
        self.on_refused = on_refused
        self.on_project_removed = on_project_removed
        self.on_warning = on_warning
        self.on_open = on_open

    def may(self, type: str) -> bool:
        return self.features is None or type in self.features

    @property
    def in_terminal(self) -> bool:
        """Whether the shown project is a terminal session."""
        project = self.project
        return project is not None and bool(project.get("desk"))

    @property
    def may_prompt(self) -> bool:
        project = self.project or {}
        return self.may("execute") and (not self.in_terminal or bool(project["desk"].get("prompts")))

    def steers(self, project: str) -> bool:
        """Whether a message can be added to the active run of a project. False if the project is not the shown one."""
        conversation = self.conversation
        if conversation is None or conversation.id != project or self.in_terminal:
            return False
        return conversation.run is not None and bool(conversation.offers.get("steer"))

    @property
    def project(self) -> Project | None:
        """The shown project; None if no project is shown, or if the server has not sent it."""
        return self.projects.all.get(self.conversation.id) if self.conversation is not None else None

    async def begin(self) -> None:
        """Sends the first requests on a connection: reports this client's name, subscribes to projects and approval
        requests, requests the list of projects, and joins the shown project, if any.

        Raises ``RequestError``, for example if the connection breaks. ``begin`` is called again on the next connection.
        """
        ask = self.connection.ask
        hello = (await ask("hello", {"client": self.connection.name}))["data"]
        self.features = frozenset(hello["features"])
        self.modes = frozenset(hello["modes"]) if "modes" in hello else None
        self.mode_offers = hello.get("mode_offers", ())
        self.agents = list(hello["agents"])
        self._agent_words = hello.get("agent_words", ())
        self.acts = {tool: act for agent in self._agent_words for tool, act in agent.get("tools", {}).items()}
        self.name = hello["device"]["name"] or self.name
        self.scope = str(hello["device"].get("scope", ""))
        self._ids.add(hello["client_id"])
        self.reviews.begin()
        await ask("unsubscribe", {"topics": ["stats"]})
        await ask("subscribe", {"topics": ["projects", "approvals"]})
        await ask("project_list")
        await self._join()

    async def choose(self, id: str | None) -> None:
        """Shows a project, or none if ``id`` is None. Raises ``RequestError``."""
        before = self.conversation
        if before is not None and before.id == id:
            return
        self.conversation = None if id is None else Conversation(id)
        self.on_change()
        if before is not None:
            await self._ask("project_leave", project=before.id)
        await self._join()

    # User actions.

    async def execute(self, prompt: str, *, steer: bool = False) -> None:
        """Sends a prompt. ``steer``: adds it to the active run."""
        assert self.conversation is not None
        one = Unsent(str(uuid.uuid4()), self.conversation.id, prompt, steer)
        self.unsent.append(one)
        self.on_change()
        try:
            data = {"prompt": prompt, **({"steer": True} if steer else {"options": {"partial_messages": True}})}
            await self.connection.ask("execute", data, project=one.project, id=one.id, lasting=True)
        except RequestError as error:
            self.on_refused(one, error)
        finally:
            if one in self.unsent:
                self.unsent.remove(one)
            self.on_change()

    async def answer(
        self,
        approval_id: str,
        *,
        allow: bool,
        message: str = "",
        input: Message | None = None,
        remember: bool = False,
    ) -> None:
        """Sends a decision on an open approval request. Raises ``RequestError``, but not if the server refuses the
        decision because it has already recorded the same one from this terminal."""
        project = self._id  # another project may be shown by the time that a large input has been sent
        data: Message = {"approval_id": approval_id, "decision": "allow" if allow else "deny"}
        data |= {"message": message} if message else {}
        data |= {"remember": True} if remember else {}
        data |= await self._input(input) if input is not None else {}
        try:
            await self.connection.ask("permission_response", data, project=project, lasting=True)
        except RequestError as error:
            # After a lost connection the decision is sent again. The server may have recorded the first copy.
            mine = self.is_mine(error.details) and error.details.get("decision") == data["decision"]
            if error.code != "APPROVAL_RESOLVED" or not mine:
                raise

    def is_mine(self, answer: Mapping[str, Any]) -> bool:
        """Whether an approval request was answered from this terminal. The name alone does not show that, because
        another client may have the same one."""
        return answer.get("client_id") in self._ids and answer.get("by") == self.name

    def called(self, answer: Mapping[str, Any]) -> str:
        """The name to show for the other client that gave ``answer``."""
        by = str(answer.get("by"))
        return f"Another client ({by})" if by == self.name else by

    def agent_label(self, agent: str) -> str:
        """An agent's display name at the beginning of a sentence."""
        return wording.agent_label(agent, self._agent_words)

    async def agent_list(self) -> list[Message]:
        """The agents that a new project can have, the default one first: each with its ``name``, its ``title``, whether
        it is ``installed`` and, if it is not, a ``hint`` about that. Raises ``RequestError``."""
        listed: list[Message] = (await self._ask("agent_list"))["data"]["agents"]
        return listed

    async def command(self, type: str, data: Message | None = None) -> Message:
        """Sends a command about the shown project, and returns the answer. Raises ``RequestError``."""
        return await self.connection.ask(type, data, project=self._id)

    async def add_project(self, path: str, agent: str) -> str:
        """Creates a project and returns its id. Raises ``RequestError``."""
        answer = await self._ask("project_create", {"path": path, "agent": agent})
        self.projects.apply(answer)
        return str(answer["project_id"])

    async def older(self) -> None:
        """Loads one more page of older messages. Raises ``RequestError``."""
        conversation = self.conversation
        if conversation is not None and conversation.joined and conversation.has_older:
            first = conversation.first
            page = (await self.command("get_messages", {"before_seq": first, "limit": PAGE}))["data"]
            if conversation.first == first:  # otherwise, another part is in memory by now
                conversation.prepend(map(record_in, page["messages"]), has_more=page["has_more"])
            self.on_change()

    async def newer(self) -> None:
        """Adds a page of newer messages if the end is not in memory. Raises ``RequestError``."""
        conversation = self.conversation
        if conversation is not None and not conversation.at_end:
            answer = await self.command("get_messages", {"after_seq": conversation.last, "limit": PAGE})
            conversation.append(map(record_in, answer["data"]["messages"]))
            self.on_change()

    async def prompt_of(self, queued: Mapping[str, Any]) -> str:
        """The whole prompt of a queue entry. Raises ``RequestError``."""
        if not queued.get("cut"):
            return str(queued["prompt"])
        record = await self.whole(f"{self._id}:{queued['seq']}")
        return str(record["message"]["message"]["prompt"])

    async def around(self, seq: int) -> None:
        """Loads the part of the history that contains the record ``seq``, unless that record is in memory. Raises
        ``RequestError``."""
        conversation = self.conversation
        if conversation is not None and not conversation.first <= seq <= conversation.last:
            conversation.jump(min(seq + PAGE // 2, conversation.cursor))
            await self.older()

    async def latest(self) -> None:
        """Loads the end of the conversation, unless it is in memory. Until the server has sent it, the conversation
        stays as it is. Raises ``RequestError``."""
        if self.conversation is not None and not self.conversation.at_end:
            await self._join()

    async def whole(self, blob_id: str) -> Message:
        """The complete record of a message that was received as a preview. Raises ``RequestError``."""
        found = bytearray()
        last = False
        while not last:
            answer = await self._ask("blob_get", {"blob_id": blob_id, "offset": len(found)})
            piece = base64.b64decode(answer["data"]["data"])
            found += piece
            last = answer["data"]["last"] or not piece
        record: Message = json.loads(found)
        return record

    async def review(self, project: str) -> Message:
        """The open review of a project. Raises ``RequestError``."""
        data: Message = (await self.connection.ask("review_get", project=project, lasting=True))["data"]
        return data

    async def decide_review(self, project: str, wish: Message) -> Message:
        """Decides on a part of the review, or on all of it, and returns the resulting review. Raises
        ``RequestError``."""
        data: Message = (await self.connection.ask("review_decide", wish, project=project, lasting=True))["data"]
        return data

    async def comment(self, project: str, wish: Message, id: str | None = None) -> None:
        """Writes, changes, removes, resolves or reopens a comment. ``id``: the request's id. Raises
        ``RequestError``."""
        await self.connection.ask("review_comment", wish, project=project, id=id, lasting=True)

    async def submit_comments(self, project: str, drafts: str, *, steer: bool = False) -> Message:
        """Sends all drafts as one prompt, and returns the ``Accepted``. ``drafts``: the version that the user has seen.
        ``steer``: adds them to the active run. Raises ``RequestError``."""
        wish = {"drafts": drafts, **({"steer": True} if steer else {})}
        answer = await self.connection.ask("review_submit", wish, project=project, lasting=True)
        accepted: Message = answer["data"]
        return accepted

    async def withdraw_comments(self, project: str) -> None:
        """Turns comments that wait for an agent back into drafts. Raises ``RequestError``."""
        await self.connection.ask("review_withdraw", project=project, lasting=True)

    async def commit(self, project: str, wish: Message) -> Message:
        """Commits what was kept, and returns the ``ReviewCommitted``. Raises ``RequestError``. After OFFLINE, the
        commit may have been made."""
        data: Message = (await self._ask("review_commit", wish, project))["data"]["data"]
        return data

    async def push(self, project: str, wish: Message) -> Message:
        """Pushes the current branch, and returns the ``ReviewPushed``. Raises ``RequestError``. After OFFLINE, the
        branch may have been pushed."""
        data: Message = (await self._ask("review_push", wish, project))["data"]["data"]
        return data

    async def file_text(self, project: str, path: str) -> str | None:
        """The current text of a file; None if it is not text, or if only a part was sent. Raises ``RequestError``."""
        data = (await self._ask("file_read", {"path": path}, project))["data"]
        return None if data.get("truncated") else data.get("text")

    # Messages from the server.

    def _received(self, message: Message) -> None:
        self.projects.apply(message)
        self.reviews.apply(message)
        if message["type"] == "accepted":
            self._note_sent(message)
        conversation = self.conversation
        if conversation is not None and message.get("project_id") == conversation.id:
            self._follow(message, conversation)
        if message["type"] == "update" and message["data"]["update_type"] == "disk_warning":
            self.on_warning(str(message["data"]["data"]["message"]))
        self.on_change()

    def _follow(self, message: Message, conversation: Conversation) -> None:
        record, data = record_of(message), message["data"]
        if record is not None:
            self._note_removal(record, conversation)
            conversation.apply(record)
        elif message["type"] == "accepted":
            self._accepted(message, conversation)
        elif message["type"] == "agent_message":
            conversation.apply_partial(data["messages"][0])
        elif message["type"] == "update" and data["update_type"] == "project_deleted":
            self.on_project_removed()
        elif message["type"] == "update":
            conversation.apply_update(data["update_type"], data["data"])

    def _note_sent(self, message: Message) -> None:
        """Remembers a prompt of this client until its run begins or it is removed. A prompt that is added to the active
        run does not wait."""
        one = next((one for one in self.unsent if one.id == message.get("request_id")), None)
        if one is not None and not one.steer:
            self._sent[message["data"]["run_id"]] = Sent(one.project, one.prompt, message.get("seq") or 0)

    def _note_removal(self, record: Record, conversation: Conversation) -> None:
        """Warns if another client has removed one of this client's prompts from the queue, also if that happened while
        this client was not connected, or showed another project."""
        message = record.message if record.direction == "server" and isinstance(record.message, dict) else {}
        if message.get("subtype") not in ("run_started", "run_finished"):
            return
        changed = message["message"]
        sent = self._sent.pop(changed["run_id"], None)
        prompt = None if sent is None else sent.prompt
        queued = next((one for one in conversation.queue if one["run_id"] == changed["run_id"]), None)
        if prompt is None and queued is not None and queued.get("client_id") in self._ids:
            prompt = str(queued["prompt"])  # comments that were sent as a prompt
        if prompt is not None and changed.get("removed_by") and changed.get("client_id") not in self._ids:
            by = self.called({"by": changed["removed_by"]})
            self.on_warning(f"{by} removed your prompt from the queue: {prompt[:LONGEST_SHOWN]}")

    async def _look_back(self, conversation: Conversation, snapshot: Message) -> None:
        """Finds out what has happened to this client's prompts that are no longer in the project's queue. The server
        sends the end of a run only to the clients that have joined its project. Raises ``RequestError``."""
        waiting = {one["run_id"] for one in (snapshot["run"], *snapshot["queue"]) if one}
        for run, sent in [*self._sent.items()]:
            if sent.project != conversation.id or sent.seq > snapshot["last_seq"] or run in waiting:
                continue
            after, pages = sent.seq, 0
            while after and pages < FAR_BACK and run in self._sent:
                wish = {"after_seq": after, "limit": PAGE}
                answer = await self.connection.ask("get_messages", wish, project=conversation.id)
                page = [record_in(line) for line in answer["data"]["messages"]]
                for record in page:
                    self._note_removal(record, conversation)
                after, pages = page[-1].seq if page else 0, pages + 1
            self._sent.pop(run, None)

    def _accepted(self, message: Message, conversation: Conversation) -> None:
        """Applies the answer to this client's own prompt. The server sends the prompt's record only to the other
        clients."""
        one = next((one for one in self.unsent if one.id == message.get("request_id")), None)
        if one is None:
            return
        self.unsent.remove(one)
        data = message["data"]
        if data["position"] > 0:
            conversation.enqueue({"run_id": data["run_id"], "position": data["position"], "prompt": one.prompt})
        if message.get("seq") is not None:
            entry = {"type": "user", "message": {"prompt": one.prompt}, "run_id": data["run_id"], "by": self.name}
            entry |= {"steer": True} if one.steer else {}
            now = datetime.now(UTC).isoformat()
            conversation.apply(Record(message["seq"], now, "client", entry))

    async def _join(self) -> None:
        conversation = self.conversation
        if conversation is None:
            return
        project = self.projects.all.get(conversation.id)
        if project is None:
            self.on_project_removed()
            return
        behind = project["last_seq"] - conversation.cursor  # below 0 if the server has lost the end of the history
        was_shortened = int(project.get("first_seq", 1)) > conversation.cursor + 1
        is_near = 0 <= behind <= TOO_FAR and not was_shortened
        restart = not (conversation.joined and conversation.at_end and is_near)
        conversation.leave()
        after = {} if restart else {"after_seq": conversation.cursor}
        answer = await self._ask("project_join", after, project=conversation.id)
        conversation.join(answer["data"]["data"], restart=restart)
        if restart:
            await self.older()
        self.on_change()
        with contextlib.suppress(RequestError):  # the project is joined anyway, and the next call tries again
            await self._look_back(conversation, answer["data"]["data"])

    async def _input(self, input: Message) -> Message:
        """The field of an answer that contains the edited input or, if the input is too large for one message, the id
        under which its parts were uploaded."""
        text = json.dumps(input).encode()
        if len(text) < MESSAGE_BYTES:
            return {"updated_input": input}
        blob_id = str(uuid.uuid4())
        for offset in range(0, len(text), PIECE_BYTES):
            piece = text[offset : offset + PIECE_BYTES]
            data = {"blob_id": blob_id, "offset": offset, "data": base64.b64encode(piece).decode()}
            await self._ask("blob_put", data | {"last": offset + PIECE_BYTES >= len(text)})
        return {"updated_input_blob": blob_id}

    async def _ask(self, type: str, data: Message | None = None, project: str | None = None) -> Message:
        return await self.connection.ask(type, data, project=project)

    @property
    def _id(self) -> str:
        assert self.conversation is not None
        return self.conversation.id


def own_name() -> str:
    """The name that other clients see for decisions from this terminal if it uses the owner's token. With any other
    token, they see the device's name."""
    try:
        person = getpass.getuser()
    except (KeyError, OSError):
        person = "a terminal"
    return f"{person} at {socket.gethostname().partition('.')[0] or 'a terminal'}"


def question_of(record: Any) -> Message:
    """The approval request in a record that ``whole`` returned."""
    found: Message = record["message"]["message"]
    return found
