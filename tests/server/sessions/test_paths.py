"""Whatever path a client sends, a project's directory and the directories added to a run are real directories inside
the allowed ones.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.directories import allowed_directories

NAMES = [
    "home",
    "code",
    "code-beside",
    "app",
    "inner",
    ".ssh",
    "outside",
    "secret",
    "in",
    "out",
    "up",
    "loop",
    "file",
    "nothing",
]
ODD = ["..", ".", "", "...", "~", "-rf", "*", "$HOME", "a\0b", "\n", "\x7f", "Ünï", "\ud800", "CODE", "x" * 300]

paths = st.one_of(
    st.lists(st.sampled_from(NAMES + ODD), max_size=6).map(lambda parts: "/".join(["HERE", *parts])),
    st.lists(st.sampled_from(NAMES), max_size=4).map(lambda parts: "/".join(["HERE/home", *parts])),
    st.lists(st.sampled_from(NAMES + ODD), max_size=4).map("/".join),
    st.text(st.characters(), max_size=30),
)
"""Paths that clients might send. ``HERE`` stands for the directory of the tree."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that contains a home directory, a directory outside of it, and links that lead in, out and in
    circles.
    """
    here = tmp_path_factory.mktemp("paths").resolve()
    for name in ("home/code/app/inner", "home/.ssh", "home/code/.ssh", "home/code-beside", "outside/secret"):
        (here / name).mkdir(parents=True)
    (here / "home" / "file").write_text("")
    for place, target in {
        "home/out": "outside",
        "home/code/out": "outside/secret",
        "home/in": "home/code",
        "outside/in": "home/code/app",
        "home/up": ".",
        "home/loop": "home/loop",
        "home/code/in": "home/.ssh",
    }.items():
        (here / place).symlink_to(here / target)
    return here


def may_be(path: str, roots: list[str], home: str) -> bool:
    """Whether a project may have this path. The rule is implemented differently from the code under test: as text, on
    the real paths that the operating system reports.
    """
    if not path.startswith("/") or ".." in path.split("/") or not os.path.isdir(path):
        return False
    real = os.path.realpath(path)
    for root in roots:
        below = os.path.relpath(real, root).split(os.sep)
        if below[0] != ".." and not (root == home and any(part[0] == "." and part != "." for part in below)):
            return True
    return False


def resolved(path: str, roots: list[str], taken: list[str] = []) -> Path | ClientError:  # noqa: B006 - never changed
    try:
        return allowed_directories.resolve(path, map(Path, roots), map(Path, taken))
    except ClientError as error:
        return error


@given(path=paths, allowed=st.sets(st.sampled_from(["home", "home/code", "outside/secret"]), min_size=1))
@example(path="HERE/home/code/../code", allowed={"home"})
@example(path="HERE/home/code-beside", allowed={"home/code"})
@example(path="HERE/home/in/in", allowed={"home"})
@example(path="HERE/home/out/secret", allowed={"home"})
@example(path="HERE/home/.ssh", allowed={"home/code"})
@example(path="HERE/outside/in/inner", allowed={"home"})
def test_no_path_leads_out_and_every_path_inside_is_accepted(tree: Path, path: str, allowed: set[str]) -> None:
    path, home = path.replace("HERE", str(tree)), str(tree / "home")
    roots = [str(tree / name) for name in sorted(allowed)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOME", home)
        expected = may_be(path, roots, home)
        found = resolved(path, roots)
        if ".." not in path:
            assert allowed_directories.usable(path, map(Path, roots)) == expected
    if isinstance(found, ClientError):
        assert not expected
        assert found.code == "INVALID_PATH"
        assert str(tree) not in found.text
    else:
        assert expected
        assert os.path.samefile(found, path)
        assert str(found) == os.path.realpath(path)


@given(path=paths, taken=st.sets(st.sampled_from(["home/code", "home/code/app", "home/code/app/inner"])))
@example(path="HERE/home/in", taken={"home/code"})
@example(path="HERE/home/in/app", taken={"home/code"})
@example(path="HERE/outside/in", taken={"home/code/app/inner"})
def test_no_two_projects_share_a_file(tree: Path, path: str, taken: set[str]) -> None:
    others = [str(tree / name) for name in sorted(taken)]
    found = resolved(path.replace("HERE", str(tree)), [str(tree)], others)
    if isinstance(found, ClientError):
        assert found.code in ("INVALID_PATH", "PROJECT_EXISTS", "PROJECT_NESTING")
        return
    for other in others:
        assert os.path.commonpath([found, other]) not in (str(found), other)
