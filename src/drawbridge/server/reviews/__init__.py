"""Reviews: what the runs of a session changed and nobody has decided yet, to be kept, undone or edited hunk by hunk."""
