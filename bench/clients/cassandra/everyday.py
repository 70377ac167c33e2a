"""Cases of everyday values, alone and in a row, with scylla-driver or cassandra-driver."""

from __future__ import annotations

import importlib.util
from functools import partial

from bench.clients.cassandra.codec import bind_case, value_case
from bench.harness.timing import Case, Maker
from bench.suites.codec.everyday import EVERYDAY, value_of

__all__ = ["cases"]

_LIBRARIES = {"pandas": "pandas", "pytz": "pytz"}


def cases() -> dict[str, Maker]:
    """Maps names to functions that make cases. Each value has two cases: alone, and in a row.

    Leaves out values whose libraries are not installed.
    """
    names = [
        name
        for name in EVERYDAY
        if all(
            word not in name or importlib.util.find_spec(library) is not None
            for word, library in _LIBRARIES.items()
        )
    ]
    makers: dict[str, Maker] = {f"everyday: {name}": partial(_value, name) for name in names}
    return makers | {f"everyday row: int, text, {name}": partial(_row, name) for name in names}


def _value(name: str) -> Case:
    return value_case(EVERYDAY[name][0], value_of(name))


def _row(name: str) -> Case:
    columns = [("id", "int"), ("name", "text"), ("value", EVERYDAY[name][0])]
    return bind_case(columns, (7, "a name", value_of(name)))
