"""Job 2: an agent's hook, asked before each change: bytes, a call, a verdict, bytes. It starts in milliseconds."""
