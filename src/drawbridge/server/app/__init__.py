"""The application behind the HTTP transport: connected clients, their commands, and the web UI."""
