"""Gemini CLI's side of the bridge: MCP over HTTP with notifications in a stream."""
