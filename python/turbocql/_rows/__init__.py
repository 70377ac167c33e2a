"""Iterations over the pages of a result."""
