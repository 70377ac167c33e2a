"""Says what turbocql is and what to try: `python -m turbocql`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ._diagnosis.text import quick_path_summary
from .diagnose import Diagnosis, diagnosis

__all__ = ["main"]

_TRY = """\
Try:
  python -m turbocql.testing         start a real Cassandra; needs Java 17 and Maven
  python -m turbocql.cli --help      query, load and unload tables, or open a shell
  python -m turbocql.accel FILE.py   run a program of cassandra-driver or scylla-driver faster\
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what turbocql is and what to try, or with `--version` only the version.

    Returns the exit status: 0, or 2 for an unknown argument.

    `arguments` does not contain the name of the program. By default, it is `sys.argv[1:]`.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    about = diagnosis()
    if list(arguments) in (["--version"], ["-V"]):
        print(f"turbocql {about.turbocql}")
        return 0
    if arguments and list(arguments) not in (["--help"], ["-h"]):
        unknown = " ".join(arguments)
        print(
            f"python -m turbocql takes no {unknown!r}: the command line is `turbocql`, or"
            " `python -m turbocql.cli`",
            file=sys.stderr,
        )
        return 2
    print(_text(about))
    return 0


def _text(about: Diagnosis) -> str:
    edits = f"{len(about.engine_edits)} edits" if about.engine_edits else "without edits"
    return (
        f"turbocql {about.turbocql}, a CQL driver for Apache Cassandra and ScyllaDB\n\n"
        f"native core   {about.core_profile} build, for {about.python}\n"
        f"quick paths   {quick_path_summary(about.quick_paths)}\n"
        f"engine        {about.engine}, {edits}\n"
        f"more          python -m turbocql.diagnose\n\n"
        f"{_TRY}"
    )


def _run() -> int:
    """Returns the exit status: that of `main`, or 1 if the output cannot be written."""
    if sys.stdout is None:  # it was closed before the interpreter started
        return 1
    try:
        status = main()
        sys.stdout.flush()
    except OSError as error:
        # When the interpreter ends, it flushes the output again. The redirection prevents a second
        # error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"turbocql: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(_run())
