"""Prints a diagnosis. With a URL, a host or `--env`, it includes the cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..config import Config
from ..errors import Error
from ..session import connect
from . import diagnose

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status: 1 when the connection failed."""
    parser = argparse.ArgumentParser(
        prog="python -m turbocql.diagnose",
        description="Prints versions, platform and, with a URL or host, the cluster's state.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("url", nargs="?", help="host:port, or cql://user:password@host/keyspace")
    where.add_argument("--env", action="store_true", help="connect by the variables TURBOCQL_*")
    options = parser.parse_args(arguments)
    try:
        if options.env:
            session = connect(config=Config.from_env())
        elif options.url is not None:
            session = connect(options.url)
        else:
            diagnose()
            return 0
    except Error as error:
        diagnose()
        sys.stdout.flush()
        print(f"\nno session: {error}", file=sys.stderr)
        return 1
    with session:
        diagnose(session)
    return 0


if __name__ == "__main__":
    sys.exit(main())
