"""Interprets the demo agent's tool calls, which are calls of Claude Code's tools."""

from drawbridge.agents.claude.tools import TOOLS as TOOLS
