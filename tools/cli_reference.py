"""Writes the table of settings in docs/cli.md from the table in drawbridge.settings; a test compares the two."""

from __future__ import annotations

from pathlib import Path

from drawbridge.settings import IDE, Setting

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->\n"


def table(settings: tuple[Setting, ...]) -> str:
    rows = ["| flag | file, environment | what |", "|---|---|---|"]
    for setting in settings:
        flag = setting.flag or f"--{setting.name.replace('_', '-')}"
        value = "\\|".join(setting.choices) or setting.metavar or {"number": "N"}.get(setting.kind, "")
        often = "; repeatable" if setting.kind == "list" else ""
        default = f"; default {setting.default}" if isinstance(setting.default, str) else ""
        rows.append(
            f"| `{f'{flag} {value}'.strip()}` | `{setting.name}`, `DRAWBRIDGE_{setting.name.upper()}` "
            f"| {setting.help}{often}{default} |"
        )
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with its table as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{table(IDE)}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page())
