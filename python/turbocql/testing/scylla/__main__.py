"""The process of a `Scylla`: `python -m turbocql.testing.scylla`, with its orders as JSON lines."""

from .server import main

main()
