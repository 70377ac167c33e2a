"""Loads and unloads of whole tables from and to files, compared with dsbulk and cqlsh."""
