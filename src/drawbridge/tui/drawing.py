"""Draws the items of a conversation as lines of a terminal. Everything drawn here is harmless text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from itertools import islice
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token
from pygments.lexers import find_lexer_class_by_name  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from drawbridge.core.terminal_text import harmless_pieces
from drawbridge.text.counts import counted, size
from drawbridge.text.review_words import CUT_DIFF, unnamed_words
from drawbridge.tui import wording
from drawbridge.tui.asides import OUTPUT, SUMMARY, Aside, aside
from drawbridge.tui.call_parts import Part, of_request, parts
from drawbridge.tui.code import COLORED, LONGEST_COLORED, DiffLines
from drawbridge.tui.colors import CodeColors, Palette
from drawbridge.tui.conversation import Item, truncation
from drawbridge.tui.difference import Difference, Line, difference
from drawbridge.tui.patch import FilePatch, files_in
from drawbridge.tui.tool_words import LONGEST, Acts, State, act, subject, verb

TERMINAL_NAME: Final = "desk"
"""The ``by`` of a prompt that was typed in the agent's own terminal."""

RESULT_CHARACTERS: Final = 4_000
DIFF_LINES: Final = 400
"""The maximum number of lines of a diff that are drawn in the conversation."""

SHOW_ALL: Final = " (Enter: show all)"

STATES: Final[Mapping[State, str]] = {
    "running": "…",
    "waiting": "waiting for approval",
    "done": "✓",
    "failed": "✗ failed",
    "rejected": "✗ rejected",
    "stopped": "stopped",
}
OF_QUESTION: Final[Mapping[State, str]] = {"waiting": "waiting for an answer", "rejected": "✗ skipped"}
"""The states of a question that differ from those of any other call."""

MARKDOWN_CHARACTERS: Final = 60_000
"""The maximum length of text that is drawn as Markdown, in characters. Longer text is drawn as plain text."""


class Painter:
    """Draws with one palette. ``root``: the project's directory; ``me``: this client's name; ``acts``: what
    the agents' tools do.
    """

    def __init__(self, palette: Palette, is_mine: Callable[[Mapping[str, Any]], bool] = lambda answer: False) -> None:
        """``is_mine``: returns whether an answer was given from this terminal."""
        self.palette = palette
        self.root = ""
        self.me = ""
        self.acts: Acts = {}
        self._is_mine = is_mine
        self._console = Console(
            file=StringIO(), color_system="truecolor", force_terminal=True, legacy_windows=False, theme=_styles(palette)
        )

    def update(self, me: str, acts: Acts, root: str | None) -> None:
        """Takes over what the server has reported. ``root``: None if the server has not sent the project (any more)."""
        self.me, self.acts = me, acts
        if root is not None:
            self.root = root

    def item(self, item: Item, width: int, *, folded: bool, whole: str | None, everything: bool = False) -> list[Strip]:
        """The lines of an item. ``whole``: the text of the complete record, if the user has requested it;
        ``everything``: also draws the rest of a long diff or result."""
        width = max(10, width)
        if whole is not None and _is_in_place(item):
            item, whole = _completed(item, whole), None
        strips = list(self._of_kind(item, width, folded=folded, everything=everything))
        truncated = truncation(item)
        if folded and is_foldable(item):
            return strips
        if whole is not None:
            strips += self.plain(whole, width, self.palette.ink)
        elif truncated:
            strips += self._cut(truncated, width)
        return strips

    def _of_kind(self, item: Item, width: int, *, folded: bool, everything: bool) -> Iterator[Strip]:
        data = item.data
        match item.kind:
            case "prompt":
                by = data["by"]
                who = "You, in the terminal" if by == TERMINAL_NAME else "You" if not by or self._is_me(data) else by
                yield from self.prompt(who, item.timestamp, data["text"], width)
            case "text":
                yield from self.markdown(data["text"], width)
            case "aside":
                yield from self._aside(aside(data), width, folded=folded)
            case "tool":
                yield from self._tool(item, width, folded=folded, everything=everything)
            case "question":
                yield from self._settled(item, width, folded=folded, most=None if everything else DIFF_LINES)
            case "finished":
                yield from self._finished(data, width)
            case "notice":
                yield from self._notice(item, width, folded=folded, most=None if everything else DIFF_LINES)

    def _notice(self, item: Item, width: int, *, folded: bool, most: int | None) -> Iterator[Strip]:
        palette, data = self.palette, item.data
        by = data.get("by")
        text = f"{'You' if self._is_me(data) else by} {data['text']}" if by else data["text"]
        sign = ("▸ " if folded else "▾ ") if is_foldable(item) else "── "
        yield self._rule(text, width, Style(color=palette.soft), sign)
        if folded or not is_foldable(item):
            return
        strips = [strip for file in files_of(data) for strip in self._file(file, width - 2)]
        for strip in self._beginning(strips, width - 2, most):
            yield Strip([Segment("  "), *strip])
        for words in (unnamed_words(data), CUT_DIFF if data.get("diff_truncated") else ""):
            if words:
                yield from self.plain(words, width, palette.soft)

    def _file(self, file: FilePatch, width: int) -> Iterator[Strip]:
        """What a decision changed in a file."""
        palette = self.palette
        yield from self.path(file.path, width)
        for note in file.notes:
            yield from self.plain(note, width, palette.soft)
        highest = max((above + len(hunk.lines) for hunk in file.hunks for above in hunk.above), default=1)
        for hunk in file.hunks:
            skipped = [Line("skipped", "", hunk.skipped)] if hunk.skipped else []
            found = Difference([*skipped, *hunk.lines], 0, 0, [])
            texts = (file.path, hunk.old, hunk.new)
            lines = DiffLines(found, texts, palette, width, above=hunk.above, highest=highest)
            yield from lines.strips(len(lines))

    def _is_me(self, data: Mapping[str, Any]) -> bool:
        """Whether this terminal did something. Older records have no ``client_id``, so only names can be compared."""
        return self._is_mine(data) if data.get("client_id") else data["by"] == self.me

    def prompt(self, who: str, timestamp: str, text: str, width: int) -> Iterator[Strip]:
        wash = Style(color=self.palette.ink, bgcolor=self.palette.accent_wash)
        bar = Segment("▎ ", wash + Style(color=self.palette.accent))
        head = [
            Segment(wording.one_line(who), wash + Style(color=self.palette.accent, bold=True)),
            Segment(f"  {wording.clock(timestamp)}", wash + Style(color=self.palette.soft)),
        ]
        yield Strip([bar, *head]).crop_extend(0, width, wash)
        for line in _folded(text, width - 3):
            yield Strip([bar, Segment(line, wash)]).crop_extend(0, width, wash)

    def queued(self, tag: str, text: str, width: int) -> Iterator[Strip]:
        """A prompt that waits for its run."""
        soft = Style(color=self.palette.soft)
        for number, line in enumerate(_folded(text, width - len(tag) - 3)):
            shown = Segment(tag, Style(color=self.palette.wait)) if number == 0 else Segment(" " * len(tag))
            yield Strip([shown, Segment("  "), Segment(line, soft)])

    def markdown(self, text: str, width: int) -> list[Strip]:
        if len(text) > MARKDOWN_CHARACTERS:
            return self.plain(text, width, self.palette.ink)
        source = wording.block(text)
        markdown = _Markdown(source, CodeColors(self.palette))
        lines = self._lines_of(markdown, width)
        strips = _harmless_strips(lines) if self._is_whole(markdown, lines) else None
        return strips if strips is not None and _fits(strips, width) else self.plain(text, width, self.palette.ink)

    def _is_whole(self, markdown: _Markdown, lines: list[list[Segment]]) -> bool:
        drawn = _text_of(lines)
        if markdown.is_drawn_by(drawn):
            return True
        wide = _text_of(self._lines_of(markdown, _WIDE))
        return Counter(_letters(wide)) == Counter(_letters(drawn)) and markdown.is_drawn_by(wide)

    def plain(self, text: str, width: int, color: str) -> list[Strip]:
        style = Style(color=color)
        return [Strip([Segment(line, style)]) for line in _folded(text, width)]

    def code(self, text: str, language: str, width: int) -> list[Strip]:
        """A block of code with its own background."""
        ground = Style(color=self.palette.ink, bgcolor=self.palette.sunken)
        colored = len(text) <= COLORED and all(len(line) <= LONGEST_COLORED for line in text.split("\n"))
        shown = _code(wording.block(text), language, CodeColors(self.palette)) if colored else None
        strips = self._rendered(shown, width - 2) if shown else None
        if strips is None or not _fits(strips, width - 2):
            strips = [Strip([Segment(line)]) for line in _folded(text, width - 2)]
        pad = Segment(" ", ground)
        return [
            Strip([pad, *strip.apply_style(ground)]).crop_extend(0, width, ground).apply_style(ground)
            for strip in strips
        ]

    def call(self, found: Iterable[Part], width: int, most: int | None = None) -> list[Strip]:
        """A whole tool call. ``most``: the maximum number of lines of each diff; None for all of them."""
        strips: list[Strip] = []
        for part in found:
            strips += self._part(part, width, most)
        return strips

    def _part(self, part: Part, width: int, most: int | None) -> list[Strip]:
        palette = self.palette
        match part.kind:
            case "words":
                return self.plain(part.text, width, palette.soft)
            case "warning":
                return self.plain(part.text, width, palette.no)
            case "command":
                return self.code(part.text, "sh", width)
            case "json":
                return self.code(part.text, "json", width)
            case "markdown":
                return self.markdown(part.text, width)
            case "diff":
                head = self.path(part.name, width)
                proposal = {"path": part.name, "old_text": part.old, "new_text": part.text}
                return [*head, *self.diff(proposal, width, most)]
        return self._field(part, width)

    def path(self, path: str, width: int) -> list[Strip]:
        """The path of a changed file, above its diff."""
        return self.plain(wording.one_line(wording.shown_path(path, self.root)), width, self.palette.accent)

    def _field(self, part: Part, width: int) -> list[Strip]:
        """The lines of a field. A long value begins on its own line and is indented, so that it can't look like another
        field."""
        name, danger = f"{wording.one_line(part.name)}: ", part.kind == "danger"
        color = self.palette.no if danger else self.palette.ink
        label = Style(color=self.palette.no if danger else self.palette.soft)
        value = wording.one_line(part.text) if "\n" not in part.text else ""
        if value and cell_len(name) + cell_len(value) <= width:
            return [Strip([Segment(name, label), Segment(value, Style(color=color))])]
        indent = Segment("  ")
        return [
            *self.plain(name.rstrip(), width, self.palette.no if danger else self.palette.soft),
            *(Strip([indent, *strip]) for strip in self.plain(part.text, width - 2, color)),
        ]

    def diff(self, proposal: Mapping[str, str], width: int, most: int | None = DIFF_LINES) -> list[Strip]:
        texts = str(proposal["path"]), proposal["old_text"], proposal["new_text"]
        lines = DiffLines(difference(*texts[1:]), texts, self.palette, width)
        return self._beginning(lines, width, most)

    def _beginning(self, lines: Sequence[Strip] | DiffLines, width: int, most: int | None) -> list[Strip]:
        """The first lines of a diff. ``most``: their maximum number; None for all of them."""
        strips = [lines[at] for at in range(len(lines) if most is None else min(most, len(lines)))]
        left = len(lines) - len(strips)
        rest = f"… {counted(left, 'more line')}{SHOW_ALL}"
        return strips + (self.plain(rest, width, self.palette.soft) if left else [])

    def _fold(self, words: str, *, folded: bool, more: str = "") -> list[Segment]:
        """The line of an item that unfolds. ``more``: what follows ``words``; both are harmless."""
        return [
            Segment("▸ " if folded else "▾ ", Style(color=self.palette.soft)),
            Segment(words, Style(color=self.palette.ink, bold=True)),
            *([Segment(f" {more}", Style(color=self.palette.soft))] if more else []),
        ]

    def _aside(self, shown: Aside, width: int, *, folded: bool) -> Iterator[Strip]:
        if shown.label:
            first = wording.one_line(shown.text.partition("\n")[0][:LONGEST]) if shown.label == OUTPUT else ""
            yield Strip(self._fold(shown.label, folded=folded, more=first)).crop(0, width)
        if shown.label and folded:
            return
        if shown.label == SUMMARY:
            yield from self.markdown(shown.text, width)
        elif shown.text:
            yield from self.plain(shown.text, width, self.palette.soft)

    def _tool(self, item: Item, width: int, *, folded: bool, everything: bool) -> Iterator[Strip]:
        palette, data = self.palette, item.data
        name, state = data["name"], _state(data)
        is_question = act(name, self.acts) == "question"
        words = (OF_QUESTION.get(state) if is_question else None) or STATES[state]
        colors = {"waiting": palette.wait, "done": palette.yes, "failed": palette.no, "rejected": palette.no}
        about = wording.one_line(subject(name, data["input"], self.root, self.acts))
        head = self._fold(verb(name, state, self.acts), folded=folded, more=about)
        end = Segment(f"  {words}", Style(color=colors.get(state, palette.soft)))
        left = Strip(head)
        room = max(4, width - end.cell_length)
        yield Strip([*(left if left.cell_length <= room else left.crop(0, room - 1)), end])
        if folded:
            return
        indent = Segment("  ")
        for strip in self._tool_body(data, width - 2, everything=everything):
            yield Strip([indent, *strip])

    def _tool_body(self, data: Mapping[str, Any], width: int, *, everything: bool) -> Iterator[Strip]:
        result = data["result"]
        yield from self.call(
            parts(act(data["name"], self.acts), data["input"]), width, None if everything else DIFF_LINES
        )
        if result is not None:
            text = result.text or "(no output)"
            if act(data["name"], self.acts) in ("command", "output"):
                text = wording.without_colors(text)
            shown = text if everything else text[:RESULT_CHARACTERS]
            yield from self.plain(shown, width, self.palette.soft)
            if len(shown) < len(text):
                left = size(len(text) - len(shown))
                yield from self.plain(f"… {left} more{SHOW_ALL}", width, self.palette.soft)

    def _settled(self, item: Item, width: int, *, folded: bool, most: int | None) -> Iterator[Strip]:
        request, answer = item.data["request"], item.data["answer"]
        if answer is None:
            return
        palette = self.palette
        withdrawn = "reason" in answer
        allowed = answer.get("decision") == "allow"
        sign, color = ("↩", palette.soft) if withdrawn else ("✓", palette.yes) if allowed else ("✗", palette.no)
        proposal = request.get("proposal")
        given = request["input"] if isinstance(request["input"], dict) else {}
        path = proposal["path"] if proposal else given.get("file_path")
        about = wording.shown_path(str(path), self.root) if path else request["tool_name"]
        words = wording.settled_words(answer, request, is_mine=self._is_mine(answer))
        head = Text(f"{sign} {words}", Style(color=color))
        head.append(f"  {wording.one_line(about)}", Style(color=palette.soft))
        yield from self._rendered(head, width)
        if folded:
            return
        if answer.get("edited") and request.get("kind") != "question":
            yield from self.plain("Accepted version", width, palette.soft)
            yield from self._accepted(request, answer, width, most)
        for question, value in wording.answers_of(answer, request) or ():
            yield from self.plain(f"{question} → {value}", width, palette.ink)
        if proposal:
            yield from self.plain("Proposed version", width, palette.soft)
            yield from self.diff(proposal, width, most)
        elif request.get("kind") == "plan" and not answer.get("edited"):
            yield from self.call(of_request(request, request["input"]), width)

    def _accepted(
        self, request: Mapping[str, Any], answer: Mapping[str, Any], width: int, most: int | None
    ) -> list[Strip]:
        """The version that a user edited and then accepted."""
        proposal, text, given = request.get("proposal"), answer.get("new_text"), answer.get("updated_input")
        if proposal and isinstance(text, str):
            return self.diff({**proposal, "new_text": text}, width, most)
        if given is not None:
            return self.call(of_request({**request, "proposal": None}, given), width, most)
        return self.plain("Too large to show.", width, self.palette.soft)

    def _finished(self, data: Mapping[str, Any], width: int) -> Iterator[Strip]:
        outcome = data.get("outcome", "")
        removed = data.get("removed_by")
        words = [f"Removed from the queue by {removed}" if removed else wording.OUTCOMES.get(outcome, str(outcome))]
        words += [wording.one_line(data["prompt"])] if removed and data.get("prompt") else []
        words += (
            [wording.duration(data["duration_ms"])]
            if not removed and isinstance(data.get("duration_ms"), int | float)
            else []
        )
        words += [wording.money(data["cost_usd"])] if data.get("cost_usd") else []
        bad = outcome in ("failed", "timeout")
        yield self._rule(" · ".join(words), width, Style(color=self.palette.no if bad else self.palette.soft))
        if data.get("directory"):
            yield from self.plain(f"Worked in {data['directory']}", width, self.palette.soft)
        if data.get("error"):
            lifted = wording.lifted(data["retry_at"], datetime.now(UTC)) if data.get("retry_at") else ""
            yield from self.plain(f"{data['error']} {lifted}".rstrip(), width, self.palette.no)

    def _rule(self, words: str, width: int, style: Style, sign: str = "── ") -> Strip:
        line = Style(color=self.palette.line)
        shown = wording.one_line(words)[: max(0, width - 8)]
        rest = max(0, width - len(shown) - len(sign) - 2)
        return Strip(
            [Segment(sign, line if sign == "── " else style), Segment(f"{shown} ", style), Segment("─" * rest, line)]
        )

    def _cut(self, truncated: Mapping[str, Any], width: int) -> list[Strip]:
        words = f"Shortened here. Enter shows all ({size(truncated['bytes'])})"
        return self.plain(words, width, self.palette.wait)

    def _rendered(self, renderable: RenderableType, width: int) -> list[Strip]:
        return _harmless_strips(self._lines_of(renderable, width))

    def _lines_of(self, renderable: RenderableType, width: int) -> list[list[Segment]]:
        return self._console.render_lines(renderable, self._console.options.update(width=width), pad=False)


def is_foldable(item: Item) -> bool:
    """Whether the user can unfold an item."""
    match item.kind:
        case "tool" | "question":
            return True
        case "aside":
            return bool(aside(item.data).label)
        case "notice":  # a decision
            return bool(item.data.get("diff")) or len(item.data.get("paths") or ()) > 1
        case _:
            return False


def files_of(decided: Mapping[str, Any]) -> list[FilePatch]:
    """The files of a decision: those with a diff, then those that its record only names."""
    found = files_in(str(decided.get("diff") or ""))
    known = {file.path for file in found}
    return found + [FilePatch(str(path), [], []) for path in decided.get("paths") or () if path not in known]


def _state(tool: Mapping[str, Any]) -> State:
    result = tool["result"]
    if result is not None and result.error:
        return "rejected" if result.denied or tool.get("rejected") else "failed"
    if result is not None:
        return "done"
    if tool.get("stopped"):
        return "stopped"
    return "waiting" if tool.get("waiting") else "running"


def _is_in_place(item: Item) -> bool:
    """Whether the complete text replaces the preview. Otherwise, it is drawn after the preview."""
    return item.kind == "aside" or (item.kind == "tool" and not item.truncated and item.data["result"] is not None)


def _completed(item: Item, whole: str) -> Item:
    """An item like ``item``, but with the complete text ``whole``."""
    if item.kind == "aside":
        return replace(item, data={**item.data, "text": whole}, truncated=None)
    result = item.data["result"]._replace(text=whole, truncated=None)
    return replace(item, data={**item.data, "result": result})


def _text_of(lines: Iterable[Iterable[Segment]]) -> str:
    return "".join(segment.text for line in lines for segment in line)


def _harmless_strips(lines: Iterable[Iterable[Segment]]) -> list[Strip]:
    """Harmless strips, without blank lines at the end. The text is made harmless last, when Markdown's character
    references have become characters."""
    strips = [Strip(_harmless_segments(line)) for line in lines]
    while strips and not strips[-1].text.strip():
        strips.pop()
    return strips


def _fits(strips: Iterable[Strip], width: int) -> bool:
    """Whether no strip would be cropped. Markdown is wrapped before the hidden characters of its references are written
    out, which makes the line longer."""
    return all(strip.cell_length <= width for strip in strips)


def _harmless_segments(line: Iterable[Segment]) -> Iterator[Segment]:
    """A line's harmless segments. They are checked together, since a character's neighbors decide whether it is
    escaped."""
    segments = [segment for segment in line if not segment.control]
    # Most lines are drawn after a space, with which an accent at the start of the line would combine.
    pieces = iter(harmless_pieces("".join((" ", *(segment.text for segment in segments))))[1:])
    for text, style, _ in segments:
        yield Segment("".join(islice(pieces, len(text))), style)


class _Heading(Heading):
    """A heading that is aligned left, regardless of its level."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _CodeBlock(CodeBlock):
    """A code block without its language, which is not drawn, since the colors show it. Any other text after the fence
    is drawn."""

    def __init__(self, lexer_name: str, theme: str, info: str) -> None:
        super().__init__(lexer_name, theme)
        self._info = info

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> _CodeBlock:
        is_language = _is_language(token.info)
        lexer_name, info = (token.info, "") if is_language else ("text", token.info.strip())
        return cls(lexer_name, markdown.code_theme, info)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._info:
            yield Text(self._info)
        yield Padding(_code(str(self.text).rstrip(), self.lexer_name, self.theme), (0, 1), style="code.ground")


_PARSER: Final = (
    MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable(["reference", "autolink"])
)
"""The Markdown parser. HTML and link definitions are parsed as text, since they would not be drawn at all, and so is
``<https://…>``, since it would be drawn twice (see ``is_drawn_by``)."""


_NUMBER: Final = re.compile(r"^[ \t>*+-]*\d{1,9}[.)](?=\s)", re.MULTILINE)
"""Matches the number of a list item. It may differ from the drawn number, which counts up from the first item's
number."""

_REFERENCE: Final = re.compile(r"&#?\w+;")
_CODE: Final = {"code_inline", "code_block", "fence"}

_WIDE: Final = 1_000
"""A width in columns at which few tables are wrapped. The words of a wrapped table are not in the source's order."""


class _Markdown(Markdown):
    elements = Markdown.elements | {"heading_open": _Heading, "fence": _CodeBlock, "code_block": _CodeBlock}

    def __init__(self, text: str, theme: CodeColors) -> None:
        super().__init__("", code_theme=theme, hyperlinks=False)  # type: ignore[arg-type]  # Syntax takes it as well
        self.markup = text
        self.parsed = _PARSER.parse(text)

    def is_drawn_by(self, drawn: str) -> bool:
        """Whether ``drawn`` contains exactly what ``_READ`` finds in the source, in the same order. False if a table
        has a row with too many cells, or if the source has a quote nested in forty others, the title of a link, or the
        address of an image.
        """
        if self._has_surplus_cells():
            return False
        letters = _letters(drawn)
        source = self._without_languages()
        numbers = iter(self._numbers())
        numbered = _NUMBER.sub(lambda _: next(numbers, ""), source)
        sources = [source, numbered]
        if not self._has_references_in_code:  # in code, references are plain text
            sources += [unescapeAll(source), unescapeAll(numbered)]
        return any(_letters(text) == letters for text in sources)

    @property
    def _has_references_in_code(self) -> bool:
        tokens = (token for block in self.parsed for token in (block, *(block.children or ())))
        return any(_REFERENCE.search(token.content + token.info) for token in tokens if token.type in _CODE)

    def _has_surplus_cells(self) -> bool:
        """Whether a table has a row with more cells than its header. The surplus cells are not drawn, which
        ``_letters`` does not detect if they contain only punctuation."""
        lines, columns = self.markup.split("\n"), 0
        for token in self.parsed:
            match token.type:
                case "thead_open":
                    columns = 0
                case "th_open":
                    columns += 1
                case "tr_open" if columns and token.map:
                    cells = escapedSplit(lines[token.map[0]].lstrip(" \t>"))  # the table may be in a quote
                    if any(cell.strip() for cell in cells[columns + (cells[0] == "") :]):
                        return True
        return False

    def _without_languages(self) -> str:
        """The source without the languages of its code blocks, which are not drawn, because the colors show them."""
        lines = self.markup.split("\n")
        for token in self.parsed:
            if token.type == "fence" and token.map and token.info and _is_language(token.info):
                first = token.map[0]
                lines[first] = lines[first].rstrip().removesuffix(token.info.strip())
        return "\n".join(lines)

    def _numbers(self) -> Iterator[str]:
        """The numbers that are drawn before the items of ordered lists."""
        next_ones: list[int] = []
        for token in self.parsed:
            match token.type:
                case "ordered_list_open":
                    next_ones.append(int(token.attrs.get("start", 1)))
                case "ordered_list_close":
                    next_ones.pop()
                case "list_item_open" if token.info:
                    yield str(next_ones[-1])
                    next_ones[-1] += 1


def _is_language(info: str) -> bool:
    try:
        return bool(find_lexer_class_by_name(info))
    except ClassNotFound:
        return False


_READ: Final = re.compile(r"[^\W_]+|(?:(?<=[^\W_])|(?<=/))[*~_\\]+(?=[^\W_]|/)")
"""Matches letters and digits, and marks that might not be emphasis: the asterisks of ``5*3*2`` and
``build/*tmp*/cache``."""


def _letters(text: str) -> str:
    return "".join(_READ.findall(text))


def _code(text: str, language: str, theme: Any) -> Syntax:
    return Syntax(text, language or "text", theme=theme, word_wrap=True)


def _folded(text: str, width: int) -> Iterator[str]:
    """The lines of ``text`` as harmless text, wrapped at words."""
    width = max(4, width)
    for line in wording.lines(text):
        at = 0
        while at < len(line) or at == 0:
            head = line[at : at + 2 * width]
            fits = not head.isascii() and cell_len(head) <= width
            piece = head if fits else head[:width] if head.isascii() else chop_cells(head, width)[0]
            space = piece.rstrip().rfind(" ")
            if at + len(piece) < len(line) and space > len(piece) // 2:
                piece = piece[: space + 1]
            yield piece
            at += max(1, len(piece))


def _styles(palette: Palette) -> Theme:
    strong = Style(color=palette.ink, bold=True)
    soft = Style(color=palette.soft)
    accent = Style(color=palette.accent)
    headings = {f"markdown.h{level}": strong for level in range(1, 7)}
    return Theme(
        headings
        | {
            "markdown.paragraph": Style(color=palette.ink),
            "markdown.item.bullet": accent,
            "markdown.item.number": accent,
            "markdown.list": Style(color=palette.ink),
            "markdown.code": Style(color=palette.ink, bgcolor=palette.sunken),
            "markdown.code_block": Style(color=palette.ink, bgcolor=palette.sunken),
            "markdown.block_quote": soft,
            "markdown.hr": Style(color=palette.line),
            "markdown.link": accent,
            "markdown.link_url": soft,
            "markdown.strong": Style(bold=True),
            "markdown.em": Style(italic=True),
            "markdown.table.border": Style(color=palette.line),
            "markdown.table.header": strong,
            "code.ground": Style(color=palette.ink, bgcolor=palette.sunken),
        }
    )
