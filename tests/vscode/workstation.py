"""A user who works in a window with the test's own files, and the requests that the guard sends to the extension."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .rig import Lines, VSCode, Window, wait_until

NOTEBOOK = """{"cells": [
 {"cell_type": "code", "execution_count": null, "id": "1", "metadata": {}, "outputs": [], "source": ["one"]}
], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
"""

# Bodies of async functions that run in the extension host.
SHOW = """
const { path, column } = argument;
const document = await vscode.workspace.openTextDocument(path);
await vscode.window.showTextDocument(document, { preview: false, viewColumn: column });
"""
INSERT = """
const { path, text } = argument;
const edit = new vscode.WorkspaceEdit();
edit.insert(vscode.Uri.file(path), new vscode.Position(0, 0), text);
await vscode.workspace.applyEdit(edit);
"""
SHOW_BY_KIND = "await vscode.commands.executeCommand('vscode.open', vscode.Uri.file(argument), { preview: false })"
SHOW_NOTEBOOK = """
await vscode.window.showNotebookDocument(await vscode.workspace.openNotebookDocument(vscode.Uri.file(argument)));
"""
EDIT_NOTEBOOK = """
const notebook = vscode.workspace.notebookDocuments.find(({ uri }) => uri.fsPath === argument);
const edit = new vscode.WorkspaceEdit();
edit.insert(notebook.cellAt(0).document.uri, new vscode.Position(0, 0), 'mine');
await vscode.workspace.applyEdit(edit);
"""
DOCUMENT = """
const document = vscode.workspace.textDocuments.find(({ fileName }) => fileName === argument);
return document ? { text: document.getText(), dirty: document.isDirty } : null;
"""
CLEAR = """
const files = () => vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs);
for (let left = 50; files().length && left; left--) {
  if (!vscode.window.tabGroups.activeTabGroup.activeTab) {
    await vscode.commands.executeCommand('workbench.action.focusNextGroup');
  }
  await vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor');
}
await vscode.commands.executeCommand('notifications.clearAll');
await vscode.commands.executeCommand('workbench.action.closePanel');
return files().map(({ label }) => label);
"""


class Workstation:
    def __init__(self, window: Window, vscode: VSCode, folder: Path) -> None:
        self.window = window
        self.vscode = vscode
        self.folder = folder
        """The test's own directory, inside the first folder of the window."""
        self.socket = window.sockets()[0]

    def file(self, name: str, content: str | bytes = "one\ntwo\nthree\n") -> Path:
        """Creates a file in the test's directory, or anywhere if ``name`` is an absolute path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def opens(self, path: Path, *, column: int = 1) -> Path:
        self.window.run(SHOW, {"path": str(path), "column": column})
        return path

    def opens_notebook(self, path: Path) -> None:
        self.window.run(SHOW_NOTEBOOK, str(path))
        wait_until(lambda: self.state(path), "the notebook")

    def edits_notebook(self, path: Path) -> None:
        """Inserts "mine" at the beginning of the first cell."""
        self.window.run(EDIT_NOTEBOOK, str(path))
        wait_until(lambda: self.state(path)["modified"], "the modification")

    def opens_by_kind(self, path: Path) -> None:
        """Opens a file in the editor that VS Code has for its type. The probe has one for ``*.canvas``."""
        self.window.run(SHOW_BY_KIND, str(path))
        wait_until(lambda: self.state(path), path.name)

    def draws(self, path: Path) -> None:
        """Modifies a canvas that is open."""
        self.window.run("kept.draw(argument)", str(path))
        wait_until(lambda: self.state(path)["modified"], "the modification")

    def types(self, text: str) -> None:
        """Types into the editor in front, and returns once VS Code reports the text in a modified document."""
        wait_until(lambda: self.window.sees(".editor-instance .monaco-editor.focused"), "an editor with the cursor")
        self.window.types(text)
        code = (
            "const it = vscode.window.activeTextEditor?.document; return it?.isDirty && it.getText().includes(argument)"
        )
        self.window.until(code, text)

    def inserts(self, path: Path, text: str) -> None:
        """Inserts a text at the beginning of an open file, without moving the focus."""
        self.window.run(INSERT, {"path": str(path), "text": text})
        wait_until(lambda: self.document(path)["dirty"], "the modification")

    def document(self, path: Path) -> Any:
        """Returns ``{"text", "dirty"}`` for a document in VS Code, or None if it is not open as text."""
        return self.window.run(DOCUMENT, str(path))

    def text(self, path: Path) -> str:
        text: str = self.document(path)["text"]
        return text

    def shows(self, path: Path, text: str) -> None:
        wait_until(lambda: self.text(path) == text, f"{text!r} in {path.name}")

    def does(self, command: str, *arguments: Any) -> Any:
        """Runs a VS Code command and returns its result."""
        code = "const result = await vscode.commands.executeCommand(...argument); return result ?? null"
        return self.window.run(code, [command, *arguments])

    def asked(self, method: str, **params: Any) -> Any:
        """Sends one request on its own connection, as the guard does, and returns the whole answer."""
        with Lines(self.socket) as lines:
            return lines.ask(id=1, method=method, params=params)

    def ask(self, method: str, **params: Any) -> Any:
        answer = self.asked(method, **params)
        assert "error" not in answer, answer
        assert answer["id"] == 1
        return answer["result"]

    def snapshot(self, *paths: Path | str, **more: Any) -> Any:
        return self.ask("snapshot", paths=[str(path) for path in paths], **more)

    def state(self, path: Path | str) -> Any:
        """Returns what ``snapshot`` returns for one file, or None if it is not open."""
        return self.snapshot(path)["files"][0]

    def notices(self) -> Sequence[str]:
        """Returns all notices. Opens the notification list for that, because VS Code otherwise shows only a few."""
        self.does("notifications.showList")
        return self.window.sees(".notification-list-item-message")

    def clear(self) -> None:
        assert self.window.run(CLEAR) == []
        self.socket = self.window.sockets()[0]
        with contextlib.suppress(AssertionError):  # it may time out, but the next test waits for its own files
            wait_until(lambda: self.snapshot(want=["open"])["open"] == [], "all closed", timeout=1)
