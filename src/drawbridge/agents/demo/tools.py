"""What the demo agent's tool calls mean: it has Claude Code's tools."""

from drawbridge.agents.claude.tools import TOOLS as TOOLS
