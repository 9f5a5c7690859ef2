"""A running Neovim as an editor: proposals, marks and reviews in it, over its RPC."""
