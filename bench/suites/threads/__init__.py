"""Calls of the codec by several threads at once."""
