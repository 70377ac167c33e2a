"""Tests of columns, in an environment with pyarrow, pandas, polars and other Arrow consumers."""
