"""Uses most features of cassandra-driver or scylla-driver and prints the results as JSON.

    PYTHONPATH=python:. PYTHON -m tests.accel.programs.scenario HOST PORT VERSION

With `--accelerated`, it calls `turbocql.accelerate()` before it imports the driver. The JSON has
the result of each step and the accelerator's status. The keyspace is dropped and created again.
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import os
import sys
import threading
import warnings
from collections import namedtuple
from decimal import Decimal
from typing import Any
from uuid import UUID

import turbocql

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("host")
parser.add_argument("port", type=int)
parser.add_argument("version", type=int)
parser.add_argument("--accelerated", action="store_true")
options = parser.parse_args()
if options.accelerated:
    turbocql.accelerate()
os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import numpy as np  # noqa: E402
from cassandra import ConsistencyLevel, policies, query  # noqa: E402
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile  # noqa: E402
from cassandra.concurrent import execute_concurrent, execute_concurrent_with_args  # noqa: E402
from cassandra.cqlengine import columns, connection, management, models  # noqa: E402
from cassandra.protocol import LazyProtocolHandler, NumpyProtocolHandler  # noqa: E402
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement  # noqa: E402
from cassandra.util import Date, Duration, OrderedMapSerializedKey, SortedSet, Time  # noqa: E402

KEYSPACE = "scenario"
seen: list[tuple[str, Any]] = []


def shown(value: Any) -> Any:
    """Returns the class name and the repr of a value, or of each part of a collection."""
    name = type(value).__name__
    if isinstance(value, OrderedMapSerializedKey):
        return name, [(shown(k), shown(v)) for k, v in value._items]
    if isinstance(value, (list, tuple, SortedSet)):
        return name, [shown(part) for part in value], list(getattr(value, "_fields", ()))
    if isinstance(value, (set, frozenset)):
        return name, sorted(map(repr, value))
    if isinstance(value, dict):
        return name, [(key, shown(part)) for key, part in value.items()]
    if isinstance(value, np.ndarray):
        return name, str(value.dtype), repr(value.tolist())
    return name, repr(value)


def see(step: str, value: Any) -> None:
    """Records the result of a step."""
    seen.append((step, shown(value)))


def attempt(step: str, call: Any, *arguments: Any) -> None:
    """Records what a step returned or raised."""
    try:
        see(step, call(*arguments))
    except Exception as error:
        see(step, (type(error).__name__, str(error)))


class Address:
    """The class that is registered for the user-defined type `address`."""

    def __init__(self, street: str, number: int, tags: Any) -> None:
        self.street, self.number, self.tags = street, number, tags

    def __repr__(self) -> str:
        return f"Address({self.street!r}, {self.number!r}, {self.tags!r})"


WHEN = datetime.datetime(2026, 11, 21, 12, 30, 15, 678_000)
ROW: dict[str, tuple[str, Any]] = {
    "a": ("ascii", "ascii"),
    "b": ("bigint", -(2**62)),
    "c": ("blob", b"\0\xff"),
    "d": ("boolean", True),
    "e": ("date", datetime.date(1969, 7, 20)),
    "f": ("decimal", Decimal("-12345678901234567890.0987")),
    "g": ("double", 0.1),
    "h": ("duration", Duration(1, 2, 3)),
    "i": ("float", 0.5),
    "j": ("inet", "2001:db8::1"),
    "k": ("int", -5),
    "l": ("smallint", 300),
    "m": ("text", "text \u20ac \U0001f600"),
    "n": ("time", Time(86_399_999_999_999)),
    "o": ("timestamp", WHEN),
    "p": ("timeuuid", UUID("00000000-0000-1000-8080-808080808080")),
    "q": ("tinyint", -128),
    "r": ("uuid", UUID(int=7)),
    "s": ("varint", 1 << 100),
    "t": ("list<int>", [1, 2, 3]),
    "u": ("set<text>", {"a", "b"}),
    "v": ("map<text, int>", {"a": 1, "b": 2}),
    "w": ("tuple<int, text>", (1, "a")),
    "x": ("frozen<address>", Address("street", 5, ["home"])),
    "y": ("vector<float, 3>", [0.5, -1.0, 2.0]),
    "z": ("list<frozen<map<text, frozen<list<int>>>>>", [{"a": [1]}, {}]),
    "aa": ("list<timestamp>", [WHEN]),
    "bb": ("inet", "10.0.0.1"),
}


def all_types(session: Any) -> None:
    """Writes and reads values of every type, nulls, and lists from NumPy arrays."""
    declared = ", ".join(f'"{name}" {cql_type}' for name, (cql_type, _) in ROW.items())
    session.execute(f"CREATE TABLE everything (id int PRIMARY KEY, {declared})")
    names = ", ".join(f'"{name}"' for name in ROW)
    marks = ", ".join("?" * (len(ROW) + 1))
    insert = session.prepare(f"INSERT INTO everything (id, {names}) VALUES ({marks})")
    row = [value for _, value in ROW.values()]
    session.execute(insert, [1, *row])
    session.execute(insert, (2, *[None] * len(row)))
    session.execute(insert, [3])
    session.execute(insert, {"id": 4, "k": 9, "m": UNSET_VALUE})
    arrays = session.prepare("INSERT INTO everything (id, y, t) VALUES (?, ?, ?)")
    session.execute(arrays, (5, np.array([1, 2, 3], "f4"), np.array([4, 5])))
    session.execute(arrays, (6, np.array([1, 2, 3.5], "f8")[::1], (1, 2)))
    select = session.prepare("SELECT * FROM everything WHERE id = ?")
    for _ in range(3):
        for key in range(1, 8):
            see(f"everything {key}", list(session.execute(select, [key])))
    for name in ROW:
        see(f"column {name}", session.execute(f'SELECT "{name}" FROM everything WHERE id = 1')[0])
    attempt("wrong type", insert.bind, ["x"])
    attempt("too many", insert.bind, [1] * 99)
    attempt("wrong element", insert.bind, {"id": 1, "t": ["x"]})
    attempt("too large", insert.bind, {"id": 1 << 40})
    attempt("unset key", insert.bind, [UNSET_VALUE])
    bound = insert.bind([1, *row])
    see("routing key", bound.routing_key)


def batches(session: Any) -> None:
    """Executes logged, unlogged and counter batches of prepared and plain statements."""
    session.execute("CREATE TABLE batched (a int, b text, c int, PRIMARY KEY ((a, b), c))")
    insert = session.prepare("INSERT INTO batched (a, b, c) VALUES (?, ?, ?)")
    for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
        batch = BatchStatement(kind, consistency_level=ConsistencyLevel.ONE)
        for i in range(10):
            batch.add(insert, (i, "text", i))
        batch.add("INSERT INTO batched (a, b, c) VALUES (%s, %s, %s)", (50, "it's", 1))
        batch.add(SimpleStatement("INSERT INTO batched (a, b, c) VALUES (51, 'x', 1)"))
        session.execute(batch)
        batch.clear()
    see("batched", sorted(session.execute("SELECT * FROM batched")))
    see("composite key", insert.bind((1, "text", 2)).routing_key)
    session.execute("CREATE TABLE counted (a int PRIMARY KEY, n counter)")
    batch = BatchStatement(BatchType.COUNTER)
    batch.add(session.prepare("UPDATE counted SET n = n + ? WHERE a = ?"), (5, 1))
    session.execute(batch)
    see("counted", list(session.execute("SELECT * FROM counted")))


def paging(session: Any) -> None:
    """Reads many pages, by iteration and by paging state."""
    session.execute("CREATE TABLE paged (a int, b int, t text, PRIMARY KEY (a, b))")
    insert = session.prepare("INSERT INTO paged (a, b, t) VALUES (?, ?, ?)")
    execute_concurrent_with_args(session, insert, [(1, i, f"row {i}") for i in range(250)])
    select = SimpleStatement("SELECT * FROM paged WHERE a = 1", fetch_size=40)
    see("paged", [row.b for row in session.execute(select)])
    first = session.execute(select)
    state = first.paging_state
    see("first page", first.current_rows[:2])
    second = session.execute(select, paging_state=state)
    see("second page", second.current_rows[:2])
    see("has more", [first.has_more_pages, second.has_more_pages])


def lightweight(session: Any) -> None:
    """Executes a lightweight transaction twice. Only the first execution is applied."""
    session.execute("CREATE TABLE light (a int PRIMARY KEY, b text)")
    insert = session.prepare("INSERT INTO light (a, b) VALUES (?, ?) IF NOT EXISTS")
    for _ in range(2):
        result = session.execute(insert, (1, "one"))
        see("applied", [result.was_applied, list(result)])


def factories(session: Any) -> None:
    """Reads rows with every row factory of the driver, and with a row factory of this program."""
    select = session.prepare("SELECT a, b, t FROM paged WHERE a = 1 AND b < 3")

    def own(names: list[str], rows: list[Any]) -> list[Any]:
        return [(tuple(names), *row) for row in rows]

    for factory in (
        query.tuple_factory,
        query.named_tuple_factory,
        query.dict_factory,
        query.ordered_dict_factory,
        own,
    ):
        profile = session.execution_profile_clone_update(EXEC_PROFILE_DEFAULT, row_factory=factory)
        for _ in range(2):
            result = session.execute(select, execution_profile=profile)
            see(f"factory {factory.__name__}", list(result))
    odd = session.execute('SELECT a AS "class", a AS "1", count(b) FROM paged WHERE a = 1')
    see("odd names", list(odd))


def rows_of(found: Any) -> Any:
    """Returns a list of the rows.

    With the NumPy handler, the first item of `found` is a dict of columns. In this case, returns a
    list of these columns, sorted by name.
    """
    rows = list(found)
    if rows and isinstance(rows[0], dict):
        return [
            (name, str(column.dtype), column.tolist())
            for name, column in sorted(rows[0].items(), key=lambda item: item[0])
        ]
    return rows


def handlers(session: Any) -> None:
    """Reads pages with the lazy and the NumPy protocol handler, if the driver has them."""
    for handler in (LazyProtocolHandler, NumpyProtocolHandler):
        if handler is None:
            continue
        usual = session.client_protocol_handler
        session.client_protocol_handler = handler
        future = session.execute_async("SELECT b FROM paged WHERE a = 1 LIMIT 3")
        profile = session.execution_profile_clone_update(
            EXEC_PROFILE_DEFAULT, row_factory=query.tuple_factory
        )
        attempt(handler.__name__, lambda f=future: f.result() and "rows")
        for turn in (1, 2):
            for table in ("paged WHERE a = 1 LIMIT 3", "everything"):
                found = session.execute(f"SELECT * FROM {table}", execution_profile=profile)
                attempt(f"{handler.__name__} {table}, {turn}", rows_of, found)
        session.client_protocol_handler = usual


def concurrency(session: Any) -> None:
    """Uses callbacks, error callbacks and `execute_concurrent`."""
    select = session.prepare("SELECT t FROM paged WHERE a = ? AND b = ?")
    results = execute_concurrent_with_args(session, select, [(1, i) for i in range(100)])
    see("concurrent", [(ok, list(rows)) for ok, rows in results])
    mixed = [(select, (1, 1)), (SimpleStatement("SELECT nothing FROM paged"), ())]
    results = execute_concurrent(session, mixed, raise_on_first_error=False)
    see("concurrent, an error", [(ok, type(result).__name__) for ok, result in results])
    done, came = threading.Event(), []

    def came_back(rows: Any) -> None:
        came.append(list(rows))
        done.set()

    future = session.execute_async(select, (1, 7))
    future.add_callbacks(came_back, lambda error: done.set())
    done.wait(30)
    see("callback", came)


def udts(session: Any, cluster: Any) -> None:
    """Registers another class for a user-defined type while prepared statements exist."""
    select = session.prepare("SELECT x FROM everything WHERE id = 1")
    see("registered", session.execute(select)[0])
    other = namedtuple("other", ["street", "number", "tags"])  # noqa: PYI024
    cluster.register_user_type(KEYSPACE, "address", other)
    see("registered anew", session.execute(select)[0])
    insert = session.prepare("INSERT INTO everything (id, x) VALUES (?, ?)")
    session.execute(insert, (8, other("s", 1, None)))
    session.execute(insert, (9, ("t", 2, ["a"])))
    found = session.execute("SELECT id, x FROM everything WHERE id IN (8, 9)")
    see("written as tuples", sorted(found, key=lambda row: row.id))


class Person(models.Model):  # type: ignore[misc]
    """A cqlengine model."""

    __keyspace__ = KEYSPACE
    id = columns.Integer(primary_key=True)
    name = columns.Text()
    born = columns.DateTime()
    tags = columns.Set(columns.Text)
    scores = columns.Map(columns.Text, columns.Integer)


def engine(session: Any) -> None:
    """Writes, reads, updates, counts and deletes instances of a model."""
    connection.register_connection("scenario", session=session, default=True)
    management.sync_table(Person)
    Person.create(id=1, name="one", born=WHEN, tags={"a", "b"}, scores={"x": 1})
    Person.create(id=2, name="two")
    see("model", [dict(person) for person in sorted(Person.objects.all(), key=lambda p: p.id)])
    person = Person.get(id=1)
    person.update(name="uno", tags={"c"})
    see("updated", dict(Person.get(id=1)))
    see("counted models", Person.objects.count())
    Person.objects(id=2).delete()
    see("after deletion", Person.objects.count())
    connection.unregister_connection("scenario")


class Secret(policies.ColumnEncryptionPolicy):  # type: ignore[misc]
    """Encrypts the column `hidden` by XOR with a constant byte."""

    def encrypt(self, coldesc: Any, obj_bytes: bytes) -> bytes:
        return bytes(byte ^ 0x55 for byte in obj_bytes)

    def decrypt(self, coldesc: Any, encrypted_bytes: bytes) -> bytes:
        return bytes(byte ^ 0x55 for byte in encrypted_bytes)

    def add_column(self, coldesc: Any, key: Any = None, type: Any = None) -> None:
        pass

    def contains_column(self, coldesc: Any) -> bool:
        return bool(coldesc.col == "hidden")

    def cache_info(self) -> None:
        pass

    def column_type(self, coldesc: Any) -> Any:
        from cassandra.cqltypes import Int32Type

        return Int32Type

    def encode_and_encrypt(self, coldesc: Any, obj: Any) -> bytes:
        return self.encrypt(coldesc, self.column_type(coldesc).serialize(obj, None))


def encryption(session: Any) -> None:
    """Writes and reads an encrypted column. scylla-driver refuses encryption policies."""
    session.execute("CREATE TABLE secrets (a int PRIMARY KEY, hidden blob)")

    def use() -> list[Any]:
        cluster = connect(column_encryption_policy=Secret())
        try:
            other = cluster.connect(KEYSPACE)
            insert = other.prepare("INSERT INTO secrets (a, hidden) VALUES (?, ?)")
            other.execute(insert, (1, 5))
            other.execute(insert, [2, 1 << 20])
            return sorted(other.execute("SELECT a, hidden FROM secrets"))
        finally:
            cluster.shutdown()

    attempt("encrypted", use)
    see("as stored", sorted(session.execute("SELECT a, hidden FROM secrets")))


def connect(**more: Any) -> Any:
    """Returns a cluster with round-robin load balancing and consistency ONE."""
    profile = ExecutionProfile(
        load_balancing_policy=policies.RoundRobinPolicy(),
        consistency_level=ConsistencyLevel.ONE,
        request_timeout=60,
    )
    return Cluster(
        [options.host],
        port=options.port,
        protocol_version=options.version,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        **more,
    )


def main() -> None:
    """Runs all steps and prints the report."""
    cluster = connect()
    session = cluster.connect()
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.set_keyspace(KEYSPACE)
    session.execute("CREATE TYPE address (street text, number int, tags frozen<list<text>>)")
    cluster.register_user_type(KEYSPACE, "address", Address)
    see("dates", [Date("2026-01-01"), Time("12:30:00.5")])
    all_types(session)
    batches(session)
    paging(session)
    lightweight(session)
    factories(session)
    handlers(session)
    concurrency(session)
    udts(session, cluster)
    encryption(session)
    version = cluster.protocol_version
    # `engine` is the last step, because it unregisters the mapper's connection, and this shuts the
    # cluster down.
    engine(session)
    cluster.shutdown()
    status = turbocql.accel.status()
    counts = {seam.name: [seam.native, seam.fallback, seam.learned] for seam in status.seams}
    not_replaced = {seam.name: seam.why for seam in status.seams if not seam.patched}
    report = {
        "seen": seen,
        "version": version,
        "counts": counts,
        "left": not_replaced,
        "on": status.on,
    }
    json.dump(report, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
