"""Delivers a session's events to `logging`."""
