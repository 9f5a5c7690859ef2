"""User-facing texts, such as errors and log lines, do not contain translated idioms or sentences that were replaced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYTHON = sorted((ROOT / "src" / "drawbridge").rglob("*.py"))
PAGE = sorted(path for folder in ("src", "worker", "static") for path in (ROOT / "web" / folder).rglob("*"))
PAGE = [path for path in PAGE if path.suffix in {".ts", ".tsx", ".js", ".html", ".css", ".webmanifest"}]
OTHERS = sorted([*(ROOT / "lua").rglob("*.lua"), *(ROOT / "extensions" / "vscode").glob("*.js")])

REPLACED = """
Coding agents propose changes. You decide who crosses
This page is a program: it needs JavaScript, from this server and nowhere else
Choose a project, or add one
The next prompt goes on with a copy of that session
No connection to the server. Trying again
This device is offline. What you write is kept
This project is not there any more: somebody removed it
This device, as others see it
Code or token
The server did not take this token. Nothing was changed; look up the right one
`drawbridge pair` on the server's machine shows a code for one more device. The owner's token lies in the
So that this device warns no more, and can be told things while the page is closed, let it trust this server
The server's certificate, as the code has it; where the browser warns of it, compare:
The server could not be reached. Nothing was done; try again
There is no connection to the server. Nothing was done; try again when it is back
No project yet
A project is a directory on the server's machine in which an agent works
New since you looked
Working at the desk; asks nobody
Waits for you
questions wait for you
Goes on at
Ready at the desk
Ask before changes
The limit is lifted at
The limit is lifted by now
The demo agent
Directory on the server's machine
The next prompt begins a new session
The agent's conversations in this directory, those begun in a terminal too
The agent remembers none
The next prompt goes on with that session
The session leaves this list, and the server's copy of the conversation goes. In the terminal all is as it was
The conversation leaves this list; the server keeps it in its trash for 7 days. The directory and its files
Take the session off the list?
Accept what is asked
Edit it before you accept it
Reject it, with a word why
To the prompt box
Send; Shift+Enter begins a new line
Earlier prompts, in the prompt box
answer questions and stop runs
do everything
Forget this server's token
When an agent waits for you or is done
Notify me
Also while this page is closed
With a sound
That goes by your browser's push service, sealed; it says the project's name and the tool, no more
Others see it as
Its name, as others see it (from the next connection on)
took too long and was ended
waits for you
A question about Bash
The run finished
This browser does not allow it: its settings for this page say so
This browser keeps nothing of this page: it needs https with a certificate that it trusts
Pictures that go with the prompt
Add a picture
pictures; the others were left out
is no picture that can be read here. It was left out
What shall it do?
What was said before is not kept any more
Nothing was said here yet
Write what the agent is to do. Before it changes anything, it asks you
Do not go on
The mode of the agent; it is set at the desk
This device may answer questions and stop runs, and no more
This device may watch, and no more
What you send is typed into the terminal of this session
Prompts are typed at the desk, in the terminal of this session
Go on from here
What it asks about
From now on:
the server began anew
Waits for the server
took back what a run
A new session begins here
A copy of an earlier session goes on here
wants to change
read a web page
Claude asks you
The text as it will be written
The question was taken back (
What you had written was not used; it stays here until you close this
This is too large for one message: long texts are cut
This device may watch only: somebody else has to decide
Accept with my edits
Always: accept all edits for this session
Always: allow
What should it do instead? (may be left empty)
Taken back: the server is ending
Taken back
Choose an answer to "
Something else
At the desk
As it was proposed:
Ended by force
Took too long and was ended
Cut here: show all
What it changed
It changed no file of the project
There is more than is shown: the differences are cut, the list of files is whole
Take it back
Take back this change? What was changed elsewhere in the files stays
It was taken back
These are no lines of text
Who may run or read it has changed
The last line loses its end
gets an end
Hardly a line is the same: the old text is above, the new one below
No line is different
Leave out
Asks nobody
goes on with a copy
"""
"""Previous texts of the web UI, one per line, without their final period and without inserted values."""

CLIENT = sorted((ROOT / "src" / "drawbridge" / "tui").rglob("*.py"))

AVOIDED = re.compile(
    r"""(?<!there\ )\bis\ no\ (?!longer|more)[a-z]  # "is not a"
    |\banew\b|\bgoes?\ on\b|\bonce\ more\b  # restart, continue, again
    |\btakes?\ back\b|\btaken?\ back\b|\bcall(?:ed)?\ off\b  # revert, withdraw, cancel
    |\bholds\b|\bit\ lies\b|\bthere\ is\ none\b  # contains, is in
    |\bdesks?\b  # terminal session
    |\bno\ file\ of\b|\bof\ ours\b|\bgo\ by\ that\ name\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def texts(module: ast.Module) -> Iterator[str]:
    """Yields every string of at least three words that is not a docstring. Values in f-strings are left out."""
    docstrings = {node.value for node in ast.walk(module) if isinstance(node, ast.Expr)}
    parts = {part for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(module):
        if node in docstrings or node in parts:
            continue
        given = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "…".join(part.value for part in given if isinstance(part, ast.Constant) and isinstance(part.value, str))
        if text.count(" ") > 1:
            yield text


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT / "src" / "drawbridge")))
def test_texts_for_users_have_no_translated_idioms(path: Path) -> None:
    assert [text for text in texts(ast.parse(path.read_text())) if AVOIDED.search(text)] == []


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_texts_of_the_editors_have_no_translated_idioms(path: Path) -> None:
    found = re.findall(r"""'([^'\n]* [^'\n]* [^'\n]*)'|`([^`\n]* [^`\n]* [^`\n]*)`""", path.read_text())
    assert [text for pair in found for text in pair if AVOIDED.search(text)] == []


IN_CODE = re.compile(r"/\*.*?\*/|(?:^|\s)//[^\n]*|<!--.*?-->|'[^'\n]*'|\"[^\"\n]*\"|`[^`]*`|>[^<>{}=;]*<", re.DOTALL)
"""Matches comments, strings and the text of elements."""


def texts_of_the_page(source: str) -> Iterator[str]:
    """Yields comments and texts of at least three words, so no identifiers. Values in templates are left out."""
    for found in IN_CODE.finditer(source):
        text = re.sub(r"\$\{[^}]*\}", "…", found.group())
        if text.count(" ") > 1:
            yield " ".join(text.split())


@pytest.mark.parametrize("path", PAGE, ids=lambda path: str(path.relative_to(ROOT / "web")))
def test_texts_of_the_page_have_no_translated_idioms(path: Path) -> None:
    assert [text for text in texts_of_the_page(path.read_text()) if AVOIDED.search(text)] == []


@pytest.mark.parametrize("files", [PAGE, CLIENT], ids=["page", "terminal"])
def test_texts_that_were_replaced_are_in_no_client(files: list[Path]) -> None:
    sources = "".join(path.read_text() for path in files).replace("\u2019", "'")
    assert [text for text in REPLACED.strip().splitlines() if text in sources] == []
