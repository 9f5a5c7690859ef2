"""Reviews: the changes by a session's runs that nobody has decided on yet. They are kept, undone or edited hunk by
hunk."""
