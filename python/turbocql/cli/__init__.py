"""The command line `turbocql`; also `python -m turbocql.cli`.

It needs click, rich, prompt_toolkit and pyarrow: `pip install 'turbocql[cli]'`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status.

    Arguments: those after the name of the program; by default those of the process.
    """
    try:
        from ._app import run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        print("the command line needs more packages: pip install 'turbocql[cli]'", file=sys.stderr)
        return 2
    return run(arguments)
