"""Reviews of the changes that the runs in a project or a directory have made and nobody has decided on yet. The changes
are kept, undone or edited hunk by hunk."""
