"""Notifications, which also reach people who do not have the web UI open: Web Push, and the owner's webhook."""
