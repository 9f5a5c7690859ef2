"""The screens of ``drawbridge attach``."""
