"""What a project's runs start with: the agent, its mode and model, and the conversation that is continued."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.agents.base import ModeChanged, ModeOffer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.ceilings import Ceilings
from tests.server.core_rig import Agent, Client, Process, Server, StoredSessions, records, serving, settled


async def ran(server: Server, phone: Client, project: str, agent: Agent, prompt: str) -> Process:
    """Waits until ``agent`` has received the prompt, and completes the run. Returns the agent's process."""
    await settled(lambda: bool(agent.processes) and agent.latest.prompts[-1:] == [prompt])
    agent.latest.ends()
    await settled(lambda: not server.core.projects.get(project).controller.busy)
    return agent.latest


async def test_one_prompt_for_another_agent_begins_a_conversation(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        other = Agent()
        server.core.grants.agents["other"] = other  # type: ignore[index]
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await settled()

        await server.does(phone, "execute", project, prompt="you do it", agent="other")
        asked = await ran(server, phone, project, other, "you do it")
        assert process.ended, "one at a time"
        assert not asked.launch.resume
        assert asked.launch.session_id != process.launch.session_id

        await server.does(phone, "execute", project, prompt="and you")
        usual = await ran(server, phone, project, server.agent, "and you")
        assert not usual.launch.resume
        assert usual.launch.session_id not in (process.launch.session_id, asked.launch.session_id)
        assert [one["agent"] for one in phone.updates("run_started")] == ["claude", "other", "claude"]


async def test_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        before = records(server, project)
        for type, data in (
            ("execute", {"prompt": "go", "agent": "hal"}),
            ("project_create", {"path": "/", "agent": "hal"}),
        ):
            with pytest.raises(ClientError) as refused:
                await server.does(phone, type, project if type == "execute" else None, **data)
            assert (refused.value.code, refused.value.field) == ("AGENT_NOT_FOUND", "data.agent")
        assert records(server, project) == before
        assert server.agent.processes == []


async def test_all_clients_see_every_change_of_the_mode(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        server.core.follow(["projects"], page)
        project = await server.project(phone)

        def modes() -> list[str]:
            return [client.updates("project_state")[-1].get("permission_mode", "default") for client in (phone, page)]

        await server.does(phone, "set_mode", project, mode="plan")
        assert modes() == ["plan", "plan"], "what the next run starts with"
        process = await server.running(phone, project)
        process.emit(ModeChanged("plan"))
        process.emit(ModeChanged("acceptEdits"))  # the agent's own change, after an answer
        assert modes() == ["acceptEdits", "acceptEdits"]
        joined = await server.does(page, "project_join", project)
        assert joined["data"]["data"]["permission_mode"] == "acceptEdits"
        await server.does(page, "set_mode", project, mode="plan")
        assert process.modes == ["plan"], "a person chose it before, but the agent has left it"
        assert modes() == ["plan", "plan"]
        process.emit(ModeChanged("default"))
        assert modes() == ["default", "default"]
        process.ends()
        process.exit(0)
        await settled()
        assert modes() == ["default", "default"]


@pytest.mark.parametrize("chosen", ["for all prompts", "for one prompt"])
async def test_a_mode_that_the_agent_has_changed_to_is_kept(tmp_path: Path, chosen: str) -> None:
    """The agent may change its mode when the user accepts a plan together with all edits, for example. The mode then
    applies to the next prompt, even after a restart.
    """
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        if chosen == "for all prompts":
            await server.does(phone, "set_mode", project, mode="plan")
            process = await server.running(phone, project)
        else:
            await server.does(phone, "execute", project, prompt="plan", options={"permission_mode": "plan"})
            process = await ran(server, phone, project, server.agent, "plan")
        assert process.launch.options.permission_mode == "plan"
        process.emit(ModeChanged("plan"))
        process.emit(ModeChanged("acceptEdits"))
        if chosen == "for all prompts":
            process.ends()
        await settled()
        await server.does(phone, "execute", project, prompt="more")
        again = await ran(server, phone, project, server.agent, "more")
        assert again is process, "it continues"
    async with serving(tmp_path) as server:
        later = await server.running(phone, project)
        assert later.launch.options.permission_mode == "acceptEdits"
        later.ends()


async def test_a_users_mode_overrides_the_agents(tmp_path: Path) -> None:
    """The user's mode is also used after a restart of the server."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(ModeChanged("default"))
        process.emit(ModeChanged("acceptEdits"))
        await server.does(phone, "set_mode", project, mode="plan")
        process.ends()
        await settled()
    async with serving(tmp_path) as server:
        later = await server.running(phone, project)
        assert later.launch.options.permission_mode == "plan"
        later.ends()


async def test_a_mode_for_one_session_is_not_used_in_the_next(tmp_path: Path) -> None:
    """A mode for one session is set when the user accepts all edits for this session, for example."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        former = process.launch.session_id
        process.emit(ModeChanged("default"))
        process.emit(ModeChanged("acceptEdits"))
        process.ends()
        await settled()
        await server.does(phone, "agent_new_session", project)
        await settled()
        assert phone.updates("project_state")[-1].get("permission_mode", "default") == "default"
        await server.does(phone, "execute", project, prompt="afresh")
        afresh = await ran(server, phone, project, server.agent, "afresh")
        assert afresh.launch.options.permission_mode is None
        await server.does(phone, "session_resume", project, session_id=former)
        await server.does(phone, "execute", project, prompt="back")
        back = await ran(server, phone, project, server.agent, "back")
        assert (back.launch.session_id, back.launch.options.permission_mode) == (former, "acceptEdits")


async def test_the_mode_of_another_agent_does_not_change_the_project(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        other = Agent()
        server.core.grants.agents["other"] = other  # type: ignore[index]
        project = await server.project(phone)
        await server.does(phone, "execute", project, prompt="you do it", agent="other")
        process = await ran(server, phone, project, other, "you do it")
        process.emit(ModeChanged("default"))
        process.emit(ModeChanged("acceptEdits"))
        await server.does(phone, "execute", project, prompt="and you")
        usual = await ran(server, phone, project, server.agent, "and you")
        assert usual.launch.options.permission_mode is None


@pytest.mark.parametrize("allowed", [("plan", "acceptEdits"), ("acceptEdits", "plan")])
async def test_a_mode_that_clients_may_not_choose_is_not_kept(tmp_path: Path, allowed: tuple[str, ...]) -> None:
    """The agent may switch to a mode that asks more often than an allowed one, but a prompt in that mode would be
    refused.
    """
    phone = Client()
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=allowed)
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(ModeChanged(allowed[0]))
        process.emit(ModeChanged("default"))
        process.ends()
        await settled()
        process.exit(0)
        await settled()
        later = await server.running(phone, project, "more")
        assert later.launch.options.permission_mode == allowed[0]
        later.ends()


@pytest.mark.parametrize(
    ("allowed", "chosen", "changed"),
    [(("acceptEdits",), "acceptEdits", "default"), (("default", "plan"), "plan", "acceptEdits")],
    ids=["to one that clients may not choose", "to one that is reset"],
)
async def test_a_prompt_runs_in_its_mode_even_if_the_agent_left_it(
    tmp_path: Path, allowed: tuple[str, ...], chosen: str, changed: str
) -> None:
    phone = Client()
    asked = {"permission_mode": chosen}
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=allowed)
        project = await server.project(phone)
        process = await server.running(phone, project, options=asked)
        process.emit(ModeChanged(chosen))
        process.emit(ModeChanged(changed))
        await settled()
        process.ends()
        later = await server.running(phone, project, "more", options=asked)
        assert later is not process
        assert later.launch.options.permission_mode == chosen
        later.ends()


async def test_a_kept_mode_that_the_owner_no_longer_allows_is_not_used(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(ModeChanged("default"))
        process.emit(ModeChanged("acceptEdits"))
        process.ends()
        await settled()
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=("default",))
        later = await server.running(phone, project)
        assert later.launch.options.permission_mode == "default"
        later.ends()


async def test_the_mode_of_one_prompt_is_not_kept(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(phone, "execute", project, prompt="plan", options={"permission_mode": "plan"})
        process = await ran(server, phone, project, server.agent, "plan")
        process.emit(ModeChanged("plan"))
        await server.does(phone, "execute", project, prompt="more")
        again = await ran(server, phone, project, server.agent, "more")
        assert again.launch.options.permission_mode is None


async def test_mode_and_model_apply_to_later_runs_after_a_restart(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(phone, "set_mode", project, mode="plan")
        await server.does(phone, "set_model", project, model="opus")
        first = await server.running(phone, project)
        assert (first.launch.options.permission_mode, first.launch.options.model) == ("plan", "opus")
        await server.does(phone, "set_model", project, model="haiku")
        assert first.modes == ["haiku"], "it applies to the current run, too"
        first.ends()
        await settled()
        await server.does(phone, "execute", project, prompt="with another", options={"model": "sonnet"})
        one = await ran(server, phone, project, server.agent, "with another")
        assert (one.launch.options.permission_mode, one.launch.options.model) == ("plan", "sonnet")
    async with serving(tmp_path) as server:
        later = await server.running(phone, project)
        assert (later.launch.options.permission_mode, later.launch.options.model) == ("plan", "haiku")
        later.ends()


async def test_waiting_prompts_use_the_users_latest_choice(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(phone, "set_mode", project, mode="acceptEdits")
        first = await server.running(phone, project)
        own = {"permission_mode": "acceptEdits"}
        await server.does(phone, "execute", project, prompt="one", queue=True)
        await server.does(phone, "execute", project, prompt="two", queue=True, options=own)
        await server.does(phone, "set_mode", project, mode="plan")
        await server.does(phone, "set_model", project, model="opus")
        assert first.modes == ["plan", "opus"]
        first.ends()
        await settled(lambda: first.prompts[-1] == "one")  # the same process, whose mode and model were changed
        first.ends()
        second = await ran(server, phone, project, server.agent, "two")
        assert (second.launch.options.permission_mode, second.launch.options.model) == ("acceptEdits", "opus")


@pytest.mark.parametrize("model", ["--x", "-p", "two words", "a\nb", "opus\n", "x" * 200 + "\u00e9"])
async def test_an_invalid_model_name_is_refused_immediately(tmp_path: Path, model: str) -> None:
    """The reply to the command refuses the name, so no later run fails. The agent's command line would parse some of
    these names as options.
    """
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "set_model", project, model=model)
        assert (refused.value.code, refused.value.field) == ("VALIDATION_FAILED", "data.model")
        for option in ("model", "fallback_model"):
            with pytest.raises(ClientError) as refused:
                await server.does(phone, "execute", project, prompt="x", options={option: f"-{model}"})
            assert (refused.value.code, refused.value.field) == ("VALIDATION_FAILED", f"data.options.{option}")
        process = await server.running(phone, project)
        assert process.launch.options.model is None
        process.ends()


async def test_another_session_can_be_resumed_or_forked(tmp_path: Path) -> None:
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        own = await server.running(phone, project)
        for how in ("session_resume", "session_fork"):
            with pytest.raises(ClientError) as refused:
                await server.does(phone, how, project, session_id="another")
            assert refused.value.code == "PROCESS_ACTIVE"
        own.ends()
        await settled()

        await server.does(phone, "session_fork", project)
        forked = await server.running(phone, project)
        assert forked.launch.fork_from == own.launch.session_id, "the project's own conversation, as none is named"
        assert forked.launch.session_id != own.launch.session_id
        assert not forked.launch.resume
        forked.ends()
        await settled()

        await server.does(phone, "session_resume", project, session_id=own.launch.session_id)
        resumed = await server.running(phone, project)
        assert (resumed.launch.session_id, resumed.launch.resume) == (own.launch.session_id, True)
        resumed.ends()
        await settled()
        changed = page.updates("session_changed")
        assert {"session_id": "", "fork_from": own.launch.session_id, "agent": "claude"} in changed
        assert {"session_id": own.launch.session_id, "agent": "claude"} in changed
        assert page.updates("project_state")[-1]["session_id"] == own.launch.session_id
        assert page.seqs == list(range(1, len(records(server, project)) + 1))


async def test_a_new_project_has_no_conversation_to_fork(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        with pytest.raises(ClientError, match="does not have a conversation to fork") as refused:
            await server.does(phone, "session_fork", project)
        assert refused.value.code == "SESSION_NOT_FOUND"


async def test_an_agent_that_cannot_fork_is_not_asked_to(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.agent.forks = False
        project = await server.project(phone)
        first = await server.running(phone, project)
        first.ends()
        await settled()
        with pytest.raises(ClientError, match=r"Claude Code can't fork a conversation\. Resume") as refused:
            await server.does(phone, "session_fork", project)
        assert refused.value.code == "NOT_SUPPORTED"
        again = await server.running(phone, project)
        assert (again.launch.fork_from, again.launch.session_id) == (None, first.launch.session_id)
        again.ends()


@pytest.mark.parametrize("forks", [True, False])
async def test_a_fork_is_suggested_only_if_the_agent_can_fork(tmp_path: Path, forks: bool) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.agent.forks = forks
        project = await server.project(phone)
        server.agent.sessions = StoredSessions(all=True, used_by=[2**22 + 1])
        with pytest.raises(ClientError, match="Close it there") as refused:
            await server.does(phone, "session_resume", project, session_id="an-open-conversation")
        assert refused.value.code == "SESSION_IN_USE"
        assert ("fork" in refused.value.text) == forks


async def test_modes_of_only_one_agent_are_sent_with_their_titles(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.agent.own_modes = True
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(ModeChanged("default", ("default", "careful"), (ModeOffer("careful", "Careful", "Asks twice."),)))
        state = phone.updates("project_state")[-1]
        assert state["own_modes"] == [{"name": "careful", "title": "Careful", "text": "Asks twice."}]
        process.emit(ModeChanged("default", ("default", "careful"), (ModeOffer("careful", "Careful", "Asks once."),)))
        [changed] = phone.updates("project_state")[-1]["own_modes"]
        assert changed["text"] == "Asks once."


async def test_only_allowed_modes_are_offered(tmp_path: Path) -> None:
    """The agent may switch to a mode that asks more often than the allowed one, but users can't choose that mode."""
    phone = Client()
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=("acceptEdits",))
        server.agent.own_modes = True
        project = await server.project(phone)
        process = await server.running(phone, project)
        modes = ("default", "acceptEdits", "plan", "bypassPermissions", "careful")
        process.emit(ModeChanged("acceptEdits", modes, (ModeOffer("careful"),)))
        state = phone.updates("project_state")[-1]
        offered = state["modes"]
        assert (offered, state.get("own_modes")) == (["acceptEdits"], None)
        for mode in offered:
            await server.does(phone, "set_mode", project, mode=mode)
        with pytest.raises(ClientError, match="must be one of acceptEdits"):
            await server.does(phone, "set_mode", project, mode="plan")
