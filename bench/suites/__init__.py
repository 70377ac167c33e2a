"""What is measured: a folder for each suite, with its cases and its `SUITE`.

A suite names the programs in `bench.clients` as texts only, because they run in other environments.
"""
