"""Reviews: what the runs of a session changed and nobody has decided on yet, to be kept, undone or edited hunk by
hunk."""
