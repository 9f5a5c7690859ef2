"""Job 3: people and agent runs. Sockets, projects, runs, agents and their history."""
