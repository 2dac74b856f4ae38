"""Decisions of the bridge, without I/O: where a message goes, and what may be acknowledged."""
