"""Decisions of the running kernel, recorded and compared."""
