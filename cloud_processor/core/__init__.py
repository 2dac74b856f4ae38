"""Decisions without I/O: what a node looks like, and what is to be done about it."""
