"""The twelve tools: their exact parameters, answers and errors."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.editors.files import FILE_LIMIT, to_uri
from drawbridge.editors.port import Accepted, Diagnostic, OpenRequest, Position, Range, Rejected
from drawbridge.ide import tool_context
from drawbridge.ide.tools import TOOLS, Toolbox
from tests.ide.rig import Agent, ClaudeRig, failure, texts
from tests.waiting import PATIENCE, until


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "größe & #1"
    folder.mkdir()
    (folder / "main.py").write_text("import os\n\nprint('ü')\n")
    return folder


@pytest.fixture
def other(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    return folder


@pytest.fixture
async def rig(project: Path, other: Path) -> AsyncIterator[ClaudeRig]:
    async with ClaudeRig(project, other, execute_code=True) as rig:
        yield rig


@pytest.fixture
async def agent(rig: ClaudeRig) -> Agent:
    return rig.agent()


def range_of(start_line: int, start: int, end_line: int, end: int) -> Range:
    return Range(Position(start_line, start), Position(end_line, end))


# what is offered

OFFERED = """
openDiff             old_file_path: string, new_file_path: string, new_file_contents: string, tab_name: string
close_tab            tab_name: string
closeAllDiffTabs
openFile             filePath: string, preview?: boolean = False, startText?: string, endText?: string,
                     selectToEndOfLine?: boolean = False, makeFrontmost?: boolean = True
getOpenEditors
getWorkspaceFolders
checkDocumentDirty   filePath: string
saveDocument         filePath: string
getCurrentSelection
getLatestSelection
getDiagnostics       uri?: string
executeCode          code: string
"""


def signature(entry: dict[str, Any]) -> str:
    schema = entry["inputSchema"]
    shown = []
    for name, value in schema["properties"].items():
        assert set(value) <= {"type", "description", "default"}
        assert value["description"].endswith(".")
        optional = "" if name in schema["required"] else "?"
        default = f" = {value['default']}" if "default" in value else ""
        shown.append(f"{name}{optional}: {value['type']}{default}")
    return f"{entry['name']} {', '.join(shown)}"


def test_the_tools_match_the_official_extension() -> None:
    offered = [signature(entry) for entry in Toolbox(execute_code=True).listing]
    assert " ".join(" ".join(offered).split()) == " ".join(OFFERED.split())


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_schema_matches_the_official_extension(tool: Any) -> None:
    entry = tool.entry()
    assert list(entry) == ["name", "description", "inputSchema"]
    schema = entry["inputSchema"]
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert isinstance(schema["required"], list)
    assert schema["additionalProperties"] is False
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"


async def test_tools_list_returns_the_twelve_tools(rig: ClaudeRig, agent: Agent) -> None:
    agent.send(id="list", method="tools/list")
    assert (await agent.answer("list"))["result"]["tools"] == rig.clients.toolbox.listing
    assert len(rig.clients.toolbox.listing) == 12


# bad calls


@pytest.mark.parametrize("name", ["openfile", "", "rm -rf", "\ud800", "a" * 1_000])
async def test_an_unknown_tool_is_reported(agent: Agent, name: str) -> None:
    error = (await agent.call(name))["error"]
    assert error["code"] == -32602
    assert error["message"] == f"Unknown tool: {name}".replace("\ud800", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(
    ("tool", "arguments", "name"),
    [
        ("openFile", {}, "filePath"),
        ("openFile", {"filePath": None}, "filePath"),
        ("openFile", {"filePath": 5}, "filePath"),
        ("openFile", {"filePath": ["/a"]}, "filePath"),
        ("openFile", {"filePath": "/a", "preview": "yes"}, "preview"),
        ("openFile", {"filePath": "/a", "makeFrontmost": 1}, "makeFrontmost"),
        ("openFile", {"filePath": "/a", "startText": {}}, "startText"),
        ("openFile", {"filePath": "/a", "preview": "\ud800"}, "arguments"),
        ("openFile", {"filePath": "/a", "\ud800": 1}, "arguments"),
        ("openDiff", {}, "old_file_path"),
        ("openDiff", {"old_file_path": "/a", "new_file_path": "/a", "tab_name": "t"}, "new_file_contents"),
        ("openDiff", {"old_file_path": "/a", "new_file_path": "/a", "new_file_contents": "x"}, "tab_name"),
        (
            "openDiff",
            {"old_file_path": "/a", "new_file_path": "/a", "new_file_contents": None, "tab_name": "t"},
            "new_file_contents",
        ),
        ("close_tab", {}, "tab_name"),
        ("close_tab", {"tab_name": True}, "tab_name"),
        ("checkDocumentDirty", {"file_path": "/a"}, "filePath"),
        ("saveDocument", {}, "filePath"),
        ("getDiagnostics", {"uri": 1}, "uri"),
        ("executeCode", {}, "code"),
    ],
)
async def test_a_missing_or_invalid_argument_is_reported(
    rig: ClaudeRig, agent: Agent, tool: str, arguments: dict[str, Any], name: str
) -> None:
    """Nothing is opened or shown in the editor."""
    error = (await agent.call(tool, **arguments))["error"]
    assert error["code"] == -32602
    assert error["message"].startswith(f"{name}: ")
    assert rig.editor.opened == []
    assert rig.editor.shown == {}


async def test_arguments_that_a_newer_agent_may_send_are_ignored(agent: Agent) -> None:
    assert (await agent.body("getOpenEditors", verbose=True)) == {"tabs": []}
    assert await agent.texts("close_tab", tab_name="t", path="/a") == ["TAB_CLOSED"]


async def test_null_for_an_optional_argument_counts_as_omitted(agent: Agent) -> None:
    assert await agent.body("getDiagnostics", uri=None) == []


# openFile


async def test_open_file_shows_the_file_in_front(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    path = str(project / "main.py")
    assert await agent.texts("openFile", filePath=path) == [f"Opened file: {path}"]
    assert rig.editor.opened == [OpenRequest(path)]
    assert rig.editor.active == path


async def test_open_file_in_the_background_keeps_the_active_file(
    rig: ClaudeRig, agent: Agent, project: Path, other: Path
) -> None:
    """The answer contains the file's language and its number of lines."""
    (other / "active.txt").write_text("x")
    rig.editor.open(str(other / "active.txt"))
    path = str(project / "main.py")
    body = await agent.body("openFile", filePath=path, makeFrontmost=False)
    assert body == {"success": True, "filePath": path, "languageId": "python", "lineCount": 3}
    assert rig.editor.active == str(other / "active.txt")


async def test_open_file_selects_from_start_text_to_end_text(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    path = str(project / "main.py")
    await agent.call("openFile", filePath=path, startText="import", endText="print", selectToEndOfLine=True)
    assert rig.editor.opened == [OpenRequest(path, True, "import", "print", True)]
    assert (await agent.body("getCurrentSelection"))["text"] == "import os\n\nprint('ü')"


async def test_open_file_opens_the_file_even_if_the_text_is_missing(
    rig: ClaudeRig, agent: Agent, project: Path
) -> None:
    """The answer reports that the text was not found."""
    path = str(project / "main.py")
    [message] = await agent.texts("openFile", filePath=path, startText="no such text")
    assert message.startswith(f"Opened file: {path} ")
    assert "not found" in message
    assert rig.editor.active == path


async def test_a_relative_path_starts_at_the_first_folder(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    for path in ["main.py", "./main.py", "sub/../main.py", str(project / "main.py"), (project / "main.py").as_uri()]:
        rig.editor.opened.clear()
        await agent.texts("openFile", filePath=path)
        assert rig.editor.opened == [OpenRequest(str(project / "main.py"))]


@pytest.mark.parametrize("name", ["a b.txt", "100%.txt", "a#b?c.txt", "ü€🌉.txt", "%41.txt", "~", "-rf", "a:b", "a\nb"])
async def test_a_path_a_uri_and_a_relative_name_open_the_same_file(
    rig: ClaudeRig, agent: Agent, project: Path, name: str
) -> None:
    path = project / name
    path.write_text("x\n")
    for spelling in [str(path), path.as_uri(), name]:
        rig.editor.opened.clear()
        await agent.texts("openFile", filePath=spelling)
        assert rig.editor.opened == [OpenRequest(str(path))]
    uris = [tab["uri"] for tab in (await agent.body("getOpenEditors"))["tabs"]]
    assert uris == [to_uri(str(path))]


async def test_a_file_that_cannot_be_opened_is_reported(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    (project / "binary").write_bytes(b"\x89PNG\0\0")
    with (project / "large").open("wb") as large:
        large.truncate(FILE_LIMIT + 1)
    os.mkfifo(project / "pipe")
    (project / "loop").symlink_to(project / "loop")
    for path, why in [
        ("missing.txt", "does not exist"),
        (".", "is a directory"),
        ("binary", "is binary"),
        ("large", "more than 16,777,216 bytes"),
        ("pipe", "is a pipe"),
        ("/dev/zero", "is a device"),
        ("main.py/x", "is a file, not a directory"),
        ("loop", "can't be read"),
        ("x" * 10_000, "can't be read"),
        ("", "is empty"),
        ("a\0b", "is not a valid file name"),
        ("\ud800", "is not a valid file name"),
        ("http://example.org/a.txt", "is not a file: URI"),
        ("file://elsewhere/a.txt", "another machine"),
    ]:
        message = failure(await agent.call("openFile", filePath=path))
        assert why in message, path
    assert rig.editor.opened == []


# openDiff and its siblings


def diff(path: Path | str, text: str = "new\n", tab: str = "✻ [Claude Code] main.py (5e1139) ⧉") -> dict[str, str]:
    return {"old_file_path": str(path), "new_file_path": str(path), "new_file_contents": text, "tab_name": tab}


async def test_open_diff_answers_only_when_decided(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    id = agent.ask("openDiff", **diff(project / "main.py"))
    [proposal] = await rig.proposals()
    assert await agent.body("getOpenEditors") == {"tabs": []}
    assert agent.answers(id) == []
    rig.editor.decide(proposal, Accepted("decided\r\n"))
    assert texts(await agent.answer(id)) == ["FILE_SAVED", "decided\r\n"]
    assert (project / "main.py").read_text() == "import os\n\nprint('ü')\n"


async def test_a_rejected_diff_is_named_in_the_answer(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    id = agent.ask("openDiff", **diff(project / "main.py", tab="the tab"))
    [proposal] = await rig.proposals()
    rig.editor.decide(proposal, Rejected())
    assert texts(await agent.answer(id)) == ["DIFF_REJECTED", "the tab"]


async def test_open_diff_that_is_withdrawn_is_answered_as_rejected(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    """If openDiff were answered with TAB_CLOSED, the real CLI would take the change as accepted."""
    id = agent.ask("openDiff", **diff(project / "main.py", tab="the tab"))
    await rig.proposals()
    assert await agent.texts("close_tab", tab_name="the tab") == ["TAB_CLOSED"]
    assert texts(await agent.answer(id)) == ["DIFF_REJECTED", "the tab"]
    await rig.proposals(0)


async def test_open_diff_accepts_an_empty_text_and_a_new_file(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    first = agent.ask("openDiff", **diff("new.txt", ""))
    [proposal] = await rig.proposals()
    assert rig.editor.shown[proposal].path == str(project / "new.txt")
    rig.editor.decide(proposal, Accepted(""))
    assert texts(await agent.answer(first)) == ["FILE_SAVED", ""]
    assert not (project / "new.txt").exists()


async def test_open_diff_of_anything_but_text_fails(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    """Nothing is shown in the editor."""
    (project / "binary").write_bytes(b"a\0b")
    for arguments in [diff("binary"), diff("."), diff("main.py", "a\0b"), diff("main.py", "\ud800"), diff("")]:
        assert failure(await agent.call("openDiff", **arguments))
    assert rig.editor.shown == {}


async def test_open_diff_on_a_line_with_unsaved_work_fails(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    path = project / "main.py"
    rig.editor.open(str(path))
    rig.editor.type(str(path), "import sys\n\nprint('ü')\n")
    message = failure(await agent.call("openDiff", **diff(path, "import re\n\nprint('ü')\n")))
    assert "conflicts with unsaved changes" in message
    assert rig.editor.shown == {}


async def test_close_tab_with_an_unknown_name_closes_nothing(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    """The answer is ``TAB_CLOSED``, even for the name of a file that is open."""
    path = str(project / "main.py")
    await agent.call("openFile", filePath=path)
    for name in ["main.py", path, "no such tab", ""]:
        assert await agent.texts("close_tab", tab_name=name) == ["TAB_CLOSED"]
    assert path in rig.editor.buffers


async def test_close_all_counts_only_this_agents_diffs(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    other = rig.agent()
    theirs = other.ask("openDiff", **diff(project / "main.py"))
    mine = [agent.ask("openDiff", **diff(project / f"{name}.py", tab=name)) for name in ("a", "b")]
    await rig.proposals(3)
    assert await agent.texts("closeAllDiffTabs") == ["CLOSED_2_DIFF_TABS"]
    assert [texts(await agent.answer(id)) for id in mine] == [["DIFF_REJECTED", "a"], ["DIFF_REJECTED", "b"]]
    assert await agent.texts("closeAllDiffTabs") == ["CLOSED_0_DIFF_TABS"]
    await rig.proposals(1)
    assert other.answers(theirs) == []


# what the user has in front


async def test_the_current_and_latest_selection_are_returned(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    assert await agent.body("getCurrentSelection") == {"success": False, "message": "No active editor found"}
    assert await agent.body("getLatestSelection") == {"success": False, "message": "No selection available"}
    path = str(project / "main.py")
    rig.editor.open(path)
    rig.editor.select(path, range_of(0, 0, 0, 6))
    rig.workspace.selection = await rig.editor.selection()
    expected = {
        "success": True,
        "text": "import",
        "filePath": path,
        "selection": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 6}},
    }
    assert await agent.body("getCurrentSelection") == expected
    rig.editor.active = None
    assert await agent.body("getCurrentSelection") == {"success": False, "message": "No active editor found"}
    assert await agent.body("getLatestSelection") == expected


async def test_undecodable_bytes_in_a_selection_are_replaced(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    path = str(project / "main.py")
    rig.editor.open(path)
    rig.editor.type(path, "gr\udcfc\udcdfe\n")
    rig.editor.select(path, range_of(0, 0, 0, 5))
    assert (await agent.body("getCurrentSelection"))["text"] == "gr\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}e"


async def test_open_editors_are_listed(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    assert await agent.body("getOpenEditors") == {"tabs": []}
    (project / "b.md").write_text("# b\n")
    rig.editor.open(str(project / "main.py"))
    rig.editor.open(str(project / "b.md"))
    rig.editor.type(str(project / "b.md"), "# c\n")
    assert await agent.body("getOpenEditors") == {
        "tabs": [
            {
                "uri": to_uri(str(project / "main.py")),
                "isActive": False,
                "label": "main.py",
                "languageId": "python",
                "isDirty": False,
            },
            {
                "uri": to_uri(str(project / "b.md")),
                "isActive": True,
                "label": "b.md",
                "languageId": "markdown",
                "isDirty": True,
            },
        ]
    }


async def test_workspace_folders_are_listed(agent: Agent, project: Path, other: Path) -> None:
    assert await agent.body("getWorkspaceFolders") == {
        "success": True,
        "folders": [
            {"name": "größe & #1", "uri": to_uri(str(project)), "path": str(project)},
            {"name": "other", "uri": to_uri(str(other)), "path": str(other)},
        ],
        "rootPath": str(project),
    }


async def test_unsaved_documents_are_reported_as_dirty(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    path = str(project / "main.py")
    body = await agent.body("checkDocumentDirty", filePath=path)
    assert body["success"] is False
    assert body["message"] == f"Document not open: {path}"
    rig.editor.open(path)
    clean = {"success": True, "filePath": path, "isDirty": False, "isUntitled": False}
    assert await agent.body("checkDocumentDirty", filePath="main.py") == clean
    rig.editor.type(path, "changed\n")
    assert await agent.body("checkDocumentDirty", filePath=path) == {**clean, "isDirty": True}
    rig.editor.open(str(project / "new.txt"))
    assert (await agent.body("checkDocumentDirty", filePath="new.txt"))["isUntitled"] is True


async def test_saving_a_document_returns_the_result(rig: ClaudeRig, agent: Agent, project: Path, other: Path) -> None:
    path = str(project / "main.py")
    body = await agent.body("saveDocument", filePath=path)
    assert body == {"success": False, "filePath": path, "saved": False, "message": f"Document not open: {path}"}
    rig.editor.open(path)
    rig.editor.type(path, "changed\n")
    saved = {"success": True, "filePath": path, "saved": True, "message": "Document saved successfully"}
    assert await agent.body("saveDocument", filePath=path) == saved
    assert (project / "main.py").read_text() == "changed\n"
    nowhere = str(other / "missing" / "a.txt")
    rig.editor.open(nowhere)
    rig.editor.type(nowhere, "x\n")
    body = await agent.body("saveDocument", filePath=nowhere)
    assert (body["success"], body["saved"]) == (False, False)
    assert "can't be written" in body["message"]


async def test_the_diagnostics_of_a_file_are_returned(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    assert await agent.body("getDiagnostics") == []
    path = str(project / "main.py")
    rig.editor.problems[path] = [
        Diagnostic("unused import", "Warning", range_of(0, 7, 0, 9), "ruff", "F401"),
        Diagnostic("odd", "Hint", range_of(2, 0, 2, 5)),
    ]
    listed = [
        {
            "message": "unused import",
            "severity": "Warning",
            "range": {"start": {"line": 0, "character": 7}, "end": {"line": 0, "character": 9}},
            "source": "ruff",
            "code": "F401",
        },
        {
            "message": "odd",
            "severity": "Hint",
            "range": {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 5}},
        },
    ]
    assert await agent.body("getDiagnostics") == [{"uri": f"file://{path}", "diagnostics": listed}]
    # ``uri`` is returned exactly as the agent wrote it, so that the agent recognizes the file. The real CLI does not
    # percent-encode its URIs.
    for spelling in [f"file://{path}", (project / "main.py").as_uri(), path, "main.py"]:
        assert await agent.body("getDiagnostics", uri=spelling) == [{"uri": spelling, "diagnostics": listed}]


async def test_a_file_without_problems_has_an_empty_list(agent: Agent, project: Path) -> None:
    """The same applies to a file that does not exist."""
    for uri in [f"file://{project}/main.py", f"file://{project}/missing.py", "missing.py"]:
        assert await agent.body("getDiagnostics", uri=uri) == [{"uri": uri, "diagnostics": []}]


async def test_diagnostics_fail_for_a_uri_that_is_not_a_file(agent: Agent) -> None:
    assert "not a file: URI" in failure(await agent.call("getDiagnostics", uri="untitled://Untitled-1"))


async def test_a_hung_editor_fails_only_that_call(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    rig.editor.hung = True
    path = str(project / "main.py")
    for tool, arguments in [
        ("openFile", {"filePath": path}),
        ("openDiff", diff(path)),
        ("getCurrentSelection", {}),
        ("getOpenEditors", {}),
        ("getDiagnostics", {}),
        ("checkDocumentDirty", {"filePath": path}),
        ("saveDocument", {"filePath": path}),
    ]:
        assert "no answer" in failure(await agent.call(tool, **arguments))
    assert (await agent.body("getWorkspaceFolders"))["success"] is True
    rig.editor.hung = False
    assert await agent.body("getOpenEditors") == {"tabs": []}


# executeCode


async def test_execute_code_is_not_offered_unless_it_is_turned_on(project: Path) -> None:
    async with ClaudeRig(project) as rig:
        agent = rig.agent()
        assert "executeCode" not in [entry["name"] for entry in rig.clients.toolbox.listing]
        assert (await agent.call("executeCode", code="print(1)"))["error"]["message"] == "Unknown tool: executeCode"
        assert rig.editor.shown == {}


async def run_code(rig: ClaudeRig, agent: Agent, code: str, decision: Accepted | Rejected | None = None) -> str:
    id = agent.ask("executeCode", code=code)
    [proposal] = await rig.proposals()
    assert rig.editor.shown[proposal].kind == "code"
    rig.editor.decide(proposal, decision or Accepted(code))
    [message] = texts(await agent.answer(id))
    return message


async def test_code_runs_in_the_first_folder_once_it_is_accepted(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    assert await run_code(rig, agent, "import os; print(os.getcwd())") == f"{project}\n"


async def test_rejected_code_does_not_run_even_after_accepted_code(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    await run_code(rig, agent, "print(1)")
    output = await run_code(rig, agent, "open('made', 'w')", Rejected())
    assert output == "The user did not allow this code to run."
    assert not (project / "made").exists()


async def test_code_edited_by_the_user_is_run(rig: ClaudeRig, agent: Agent) -> None:
    assert await run_code(rig, agent, "print('theirs')", Accepted("print('mine')")) == "mine\n"


async def test_failed_code_reports_its_exit_code_and_errors(rig: ClaudeRig, agent: Agent) -> None:
    output = await run_code(rig, agent, "print('before', flush=True); raise SystemExit(3)")
    assert output == "before\n\n[exit code 3]"
    assert "ZeroDivisionError" in await run_code(rig, agent, "1/0")


async def test_the_output_of_code_is_cut_at_the_limit(
    rig: ClaudeRig, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer ends with the number of bytes that were left out."""
    monkeypatch.setattr(tool_context, "CODE_OUTPUT_LIMIT", 10)
    assert await run_code(rig, agent, "print('0123456789abc')") == "0123456789\n[4 more bytes left out]"


async def test_endless_code_is_ended_with_the_processes_it_started(
    rig: ClaudeRig, agent: Agent, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_context, "CODE_SECONDS", 1.0)
    code = "import subprocess, sys\nprint('started', flush=True)\nsubprocess.run(['sleep', '600'])"
    before = time.monotonic()
    assert await run_code(rig, agent, code) == "started\n\n[stopped after 1 second]"
    assert time.monotonic() - before < PATIENCE / 2, "it waited for the end of the code"


async def test_code_is_ended_when_its_agent_disconnects(rig: ClaudeRig, agent: Agent, project: Path) -> None:
    agent.ask("executeCode", code="import time; open('running', 'w').close(); time.sleep(60)")
    [proposal] = await rig.proposals()
    rig.editor.decide(proposal, Accepted(rig.editor.shown[proposal].new_text))
    await until(lambda: (project / "running").exists())
    agent.vanish()
    await until(lambda: not agent.peer._calls)


async def test_code_does_not_run_in_a_missing_folder(rig: ClaudeRig, agent: Agent, tmp_path: Path) -> None:
    rig.workspace.folders = (str(tmp_path / "gone"),)
    id = agent.ask("executeCode", code="print(1)")
    [proposal] = await rig.proposals()
    rig.editor.decide(proposal, Accepted("print(1)"))
    assert "Python can't be started in" in failure(await agent.answer(id))
