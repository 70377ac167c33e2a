"""A table read by Ray, Spark and Dask."""
