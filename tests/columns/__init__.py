"""Tests of loads and of results as columns. They use pyarrow, pandas, polars and other
libraries.
"""
