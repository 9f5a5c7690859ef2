"""Real programs are fetched once for each user. A damaged one is fetched again, and failures are reported."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import bootstrap
import programs
from bootstrap import SetupError, Unavailable


class Fetched:
    """A fake program whose first ``failures`` installations fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.installs = 0

    def __call__(self, directory: Path) -> None:
        self.installs += 1
        (directory / "lib").mkdir()
        (directory / "lib" / "data").write_text("whole")
        (directory / "run").symlink_to("lib/data")
        if self.installs <= self.failures:
            raise SetupError("npm exited with code 1; the reason is above.")


@pytest.fixture(autouse=True)
def _checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "LINKS", tmp_path / "checkout" / ".cache" / "programs")
    monkeypatch.setattr(programs, "PAUSE", 0.0)


def program(install: Fetched, version: str = "1.2", recipe: str = "") -> programs.Program:
    return programs.Program("tool", version, recipe, install)


def test_a_second_checkout_finds_what_the_first_has_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install = Fetched()
    programs.fetch(program(install))
    monkeypatch.setattr(programs, "LINKS", tmp_path / "another" / ".cache" / "programs")
    programs.fetch(program(install))
    assert install.installs == 1
    for checkout in ("checkout", "another"):
        assert (tmp_path / checkout / ".cache" / "programs" / "tool" / "run").read_text() == "whole"


@pytest.mark.parametrize("damage", ["changed", "missing", "additional", "redirected", "unsealed"])
def test_a_damaged_program_is_fetched_again(damage: str) -> None:
    install = Fetched()
    wanted = program(install)
    programs.fetch(wanted)
    match damage:
        case "changed":
            (wanted.directory / "lib" / "data").write_text("wHole")
        case "missing":
            (wanted.directory / "lib" / "data").unlink()
        case "additional":
            (wanted.directory / "lib" / "more").write_text("")
        case "redirected":
            (wanted.directory / "run").unlink()
            (wanted.directory / "run").symlink_to("lib/elsewhere")
        case "unsealed":
            (wanted.directory / programs.SEAL).unlink()
    programs.fetch(wanted)
    assert install.installs == 2
    assert (wanted.directory / "run").read_text() == "whole"
    programs.fetch(wanted)
    assert install.installs == 2


def test_bytecode_from_python_does_not_count_as_damage() -> None:
    install = Fetched()
    wanted = program(install)
    programs.fetch(wanted)
    (wanted.directory / "lib" / "__pycache__").mkdir()
    (wanted.directory / "lib" / "__pycache__" / "data.pyc").write_text("")
    programs.fetch(wanted)
    assert install.installs == 1


def test_each_version_and_recipe_has_its_own_directory() -> None:
    directories = {
        program(Fetched(), version, recipe).directory for version in ("1.2", "1.3") for recipe in ("", "other")
    }
    assert len(directories) == 4


def test_a_fetch_that_fails_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    install = Fetched(failures=2)
    programs.fetch(program(install))
    assert install.installs == 3
    assert "fetching tool 1.2 failed (2 of 3); trying again" in capsys.readouterr().err


def test_without_a_network_program_and_attempts_are_reported() -> None:
    wanted = program(Fetched(failures=9))
    with pytest.raises(
        Unavailable, match=r"^Can't fetch tool 1\.2 \(tried 3 times\): npm exited with code 1; .* network"
    ):
        programs.fetch(wanted)
    assert not wanted.directory.exists()
    assert Unavailable.code not in (0, 1, 2), "failed tests and make have other exit codes"


def test_an_interrupted_fetch_leaves_nothing() -> None:
    def interrupted(directory: Path) -> None:
        (directory / "half").write_text("")
        raise KeyboardInterrupt

    wanted = programs.Program("tool", "1.2", "", interrupted)
    with pytest.raises(KeyboardInterrupt):
        programs.fetch(wanted)
    assert not wanted.directory.exists()


def test_a_full_disk_is_reported_and_leaves_nothing() -> None:
    def full(directory: Path) -> None:
        (directory / "half").write_text("")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory / "rest"))

    wanted = programs.Program("tool", "1.2", "", full)
    with pytest.raises(Unavailable, match=r"^Can't store tool 1\.2: No space left on device .*Make room"):
        programs.fetch(wanted)
    assert not wanted.directory.exists()


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(Unavailable, match=r"Can't store tool 1\.2: Not a directory .*XDG_CACHE_HOME"):
        programs.fetch(program(Fetched()))


def test_a_copy_inside_the_checkout_is_replaced(tmp_path: Path) -> None:
    own = tmp_path / "checkout" / ".cache" / "programs" / "tool"
    own.mkdir(parents=True)
    (own / "run").write_text("its own")
    programs.fetch(program(Fetched()))
    assert (own / "run").read_text() == "whole"


def test_every_program_has_a_version_and_its_own_directory() -> None:
    wanted = list(programs.wanted())
    assert len({one.directory for one in wanted}) == len({one.link for one in wanted}) == len(wanted)
    assert all(one.version for one in wanted)
    scripts = {file.stem.removeprefix("install-") for file in (bootstrap.ROOT / "tools").glob("install-*.sh")}
    assert scripts == {one.name for one in wanted} - {"mcp-client"}
