"""Runs a program accelerated: `python -m turbocql.accel [--status] [-m] program args...`.

The processes that the program starts are accelerated too: they inherit `TURBOCQL_ACCELERATE`.
"""

from __future__ import annotations

import atexit
import importlib.util
import io
import os
import runpy
import sys
import types

from . import accelerate, status
from ._variable import VARIABLE, parts_of

_USAGE = """\
usage: python -m turbocql.accel [--status] [--without=PART,...]
                               (program.py | -m module) [argument...]

--status: when the program ends, print to standard error what was accelerated
--without=PART,...: leave out parts, such as segments,timers; --status names the parts"""


def main() -> None:
    """Runs the program that the command line names."""
    arguments, prints_status, without = sys.argv[1:], False, _without_of_variable()
    without_values: list[str] = []
    while arguments and arguments[0].startswith(("--status", "--without=")):
        option = arguments.pop(0)
        if option == "--status":
            prints_status = True
        elif option.startswith("--without="):
            without_values.append(option.removeprefix("--without="))
            without = f"without={','.join(without_values)}"
        else:
            arguments.insert(0, option)
            break
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        is_help_requested = bool(arguments) and arguments[0] in ("-h", "--help")
        print(_USAGE, file=sys.stdout if is_help_requested else sys.stderr)
        raise SystemExit(0 if is_help_requested else 2)
    if arguments[0].startswith("-") and arguments[0] != "-m":
        print(f"unknown option {arguments[0]!r}\n{_USAGE}", file=sys.stderr)
        raise SystemExit(2)
    if arguments[0] != "-m" and not os.path.exists(arguments[0]):
        print(f"can't open {arguments[0]!r}: there is no such file", file=sys.stderr)
        raise SystemExit(2)
    if arguments[0] == "-m" and not _is_module(arguments[1]):
        print(f"turbocql.accel: no module named {arguments[1]}", file=sys.stderr)
        raise SystemExit(1)
    try:
        accelerate(without=parts_of(without) or ())
    except ValueError as error:
        print(f"turbocql.accel: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    os.environ[VARIABLE] = without
    if prints_status:
        atexit.register(lambda: print(status(), file=sys.stderr))
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    path = os.path.abspath(arguments[0])
    # The command `python program.py` puts the program's directory first in `sys.path` too.
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


def _without_of_variable() -> str:
    """Returns the value of `TURBOCQL_ACCELERATE` if the value leaves out parts.

    Otherwise, returns "1", which leaves out no part.
    """
    value = os.environ.get(VARIABLE, "")
    return value if value.startswith("without=") else "1"


def _is_module(name: str) -> bool:
    """Whether there is a module of this name that can be run."""
    if not name or name.startswith("."):
        return False
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        # `find_spec` imports packages of the program. If such a package imports a module that is
        # missing, the error is a fault of the program, so it is raised again.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return False
    except ValueError:
        return False
    return spec is not None


if __name__ == "__main__":
    main()
