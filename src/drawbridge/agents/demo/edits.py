"""Creates and applies the change that the demo agent proposes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Final, NamedTuple

LARGEST: Final = 64 * 1024
"""The maximum size of a file that the agent changes, in bytes."""

COMMENTS: Final = {".py": "# {}", ".sh": "# {}", ".toml": "# {}", ".js": "// {}", ".ts": "// {}", ".go": "// {}"}
COMMENTS_MORE: Final = {".rs": "// {}", ".c": "/* {} */", ".css": "/* {} */", ".lua": "-- {}", ".html": "<!-- {} -->"}
STYLES: Final = COMMENTS | COMMENTS_MORE | {".md": "> {}", ".txt": "{}"}
"""Maps the suffix of a file to the format of the line that is added to it. Files with other suffixes are not
changed."""


class Edit(NamedTuple):
    tool: str
    input: dict[str, Any]


def short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= 60 else line[:59] + "…"


def for_prompt(words: str, directory: str) -> Edit:
    """The edit for a prompt. It adds a line to the first suitable file in ``directory`` that the prompt names,
    otherwise to the first suitable file. If no file is suitable, it creates a new one."""
    fit = sorted(path for path in Path(directory).iterdir() if _is_fit(path))
    named = [path for path in fit if path.name in words]
    for path in [*named, *fit]:
        text = _read(path)
        if text is not None:
            line = STYLES[path.suffix].format(f"You said: {short(words)}")
            old = _ending(text)
            new = old + ("" if old.endswith("\n") or not old else "\n") + line + "\n"
            return Edit("Edit", {"file_path": str(path), "old_string": old, "new_string": new, "replace_all": False})
    names = (f"notes{number or ''}.md" for number in itertools.count())
    path = next(path for path in map(Path(directory).joinpath, names) if not path.exists())
    return Edit("Write", {"file_path": str(path), "content": f"# Notes\n\n> You said: {short(words)}\n"})


def apply(tool: str, given: dict[str, Any], directory: str) -> str | None:
    """Applies an edit to a file in ``directory``. Returns the problem if the edit failed, otherwise None."""
    path = Path(str(given.get("file_path")))
    if not path.resolve().is_relative_to(Path(directory).resolve()):
        return "I only write in the directory that I was started in."
    try:
        if tool == "Write":
            path.write_bytes(str(given["content"]).encode())
            return None
        old, new = str(given["old_string"]), str(given["new_string"])
        text = path.read_bytes().decode()
        if (text.count(old) if old else not text) != 1:
            return "the text to replace does not occur exactly once in the file."
        path.write_bytes(text.replace(old, new, 1).encode())
    except OSError as error:
        return f"{error.strerror}: {path}."
    except UnicodeError:
        return "the file or the new text is not valid UTF-8."
    except KeyError as error:
        return f"the edited call has no {error.args[0]}."
    return None


def _is_fit(path: Path) -> bool:
    try:
        fit = path.suffix in STYLES and not path.name.startswith(".") and not path.is_symlink() and path.is_file()
        return fit and path.stat().st_size <= LARGEST
    except OSError:
        return False


def _read(path: Path) -> str | None:
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeError):
        return None
    return None if "\0" in text or "\r" in text else text


def _ending(text: str) -> str:
    """The shortest end of the text, in whole lines, that occurs in it only once."""
    lines = text.splitlines(keepends=True)
    endings = ("".join(lines[-number:]) for number in range(1, len(lines) + 1))
    return next((ending for ending in endings if text.find(ending) + len(ending) == len(text)), text)
