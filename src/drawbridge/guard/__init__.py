"""Job 2: the hook that an agent calls, for example before each change: input bytes, a call, an answer, output bytes. It
starts in milliseconds.
"""
