"""The history of a project is searched from the terminal client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.widgets import OptionList

from drawbridge.tui import search_dialog
from drawbridge.tui.conversation import Conversation, Record
from drawbridge.tui.history import History
from drawbridge.tui.search_dialog import SearchDialog
from tests.server.processes import Server

from .rig import attached

pytestmark = pytest.mark.thorough


async def test_a_search_result_opens_its_record(server: Server, directory: Path) -> None:
    async with attached(server, directory, size=(80, 24)) as person:
        for number, words in enumerate(("first", "the heron", *range(8)), 1):  # the first prompt is the session's title
            await person.prompts(f"/quick {words}")
            await person.reads_times(number, "Finished")
        await person.loses("the heron")
        await person.presses("escape", "f")
        await person.waits_for(lambda: isinstance(person.app.screen, SearchDialog), "the window")
        await person.types("heron")
        await person.presses("enter")
        options = person.app.screen.query_one(OptionList)
        await person.waits_for(lambda: options.option_count >= 1, "a result")
        await person.sees("heron")
        options.highlighted = options.option_count - 1
        await person.presses("enter")
        await person.waits_for(lambda: person.in_project and "/quick the heron" in person.screen, "the record")
        history = person.app.screen.query_one(History)
        assert history.current is not None
        assert not history.follows


async def test_more_search_results_are_loaded_on_request(
    server: Server, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list ends with an option that loads the next page, as long as there are more results."""
    monkeypatch.setattr(search_dialog, "PAGE", 2)
    async with attached(server, directory) as person:
        for number in range(5):
            await person.prompts(f"/quick heron {number}")
            await person.reads_times(number + 1, "Finished")
        await person.presses("escape", "f")
        await person.types("heron")
        await person.presses("enter")
        options = person.app.screen.query_one(OptionList)
        for count in (3, 5):
            await person.waits_for(lambda: options.option_count >= count, f"{count} rows")  # noqa: B023
            assert options.get_option_at_index(count - 1).prompt == "Show more"
            await person.presses("end", "enter")
        await person.waits_for(lambda: options.option_count == 5, "the last result")
        assert options.highlighted == 4
        await person.sees("heron 0")
        await person.presses("enter")
        await person.waits_for(lambda: person.in_project and "/quick heron 0" in person.screen, "the record")


async def test_a_search_without_results_is_reported(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.presses("escape", "f")
        await person.types("nothing of this kind")
        await person.presses("enter")
        await person.sees("No results.")
        await person.presses("escape")
        await person.waits_for(lambda: person.in_project, "the project")


def record(seq: int) -> Record:
    return Record(seq, "2026-11-22T12:00:00Z", "client", {"message": {"prompt": f"prompt {seq}"}})


@pytest.mark.parametrize("last", [10, 100])
def test_a_jump_keeps_the_history_without_a_gap(last: int) -> None:
    conversation = Conversation("p")
    snapshot: dict[str, Any] = {"last_seq": 100, "run": None, "queue": [], "open_approvals": []}
    conversation.join(snapshot, restart=True)
    conversation.prepend(record(seq) for seq in range(51, 101))
    conversation.jump(last)
    assert (conversation.items, conversation.has_older) == ([], True)
    conversation.prepend(record(seq) for seq in range(1, last + 1))
    assert (conversation.first, conversation.last, conversation.at_end) == (1, last, last == 100)
    conversation.append(record(seq) for seq in range(last + 1, 101))
    assert [item.seq for item in conversation.items] == list(range(1, 101))
    conversation.apply(record(101))
    assert conversation.items[-1].seq == 101
