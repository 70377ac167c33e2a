"""Runs a program accelerated: `python -m turbocql.accel [-m] program args...`."""

from __future__ import annotations

import os
import runpy
import sys

from . import accelerate

_USAGE = "usage: python -m turbocql.accel (program.py | -m module) [argument...]"


def main() -> None:
    """Does what the command line says."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        asked = bool(arguments) and arguments[0] in ("-h", "--help")
        print(_USAGE, file=sys.stdout if asked else sys.stderr)
        raise SystemExit(0 if asked else 2)
    accelerate()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    # As Python itself does for a program.
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
