"""What can be asked of an editor: the port, its vocabulary, and the editors that implement it."""
