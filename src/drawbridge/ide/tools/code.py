"""The tool that runs code. It is offered only if the user has opted in, and each call asks the user before it runs
anything."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from drawbridge.ide.tools.tool import Arguments, Content, Tool, ToolContext


class ExecuteCode(Arguments, frozen=True):
    code: Annotated[
        str, Meta(description="Python code. Each call starts a new interpreter in the first workspace folder.")
    ]


async def execute_code(context: ToolContext, arguments: ExecuteCode) -> Content:
    allowed = await context.review_code(arguments.code)
    if allowed is None:
        return ["The user did not allow this code to run."]
    return [await context.run_code(allowed.text)]


TOOLS = (Tool("executeCode", "Run Python code after the user has allowed it.", ExecuteCode, execute_code),)
