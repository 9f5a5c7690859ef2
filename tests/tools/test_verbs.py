"""What the verbs of a developer start."""

from __future__ import annotations

import hypothesis
import pytest

import bootstrap
import verbs


def test_make_slow_tries_more_of_any_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs the tests of Hypothesis again, with more examples than ``make test`` has time for."""
    started: list[list[str]] = []
    monkeypatch.setattr(verbs, "replace_process", started.append)
    monkeypatch.setattr(verbs, "try_page", lambda: None)
    monkeypatch.setattr(bootstrap, "ensure", lambda _kind: "python")
    verbs.slow([])
    [command] = started
    assert "hypothesis" in command[command.index("-m", 3) + 1]
    [profile] = [word.partition("=")[2] for word in command if word.startswith("--hypothesis-profile=")]
    fewer = [hypothesis.settings.get_profile(name).max_examples for name in ("here", "ci")]
    assert hypothesis.settings.get_profile(profile).max_examples > max(fewer)
