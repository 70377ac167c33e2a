"""Results as columns and loads of columns; measured with the suite of requests."""
