"""Reviews: what the runs in a project or a directory have changed and nobody has decided on yet. The changes are kept,
undone or edited hunk by hunk."""
