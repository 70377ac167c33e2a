"""Other drivers, plain and accelerated."""
