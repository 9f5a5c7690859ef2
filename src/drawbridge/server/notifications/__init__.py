"""Notifications, which also reach users who do not have the web UI open: Web Push, and the owner's webhook."""
