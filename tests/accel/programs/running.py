"""Functions that the programs share. They connect to the test's keyspace, and print results.

    python -m tests.accel.programs.NAME HOST PORT KEYSPACE [OPTION]

A program prints results. If the test accelerates the program, the results must stay the same, and
the program prints one more line: the number of native calls of each part of the accelerator. The
programs that use this module do not import turbocql.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

PREFIX = "native calls: "
"""How the last line of an accelerated program begins."""


def arguments() -> dict[str, Any]:
    """Returns the arguments for the driver's `Cluster`."""
    return {"contact_points": [sys.argv[1]], "port": int(sys.argv[2]), "protocol_version": 5}


@contextlib.contextmanager
def connected(*tables: str, **options: Any) -> Iterator[Any]:
    """Creates tables in the program's keyspace. Yields a session in this keyspace."""
    from cassandra.cluster import Cluster

    cluster = Cluster(**{**arguments(), **options})
    try:
        session = cluster.connect(sys.argv[3])
        session.default_timeout = 60
        for table in tables:
            session.execute(f"CREATE {table}")
        yield session
    finally:
        cluster.shutdown()


def attempt(call: Callable[..., Any], *values: Any, **named: Any) -> None:
    """Prints the result of a call, or its error."""
    try:
        print(repr(call(*values, **named)))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")


def native_calls() -> dict[str, int] | None:
    """Maps each part of the accelerator to its number of native calls in this process.

    Returns None if turbocql is not imported.
    """
    accel = sys.modules.get("turbocql.accel")
    if accel is None:
        return None
    calls: Counter[str] = Counter()
    for seam in accel.status().seams:
        calls[seam.part] += seam.native
    return dict(calls)


def print_native(children: Iterable[dict[str, int] | None] = ()) -> None:
    """Prints the number of native calls in this process and in its children, if at least one of
    these processes is accelerated.
    """
    reports = [calls for calls in (native_calls(), *children) if calls is not None]
    if reports:
        total: Counter[str] = Counter()
        for calls in reports:
            total.update(calls)
        print(PREFIX + json.dumps(total))
