"""Reads of a table by Ray, Spark and Dask."""
