"""Delivers a session's events to `logging`, streams and OpenTelemetry, and formats its metrics."""
