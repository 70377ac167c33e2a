"""Iterations over the pages of a result, and its first rows as HTML."""
