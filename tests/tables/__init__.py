"""Tests of whole tables, in the environment with pyarrow and similar libraries. To run by hand:

PYTHONPATH=python .venv-columns/bin/python -m pytest -p turbocql.testing.pytest_plugin tests/tables
"""
