"""``drawbridge completion``: what the Tab key offers, tested in real shells."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drawbridge.cli import parser
from drawbridge.cli.completion import SHELLS, script
from tests.programs import missing
from tests.rigs.tmux import Tmux
from tests.waiting import PATIENCE

COMMAND = f"{shlex.quote(sys.executable)} -P -m drawbridge"


def offered(line: str) -> list[str]:
    """Returns the words that bash offers at the end of the line, or [] where it completes file names instead."""
    words = line.split(" ")
    asked = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _drawbridge; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    source = script("bash", parser())
    ended = subprocess.run(
        ["bash", "-uc", f"{source}\n{asked}"], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert ended.stderr == ""
    return ended.stdout.split()


def test_every_command_and_every_flag_is_offered() -> None:
    top = offered("drawbridge ")
    assert {"ide", "nvim", "neovim", "info", "hook", "setup", "completion", "--version"} <= set(top)
    assert offered("drawbridge in") == ["info"]
    assert offered("drawbridge info --") == ["--help", "--json", "--sweep"]
    assert offered("drawbridge setup c") == ["claude", "codex"]
    assert "--scope" in offered("drawbridge setup --dry-run claude --yes --")
    assert offered("drawbridge completion z") == ["zsh"]


def test_the_values_of_a_flag_are_offered_or_else_files() -> None:
    assert offered("drawbridge hook --answer ") == ["deny", "ask", "wait", "save", "merge"]
    assert offered("drawbridge ide --log-level w") == ["warning"]
    assert offered("drawbridge setup claude --scope p") == ["project"]
    assert offered("drawbridge ide --folder ") == []


@pytest.mark.parametrize("line", ["drawbridge nvim ", "drawbridge nvim -d i", "drawbridge neovim setup "])
def test_file_names_are_completed_after_nvim(line: str) -> None:
    assert offered(line) == []


def test_the_tab_key_completes_in_a_real_bash(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with Tmux.server() as tmux:
        environment = {**os.environ, "PS1": "> "}
        pane = tmux.start("bash", ["bash", "--norc", "-i"], cwd=tmp_path, environment=environment)
        pane.wait_for("^>")
        pane.type(f"drawbridge() {{ echo \"<$*>\"; }}; source <({COMMAND} completion bash); echo rea''dy")
        pane.press("Enter")
        pane.wait_for("\nready")
        for typed, shown in [
            ("drawbridge comp\tf\t", "<completion fish>"),
            ("drawbridge nvim no\t", "<nvim notes.txt>"),
        ]:
            pane.type(typed)
            pane.press("Enter")
            pane.wait_for(shown)
        pane.type("exit")
        pane.press("Enter")
        pane.wait_for_exit()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_accepts_its_script(shell: str) -> None:
    if not (program := shutil.which(shell)):
        missing(f"{shell} is missing: install the package {shell}")
    start = "autoload -Uz compinit && compinit -D\n" if shell == "zsh" else ""
    command = [program, *(["-f"] if shell == "zsh" else []), "-c", start + script(shell, parser())]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_words_that_a_shell_could_misread_are_quoted() -> None:
    odd = argparse.ArgumentParser(prog="drawbridge")
    odd.add_argument("--odd", metavar="{a,b}", help="it's $HOME; `reboot` 100%%")
    assert "-d 'it'\"'\"'s $HOME; `reboot` 100%'" in script("fish", odd)
