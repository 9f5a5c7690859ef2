"""The interface of an editor, its types, and the editors that implement it."""
