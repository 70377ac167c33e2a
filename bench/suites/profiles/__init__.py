"""Profiles of cases and requests: the functions that execute the most instructions."""
