"""Results as columns and loads of columns. The suite of requests measures them."""
