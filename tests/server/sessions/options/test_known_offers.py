"""What an agent offers is known from its earlier processes until a new process reports it."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents import base
from drawbridge.core.private_files import write_private
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options import known_offers
from drawbridge.server.sessions.options.known_offers import FILE, KnownOffers
from tests.server.core_rig import Client, Server, serving, settled
from tests.waiting import PATIENCE

OPUS = base.ModelOffer("opus", "Opus", resolved="claude-opus-5", efforts=("low", "high"))
OFFERS = base.AgentOffers(
    commands=(base.Offer("deploy"),),
    agents=(base.Offer("reviewer"),),
    skills=("pdf",),
    mcp_servers=(base.McpServer("tickets", "connected"),),
    models=(OPUS,),
    steer=True,
)
MODELS = [{"name": "opus", "title": "Opus", "resolved": "claude-opus-5", "efforts": ["low", "high"]}]
KNOWN = {"commands": [{"name": "deploy"}], "agents": [{"name": "reviewer"}], "skills": ["pdf"], "models": MODELS}
"""What the server knows of ``OFFERS`` once the process that reported them has ended."""


async def joined(server: Server, project: str, client: Client | None = None) -> dict[str, Any]:
    snapshot: dict[str, Any] = (await server.does(client or Client(), "project_join", project))["data"]["data"]
    return snapshot


async def offered(server: Server, project: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = (await joined(server, project)).get("agent_offers")
    return found


async def has_run(server: Server, project: str, offers: base.AgentOffers = OFFERS, **more: Any) -> None:
    """Lets a process of the agent report what it offers, complete its run, and exit."""
    process = await server.running(Client(), project, **more)
    process.emit(base.OffersReported(offers))
    process.ends()
    await settled()
    process.exit(0)


async def test_the_next_server_knows_what_an_agent_offers(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await has_run(server, project)
    async with serving(tmp_path) as server:
        files = [server.folder / "data" / FILE, server.folder / "data" / "projects" / project / FILE]
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
        assert await offered(server, project) == KNOWN
        await server.does(phone, "set_effort", project, effort="low")
        process = await server.running(phone, project)
        assert process.launch.options.effort == "low"
        process.ends()


async def test_a_new_project_has_models_but_no_commands_of_others(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        await has_run(server, await server.project(phone))
        project = await server.project(phone, "two")
        assert await offered(server, project) == {"models": MODELS}
    async with serving(tmp_path) as server:
        assert await offered(server, project) == {"models": MODELS}
        assert await offered(server, await server.project(phone, "three")) == {"models": MODELS}
        await server.does(phone, "set_effort", project, effort="high")


async def test_a_client_that_joined_before_a_report_gets_the_offers(tmp_path: Path) -> None:
    """After the client has joined, a process of another project reports the models."""
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        assert "agent_offers" not in await joined(server, project, page)
        models = base.AgentOffers(models=(OPUS,))
        await has_run(server, await server.project(phone, "two"), models)
        await has_run(server, project, models)
        assert page.updates("agent_offers") == [{"models": MODELS}]


async def test_a_process_replaces_the_known_offers(tmp_path: Path) -> None:
    """Another version of the agent has a different model, different commands, and no skills."""
    haiku = base.ModelOffer("haiku")
    other = base.AgentOffers(commands=(base.Offer("compact"),), models=(haiku,))
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await has_run(server, project)
    expected = {"commands": [{"name": "compact"}], "models": [{"name": "haiku"}]}
    async with serving(tmp_path) as server:
        await joined(server, project, page)
        await has_run(server, project, other)
        assert page.updates("agent_offers") == [expected]
        assert await offered(server, project) == expected
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "set_effort", project, effort="low")
        assert refused.value.code == "NOT_SUPPORTED"
    async with serving(tmp_path) as server:
        assert await offered(server, project) == expected


async def test_each_agent_has_its_own_offers(tmp_path: Path) -> None:
    phone, page = Client(), Client()
    of_other = {"commands": [{"name": "compact"}], "models": [{"name": "gpt"}]}
    async with serving(tmp_path) as server:
        server.core.grants.agents["other"] = server.agent  # type: ignore[index]
        project = await server.project(phone)
        await has_run(server, project)
        offers = base.AgentOffers(commands=(base.Offer("compact"),), models=(base.ModelOffer("gpt"),))
        await has_run(server, project, offers, agent="other")
        assert await offered(server, project) == of_other
    async with serving(tmp_path) as server:
        server.core.grants.agents["other"] = server.agent  # type: ignore[index]
        assert await offered(server, project) == KNOWN, "the offers of the agent that the next prompt is for"
        await has_run(server, project)
        await joined(server, project, page)
        process = await server.running(phone, project, agent="other")
        assert page.updates("agent_offers")[-1] == of_other, "before its process has reported them"
        process.ends()


async def stored(known: KnownOffers, agent: str) -> None:
    known.store(agent, OFFERS)
    await known.close()


async def test_offers_of_removed_agents_are_dropped(tmp_path: Path) -> None:
    """Otherwise, the file would contain every agent that the server ever had."""
    await stored(KnownOffers(tmp_path, ["claude", "other"]), "other")
    known = KnownOffers(tmp_path, ["claude"])
    assert known.of("other") == base.AgentOffers()
    await stored(known, "claude")
    assert KnownOffers(tmp_path, ["claude", "other"]).of("other") == base.AgentOffers()


async def test_unchanged_offers_are_not_written_again(tmp_path: Path) -> None:
    await stored(KnownOffers(tmp_path, ["claude"]), "claude")
    before = (tmp_path / FILE).stat().st_ino
    await stored(KnownOffers(tmp_path, ["claude"]), "claude")
    assert (tmp_path / FILE).stat().st_ino == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"claude": {"commands": [',
        b'{"claude": {"commands": "all"}}',
        b"[]",
        b"\xff\xfe",
        b'{"claude": {"new": ' + b"[" * 100_000,
    ],
    ids=["empty", "cut off", "another type", "another form", "not UTF-8", "nested"],
)
async def test_a_damaged_file_is_replaced(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await has_run(server, project)
    data = tmp_path / "data"
    for file in (data / FILE, data / "projects" / project / FILE):
        file.write_bytes(content)
    async with serving(tmp_path) as server:
        assert await offered(server, project) is None
        assert caplog.text.count("can't be read") == 2
        await has_run(server, project)
    async with serving(tmp_path) as server:
        assert await offered(server, project) == KNOWN


async def test_a_file_that_cannot_be_written_does_not_stop_a_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        for folder in (tmp_path / "data", tmp_path / "data" / "projects" / project):
            (folder / FILE).mkdir()
        await has_run(server, project)
        assert [one["models"] for one in phone.updates("agent_offers")] == [MODELS]
        assert phone.updates("run_finished")[-1]["outcome"] == "completed"
    assert "what agents offer will not be known after a restart" in caplog.text


async def test_clients_get_the_offers_while_the_disk_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the disk responds, the files contain the offers that were reported last."""
    write, responds, phone = write_private, threading.Event(), Client()

    def late(path: str, data: bytes) -> None:
        assert responds.wait(PATIENCE)
        write(path, data)

    monkeypatch.setattr(known_offers, "write_private", late)
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await has_run(server, project, base.AgentOffers(commands=(base.Offer("compact"),)))
        await has_run(server, project)
        assert [one["commands"][0]["name"] for one in phone.updates("agent_offers")] == ["compact", "deploy"]
        assert not (tmp_path / "data" / FILE).exists()
        responds.set()
    async with serving(tmp_path) as server:
        assert await offered(server, project) == KNOWN


async def test_a_new_session_shows_its_model_and_effort(tmp_path: Path) -> None:
    """Model and effort are chosen before any process of the project has run, and are still known after a restart."""
    phone = Client()
    async with serving(tmp_path) as server:
        await has_run(server, await server.project(phone))
        project = await server.project(phone, "two")
        assert "agent_state" not in await joined(server, project, phone)
        await server.does(phone, "set_model", project, model="opus")
        await server.does(phone, "set_effort", project, effort="low")
        assert phone.updates("agent_state") == [{"model": "opus"}, {"model": "opus", "effort": "low"}]
    async with serving(tmp_path) as server:
        assert (await joined(server, project))["agent_state"] == {"model": "opus", "effort": "low"}
        process = await server.running(phone, project)
        assert (process.launch.options.model, process.launch.options.effort) == ("opus", "low")
        process.emit(base.StateReported(base.AgentState(model="claude-opus-5", context_window=200_000)))
        process.ends()
        await settled()
        assert (await joined(server, project))["agent_state"]["model"] == "claude-opus-5"


async def test_a_chosen_model_that_is_the_current_one_changes_nothing(tmp_path: Path) -> None:
    """The size of the model's context window stays known."""
    phone = Client()
    state = base.AgentState(model="claude-opus-5", context_tokens=5_000, context_window=200_000)
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(base.OffersReported(OFFERS))
        process.emit(base.StateReported(state))
        process.ends()
        await settled()
        await server.does(phone, "set_model", project, model="opus")
        assert len(phone.updates("agent_state")) == 1
        await server.does(phone, "set_model", project, model="haiku")
        assert phone.updates("agent_state")[-1] == {"model": "haiku", "context_tokens": 5_000}
