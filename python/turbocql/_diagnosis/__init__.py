"""Diagnoses of sessions, clusters and programs."""
