"""Resident memory while many rows go in and out as columns."""
