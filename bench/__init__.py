"""Measurements beside other drivers: `python -m bench run|report|list`."""
