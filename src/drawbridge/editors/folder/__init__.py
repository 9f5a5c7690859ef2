"""A folder without an editor: proposals are shown and decided in a terminal."""
