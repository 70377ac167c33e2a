"""Requests while a node hangs or is killed."""
