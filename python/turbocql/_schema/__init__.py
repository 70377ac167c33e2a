"""Reads the schema tables of a server."""
