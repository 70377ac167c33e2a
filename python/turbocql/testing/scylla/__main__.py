"""Runs the process of a `Scylla`. Its commands arrive as JSON lines on standard input."""

from .server import main

main()
