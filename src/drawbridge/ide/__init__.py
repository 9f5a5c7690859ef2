"""The bridge, which makes a running editor an IDE for coding agents: they read the editor's state and propose
changes."""
