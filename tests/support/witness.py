"""An independent reader that executes queries with scylla-driver and prints the rows as JSON.

    .venv-scylla-driver/bin/python tests/support/witness.py HOST PORT < queries.json > results.json

It runs in its own environment, without turbocql. The result of a query is a list of rows. Each row
is an object that maps the names of the columns to values. `canonical` defines the form of the
values. This form depends on the CQL type in the result's metadata, so that an inet, for example,
cannot be confused with a text.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import sys
from typing import Any

from cassandra.cluster import Cluster
from cassandra.cqltypes import FrozenType, UserType, VectorType
from cassandra.query import tuple_factory

EPOCH = datetime.datetime(1970, 1, 1)


def scalar(name: str, value: Any) -> Any:
    """Returns the form of a scalar.

    Integers and floats become texts, because some of them would be rounded in JSON.
    """
    if name in ("ascii", "text", "varchar", "uuid", "timeuuid"):
        return str(value)
    if name in ("tinyint", "smallint", "int", "bigint", "varint", "counter"):
        return str(value)
    if name == "boolean":
        return bool(value)
    if name in ("float", "double"):
        return value.hex()
    if name == "decimal":
        sign, digits, exponent = value.as_tuple()
        return [sign, "".join(map(str, digits)), exponent]
    if name == "blob":
        return value.hex()
    if name == "inet":
        return str(ipaddress.ip_address(value))
    if name == "date":
        return value.days_from_epoch
    if name == "time":
        return value.nanosecond_time
    if name == "timestamp":
        return (value - EPOCH) // datetime.timedelta(milliseconds=1)
    if name == "duration":
        return [value.months, value.days, value.nanoseconds]
    raise TypeError(f"no canonical form for {name}")


def canonical(kind: Any, value: Any) -> Any:
    """Returns the same form as `Kind.canonical` of tests/support/cql_types.py."""
    if value is None:
        return None
    name = kind.typename
    if issubclass(kind, FrozenType):
        return canonical(kind.subtypes[0], value)
    if name == "list":
        return [canonical(kind.subtypes[0], part) for part in value]
    if name == "set":
        parts = [canonical(kind.subtypes[0], part) for part in value]
        return sorted(parts, key=json.dumps)
    if name == "map":
        key, part = kind.subtypes
        # `items()` would encode the keys to look them up, and scylla-driver cannot encode every
        # UDT.
        entries = [[canonical(key, k), canonical(part, v)] for k, v in value._items]
        return sorted(entries, key=json.dumps)
    if issubclass(kind, VectorType):
        return [canonical(kind.subtype, part) for part in value]
    if issubclass(kind, UserType):
        return {
            field: canonical(sub, getattr(value, field))
            for field, sub in zip(kind.fieldnames, kind.subtypes, strict=True)
        }
    if name == "tuple":
        return [canonical(sub, part) for sub, part in zip(kind.subtypes, value, strict=True)]
    return scalar(name, value)


def main() -> None:
    """Executes the queries of standard input and prints their results."""
    host, port = sys.argv[1:]
    cluster = Cluster([host], port=int(port))
    session = cluster.connect()
    session.row_factory = tuple_factory
    results = []
    for query in json.load(sys.stdin):
        answer = session.execute(query)
        columns = list(zip(answer.column_names, answer.column_types, strict=True))
        results.append(
            [
                {
                    name: canonical(kind, value)
                    for (name, kind), value in zip(columns, row, strict=True)
                }
                for row in answer
            ]
        )
    cluster.shutdown()
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
