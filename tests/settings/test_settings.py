"""Settings: flags override the environment, which overrides the file. All problems are reported together."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import platformdirs
import pytest

import drawbridge.settings
from drawbridge.core.errors import BadSetting
from drawbridge.guard.settings import Settings
from drawbridge.settings import TABLES, Setting, Spec, _checked, add_flags, config_file, load, of
from drawbridge.settings.attach import AttachSettings
from drawbridge.settings.hook import HookSettings
from drawbridge.settings.ide import IdeSettings
from drawbridge.settings.serve import ServeSettings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def parsed(*arguments: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_flags(parser, of(IdeSettings))
    return vars(parser.parse_args(arguments))


def settings(file: Path | None = None, *flags: str, **variables: str) -> IdeSettings:
    """Returns the settings from this file, these flags and these variables (``PORT="1"`` for DRAWBRIDGE_PORT)."""
    environ = {f"DRAWBRIDGE_{name}": value for name, value in variables.items()}
    if file is not None:
        environ["DRAWBRIDGE_CONFIG"] = str(file)
    return load("ide", IdeSettings, parsed(*flags), environ)


def problems(file: Path | None = None, *flags: str, **variables: str) -> str:
    with pytest.raises(BadSetting) as error:
        settings(file, *flags, **variables)
    return str(error.value)


def test_the_bridge_has_these_default_settings(home: Path) -> None:
    assert load("ide", IdeSettings, {})._asdict() == {
        "nvim": None,
        "folder": None,
        "decide": None,
        "workspace": (),
        "port": None,
        "agent": ("claude", "gemini"),
        "host": (),
        "single_client": False,
        "mention": "recent",
        "reject": "upgrade",
        "context": True,
        "ignore": None,
        "execute_code": False,
        "json": False,
        "log_level": "warning",
        "log_file": None,
    }


def test_by_default_a_server_listens_on_localhost_port_8443(home: Path) -> None:
    in_force = load("serve", ServeSettings, {})
    assert (in_force.host, in_force.port, in_force.tls, in_force.insecure_no_auth) == (
        "127.0.0.1", 8443, True, False
    )  # fmt: skip
    assert (in_force.idle_timeout, in_force.run_timeout, in_force.max_projects) == (300, None, 100)
    assert (in_force.max_queue, in_force.fsync, in_force.spec_env) == (20, "second", False)


def test_flags_override_the_environment_which_overrides_the_file(file: Path) -> None:
    """The file overrides the defaults."""
    file.write_text('[ide]\nport = 20001\nmention = "all"\nlog_level = "debug"\nworkspace = ["/a", "/b"]\n')
    in_force = settings(file, "--port", "20003", "--workspace", "/c", PORT="20002", MENTION="recent")
    assert in_force.port == 20003
    assert in_force.mention == "recent"
    assert in_force.log_level == "debug"
    assert in_force.workspace == ("/c",)
    assert settings(file, PORT="20002").port == 20002
    assert settings(file).port == 20001
    assert settings(file).workspace == ("/a", "/b")


def test_every_kind_of_setting_can_be_set_everywhere(file: Path) -> None:
    file.write_text("[ide]\nsingle_client = true\ncontext = false\nignore = []\n")
    in_force = settings(file)
    assert (in_force.single_client, in_force.context, in_force.ignore) == (True, False, ())
    in_force = settings(None, SINGLE_CLIENT="1", CONTEXT="no", IGNORE=os.pathsep.join(["*.a", "b c"]), PORT="7000")
    assert (in_force.single_client, in_force.context, in_force.ignore) == (True, False, ("*.a", "b c"))
    assert in_force.port == 7000
    in_force = settings(None, "--single-client", "--no-context", "--ignore", "*.a", "--ignore", "b c", "--port", "7000")
    assert (in_force.single_client, in_force.context, in_force.ignore) == (True, False, ("*.a", "b c"))
    assert in_force.port == 7000


def test_an_empty_variable_counts_as_not_set(file: Path) -> None:
    assert settings(None, PORT="", MENTION="", SINGLE_CLIENT="") == settings()


def test_a_variable_without_our_prefix_is_ignored() -> None:
    assert load("ide", IdeSettings, {}, {"PORT": "80", "DRAWBRIDGE_CONFIG": ""}).port is None


def test_addresses_in_a_variable_are_separated_by_commas() -> None:
    environ = {"DRAWBRIDGE_CONFIG": "", "DRAWBRIDGE_SERVE_ALLOW": "/srv/a:/srv/b"}
    environ["DRAWBRIDGE_SERVE_ALLOW_ORIGIN"] = "https://agents.example, http://localhost:3000"
    found = load("serve", ServeSettings, {}, environ)
    assert found.allow == ("/srv/a", "/srv/b")
    assert found.allow_origin == ("https://agents.example", "http://localhost:3000")


def test_commands_in_a_variable_may_contain_colons() -> None:
    """A colon separates two agents only if a name and ``=`` follow."""
    environ = {
        "DRAWBRIDGE_CONFIG": "",
        "DRAWBRIDGE_SERVE_ACP_AGENT": "goose=goose acp --at http://localhost:3000/x:other=other -v",
        "DRAWBRIDGE_SERVE_COMMAND_AGENT": "notes=ask a:b",
        "DRAWBRIDGE_SERVE_AGENT_PATH": "claude=/opt/claude:gemini=/opt/gemini",
    }
    found = load("serve", ServeSettings, {}, environ)
    assert found.acp_agent == ("goose=goose acp --at http://localhost:3000/x", "other=other -v")
    assert found.command_agent == ("notes=ask a:b",)
    assert found.agent_path == ("claude=/opt/claude", "gemini=/opt/gemini")


def test_another_commands_table_is_ignored(file: Path) -> None:
    file.write_text("[serve]\nport = 1\nanything = true\n")
    assert settings(file).port is None


def test_a_misspelled_table_is_a_problem_for_all_but_the_guard(file: Path) -> None:
    file.write_text("[server]\nport = 1\n")
    assert f"{file}: [server] is not a known table; the tables are [ide], [hook], [serve], [attach]" in problems(file)
    environ = {"DRAWBRIDGE_CONFIG": str(file)}
    assert load("hook", HookSettings, {"agent": "claude"}, environ).agent == "claude"
    file.write_text("port = 1\n")
    assert f"{file}: port is not in a table; the tables are [ide]" in problems(file)


def test_each_module_of_settings_has_a_table() -> None:
    folder = Path(drawbridge.settings.__file__).parent
    assert {path.stem for path in folder.glob("[a-z]*.py")} == set(TABLES)


def test_all_problems_are_reported_together(file: Path) -> None:
    file.write_text('[ide]\nprot = 1\nport = "many"\nsingle_client = 1\nagent = ["claude", "hal"]\nworkspace = "/a"\n')
    errors = problems(
        file,
        "--port",
        "70000",
        "--mention",
        "nobody",
        "--agent",
        "eliza",
        LOG_LEVEL="loud",
        PORT="x",
        CONTEXT="perhaps",
        REJECT="never",
    )
    for expected in [
        f"{file}: [ide] unknown setting prot",
        f"{file}: [ide] port must be a whole number",
        f"{file}: [ide] single_client must be true or false",
        f"{file}: [ide] agent must be one of claude, gemini, not hal",
        f"{file}: [ide] workspace must be a list of non-empty strings",
        "DRAWBRIDGE_LOG_LEVEL must be one of debug, info, warning, error, not loud",
        "DRAWBRIDGE_PORT must be a whole number",
        "DRAWBRIDGE_CONTEXT must be true or false",
        "DRAWBRIDGE_REJECT must be one of upgrade, 1008, not never",
        "--port must be between 1 and 65535",
        "--mention must be one of recent, all, not nobody",
        "--agent must be one of claude, gemini, not eliza",
    ]:
        assert expected in errors, errors


@pytest.mark.parametrize("port", ["x", "", "1.5", "0x10", "\u0661", "0", "65536", "-1", "9" * 30, "9" * 5_000, "1e4"])
def test_an_invalid_port_in_a_flag_or_variable_is_refused(port: str) -> None:
    assert "--port must" in problems(None, f"--port={port}")
    if port:
        assert "DRAWBRIDGE_PORT must" in problems(None, PORT=port)


@pytest.mark.parametrize("value", ["true", "1.0", '"1"', "[1]", "{}", "1979-05-27"])
def test_a_port_in_the_file_must_be_a_number(file: Path, value: str) -> None:
    file.write_text(f"[ide]\nport = {value}\n")
    assert f"{file}: [ide] port must be a whole number" in problems(file)


AMOUNTS_THAT_ARE_NONE = [
    "x",
    "",
    "0",
    "0.001",
    "-1",
    "-0.5",
    "nan",
    "inf",
    "-inf",
    "1e3",
    "1.",
    ".5",
    "1,5",
    "100001",
    "9" * 5_000,
]


def served(file: Path, flags: dict[str, str] | None = None, **variables: str) -> ServeSettings:
    environ = {"DRAWBRIDGE_CONFIG": str(file)} | {
        f"DRAWBRIDGE_SERVE_{name}": value for name, value in variables.items()
    }
    return load("serve", ServeSettings, flags or {}, environ)


@pytest.mark.parametrize(("given", "amount"), [("0.50", 0.5), ("5", 5.0), ("0.01", 0.01), ("99999.99", 99_999.99)])
def test_an_amount_may_have_a_fraction_in_any_source(file: Path, given: str, amount: float) -> None:
    file.write_text(f"[serve]\nmax_budget = {given}\n")
    assert served(file).max_budget == amount
    assert served(file, {"max_budget_day": given}).max_budget_day == amount
    assert served(file, MAX_BUDGET_PROJECT=given).max_budget_project == amount


@pytest.mark.parametrize("given", AMOUNTS_THAT_ARE_NONE)
def test_an_invalid_amount_in_a_flag_or_variable_is_refused(file: Path, given: str) -> None:
    file.write_text("")
    with pytest.raises(BadSetting, match="--max-budget must"):
        served(file, {"max_budget": given})
    if given:
        with pytest.raises(BadSetting, match="DRAWBRIDGE_SERVE_MAX_BUDGET must"):
            served(file, MAX_BUDGET=given)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-0.5", "0.0", "1e9", "true", '"0.5"', "[1.5]"])
def test_an_invalid_amount_in_the_file_is_refused(file: Path, value: str) -> None:
    file.write_text(f"[serve]\nmax_budget = {value}\n")
    with pytest.raises(BadSetting, match="max_budget must"):
        served(file)


@pytest.mark.parametrize(
    "content", [b"[ide\n", b"port = \n", b"\xff\xfe", b"ide = 5\n", b"[ide]\nport = 1\nport = 2\n"]
)
def test_the_error_about_an_invalid_file_names_it(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert str(file) in problems(file)


@pytest.mark.parametrize("name", ["folder", "nvim", "workspace", "log-file", "ignore"])
def test_an_empty_text_is_refused(name: str) -> None:
    assert f"--{name} must be a " in problems(None, f"--{name}", "")


def test_a_missing_named_file_is_a_problem(file: Path) -> None:
    assert str(file) in problems(file)


def test_a_directory_instead_of_the_file_is_a_problem(tmp_path: Path) -> None:
    assert str(tmp_path) in problems(tmp_path)


def test_the_file_is_in_the_default_location_unless_named(home: Path) -> None:
    assert config_file({"DRAWBRIDGE_CONFIG": "/else/where.toml"}) == "/else/where.toml"
    assert config_file({}).startswith(str(home))
    assert config_file({}).endswith("drawbridge/config.toml")


@pytest.mark.parametrize("base", ["/base", "", " ", None])
def test_the_default_location_matches_platformdirs(base: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    if base is not None:
        monkeypatch.setenv("XDG_CONFIG_HOME", base)
    assert config_file() == os.path.join(platformdirs.user_config_dir("drawbridge", appauthor=False), "config.toml")


def test_without_a_file_the_defaults_apply(home: Path) -> None:
    assert load("ide", IdeSettings, {}, {}).port is None


def test_the_file_in_the_default_location_is_read(home: Path) -> None:
    path = Path(config_file({}))
    path.parent.mkdir(parents=True)
    path.write_text("[ide]\nport = 4321\n")
    assert load("ide", IdeSettings, {}, {}).port == 4321


def test_help_shows_choices_defaults_and_percent_signs(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, (*of(IdeSettings), Setting("share", "text", "50%", (), Spec("how much, in %", metavar="N"))))
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--mention {recent,all}" in shown
    assert "(default: recent)" in shown
    assert "how much, in % (default: 50%)" in shown
    assert "--no-context" in shown


def test_the_guard_has_the_settings_of_the_hook_command() -> None:
    ours = get_type_hints(HookSettings)
    assert get_type_hints(Settings) == ours
    assert set(HookSettings()._asdict()) == set(ours)


@pytest.mark.parametrize("settings", [IdeSettings, ServeSettings, HookSettings, AttachSettings])
def test_every_default_is_a_value_that_its_setting_accepts(settings: type[NamedTuple]) -> None:
    for setting in of(settings):
        assert setting.spec.help, setting.name
        if setting.default is not None:
            problems: list[str] = []
            assert _checked(setting, setting.default, setting.name, problems) == setting.default
            assert problems == []


def test_spec_variables_are_read_on_demand_only(file: Path) -> None:
    file.write_text("")
    environ = {"DRAWBRIDGE_CONFIG": str(file), "PORT": "4000", "DATA_DIR": "/data", "CERT_FILE": "/c", "KEY_FILE": "/k"}
    assert load("serve", ServeSettings, {}, environ) == ServeSettings()
    loaded = load("serve", ServeSettings, {}, {**environ, "DRAWBRIDGE_SERVE_SPEC_ENV": "1"})
    assert (loaded.port, loaded.data_dir, loaded.cert, loaded.key) == (4000, "/data", "/c", "/k")
    loaded = load("serve", ServeSettings, {"spec_env": True}, {**environ, "DRAWBRIDGE_SERVE_PORT": "5000"})
    assert (loaded.port, loaded.data_dir) == (5000, "/data")
