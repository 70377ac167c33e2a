"""Runs a program accelerated: `python -m turbocql.accel [--status] [-m] program args...`."""

from __future__ import annotations

import atexit
import io
import os
import runpy
import sys
import types

from . import accelerate, status

_USAGE = """\
usage: python -m turbocql.accel [--status] (program.py | -m module) [argument...]

--status: when the program ends, print to standard error what was accelerated"""


def main() -> None:
    """Runs the program that the command line names."""
    arguments = sys.argv[1:]
    tell = arguments[:1] == ["--status"]
    arguments = arguments[tell:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        asked = bool(arguments) and arguments[0] in ("-h", "--help")
        print(_USAGE, file=sys.stdout if asked else sys.stderr)
        raise SystemExit(0 if asked else 2)
    if arguments[0].startswith("-") and arguments[0] != "-m":
        print(f"unknown option {arguments[0]!r}\n{_USAGE}", file=sys.stderr)
        raise SystemExit(2)
    if arguments[0] != "-m" and not os.path.exists(arguments[0]):
        print(f"can't open {arguments[0]!r}: there is no such file", file=sys.stderr)
        raise SystemExit(2)
    accelerate()
    if tell:
        atexit.register(lambda: print(status(), file=sys.stderr))
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    path = os.path.abspath(arguments[0])
    # Python itself puts the program's directory first in `sys.path` too.
    sys.path[0] = os.path.dirname(path)
    if os.path.isdir(path) or not path.endswith((".py", ".pyw")):
        runpy.run_path(arguments[0], run_name="__main__")
        return
    with io.open_code(path) as source:
        code = compile(source.read(), path, "exec")
    program = types.ModuleType("__main__")
    vars(program).update(__file__=path, __builtins__=__builtins__, __annotations__={})
    # Pickling, and imports of `__main__`, must find the program's module.
    sys.modules["__main__"] = program
    exec(code, vars(program))


if __name__ == "__main__":
    main()
