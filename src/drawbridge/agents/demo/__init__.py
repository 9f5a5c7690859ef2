"""The demo agent, which needs no account."""
