"""The options of runs: what agents offer, what users chose, and what the owner allows."""
