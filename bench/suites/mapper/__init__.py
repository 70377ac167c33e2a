"""Simple statements and the object mapper of other drivers, plain and accelerated."""
