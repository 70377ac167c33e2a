"""The suites of measurements: a folder for each, with its cases and its `SUITE`.

A suite names the programs in `bench.clients` and does not import them, because they run in other
environments.
"""
