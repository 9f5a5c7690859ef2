"""The guard: the hook that an agent calls, for example before each change. It reads the call from stdin and writes the
answer to stdout, and starts in milliseconds.
"""
