"""The command line `turbocql`; also `python -m turbocql.cli`.

It needs click, rich, prompt_toolkit and pyarrow: `pip install 'turbocql[cli]'`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status.

    `arguments` does not contain the name of the program. By default, it is `sys.argv[1:]`.
    """
    _prepare()
    digits = sys.get_int_max_str_digits() if hasattr(sys, "get_int_max_str_digits") else None
    try:
        if digits is not None:
            # By default, Python converts at most 4,300 digits. A varint may have more.
            sys.set_int_max_str_digits(0)
        from ._app import run

        return run(arguments)
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich", "prompt_toolkit", "pygments"):
            raise
        print("the command line needs more packages: pip install 'turbocql[cli]'", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        if digits is not None:
            sys.set_int_max_str_digits(digits)


def _prepare() -> None:
    """Makes the standard streams usable, even if the parent process closed them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # The null device takes the number of the closed descriptor. Otherwise, the next file or
            # connection would get this number, and be used as the standard stream.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            # A character that the encoding lacks is written as its escape.
            stream.reconfigure(errors="backslashreplace")
