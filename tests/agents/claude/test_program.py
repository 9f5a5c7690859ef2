"""How ``claude`` is found and its version checked, tested with stub programs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from drawbridge.agents import registry
from drawbridge.agents.base import AgentUnusable, Event, Launch, Options
from drawbridge.agents.claude import driver
from drawbridge.agents.claude.driver import Claude
from tests.agents.rig import eventually
from tests.waiting import PATIENCE

ID = "08445e35-194e-42db-84a7-b7a55484f1b6"


def program(path: Path, script: str) -> Path:
    """Writes an executable Python script to ``path`` and returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{script}\n")
    path.chmod(0o755)
    return path


def environment(path: Path | str = "/nowhere") -> dict[str, str]:
    return {**os.environ, "PATH": str(path)}


async def problem(claude: Claude) -> AgentUnusable:
    with pytest.raises(AgentUnusable) as caught:
        await claude.probe()
    return caught.value


async def test_its_version_is_returned(tmp_path: Path) -> None:
    fake = program(tmp_path / "claude", "print('2.1.329 (Claude Code)')")
    assert await Claude(str(fake)).probe() == "2.1.329"
    assert await Claude(environment=environment(tmp_path)).probe() == "2.1.329"
    fake.rename(tmp_path / "claude-next")
    assert await Claude("claude-next", environment(tmp_path)).probe() == "2.1.329"


async def test_it_is_found_in_its_installers_directory(home: Path) -> None:
    program(home / ".local" / "bin" / "claude", "print('2.0.0 (Claude Code)')")
    assert await Claude(environment=environment()).probe() == "2.0.0"


async def test_if_it_is_missing_the_error_contains_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver.ROW, "places", ())
    found = await problem(Claude(environment=environment()))
    assert found.code == "AGENT_NOT_FOUND"
    assert str(found) == (
        "The `claude` program was not found on PATH or in the usual places on the server's machine. Install Claude Code "
        "there, or start the server with --agent-path claude=PATH."
    )
    for path in (tmp_path / "gone", tmp_path):
        found = await problem(Claude(str(path)))
        assert (found.code, str(tmp_path) in str(found)) == ("AGENT_NOT_FOUND", False)


async def test_a_file_that_cannot_run_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "claude"
    file.write_text("data")
    found = await problem(Claude(str(file)))
    assert (found.code, str(found)) == ("EXECUTION_FAILED", "`claude` can't be run: Permission denied.")
    file.chmod(0o755)
    found = await problem(Claude(str(file)))
    assert (found.code, str(found)) == ("EXECUTION_FAILED", "`claude` can't be run: Exec format error.")


async def test_a_version_that_is_too_old_is_refused(tmp_path: Path) -> None:
    found = await problem(Claude(str(program(tmp_path / "claude", "print('1.0.128 (Claude Code)')"))))
    assert found.code == "AGENT_TOO_OLD"
    assert (
        str(found)
        == "Claude Code 1.0.128 is too old; 2.0.0 or newer is required. Run `claude update` on the server's machine."
    )


@pytest.mark.parametrize(
    "script",
    [
        "raise SystemExit('\\x1b[31mno licence')",
        "pass",
        "import os\nwhile True: os.write(1, b'y' * 100000)",
        "import subprocess as s, sys; s.Popen([sys.executable, '-c', 'import time; time.sleep(600)', *sys.argv]); print('hm')",
        "import time; time.sleep(600)",
    ],
    ids=["complains", "silent", "floods", "leaves a child", "hangs"],
)
async def test_a_program_that_prints_no_version_is_not_run(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "VERSION_SECONDS", 0.5)
    fake = program(tmp_path / "claude", script)
    began = time.monotonic()

    found = await problem(Claude(str(fake)))

    assert found.code == "EXECUTION_FAILED"
    assert str(found).startswith("`claude --version` did not print a version")
    assert "\x1b" not in str(found)
    assert time.monotonic() - began < PATIENCE / 2, "it waited for a program that hangs"
    await eventually(lambda: not runs(str(fake)), "the end of what it has started")


def runs(word: str) -> bool:
    return any(word in (alive.info["cmdline"] or ()) for alive in psutil.process_iter(["cmdline"]))


async def test_the_version_is_checked_again_after_an_update(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    script = (
        f"import sys\nif '--version' in sys.argv: open({str(asked)!r}, 'a').write('x'); print('{{}} (Claude Code)')"
    )
    fake = program(tmp_path / "claude", script.format("2.1.0"))
    claude = Claude(str(fake))

    async def start() -> None:
        exited = asyncio.Event()

        def received(event: Event) -> None:
            exited.set()

        process = await claude.start(Launch(str(tmp_path), ID), received)
        await process.stop()
        assert exited.is_set()

    await start()
    await start()
    assert asked.read_text() == "x"
    program(fake, script.format("2.1.10"))
    await start()
    assert asked.read_text() == "xx"
    program(fake, script.format("1.9.100"))
    with pytest.raises(AgentUnusable, match="too old"):
        await start()


async def test_an_invalid_option_is_refused_before_anything_runs(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    fake = program(tmp_path / "claude", f"open({str(ran)!r}, 'w')")
    with pytest.raises(AgentUnusable, match=r"options\.model"):
        await Claude(str(fake)).start(Launch(str(tmp_path), ID, options=Options(model="-p")), lambda event: None)
    assert not ran.exists()


def test_agents_are_listed_with_claude_first_and_demo_last() -> None:
    assert list(registry.agents(registry.AgentPrograms())) == ["claude", "gemini", "codex", "demo"]


def test_a_path_for_the_demo_or_an_unknown_agent_is_rejected() -> None:
    found = registry.problems(registry.AgentPrograms(paths=("demo=/bin/sh", "cluade=/bin/sh")))
    assert [problem.partition(";")[0] for problem in found] == [
        "--agent-path: the program of demo can't be set",
        "--agent-path: the program of cluade can't be set",
    ]
