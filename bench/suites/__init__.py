"""The suites of measurements: a folder for each, with its cases and its `SUITE`.

A suite has only the names of programs in `bench.clients`, because they run in other environments.
"""
