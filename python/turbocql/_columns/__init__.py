"""Passes columns of results to consumers, and columns of a program's data to the native core."""
