"""Collects and formats a diagnosis of an installation, a session and its cluster."""
