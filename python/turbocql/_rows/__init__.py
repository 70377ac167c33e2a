"""Iterates over the pages of a result, and writes the first rows of a result as HTML."""
