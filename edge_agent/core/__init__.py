"""Decisions of the agent, pure: no I/O, no clock, no dice."""
