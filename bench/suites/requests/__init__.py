"""Requests to a server: processor time of the client, and latency."""
