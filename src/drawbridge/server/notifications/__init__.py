"""Notifications to people who do not have the page open: Web Push, and the owner's webhook."""
