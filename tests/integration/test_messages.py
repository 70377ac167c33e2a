"""Tests of the request bodies that `turbocql.protocol` encodes, on a real server.

A plain socket sends the bodies. Responses and written rows are read without turbocql.
`test_every_byte_is_read` shows that no body has surplus bytes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from tests.support.tables import KEYSPACE
from tests.support.wire import BATCH, EXECUTE, QUERY, Refused, Result, Wire

from turbocql import UNSET, Consistency
from turbocql.codec import decode, encode
from turbocql.protocol import BatchMessage, ExecuteMessage, QueryMessage
from turbocql.testing import Cassandra

Way = Callable[..., Result]

VERSIONS = (3, 4, 5)
CODES = {name.name: code for code, name in enumerate(Consistency)} | {
    "SERIAL": 8,
    "LOCAL_SERIAL": 9,
    "LOCAL_ONE": 10,
}
ROWS = 50
INVALID, UNPREPARED, UNAVAILABLE = 0x2200, 0x2500, 0x1000
SERVER_ERROR, PROTOCOL_ERROR = 0x0000, 0x000A


def since(version: int) -> pytest.MarkDecorator:
    """Returns a mark that runs a test with this protocol version and with all later versions."""
    return pytest.mark.parametrize("wire", [v for v in VERSIONS if v >= version], indirect=True)


def integer(number: int) -> bytes:
    return struct.pack(">i", number)


def bigint(number: int) -> bytes:
    return struct.pack(">q", number)


def query(wire: Wire, text: str, values: Any = None, **options: Any) -> Result:
    return wire.send(QueryMessage(text, values, **options))


def execute(wire: Wire, text: str, values: Any = None, **options: Any) -> Result:
    known = wire.prepare(text, options.get("keyspace"))
    return wire.send(
        ExecuteMessage(known.id, values, result_metadata_id=known.result_metadata_id, **options)
    )


def batch(wire: Wire, text: str, values: Any = (), **options: Any) -> Result:
    return wire.send(BatchMessage([(text, values)], **options))


def prepared_batch(wire: Wire, text: str, values: Any = (), **options: Any) -> Result:
    known = wire.prepare(text, options.get("keyspace"))
    return wire.send(BatchMessage([(known.id, values)], **options))


any_way = pytest.mark.parametrize("way", [query, execute, batch, prepared_batch])
alone = pytest.mark.parametrize("way", [query, execute])


@pytest.fixture
def wire(request: pytest.FixtureRequest, cassandra: Cassandra) -> Iterator[Wire]:
    """A connection of the requested protocol version."""
    with Wire(cassandra.contact_points[0], request.param) as connection:
        yield connection


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that uses `wire` with all `VERSIONS`, unless the test itself chooses versions."""
    if "wire" in metafunc.fixturenames and not any(
        "wire" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
    ):
        metafunc.parametrize("wire", VERSIONS, indirect=True)


@pytest.fixture(scope="module")
def ks(cassandra: Cassandra) -> str:
    """A keyspace with the tables of this module."""
    name = f"messages_{uuid4().hex[:12]}"
    with Wire(cassandra.contact_points[0], 4) as connection:
        connection.ask(KEYSPACE.format(name))
        for table in (
            "kv (k int PRIMARY KEY, v text, w int)",
            "counts (k int PRIMARY KEY, n counter)",
            "vectors (k int PRIMARY KEY, v vector<float, 3>)",
            "wide (p int, c int, v text, PRIMARY KEY (p, c))",
        ):
            connection.ask(f"CREATE TABLE {name}.{table}")
        for c in range(ROWS):
            connection.ask(f"INSERT INTO {name}.wide (p, c, v) VALUES (0, {c}, 'v{c}')")
    return name


@pytest.fixture(scope="module")
def short_of_replicas(cassandra: Cassandra) -> str:
    """A table with replication factor 3 on a single node."""
    name = f"three_{uuid4().hex[:12]}"
    with Wire(cassandra.contact_points[0], 4) as connection:
        ((center,),) = connection.ask("SELECT data_center FROM system.local")
        assert center is not None
        replication = f"{{'class': 'NetworkTopologyStrategy', '{center.decode()}': 3}}"
        connection.ask(f"CREATE KEYSPACE {name} WITH replication = {replication}")
        connection.ask(f"CREATE TABLE {name}.kv (k int PRIMARY KEY, v text)")
    return f"{name}.kv"


def many(number: int) -> int:
    """Returns the first of a thousand keys that no other test uses."""
    return 1_000_000 + 1000 * number


def kv(wire: Wire, ks: str, k: int) -> tuple[bytes | None, ...] | None:
    """Returns columns v and w of a key, or None if there is no row."""
    rows = wire.ask(f"SELECT v, w FROM {ks}.kv WHERE k = {k}")
    return rows[0] if rows else None


def lacking(refused: Refused) -> int:
    """Returns the code of the consistency level that the error `Unavailable` names."""
    assert refused.code == UNAVAILABLE
    level, required, alive = struct.unpack(">Hii", refused.rest)
    assert required > alive
    return int(level)


def test_versions(wire: Wire) -> None:
    names = {name.partition("/")[2] for name in wire.supported["PROTOCOL_VERSIONS"]}
    assert {"v3", "v4", "v5"} <= names
    assert wire.ask("SELECT release_version FROM system.local") == [(b"5.0.5",)]


# Values


@any_way
def test_values_by_position(wire: Wire, ks: str, number: int, way: Way) -> None:
    text = f"INSERT INTO {ks}.kv (k, v, w) VALUES (?, ?, ?)"
    for v, w in (("é" * 40, -7), ("", None), (None, 2**31 - 1), (None, None)):
        cells = [v if v is None else v.encode(), w if w is None else integer(w)]
        way(wire, text, [integer(number), *cells])
        assert kv(wire, ks, number) == tuple(cells)


@since(4)
@any_way
def test_unset_leaves_a_column(wire: Wire, ks: str, number: int, way: Way) -> None:
    wire.ask(f"INSERT INTO {ks}.kv (k, v, w) VALUES ({number}, 'stays', 1)")
    way(wire, f"INSERT INTO {ks}.kv (k, v, w) VALUES (?, ?, ?)", [integer(number), UNSET, None])
    assert kv(wire, ks, number) == (b"stays", None)


@alone
def test_values_by_name(wire: Wire, ks: str, number: int, way: Way) -> None:
    text = f'INSERT INTO {ks}.kv (k, v, w) VALUES (:key, :"É", :w)'
    way(wire, text, {"w": integer(5), "É": b"named", "key": integer(number)})
    assert kv(wire, ks, number) == (b"named", integer(5))
    text = f"INSERT INTO {ks}.kv (k, v, w) VALUES (?, ?, ?)"
    way(wire, text, {"w": None, "v": b"columns", "k": integer(number)})
    assert kv(wire, ks, number) == (b"columns", None)


@since(4)
@alone
def test_unset_by_name(wire: Wire, ks: str, number: int, way: Way) -> None:
    wire.ask(f"INSERT INTO {ks}.kv (k, v, w) VALUES ({number}, 'stays', 1)")
    text = f"INSERT INTO {ks}.kv (k, v, w) VALUES (:k, :v, :w)"
    way(wire, text, {"w": integer(2), "v": UNSET, "k": integer(number)})
    assert kv(wire, ks, number) == (b"stays", integer(2))


@alone
def test_no_values(wire: Wire, ks: str, way: Way) -> None:
    text = f"SELECT v FROM {ks}.wide WHERE p = 0 AND c = 7"
    none: list[Any] = [None, [], {}]
    for values in none:
        assert way(wire, text, values).rows == [(b"v7",)]


@alone
def test_more_values_than_a_signed_short_counts(wire: Wire, ks: str, way: Way) -> None:
    number = 40_000
    text = f"SELECT c FROM {ks}.wide WHERE p = 0 AND c IN ({', '.join('?' * number)})"
    values = [integer(c) for c in range(20, 20 + number)]
    assert way(wire, text, values).rows == [(integer(c),) for c in range(20, ROWS)]


@any_way
def test_a_value_longer_than_a_frame(wire: Wire, ks: str, number: int, way: Way) -> None:
    value = b"0123456789abcdef" * 20_000
    way(wire, f"INSERT INTO {ks}.kv (k, v) VALUES (?, ?)", [integer(number), value])
    assert kv(wire, ks, number) == (value, None)


@any_way
def test_a_vector(wire: Wire, ks: str, number: int, way: Way) -> None:
    cell = encode("vector<float, 3>", [1.5, -2.0, 0.25])
    way(wire, f"INSERT INTO {ks}.vectors (k, v) VALUES (?, ?)", [integer(number), cell])
    ((json, raw),) = wire.ask(f"SELECT toJson(v), v FROM {ks}.vectors WHERE k = {number}")
    assert (json, raw) == (b"[1.5, -2.0, 0.25]", cell)
    assert decode("vector<float, 3>", raw) == [1.5, -2.0, 0.25]


# Consistency


@pytest.mark.parametrize("level", Consistency)
@any_way
def test_consistency_of_writes(
    wire: Wire, short_of_replicas: str, level: Consistency, way: Way
) -> None:
    def write() -> Result:
        return way(wire, f"INSERT INTO {short_of_replicas} (k) VALUES (1)", consistency=level)

    if level.value in ("ANY", "ONE", "LOCAL_ONE"):
        assert write().kind == "void"
    elif level.value in ("SERIAL", "LOCAL_SERIAL"):
        with pytest.raises(Refused) as caught:
            write()
        if way in (query, execute):
            assert caught.value.code == INVALID
            assert "conditional" in caught.value.message
        else:
            assert lacking(caught.value) == CODES[level.value]
    else:
        with pytest.raises(Refused) as caught:
            write()
        assert lacking(caught.value) == CODES[level.value]


@pytest.mark.parametrize("level", Consistency)
@alone
def test_consistency_of_reads(
    wire: Wire, short_of_replicas: str, level: Consistency, way: Way
) -> None:
    def read() -> Result:
        return way(wire, f"SELECT v FROM {short_of_replicas} WHERE k = 0", consistency=level)

    if level.value in ("ONE", "LOCAL_ONE"):
        assert read().rows == []
    elif level.value == "ANY":
        with pytest.raises(Refused, match=r"^0x2200: ANY "):
            read()
    else:
        # A read at a serial level reads replicas at QUORUM or LOCAL_QUORUM, and the error names
        # this level.
        asked = {"SERIAL": "QUORUM", "LOCAL_SERIAL": "LOCAL_QUORUM"}.get(level.value, level.value)
        with pytest.raises(Refused) as caught:
            read()
        assert lacking(caught.value) == CODES[asked]


@any_way
def test_serial_consistency(wire: Wire, short_of_replicas: str, way: Way) -> None:
    text = f"INSERT INTO {short_of_replicas} (k) VALUES (?) IF NOT EXISTS"
    for level, asked in (
        ("SERIAL", "QUORUM"),
        ("LOCAL_SERIAL", "LOCAL_QUORUM"),
        (None, "QUORUM"),
    ):
        with pytest.raises(Refused) as caught:
            way(wire, text, [integer(1)], serial_consistency=level)
        assert lacking(caught.value) == CODES[asked]


@any_way
def test_conditions(wire: Wire, ks: str, number: int, way: Way) -> None:
    text = f"INSERT INTO {ks}.kv (k, v) VALUES (?, ?) IF NOT EXISTS"
    for value, applied in ((b"first", b"\1"), (b"second", b"\0")):
        result = way(wire, text, [integer(number), value], serial_consistency="LOCAL_SERIAL")
        assert result.rows is not None
        assert result.rows[0][0] == applied
        assert kv(wire, ks, number) == (b"first", None)


# Pages


@pytest.mark.parametrize("size", [1, 7, ROWS - 1, ROWS, ROWS + 1, 2**31 - 1])
@alone
def test_pages(wire: Wire, ks: str, size: int, way: Way) -> None:
    text = f"SELECT c, v FROM {ks}.wide WHERE p = ?"
    rows: list[Any] = []
    state: bytes | None = None
    while True:
        page = way(wire, text, [integer(0)], page_size=size, paging_state=state)
        assert page.rows is not None
        assert len(page.rows) == min(size, ROWS - len(rows))
        rows += page.rows
        state = page.paging_state
        if state is None:
            break
    assert rows == [(integer(c), b"v%d" % c) for c in range(ROWS)]


@alone
def test_a_paging_state_without_a_page_size(wire: Wire, ks: str, way: Way) -> None:
    text = f"SELECT c FROM {ks}.wide WHERE p = 0"
    state = way(wire, text, page_size=10).paging_state
    assert state is not None
    # Without a page size the server returns all rows, but it still parses the paging state.
    assert len(way(wire, text, paging_state=state).rows or ()) == ROWS
    with pytest.raises(Refused, match="paging state") as caught:
        way(wire, text, paging_state=b"\xff" * 8)
    assert caught.value.code == PROTOCOL_ERROR


# Timestamps and clocks


@pytest.mark.parametrize("stamp", [1, 0, -1, 1_700_000_000_000_000, -(2**63) + 1, 2**63 - 1])
@any_way
def test_timestamps(wire: Wire, ks: str, number: int, stamp: int, way: Way) -> None:
    text = f"INSERT INTO {ks}.kv (k, v) VALUES (?, 'x')"
    way(wire, text, [integer(number)], timestamp=stamp)
    written = wire.ask(f"SELECT writetime(v) FROM {ks}.kv WHERE k = {number}")
    assert written == [(bigint(stamp),)]


@any_way
def test_the_later_timestamp_wins(wire: Wire, ks: str, number: int, way: Way) -> None:
    text = f"INSERT INTO {ks}.kv (k, v) VALUES (?, ?)"
    for value, stamp in ((b"newer", 10), (b"older", -10)):
        way(wire, text, [integer(number), value], timestamp=stamp)
    assert kv(wire, ks, number) == (b"newer", None)


def test_the_lowest_number_is_no_timestamp(wire: Wire, ks: str) -> None:
    # turbocql refuses the timestamp -(2**63). This test shows that the server refuses it too.
    message = QueryMessage(f"INSERT INTO {ks}.kv (k) VALUES (-1)", timestamp=-(2**63) + 1)
    body = message.encode(wire.version)
    with pytest.raises(Refused, match="Out of bound timestamp"):
        wire.send_body(QUERY, body[:-1] + b"\0")


@since(5)
@any_way
def test_now_in_seconds_of_writes(wire: Wire, ks: str, number: int, way: Way) -> None:
    now = int(time.time())
    text = f"INSERT INTO {ks}.kv (k, v) VALUES (?, 'x') USING TTL 1000"
    way(wire, text, [integer(number)], now_in_seconds=now + 50_000)
    ((left,),) = wire.ask(f"SELECT ttl(v) FROM {ks}.kv WHERE k = {number}")
    assert left is not None
    # The server computes the remaining TTL with its own clock. So the difference is the time that
    # passed from `now` until the server read the row.
    assert 0 <= 51_000 - int.from_bytes(left, "big") < 600


@since(5)
@alone
def test_now_in_seconds_of_reads(wire: Wire, ks: str, number: int, way: Way) -> None:
    now = int(time.time()) + 5000
    query(
        wire,
        f"INSERT INTO {ks}.kv (k, v) VALUES ({number}, 'x') USING TTL 1000",
        now_in_seconds=now,
    )
    text = f"SELECT ttl(v) FROM {ks}.kv WHERE k = ?"
    for later, left in ((0, 1000), (400, 600), (999, 1), (-100, 1100), (-now, now + 1000)):
        result = way(wire, text, [integer(number)], now_in_seconds=now + later)
        assert result.rows == [(integer(left),)]
    assert way(wire, text, [integer(number)], now_in_seconds=now + 1000).rows == []
    # The server interprets the number as unsigned. So -1 is a time in 2106, at which the row has
    # expired.
    assert way(wire, text, [integer(number)], now_in_seconds=-1).rows == []


# Keyspaces


@since(5)
@any_way
def test_a_keyspace(wire: Wire, ks: str, number: int, way: Way) -> None:
    text = "INSERT INTO kv (k, v) VALUES (?, ?)"
    way(wire, text, [integer(number), b"found"], keyspace=ks)
    assert kv(wire, ks, number) == (b"found", None)
    with pytest.raises(Refused, match="keyspace") as caught:
        way(wire, text, [integer(number), b"lost"])
    assert caught.value.code == INVALID
    with pytest.raises(Refused, match="no_such_keyspace"):
        way(wire, text, [integer(number), b"lost"], keyspace="no_such_keyspace")


@since(5)
def test_the_keyspace_of_a_request_overrides_that_of_the_connection(
    wire: Wire, ks: str, number: int
) -> None:
    assert query(wire, f"USE {ks}").keyspace == ks
    query(wire, "INSERT INTO kv (k, v) VALUES (?, 'mine')", [integer(number)])
    assert kv(wire, ks, number) == (b"mine", None)
    result = query(wire, "SELECT key FROM local", keyspace="system")
    assert result.rows == [(b"local",)]


# Descriptions of columns


@alone
def test_skip_metadata(wire: Wire, ks: str, way: Way) -> None:
    text = f"SELECT c, v FROM {ks}.wide WHERE p = 0 AND c = ?"
    for skip, columns in ((True, None), (False, ["c", "v"])):
        result = way(wire, text, [integer(3)], skip_metadata=skip)
        assert result == Result("rows", columns, [(integer(3), b"v3")])


@since(5)
@pytest.mark.parametrize("skip", [False, True])
def test_ids_of_metadata(wire: Wire, ks: str, skip: bool) -> None:
    text = f"SELECT c, v FROM {ks}.wide WHERE p = 0 AND c = ?"
    known = wire.prepare(text)
    current = known.result_metadata_id
    assert current
    rows: list[tuple[bytes | None, ...]] = [(integer(3), b"v3")]
    for given in (current, b"", b"wrong", current[:-1] + b"?", bytes(65_535)):
        message = ExecuteMessage(
            known.id, [integer(3)], result_metadata_id=given, skip_metadata=skip
        )
        if given == current:
            expected = Result("rows", None if skip else ["c", "v"], rows)
        else:
            expected = Result("rows", ["c", "v"], rows, new_metadata_id=current)
        assert wire.send(message) == expected


@since(5)
def test_metadata_that_changes(wire: Wire, unique_keyspace: str) -> None:
    wire.ask(KEYSPACE.format(unique_keyspace))
    table = f"{unique_keyspace}.t"
    wire.ask(f"CREATE TABLE {table} (k int PRIMARY KEY, a text)")
    wire.ask(f"INSERT INTO {table} (k, a) VALUES (1, 'a')")
    text = f"SELECT * FROM {table} WHERE k = ?"
    before = wire.prepare(text)
    message = ExecuteMessage(
        before.id,
        [integer(1)],
        result_metadata_id=before.result_metadata_id,
        skip_metadata=True,
    )
    assert wire.send(message) == Result("rows", None, [(integer(1), b"a")])
    wire.ask(f"ALTER TABLE {table} ADD b text")
    with pytest.raises(Refused) as caught:
        wire.send(message)
    assert caught.value.code == UNPREPARED
    after = wire.prepare(text)
    assert after.id == before.id
    assert after.result_metadata_id != before.result_metadata_id
    expected = Result(
        "rows",
        ["k", "a", "b"],
        [(integer(1), b"a", None)],
        new_metadata_id=after.result_metadata_id,
    )
    assert wire.send(message) == expected


def test_an_id_that_was_never_prepared(wire: Wire) -> None:
    extra: dict[str, Any] = {"result_metadata_id": b""} if wire.version == 5 else {}
    for message in (
        ExecuteMessage(bytes(range(16)), **extra),
        BatchMessage([bytes(range(16))]),
    ):
        with pytest.raises(Refused) as caught:
            wire.send(message)
        assert caught.value.code == UNPREPARED
        assert caught.value.rest == b"\0\x10" + bytes(range(16))


# Batches


@pytest.mark.parametrize("kind", ["logged", "unlogged"])
def test_a_batch_of_texts_and_ids(wire: Wire, ks: str, number: int, kind: Any) -> None:
    first = many(number)
    text = f"INSERT INTO {ks}.kv (k, v, w) VALUES (?, ?, ?)"
    known = wire.prepare(text).id
    statements: list[Any] = []
    expected: list[tuple[bytes | None, ...]] = []
    for k in range(first, first + 50):
        if k % 5 == 0:
            statements.append(f"INSERT INTO {ks}.kv (k, v) VALUES ({k}, 'literal')")
            expected.append((b"literal", None))
            continue
        cells = [b"v%d" % k if k % 2 else None, integer(k) if k % 3 else None]
        statements.append((known if k % 7 else text, [integer(k), *cells]))
        expected.append(tuple(cells))
    assert wire.send(BatchMessage(statements, kind=kind)) == Result("void")
    assert [kv(wire, ks, k) for k in range(first, first + 50)] == expected


@since(4)
def test_a_batch_with_unset_values(wire: Wire, ks: str, number: int) -> None:
    first = many(number)
    known = wire.prepare(f"INSERT INTO {ks}.kv (k, v, w) VALUES (?, ?, ?)").id
    update = f"UPDATE {ks}.kv SET v = ?, w = ? WHERE k = ?"
    for k in range(first, first + 4):
        wire.ask(f"INSERT INTO {ks}.kv (k, v, w) VALUES ({k}, 'old', 1)")
    message = BatchMessage(
        [
            (known, [integer(first), UNSET, None]),
            (update, [None, UNSET, integer(first + 1)]),
            (known, [integer(first + 2), b"new", UNSET]),
            (update, [UNSET, UNSET, integer(first + 3)]),
        ]
    )
    assert wire.send(message) == Result("void")
    old, one = b"old", integer(1)
    expected = [(old, None), (None, one), (b"new", one), (old, one)]
    assert [kv(wire, ks, k) for k in range(first, first + 4)] == expected


def test_kinds_of_batches(wire: Wire, ks: str, number: int) -> None:
    text = f"UPDATE {ks}.counts SET n = n + ? WHERE k = ?"
    known = wire.prepare(text).id
    counts: list[Any] = [
        (text, [bigint(5), integer(number)]),
        (known, [bigint(-2), integer(number)]),
    ]
    other = f"INSERT INTO {ks}.kv (k) VALUES ({number})"
    wire.send(BatchMessage(counts, kind="counter"))
    wire.send(BatchMessage(counts, kind="unlogged"))
    with pytest.raises(Refused, match="counter statement in a logged batch"):
        wire.send(BatchMessage(counts, kind="logged"))
    with pytest.raises(Refused, match="non-counter statement in a counter batch"):
        wire.send(BatchMessage([other], kind="counter"))
    assert wire.ask(f"SELECT n FROM {ks}.counts WHERE k = {number}") == [(bigint(6),)]
    assert kv(wire, ks, number) is None
    wire.send(BatchMessage([other], kind="logged"))
    assert kv(wire, ks, number) == (None, None)


@pytest.mark.parametrize("kind", ["logged", "unlogged", "counter"])
def test_an_empty_batch(wire: Wire, kind: Any) -> None:
    assert wire.send(BatchMessage([], kind=kind)) == Result("void")


def test_more_statements_than_a_signed_short_counts(wire: Wire, ks: str, number: int) -> None:
    size = 33_000
    known = wire.prepare(f"INSERT INTO {ks}.wide (p, c) VALUES (?, ?)").id
    statements: list[Any] = [(known, [integer(number), integer(c)]) for c in range(size)]
    wire.send(BatchMessage(statements, kind="unlogged"))
    assert wire.ask(f"SELECT count(*) FROM {ks}.wide WHERE p = {number}") == [(bigint(size),)]


@since(5)
def test_a_batch_with_every_part(wire: Wire, ks: str, number: int) -> None:
    now = int(time.time())
    text = "INSERT INTO kv (k, v, w) VALUES (?, ?, ?) USING TTL 1000"
    known = wire.prepare(text, ks).id
    wire.send(
        BatchMessage(
            [(text, [integer(number), b"text", UNSET]), (known, [integer(-number), None, b""])],
            kind="unlogged",
            consistency="ALL",
            serial_consistency="LOCAL_SERIAL",
            timestamp=-77,
            keyspace=ks,
            now_in_seconds=now + 5000,
        )
    )
    assert query(
        wire,
        f"SELECT k, v, w, ttl(v), writetime(v), ttl(w) FROM {ks}.kv WHERE k IN (?, ?)",
        [integer(number), integer(-number)],
        now_in_seconds=now + 5100,
    ).rows == [
        (integer(-number), None, b"", None, None, integer(900)),
        (integer(number), b"text", None, integer(900), bigint(-77), None),
    ]


# Whole bodies


@alone
@pytest.mark.parametrize("named", [False, True])
def test_every_part_at_once(wire: Wire, ks: str, number: int, way: Way, named: bool) -> None:
    now = int(time.time())
    options: dict[str, Any] = (
        {"keyspace": ks, "now_in_seconds": now + 50} if wire.version == 5 else {}
    )
    table = "wide" if options else f"{ks}.wide"
    for c in range(5):
        wire.ask(f"INSERT INTO {ks}.wide (p, c, v) VALUES ({number}, {c}, 'v{c}') USING TTL 100000")
    text = f"SELECT c, ttl(v) FROM {table} WHERE p = :p AND c < :c"
    values: Any = (
        {"c": integer(4), "p": integer(number)} if named else [integer(number), integer(4)]
    )
    options |= {"page_size": 2, "serial_consistency": "LOCAL_SERIAL", "timestamp": 5}
    options |= {"consistency": "ALL"}
    first = way(wire, text, values, **options)
    assert first.columns == ["c", "ttl(v)"]
    options |= {"paging_state": first.paging_state, "skip_metadata": True}
    second = way(wire, text, values, **options)
    assert second.columns is None
    assert second.rows is not None
    assert [c for c, _ in second.rows] == [integer(2), integer(3)]
    if wire.version == 5:
        for _, left in second.rows:
            assert left is not None
            # The difference is the time that passed from `now` until the row was written.
            assert 0 <= int.from_bytes(left, "big") - 99_950 < 600


def bodies(wire: Wire, ks: str, keys: Iterator[int]) -> Iterator[tuple[int, int, bytes]]:
    """Yields requests of each kind that can set the column `v`, as key, opcode and body.

    The protocol version has several optional parts. For each of them, except the paging state, at
    least one body ends with this part.
    """
    text = f"INSERT INTO {ks}.kv (k, v) VALUES (?, ?)"
    known = wire.prepare(text)
    extra: dict[str, Any] = {"result_metadata_id": known.result_metadata_id}
    ends: list[dict[str, Any]] = [{}, {"serial_consistency": "SERIAL"}, {"timestamp": 5}]
    if wire.version == 5:
        ends += [{"keyspace": ks}, {"now_in_seconds": 5}]
    for end in [*ends, {"page_size": 9}]:
        for named in (False, True):
            for opcode in (QUERY, EXECUTE):
                k = next(keys)
                values: Any = [integer(k), b"v"]
                if named:
                    values = {"v": b"v", "k": integer(k)}
                message = (
                    QueryMessage(text, values, **end)
                    if opcode == QUERY
                    else ExecuteMessage(known.id, values, **extra, **end)
                )
                yield k, opcode, message.encode(wire.version)
    for end in ends:
        for statement in (text, known.id):
            k = next(keys)
            batched = BatchMessage([(statement, [integer(k), b"v"])], **end)
            yield k, BATCH, batched.encode(wire.version)


def test_every_byte_is_read(wire: Wire, ks: str, number: int) -> None:
    # The test checks that no body has surplus bytes at its end. Cassandra 5.0 ignores surplus
    # bytes, so the test removes the last byte of a body. If Cassandra refuses the shorter body, it
    # reads the last byte, so this byte is not surplus.
    for k, opcode, body in bodies(wire, ks, count(many(number))):
        with pytest.raises(Refused) as caught:
            wire.send_body(opcode, body[:-1])
        assert caught.value.code in (SERVER_ERROR, PROTOCOL_ERROR)
        assert kv(wire, ks, k) is None
        assert wire.send_body(opcode, body) == Result("void")
        assert kv(wire, ks, k) == (b"v", None)


def test_an_added_or_removed_byte_is_refused(wire: Wire, ks: str, number: int) -> None:
    text = f"INSERT INTO {ks}.kv (k, v) VALUES (?, ?)"
    body = QueryMessage(text, [integer(number), b"v"]).encode(wire.version)
    flags = 4 + len(text) + 2
    values = flags + (4 if wire.version == 5 else 1)
    for at in (4, flags, values, values + 2):
        for changed in (body[:at] + b"\0" + body[at:], body[:at] + body[at + 1 :]):
            with pytest.raises(Refused):
                wire.send_body(QUERY, changed)
    assert kv(wire, ks, number) is None
