"""Whole tables under pytest, in the environment of pyarrow and its like. By hand:

PYTHONPATH=python .venv-columns/bin/python -m pytest -p turbocql.testing.pytest_plugin tests/tables
"""
