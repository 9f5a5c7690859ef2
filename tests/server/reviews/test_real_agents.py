"""The review of changes by real agents: Claude Code and Codex as the server runs them, and both behind their ACP
adapters, each with a stub for its model.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.agents.acp.test_real_adapters import at_work, codex_environment
from tests.nvim.plugin_rig import wait_until
from tests.rigs import claude_rig, messages_stub, responses_stub
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.responses_stub import ResponsesStub
from tests.server.processes import serving
from tests.server.reviews.rig import POEM, hunks, id_of, make_repository
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.thorough

THIRD = ("poem.txt", "line 3\n", "LINE 3\n")
TENTH = ("poem.txt", "line 10\n", "LINE 10\n")
LAST = ("poem.txt", "line 17\n", "LINE 17\n")
ADDED = ("new.txt", "", "new\n")
DELETED = ("old.txt", "old\n", "")
BY_COMMAND = ("song.txt", "line 9\n", "LINE 9\n")
MOVED = ("there.txt", "", "")
BY_A_SUBAGENT = ("sub.txt", "", "by the subagent\n")

TASK = "Write the sub file"
COMMANDS = ("sed -i 's/line 9$/LINE 9/' song.txt", "mv here.txt there.txt")

AGENTS = pytest.mark.parametrize("agent", ["claude", "codex", "codex-acp", "claude-agent-acp"])

Turns = list[Any]
"""What a model says, turn by turn. A turn of Codex may be a function, as for ``ResponsesStub.will_say``."""


@pytest.fixture
def directory(home: Path) -> Path:
    directory = home / "roots" / "poems"
    make_repository(directory)
    return directory


def patch(*changes: str) -> dict[str, Any]:
    return responses_stub.apply_patch("\n".join(("*** Begin Patch", *changes, "*** End Patch")) + "\n")


def line(number: int, old: str = "", new: str = "") -> str:
    """A change to one line of the poem. By default, the line becomes upper-case."""
    around = f"\n line {number - 1}\n-{old or f'line {number}'}\n+{new or f'LINE {number}'}\n line {number + 1}"
    return f"*** Update File: poem.txt\n@@{around}"


def bash(command: str) -> messages_stub.Block:
    return messages_stub.tool_use("Bash", command=command, description="Changes a file")


def written(file: Path) -> Callable[[], responses_stub.Item]:
    """The last turn of the main agent. It waits until the subagent has written this file."""

    def turn() -> responses_stub.Item:
        wait_until(file.exists, f"{file.name} by the subagent")
        return responses_stub.text("It is written.")

    return turn


class Working:
    """An agent at work in a project, and the client that follows it. ``model``: the stub of the agent's model."""

    def __init__(self, client: WireClient, project: str, model: MessagesStub | ResponsesStub) -> None:
        self.client = client
        self.project = project
        self.model = model

    @property
    def conversation(self) -> str:
        """What the model was last sent: the whole conversation."""
        last = self.model.requests[-1]
        return str(last["input"] if isinstance(last, dict) else last.body["messages"])

    def will_say(self, *, of_codex: Turns, of_claude: Turns) -> None:
        """Scripts the model's next turns."""
        if isinstance(self.model, ResponsesStub):
            self.model.will_say(*of_codex)
        else:
            self.model.will_say(*of_claude)

    def subagent_will_write(self, task: str, file: Path) -> None:
        """Scripts the model of a subagent with this task, which writes a file."""
        if isinstance(self.model, ResponsesStub):
            change = patch(f"*** Add File: {file.name}\n+by the subagent")
            self.model.subagent_will_say(task, change, responses_stub.text("Written."))
        else:
            change = messages_stub.write(file, "by the subagent\n")
            self.model.will_say_to(task, change, messages_stub.text("Written."))

    async def runs(self, *, unconfined: bool) -> None:
        """Executes a prompt, and returns after the run."""
        options = {"options": {"dangerously_skip_permissions": True}} if unconfined else {}
        accepted = await self.client.ask("execute", {"prompt": "Go", **options}, self.project)
        assert accepted["type"] == "accepted", accepted
        await self.finishes()

    async def finishes(self) -> None:
        """Allows all approval requests until the run has ended."""
        while True:
            message = await self.client.next()
            if message["type"] == "permission_request":
                allow = {"approval_id": message["data"]["approval_id"], "decision": "allow"}
                await self.client.ask("permission_response", allow, self.project)
            elif message["type"] == "update" and message["data"]["update_type"] == "run_finished":
                assert message["data"]["data"]["outcome"] == "completed", message
                return

    async def review(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.ask("review_get", {}, self.project))["data"]
        return found

    async def decide(self, part: str, decision: str) -> None:
        wish = {"hunks": [id_of(await self.review(), part)], "decision": decision}
        assert (await self.client.ask("review_decide", wish, self.project))["type"] == "review"

    async def comment(self, number: int, quote: str, text: str) -> str:
        """Writes a draft about a line of the poem. Returns its id."""
        about = {"path": "poem.txt", "line": number, "quote": quote, "text": text}
        written = await self.client.ask("review_comment", about, self.project)
        return str(written["data"]["data"]["comment_id"])

    async def submit(self) -> None:
        """Sends all drafts, and returns after the run that they begin."""
        drafts = (await self.review())["drafts"]
        accepted = await self.client.ask("review_submit", {"drafts": drafts}, self.project)
        assert (accepted["type"], accepted["data"]["position"]) == ("accepted", 0), accepted
        await self.finishes()


@contextlib.asynccontextmanager
async def managed(
    directory: Path, agent: str, program: Path, **environment: str
) -> AsyncIterator[tuple[WireClient, str]]:
    options = ("--no-tls", "--allow", directory.parent, "--agent-path", f"{agent}={program}")
    async with (
        serving(directory.parent.parent / "data", *options, "--allow-skip-permissions", **environment) as server,
        server.client() as client,
    ):
        created = await client.ask("project_create", {"path": str(directory), "agent": agent, "join": True})
        yield client, created["project_id"]


def unconfined_codex(directory: Path) -> Path:
    """Creates a program that runs Codex without its sandbox, which does not work on every machine. Returns its path.
    A prompt of comments has the project's options, and these always include a sandbox."""
    program = directory.parent.parent / "codex"
    program.write_text(f"""\
#!/bin/sh
for word do
  shift
  case $word in
    --config=sandbox_mode=*) set -- "$@" --dangerously-bypass-approvals-and-sandbox ;;
    --config=approval_policy=*) ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {programs.codex()} --enable multi_agent_v2 "$@"
""")
    program.chmod(0o755)
    return program


@contextlib.asynccontextmanager
async def codex(directory: Path, turns: Turns, *, acp: bool) -> AsyncIterator[Working]:
    with ResponsesStub(*turns) as model:
        environment = codex_environment(model)
        if acp:
            async with at_work(directory / "poem.txt", "codex-acp", environment) as (client, project):
                await client.ask("set_mode", {"mode": "plan"}, project)
                yield Working(client, project, model)
        else:
            async with managed(directory, "codex", unconfined_codex(directory), **environment) as (client, project):
                yield Working(client, project, model)


@contextlib.asynccontextmanager
async def claude(directory: Path, turns: Turns, *, acp: bool) -> AsyncIterator[Working]:
    claude_rig.prepare_home(directory)
    with MessagesStub() as model:
        model.will_say(*turns)
        environment = claude_rig.environment(model)
        working = (
            at_work(directory / "poem.txt", "claude-agent-acp", environment | {"IS_SANDBOX": "1"})
            if acp
            else managed(directory, "claude", programs.claude(), **environment)
        )
        async with working as (client, project):
            yield Working(client, project, model)


def working(agent: str, directory: Path, *, of_codex: Turns, of_claude: Turns) -> Any:
    """The agent at work. ``of_codex`` and ``of_claude``: the model's turns."""
    acp = agent.endswith("-acp")
    return codex(directory, of_codex, acp=acp) if "codex" in agent else claude(directory, of_claude, acp=acp)


@pytest.mark.slow_for("claude-agent-acp", "codex-acp")
@AGENTS
async def test_the_review_shows_all_changes_of_a_real_agent(agent: str, directory: Path) -> None:
    """The run uses tools, commands and, except for Codex behind its adapter, a subagent."""
    poem, subs = directory / "poem.txt", directory / "sub.txt"
    (directory / "song.txt").write_text(POEM)
    (directory / "here.txt").write_text("here\n")
    has_subagent = agent != "codex-acp"
    # Behind its adapter, Codex asks before it runs a command without its sandbox.
    reason = "" if agent == "codex" else "It is needed"
    of_codex = [
        *(patch(line(3)), patch(line(17)), patch("*** Add File: new.txt\n+new"), patch("*** Delete File: old.txt")),
        *(responses_stub.shell(command, reason=reason) for command in COMMANDS),
        *(
            [responses_stub.spawn_agent("writing", TASK), written(subs)]
            if has_subagent
            else [responses_stub.text("Done.")]
        ),
    ]
    of_claude = [
        messages_stub.read(poem),
        messages_stub.edit(poem, "line 3\n", "LINE 3\n"),
        messages_stub.edit(poem, "line 17\n", "LINE 17\n"),
        messages_stub.write(directory / "new.txt", "new\n"),
        *(bash(command) for command in ("rm old.txt", *COMMANDS)),
        messages_stub.tool_use("Agent", description="Write", prompt=TASK, subagent_type="general-purpose"),
        messages_stub.text("It has begun."),
        messages_stub.text("Done."),
    ]
    async with working(agent, directory, of_codex=of_codex, of_claude=of_claude) as it:
        it.subagent_will_write(TASK, subs)
        others = [ADDED, DELETED, BY_COMMAND, MOVED, *([BY_A_SUBAGENT] if has_subagent else [])]
        await it.runs(unconfined=agent == "codex")
        first = await it.review()
        assert sorted(hunks(first)) == sorted([THIRD, LAST, *others])
        assert [file.get("old_path") for file in first["files"] if file["path"] == "there.txt"] == ["here.txt"]
        await it.decide("LINE 3\n", "undo")
        await it.decide("LINE 17\n", "keep")
        assert poem.read_text() == POEM.replace("line 17\n", "LINE 17\n")
        assert sorted(hunks(await it.review())) == sorted(others)
        it.will_say(
            of_codex=[patch(line(10)), responses_stub.text("Done again.")],
            of_claude=[
                messages_stub.read(poem),
                messages_stub.edit(poem, "line 10\n", "LINE 10\n"),
                messages_stub.text("Done again."),
            ],
        )
        await it.runs(unconfined=agent == "codex")
        second = await it.review()
        assert sorted(hunks(second)) == sorted([TENTH, *others])
        assert [id_of(second, name) for name in ("new.txt", "old.txt")] == [
            id_of(first, name) for name in ("new.txt", "old.txt")
        ]
        await it.decide("old.txt", "undo")
        assert (directory / "old.txt").read_text() == "old\n"
        assert poem.read_text() == POEM.replace("line 10\n", "LINE 10\n").replace("line 17\n", "LINE 17\n")


@pytest.mark.slow_for("claude-agent-acp", "claude", "codex")
@AGENTS
async def test_a_real_agent_receives_a_comment_and_answers_it(agent: str, directory: Path) -> None:
    """One hunk is undone, and a comment on another one is sent. The next run changes the lines of the comment."""
    poem = directory / "poem.txt"
    of_codex = [
        *(patch(line(3)), patch(line(17)), responses_stub.text("Done.")),
        *(patch(line(17, "LINE 17", "Line seventeen")), responses_stub.text("Changed.")),
    ]
    of_claude = [
        messages_stub.read(poem),
        messages_stub.edit(poem, "line 3\n", "LINE 3\n"),
        messages_stub.edit(poem, "line 17\n", "LINE 17\n"),
        messages_stub.text("Done."),
        messages_stub.read(poem),
        messages_stub.edit(poem, "LINE 17\n", "Line seventeen\n"),
        messages_stub.text("Changed."),
    ]
    async with working(agent, directory, of_codex=of_codex, of_claude=of_claude) as it:
        await it.runs(unconfined=agent == "codex")
        assert sorted(hunks(await it.review())) == sorted([THIRD, LAST])
        await it.decide("LINE 3\n", "undo")
        comment = await it.comment(17, "LINE 17\n", "Why so loud?")
        assert "Why so loud?" not in it.conversation
        await it.submit()
        assert it.conversation.count("I have reviewed your changes") == 1
        assert it.conversation.count("Why so loud?") == 1
        review = await it.review()
        assert hunks(review) == [("poem.txt", "line 17\n", "Line seventeen\n")]
        assert [hunk["answers"] for file in review["files"] for hunk in file["hunks"]] == [[comment]]
        assert [(one["comment_id"], one["state"]) for one in review["comments"]] == [(comment, "sent")]
        assert poem.read_text() == POEM.replace("line 17\n", "Line seventeen\n")


@pytest.mark.slow
async def test_a_real_agents_background_command_is_reviewed(directory: Path, home: Path) -> None:
    """It writes after its run. Claude Code then begins a run on its own."""
    (directory / "song.txt").write_text(POEM)
    command = f"until [ -e {home}/later ]; do sleep 0.05; done; {COMMANDS[0]}"
    block = messages_stub.tool_use("Bash", command=command, description="Later", run_in_background=True)
    turns = [block, messages_stub.text("Started."), messages_stub.text("It has ended.")]
    async with claude(directory, turns, acp=False) as it:
        await it.runs(unconfined=False)
        assert hunks(await it.review()) == []
        (home / "later").touch()
        await it.finishes()
        assert hunks(await it.review()) == [BY_COMMAND]
        (directory / "poem.txt").write_text("by a person\n")
        assert hunks(await it.review()) == [BY_COMMAND]
