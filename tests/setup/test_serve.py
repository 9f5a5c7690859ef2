"""``drawbridge setup serve`` sets up the server as a service. Removing it leaves nothing behind."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drawbridge.cli import main
from drawbridge.core.errors import NoProgram
from drawbridge.setup import serve
from drawbridge.setup.plan import Plan
from tests.setup.conftest import Setup, everything_below
from tests.waiting import PATIENCE

MANAGER = """\
#!/bin/sh
# Stands in for systemctl: records its calls, and remembers whether the service was started.
echo "$@" >> "$CALLS"
case "$*" in
  *is-enabled*|*is-active*) test -e "$CALLS.on" ;;
  *disable*) rm -f "$CALLS.on" ;;
  *"start drawbridge.service"|*restart*) touch "$CALLS.on" ;;
esac
"""


@pytest.fixture(autouse=True)
def stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes setup regard this Python as permanent, even if the tests run in a temporary directory."""
    monkeypatch.setattr(serve, "is_passing", lambda path: path.startswith("/passing"))


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a fake ``systemctl`` on ``PATH``; returns the file into which it writes the arguments of each call as a line."""
    program, calls = tmp_path / "bin" / "systemctl", tmp_path / "calls"
    program.parent.mkdir()
    program.write_text(MANAGER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(calls))
    calls.touch()
    return calls


def left(home: Path) -> dict[str, bytes | str]:
    """Everything in the home directory except the standard data directories, which setup may leave behind."""
    return {name: content for name, content in everything_below(home).items() if name not in (".local", ".local/share")}


def asked(calls: Path) -> list[str]:
    """The calls of ``systemctl`` since this function was last called, without those that only query."""
    lines = calls.read_text().splitlines()
    calls.write_text("")
    return [line.removeprefix("--user ") for line in lines if not re.search(r"is-|show-environment", line)]


def unit(home: Path) -> Path:
    return home / ".config" / "systemd" / "user" / "drawbridge.service"


def test_the_service_is_shown_set_up_kept_and_removed(setup: Setup, home: Path, systemd: Path) -> None:
    before = left(home)

    shown = setup("serve", "--dry-run")
    assert "ExecStart=" in shown.output
    assert "+ systemctl --user start drawbridge.service" in shown.output
    assert (left(home), asked(systemd)) == (before, [])

    assert setup("serve").code == 0
    assert unit(home).stat().st_mode & 0o777 == 0o600
    assert asked(systemd) == ["daemon-reload", "enable drawbridge.service", "start drawbridge.service"]

    now = left(home)
    assert "Nothing to change" in setup("serve").output
    assert (left(home), asked(systemd)) == (now, [])

    assert setup("serve", "--remove").code == 0
    assert asked(systemd) == ["disable --now drawbridge.service", "daemon-reload"]
    assert left(home) == before
    assert "Nothing to remove" in setup("serve", "--remove").output


def test_a_service_that_was_stopped_is_started_again(setup: Setup, systemd: Path) -> None:
    setup("serve")
    systemd.with_name("calls.on").unlink()
    asked(systemd)
    assert setup("serve", "--json").facts["applied"] is True
    assert asked(systemd)[-1] == "restart drawbridge.service"


def test_setup_of_a_running_service_names_the_restart(setup: Setup, home: Path, systemd: Path) -> None:
    """The unit stays the same if only the settings file changes, so setup does not restart the server."""
    assert "restart" not in setup("serve").errors, "it has just started the server"
    (home / ".config" / "drawbridge").mkdir(parents=True)
    (home / ".config" / "drawbridge" / "config.toml").write_text("[serve]\nport = 9000\n")
    again = setup("serve")
    assert "Nothing to change" in again.output
    assert "reads its settings only when it starts" in again.errors
    assert "systemctl --user restart drawbridge.service" in again.errors


def test_the_users_changes_to_the_unit_are_kept_as_a_copy(setup: Setup, home: Path, systemd: Path) -> None:
    setup("serve")
    mine = unit(home).read_text() + "# mine\n"
    unit(home).write_text(mine)
    facts = setup("serve", "--json").facts
    assert Path(facts["files"][0]["backup"]).read_text() == mine
    assert "# mine" not in unit(home).read_text()
    unit(home).write_text(mine)
    setup("serve", "--remove")
    kept = [file for file in unit(home).parent.iterdir() if file.suffix == ".bak"]
    assert [file.read_text() for file in kept] == [mine, mine]
    assert not unit(home).exists()


def test_a_unit_that_setup_did_not_write_is_left_alone(setup: Setup, home: Path, systemd: Path) -> None:
    unit(home).parent.mkdir(parents=True)
    unit(home).write_text("[Service]\nExecStart=/bin/true\n")
    before = left(home)
    output = setup("serve")
    assert "was not written by `drawbridge setup`" in output.output
    assert "Nothing to remove" in setup("serve", "--remove").output
    assert (left(home), asked(systemd)) == (before, [])


def test_without_a_manager_the_file_is_written(setup: Setup, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "succeeds", lambda *command: False)
    output = setup("serve")
    assert unit(home).exists()
    assert "systemctl --user daemon-reload; systemctl --user enable drawbridge.service" in output.errors
    output = setup("serve", "--remove")
    assert "so if the server is running, it was not stopped" in output.output
    assert left(home) == {"project": "directory"}


def test_the_error_of_a_failing_manager_is_shown(
    setup: Setup, home: Path, systemd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = systemd.with_name("bin") / "systemctl"
    program.write_text(MANAGER + 'case "$*" in *enable*) echo "no such bus" >&2; exit 1;; esac\n')
    output = setup("serve")
    assert output.code == 3
    assert "`systemctl --user enable drawbridge.service` failed with exit code 1: no such bus" in output.errors


def test_a_temporary_environment_is_refused(setup: Setup, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/passing/venv/bin/python")
    output = setup("serve")
    assert output.code == 3
    assert "which is in a temporary or cache directory" in output.errors
    assert not unit(home).exists()


def environment_of(content: str) -> dict[str, str]:
    words = [shlex.split(line.partition("=")[2])[0] for line in content.splitlines() if line.startswith("Environment=")]
    return dict(word.replace("%%", "%").split("=", 1) for word in words)


def test_the_service_gets_the_settings_but_no_secrets(home: Path) -> None:
    given = {
        "PATH": "/usr/bin:/passing/bin:relative::/opt/50% more/bin:/usr/bin",
        "DRAWBRIDGE_SERVE_PORT": "9000",
        "DRAWBRIDGE_CONFIG": "/etc/a \"quoted\" 'file'.toml",
        "ANTHROPIC_API_KEY": "sk-secret",
        "DRAWBRIDGE_SERVE_MODE": "two\nlines",
        "XDG_STATE_HOME": "/home/ada/.state",
        "CODEX_HOME": "/home/ada/codex",
        "GEMINI_CLI_HOME": "/home/ada/gemini",
        "DRAWBRIDGE_SERVE_WEBHOOK": "https://ntfy.example/sk-secret",
    }
    content = serve.service("linux", given).content().decode()
    assert environment_of(content) == {
        "PATH": "/usr/bin:/opt/50% more/bin",
        "DRAWBRIDGE_SERVE_PORT": "9000",
        "DRAWBRIDGE_CONFIG": given["DRAWBRIDGE_CONFIG"],
        "XDG_STATE_HOME": "/home/ada/.state",
        "CODEX_HOME": "/home/ada/codex",
        "GEMINI_CLI_HOME": "/home/ada/gemini",
    }
    assert "EnvironmentFile=-/etc/serve.env\n" in content
    assert "sk-secret" not in content


def test_a_secret_that_the_service_does_not_get_is_mentioned(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On both platforms, the secret is left out, and setup shows where to put it."""
    given = {"PATH": "/usr/bin", "DRAWBRIDGE_SERVE_WEBHOOK": "https://ntfy.example/sk-secret"}
    for platform in ("linux", "darwin"):
        assert b"sk-secret" not in serve.service(platform, given).content()
    for manager, place in (("systemd", "serve.env"), ("launchd", "config.toml")):
        [note] = serve.left_out(given, manager)
        assert "DRAWBRIDGE_SERVE_WEBHOOK" in note
        assert place in note
        assert "sk-secret" not in note
    assert serve.left_out({}, "systemd") == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(home: Path, tmp_path: Path) -> None:
    given = {"PATH": "/usr/bin:/with a space/bin", "DRAWBRIDGE_CONFIG": "/etc/50%/$HOME/x.toml"}
    file = tmp_path / "drawbridge.service"
    file.write_bytes(serve.service("linux", given).content())
    ended = subprocess.run(
        ["systemd-analyze", "--user", "verify", file],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ},
    )
    assert (ended.returncode, [line for line in ended.stderr.splitlines() if "drawbridge" in line]) == (0, [])


def test_the_command_of_the_unit_starts_this_server(home: Path) -> None:
    content = serve.service("linux", {"PATH": "/usr/bin"}).content().decode()
    [command] = re.findall(r"^ExecStart=(.*)$", content, re.MULTILINE)
    ended = subprocess.run(
        [*shlex.split(command), "--help"], capture_output=True, text=True, timeout=PATIENCE, cwd=home
    )
    assert "run coding agents on this machine" in ended.stdout.lower()


# macOS: these tests run on any system. They check the service's file, and the commands that setup would run.


def launchd(monkeypatch: pytest.MonkeyPatch, running: list[bool]) -> serve.Service:
    monkeypatch.setattr(serve, "succeeds", lambda *command: running[0] if "/drawbridge" in command[-1] else True)
    return serve.service("darwin", {"PATH": "/usr/bin", "LANG": "en_GB.UTF-8"}, uid=501)


def words(plan: Plan) -> list[str]:
    return [line for step in plan.steps if isinstance(step, serve.Run) for line in step.lines()]


def test_on_macos_it_is_a_launchd_agent(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = [False]
    ours = launchd(monkeypatch, running)
    assert ours.path == home / "Library" / "LaunchAgents" / "drawbridge.serve.plist"
    monkeypatch.setattr(serve, "output_of", lambda *command: "")
    plan = serve.plan_setup(ours)
    assert words(plan) == [f"+ launchctl bootstrap gui/501 {ours.path}"]
    for step in plan.steps:
        step.apply()
    plan.finish()

    content = plistlib.loads(ours.path.read_bytes())
    assert content["Label"] == "drawbridge.serve"
    assert content["ProgramArguments"][:5] == [sys.executable, "-P", "-m", "drawbridge", "serve"]
    assert content["EnvironmentVariables"] == {"PATH": "/usr/bin", "LANG": "en_GB.UTF-8"}
    assert (content["RunAtLoad"], content["KeepAlive"]) == (True, {"SuccessfulExit": False})

    running[0] = True
    again = serve.plan_setup(ours)
    assert again.steps == []
    assert again.notes[-1].endswith("run: launchctl kickstart -k gui/501/drawbridge.serve")
    removal = serve.plan_removal(ours)
    assert words(removal) == ["- launchctl bootout gui/501/drawbridge.serve"]
    for step in removal.steps:
        step.apply()
    removal.finish()
    assert left(home) == {}


def test_launchd_does_not_restart_with_unusable_settings(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """launchd restarts it after every exit code but 0."""
    unusable = ["serve", "--idle-timeout", "never"]
    assert main(unusable) == 2
    monkeypatch.setenv("XPC_SERVICE_NAME", "drawbridge.serve")
    assert main(unusable) == 2, "an agent of the service has started it"
    monkeypatch.setattr(os, "getppid", lambda: 1)
    capsys.readouterr()
    assert main(unusable) == 0
    assert capsys.readouterr().err == "drawbridge serve: --idle-timeout must be a whole number.\n"


def test_an_unsupported_system_is_reported() -> None:
    with pytest.raises(NoProgram, match="only systemd and launchd are supported, and win32 has neither"):
        serve.service("win32", {})
