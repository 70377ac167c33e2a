"""Tests of whole tables, in an environment with pyarrow and similar libraries. Run them by hand:

PYTHONPATH=python .venv-columns/bin/python -m pytest -p turbocql.testing.pytest_plugin tests/tables
"""
