"""Job 3: the agent server. It runs agents for people: sockets, projects, sessions, runs, approvals and their history."""
