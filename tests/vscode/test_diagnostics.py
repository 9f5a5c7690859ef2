"""``diagnostics`` returns new problems after an edit, as a language server (here the probe) reports them to a real VS
Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .rig import wait_until
from .workstation import Workstation

pytestmark = pytest.mark.thorough

REPORT = """
kept.reports ??= vscode.languages.createDiagnosticCollection('probe');
const problems = argument.problems.map(([line, message, severity, code]) => {
  const range = new vscode.Range(line - 1, 0, line - 1, 3);
  const problem = new vscode.Diagnostic(range, message, vscode.DiagnosticSeverity[severity]);
  return Object.assign(problem, { source: 'lint', code });
});
// VS Code reports this a moment later, to all listeners at once.
await new Promise((told) => {
  const listener = vscode.languages.onDidChangeDiagnostics(({ uris }) => {
    if (!uris.some((uri) => uri.fsPath === argument.path)) return;
    listener.dispose();
    told();
  });
  kept.reports.set(vscode.Uri.file(argument.path), problems);
});
"""


@pytest.fixture
def path(rig: Workstation) -> Path:
    path = rig.opens(rig.file("a.lua"))
    reports(rig, path, (1, "unused name", "Warning", "E1"))
    reports(rig, path)
    return path


def reports(rig: Workstation, path: Path, *problems: tuple[int, str, str, Any]) -> None:
    rig.window.run(REPORT, {"path": str(path), "problems": problems})
    code = "return vscode.languages.getDiagnostics(vscode.Uri.file(argument)).length"
    wait_until(lambda: rig.window.run(code, str(path)) == len(problems), "the report")


def found(rig: Workstation, path: Path) -> Any:
    return rig.ask("diagnostics", file_path=str(path))


def writes(rig: Workstation, path: Path, text: str) -> None:
    path.write_text(text)
    rig.ask("refresh_buffer", file_path=str(path))


def test_only_new_diagnostics_are_reported(rig: Workstation, path: Path) -> None:
    reports(rig, path, (1, "old", "Error", None), (2, "gone soon", "Warning", None))
    rig.snapshot(path, remember=True)
    writes(rig, path, "zero\none\ntwo\nthree\n")
    new = [(4, "new", "Warning", "E7"), (3, "worse", "Error", {"value": "E8", "target": None})]
    reports(rig, path, (2, "old", "Error", None), *new)
    assert found(rig, path)["new"] == [
        {"line": 3, "severity": "error", "message": "worse", "source": "lint", "code": "E8"},
        {"line": 4, "severity": "warning", "message": "new", "source": "lint", "code": "E7"},
    ]


def test_hints_are_not_reported(rig: Workstation, path: Path) -> None:
    rig.snapshot(path, remember=True)
    reports(rig, path, (1, "a hint", "Hint", None), (2, "an information", "Information", None))
    assert found(rig, path)["new"] == []


def test_at_most_twenty_diagnostics_are_returned(rig: Workstation, path: Path) -> None:
    rig.snapshot(path, remember=True)
    reports(rig, path, *((1, f"problem {number}", "Error", None) for number in range(30)))
    assert len(found(rig, path)["new"]) == 20


def test_a_change_is_pending_until_the_language_server_reports(rig: Workstation, path: Path) -> None:
    rig.snapshot(path, remember=True)
    assert found(rig, path) == {"new": [], "pending": False}
    writes(rig, path, "changed\n")
    assert found(rig, path) == {"new": [], "pending": True}
    reports(rig, path, (1, "new", "Error", None))
    wait_until(lambda: found(rig, path)["pending"] is False, "the end of it")


def test_nothing_is_pending_without_a_language_server(rig: Workstation) -> None:
    path = rig.opens(rig.file("a.nobodys"))
    rig.snapshot(path, remember=True)
    writes(rig, path, "changed\n")
    assert found(rig, path) == {"new": [], "pending": False}


def test_without_remember_nothing_is_new(rig: Workstation, path: Path) -> None:
    reports(rig, path, (1, "old", "Error", None))
    assert found(rig, path) == {"new": [], "pending": False}


def test_diagnostics_of_a_file_that_is_not_open_are_reported(rig: Workstation, path: Path) -> None:
    other = rig.file("other.lua")
    rig.snapshot(other, remember=True)
    reports(rig, other, (1, "new", "Error", None))
    assert [problem["message"] for problem in found(rig, other)["new"]] == ["new"]
