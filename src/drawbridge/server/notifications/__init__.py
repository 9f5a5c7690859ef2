"""Telling people who look at no page."""
