"""Columns between Arrow and the core: streams for consumers, and pieces of a program's data."""
