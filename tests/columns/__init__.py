"""Tests of results as columns and of loads, with pyarrow, pandas, polars and other libraries."""
