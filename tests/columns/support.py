"""Makes a table with a column of each type, and converts values to forms that can be compared."""

from __future__ import annotations

import datetime
import ipaddress
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from turbocql import Date, Duration, Time

KEYSPACE = "columns_out"
SPACE = "columns_in"
"""The keyspace in which `table()` creates tables."""
UTC = datetime.timezone.utc
KEY = uuid.UUID("9f1c5b9e-2a5c-4d5c-8d8f-0a1b2c3d4e5f")
WHEN = datetime.datetime(2026, 11, 23, 10, 30, 15, 250_000, UTC)
VALUES: dict[str, list[Any]] = {
    "ascii": ["a", ""],
    "text": ["\u20ac\U0001f600", "", "it's"],
    "tinyint": [-128, 127],
    "smallint": [-32768, 32767],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "varint": [0, -1, 2**200, -(2**130)],
    "float": [1.5, float("inf"), -0.0],
    "double": [0.1, float("-inf")],
    "decimal": [Decimal("1.50"), Decimal("-1E+30"), Decimal("0E-8"), Decimal(10) ** 60],
    "boolean": [True, False],
    "blob": [b"\0\xff", b""],
    "uuid": [KEY],
    "timeuuid": [uuid.UUID("d2177dd0-eaa2-11de-a572-001b779c76e3")],
    "inet": [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")],
    "date": [datetime.date(2026, 11, 23), datetime.date(1, 1, 1)],
    "time": [Time(0), Time(86_399_999_999_999)],
    "timestamp": [WHEN, datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)],
    "duration": [Duration(1, 2, 3), Duration(-1, 0, -5)],
    "list<int>": [[1, 2, 3], [2**31 - 1]],
    "set<text>": [{"a", "b"}, {""}],
    "map<text, double>": [{"a": 0.5, "b": -1.0}, {"": 0.0}],
    "frozen<list<text>>": [[], ["a"]],
    "frozen<map<uuid, frozen<list<int>>>>": [{KEY: [1]}, {}],
    "list<frozen<set<decimal>>>": [[{Decimal("1.5")}, set()]],
    "tuple<int, text>": [(1, "a"), (None, None), (5, None)],
    "frozen<place>": [{"x": 1, "name": "a", "tags": {"t"}}, {"x": None, "name": "", "tags": None}],
    "vector<float, 3>": [[0.5, 1.0, -2.0]],
    "vector<text, 2>": [["a", "\u20ac"], ["", ""]],
    "vector<vector<double, 2>, 2>": [[[1.0, 2.0], [3.0, 4.0]]],
    "vector<uuid, 1>": [[KEY]],
    "vector<varint, 2>": [[1, -(2**100)]],
}
NAMES = {cql_type: f"c{number}" for number, cql_type in enumerate(VALUES)}


def make(session: Any) -> None:
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}")
    session.execute(f"USE {KEYSPACE}")
    session.execute("CREATE TYPE place (x int, name text, tags frozen<set<text>>)")
    columns = ", ".join(f"{name} {cql_type}" for cql_type, name in NAMES.items())
    session.execute(f"CREATE TABLE every (p int, n int, {columns}, PRIMARY KEY (p, n))")
    insert = session.prepare(
        f"INSERT INTO every (p, n, {', '.join(NAMES.values())})"
        f" VALUES (?, ?, {', '.join('?' for _ in NAMES)})"
    )
    rows = [
        (0, n, *(None if n % 5 == 4 else values[n % len(values)] for values in VALUES.values()))
        for n in range(23)
    ]
    session.execute_many(insert, rows).raise_for_failures()
    session.execute(
        "CREATE TABLE many (p int, n int, score double, name text, v vector<float, 4>,"
        " PRIMARY KEY (p, n))"
    )
    insert = session.prepare("INSERT INTO many (p, n, score, name, v) VALUES (?, ?, ?, ?, ?)")
    session.execute_many(
        insert, [(0, n, n / 4, f"name {n}", [n, 0.5, -n, 1.0]) for n in range(3000)]
    ).raise_for_failures()


def refused(
    expected: type[BaseException] | tuple[type[BaseException], ...], work: Callable[[], Any]
) -> str:
    """Returns the text of the expected error. Fails if `work` does not raise this error."""
    try:
        work()
    except expected as error:
        return str(error)
    raise AssertionError(f"no {expected}")


def plain(value: Any) -> Any:
    """Converts a value from `all()` to the form in which consumers of Arrow data return it."""
    if isinstance(value, (Decimal, ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    if isinstance(value, uuid.UUID):
        return value
    if isinstance(value, Duration):
        return {"months": value.months, "days": value.days, "nanoseconds": value.nanoseconds}
    if isinstance(value, Time):
        return value.nanoseconds
    if isinstance(value, Date):
        return value.days
    if hasattr(value, "_asdict"):
        return {name: plain(part) for name, part in value._asdict().items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=repr)
    if isinstance(value, tuple):
        return {str(number): plain(part) for number, part in enumerate(value)}
    if hasattr(value, "items"):
        return sorted(((plain(k), plain(v)) for k, v in value.items()), key=repr)
    if isinstance(value, (list, np.ndarray)):
        return [plain(part) for part in value]
    return value


def cell(value: Any, cql_type: str) -> Any:
    """Converts a cell of pyarrow to the form that `plain` returns."""
    if cql_type.startswith(("set<", "frozen<set", "frozen<map", "map<")):
        return None if value is None else sorted(map(tidied, value), key=repr)
    if cql_type == "list<frozen<set<decimal>>>":
        return None if value is None else [sorted(one) for one in value]
    return tidied(value)


def tidied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(tidied, value))
    if isinstance(value, dict):
        return {name: tidied(part) for name, part in value.items()}
    return value


SELECT = f"SELECT * FROM {KEYSPACE}.every"
MANY = f"SELECT n, score, name, v FROM {KEYSPACE}.many"


def table(session: Any, columns: str, name: str = "t") -> str:
    """Creates a table with the key `k` and these columns. Returns the table's name with its
    keyspace.
    """
    session.execute(f"DROP TABLE IF EXISTS {SPACE}.{name}")
    session.execute(f"CREATE TABLE {SPACE}.{name} (k int PRIMARY KEY, {columns})")
    return f"{SPACE}.{name}"
