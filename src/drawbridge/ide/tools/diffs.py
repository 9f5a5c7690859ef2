"""Tools for proposals: show one and wait for its decision, withdraw one, withdraw all proposals from an agent."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from drawbridge.editors.port import Accepted
from drawbridge.ide.tools.tool import Arguments, Content, NoArguments, Tool, ToolContext


class OpenDiff(Arguments, frozen=True, rename=None):
    old_file_path: Annotated[str, Meta(description="The file as it is now; it may not exist yet.")]
    new_file_path: Annotated[str, Meta(description="The file that would be written.")]
    new_file_contents: Annotated[str, Meta(description="The complete proposed text.")]
    tab_name: Annotated[str, Meta(description="The name of this proposal; close_tab withdraws it by this name.")]


class CloseTab(Arguments, frozen=True, rename=None):
    tab_name: Annotated[str, Meta(description="The name that the proposal was opened with.")]


async def open_diff(context: ToolContext, arguments: OpenDiff) -> Content:
    """Returns once the proposal is decided or withdrawn, without a time limit. Only the agent writes the text to the
    file."""
    path = context.workspace.resolve(arguments.old_file_path)
    decision = await context.review(path, arguments.new_file_contents, arguments.tab_name)
    if isinstance(decision, Accepted):
        return ["FILE_SAVED", decision.text]
    # A withdrawn proposal counts as rejected, too, because the real CLI treats TAB_CLOSED as an acceptance (measured on
    # 2.1.197 and 2.1.329).
    return ["DIFF_REJECTED", arguments.tab_name]


async def close_tab(context: ToolContext, arguments: CloseTab) -> Content:
    await context.close_review(arguments.tab_name)
    return ["TAB_CLOSED"]


async def close_all_diff_tabs(context: ToolContext, arguments: NoArguments) -> Content:
    return [f"CLOSED_{await context.close_reviews()}_DIFF_TABS"]


TOOLS = (
    Tool("openDiff", "Propose a change to a file and wait until the user has decided.", OpenDiff, open_diff),
    Tool("close_tab", "Withdraw a proposal by its name.", CloseTab, close_tab),
    Tool("closeAllDiffTabs", "Withdraw all proposals from this agent.", NoArguments, close_all_diff_tabs),
)
