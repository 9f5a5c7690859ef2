"""Interprets the demo agent's tool calls: the agent has Claude Code's tools."""

from drawbridge.agents.claude.tools import TOOLS as TOOLS
