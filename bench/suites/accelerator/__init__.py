"""Codec cases and requests of other drivers, plain and accelerated."""
