"""The runs of managed sessions."""
