"""Passes columns between Arrow and the core: results to consumers, a program's data in pieces."""
