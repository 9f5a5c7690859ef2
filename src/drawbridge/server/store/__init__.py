"""The log of one project: every message once, numbered, on disk before anybody hears of it."""
