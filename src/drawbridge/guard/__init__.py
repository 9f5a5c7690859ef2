"""The guard: the hook that an agent calls, for example before each change. It reads the call from the input bytes and
writes the answer as output bytes; it starts in milliseconds.
"""
