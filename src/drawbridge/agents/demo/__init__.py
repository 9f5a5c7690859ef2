"""The demo agent: its driver and its script. It needs no account."""
