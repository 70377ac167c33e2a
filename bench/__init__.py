"""Measures turbocql and other drivers: `python -m bench run|report|list`."""
