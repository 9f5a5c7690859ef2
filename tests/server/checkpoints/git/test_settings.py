"""The settings that git receives, and those that are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.errors import NoCheckpoint
from drawbridge.server.checkpoints.git import settings as git_settings
from drawbridge.server.checkpoints.git.settings import settings_from
from drawbridge.server.checkpoints.repository import Repository
from tests.server.checkpoints.rig import RUN, git, make_project


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home directory, without any git configuration."""
    directory = tmp_path / "home"
    directory.mkdir()
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return directory


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    return make_project(tmp_path / "ws")


async def test_an_extension_that_is_not_known_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown extension is refused even if git itself supports it, because such a repository may not be readable
    through links.
    """
    git(project, "config", "core.repositoryFormatVersion", "1")
    git(project, "config", "extensions.worktreeConfig", "true")
    assert await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")
    known = git_settings.KNOWN_EXTENSIONS - {"extensions.worktreeconfig"}
    monkeypatch.setattr(git_settings, "KNOWN_EXTENSIONS", known)
    with pytest.raises(NoCheckpoint, match=r"it uses extensions\.worktreeconfig, which Drawbridge does not"):
        await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")


@pytest.mark.parametrize("setting", ["core.excludesFile", "core.attributesFile"])
async def test_a_setting_that_names_a_pipe_is_reported(setting: str, project: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    git(project, "config", setting, str(tmp_path / "pipe"))
    with pytest.raises(NoCheckpoint, match=f"{setting.lower()} is too large, or is not a regular file"):
        await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")
    git(project, "config", setting, os.devnull)
    assert await Checkpoints(project, "proj_1").snapshotter.create(RUN, "before")


def listed(*items: tuple[str, str]) -> str:
    """The output of ``git config --list --show-origin -z``. ``items``: origins and settings."""
    return "".join(f"{origin}\0{setting}\0" for origin, setting in items)


OWN = "file:/home/ada/poems/.git/config"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path, tmp_path / ".git", tmp_path / ".git")


def test_no_setting_that_hides_changes_or_runs_programs_is_kept(repository: Repository) -> None:
    settings = settings_from(
        listed(
            (OWN, "core.autocrlf\ntrue"),
            (OWN, "core.filemode"),
            (OWN, "core.fsmonitor\n/tmp/spy"),
            (OWN, "core.hookspath\n/tmp/hooks"),
            (OWN, "core.checkstat\nminimal"),
            (OWN, "core.trustctime\nfalse"),
            (OWN, "filter.x.clean\n/tmp/spy"),
        ),
        repository,
    )
    given = [word.partition("=")[0] for word in settings.words[1::2]]
    assert "core.autocrlf=true" in settings.words
    assert "core.filemode" in settings.words, "a setting without a value is true"
    left_out = {"core.fsmonitor", "core.hookspath", "core.checkstat", "core.trustctime", "filter.x.clean"}
    assert not left_out & {*given}
    assert set(settings.words[::2]) == {"-c"}


def test_the_files_of_the_configuration_are_watched(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "later").write_text("")
    settings = settings_from(listed((f"file:{tmp_path}/own", "include.path\nlater")), repository)
    assert settings.are_current()
    assert {f"{tmp_path}/own", f"{tmp_path}/later", f"{tmp_path}/.git/HEAD"} <= (settings.files or {}).keys()
    (tmp_path / "later").write_text("[core]\n")
    assert not settings.are_current()


@pytest.mark.parametrize(
    "item",
    [
        ("command line:", "core.autocrlf\ntrue"),
        (OWN, "include.path\n%(prefix)/share/gitconfig"),
        ("file:relative/config", "core.autocrlf\ntrue"),
    ],
)
def test_a_configuration_that_cannot_be_watched_is_read_again(item: tuple[str, str], repository: Repository) -> None:
    settings = settings_from(listed(item), repository)
    assert settings.files is None
    assert not settings.are_current()


def test_the_object_format_determines_the_size_of_object_ids(repository: Repository) -> None:
    assert settings_from("", repository).id_bytes == 20
    assert settings_from(listed((OWN, "extensions.objectformat\nsha256")), repository).id_bytes == 32
    with pytest.raises(NoCheckpoint, match="object format is not sha1 or sha256"):
        settings_from(listed((OWN, "extensions.objectformat\nsha3")), repository)
