"""Compares turbocql's routing tokens with the server's `token(...)`."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.witness_types import AWKWARD

import turbocql
from turbocql import Session, Timestamp
from turbocql.codec import RowEncoder, encode, routing_key, token
from turbocql.testing import Cassandra

UTC = datetime.timezone.utc


def _rng() -> random.Random:
    """Returns a generator with the same numbers in every run."""
    return random.Random(20_240_229)


def _texts() -> list[str]:
    rng = _rng()
    alphabet = "az09 ~\0\x7f\x80ß€\ud7ff\ue000\uffff\U0001f680\U0010ffff"
    words = ["".join(rng.choices(alphabet, k=length)) for length in range(1, 60)]
    return [
        *"az\0\x7f\x80ß€\U0001f680",
        *words,
        "x" * 15,
        "x" * 16,
        "x" * 17,
        "ä" * 8,
        "y" * 10_000,
    ]


def _blobs() -> list[bytes]:
    """Returns blobs of every length from 1 to 40 bytes, and one blob of 1,000 bytes.

    Murmur3 hashes blocks of 16 bytes, so the lengths include several blocks. Cassandra's variant of
    Murmur3 differs from other variants for bytes of 0x80 and above. So the blobs have such bytes
    and also smaller bytes.
    """
    rng = _rng()
    blobs = []
    for length in range(1, 41):
        blobs += [b"\x80" * length, b"\xff" * length, b"\x7f" * length, bytes(length)]
        blobs += [rng.randbytes(length), bytes(rng.randrange(128, 256) for _ in range(length))]
        blobs.append(bytes(length - 1) + b"\x80")
    return [*dict.fromkeys(blobs), rng.randbytes(1000)]


def _numbers(bits: int) -> list[int]:
    rng = _rng()
    high = 1 << (bits - 1)
    edges = [0, 1, -1, high - 1, -high, 1 - high]
    return list(dict.fromkeys(edges + [rng.randrange(-high, high) for _ in range(100)]))


def _uuids() -> list[UUID]:
    rng = _rng()
    return [
        UUID(int=0),
        UUID(int=(1 << 128) - 1),
        *(UUID(int=rng.getrandbits(128)) for _ in range(80)),
    ]


def _timestamps() -> list[Any]:
    return [
        datetime.datetime(1970, 1, 1, tzinfo=UTC),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        *map(Timestamp, (2**63 - 1, -(2**63), -62_135_596_800_001)),
        *(
            datetime.datetime(2024, 2, 29, tzinfo=UTC) + datetime.timedelta(milliseconds=n**5)
            for n in range(1, 80)
        ),
    ]


def _composite(*columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns 200 keys with a random value for each column."""
    rng = _rng()
    return [tuple(rng.choice(column) for column in columns) for _ in range(200)]


def _short(texts: list[str]) -> list[str]:
    return ["", *texts[:40]]


@dataclass(frozen=True)
class Shape:
    """The types of a partition key's columns, and keys to test."""

    types: tuple[str, ...]
    keys: Sequence[tuple[Any, ...]]

    @property
    def name(self) -> str:
        return ", ".join(self.types)


def _single(cql_type: str, keys: Sequence[Any]) -> Shape:
    return Shape((cql_type,), [(key,) for key in keys])


def _of_awkward(name: str) -> Shape:
    """Returns a shape with one column and without empty values.

    The server refuses empty values in a partition key of a single column.
    """
    return _single(name, [sample for sample in AWKWARD[name].samples if sample not in ("", b"")])


TEXTS, BLOBS, INTS = _texts(), _blobs(), _numbers(32)

SHAPES = [
    _single("text", TEXTS),
    _single("blob", BLOBS),
    _single("int", INTS),
    _single("bigint", _numbers(64)),
    _single("uuid", _uuids()),
    _single("timestamp", _timestamps()),
    *(
        _of_awkward(name)
        for name in AWKWARD
        if name not in ("text", "blob", "int", "bigint", "uuid", "timestamp", "duration")
    ),
    _single("frozen<list<int>>", [[], [1], [-1, 2], INTS]),
    _single("frozen<list<text>>", [[""], ["ä", ""], TEXTS[:30]]),
    # The server sorts sets and maps before it hashes them. So the test must encode them sorted.
    _single("frozen<set<int>>", [[], [-1], sorted(INTS)]),
    _single("frozen<map<int, text>>", [{}, {-1: ""}, dict(zip(sorted(INTS), TEXTS, strict=False))]),
    _single("tuple<int, text>", [(1, "ä"), (None, ""), (1, None), (None, None), (1,)]),
    _single("vector<float, 3>", [[1.5, -0.0, 0.0], [0.1, -1e38, 1e-45]]),
    _single("vector<text, 2>", [["", "ä"], ["x" * 200, "\U0001f680"]]),
    Shape(("int", "text"), _composite(INTS, _short(TEXTS))),
    Shape(("text", "text"), [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), ("", "")]),
    Shape(("blob", "bigint"), _composite([b"", *BLOBS], _numbers(64))),
    Shape(("text", "blob", "uuid"), _composite(_short(TEXTS), [b"", *BLOBS], _uuids())),
    Shape(
        ("timestamp", "frozen<list<int>>", "text"),
        _composite(_timestamps(), [[], [1], INTS], _short(TEXTS)),
    ),
    Shape(
        ("boolean", "inet", "varint", "decimal"),
        _composite(
            [True, False],
            [IPv4Address("1.2.3.4"), IPv6Address("2001:db8::80ff")],
            [0, -129, 10**40],
            [Decimal("-0.10"), Decimal("1E+10")],
        ),
    ),
    Shape(("blob", "int"), [(bytes([n % 256]) * n, n) for n in (1, 255, 256, 32_768, 65_525)]),
]


@pytest.fixture(scope="module")
def session(cassandra: Cassandra) -> Iterator[Session]:
    """A session in a keyspace that only this module uses."""
    name = f"tokens_{uuid4().hex[:12]}"
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {name} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"USE {name}")
        yield session


def _expected(session: Session, shape: Shape) -> dict[int, int]:
    """Maps the number of each key to the server's token."""
    table = f"keys_{uuid4().hex[:12]}"
    names = [f"k{number}" for number in range(len(shape.types))]
    definitions = ", ".join(f"{name} {t}" for name, t in zip(names, shape.types, strict=True))
    key = ", ".join(names)
    session.execute(f"CREATE TABLE {table} ({definitions}, v int, PRIMARY KEY (({key}), v))")
    insert = f"INSERT INTO {table} ({key}, v) VALUES ({'?, ' * len(names)}?)"
    session.execute_many(insert, ((*cells, v) for v, cells in enumerate(shape.keys)))
    rows = session.execute(f"SELECT v, token({key}) FROM {table}", rows="tuple")
    said = dict(rows)
    assert len(said) == len(shape.keys)
    return said


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_tokens_equal_those_of_the_server(session: Session, shape: Shape) -> None:
    said = _expected(session, shape)
    columns = [(f"k{number}", cql_type) for number, cql_type in enumerate(shape.types)]
    # The encoder's first column is the clustering column `v`. The columns of the partition key
    # follow in reverse order.
    encoder = RowEncoder(
        [("v", "int"), *reversed(columns)], key_columns=[name for name, _ in columns]
    )
    for v, cells in enumerate(shape.keys):
        parts = [encode(t, cell) for t, cell in zip(shape.types, cells, strict=True)]
        key = routing_key(parts)
        if len(parts) == 1:
            assert key == parts[0]
        assert token(key) == said[v], cells
        row = encoder.bind((v, *reversed(cells)))
        assert row.routing_key == key
        assert row.token == said[v], cells
    rows = encoder.bind_many((v, *reversed(cells)) for v, cells in enumerate(shape.keys))
    assert rows.tokens() == [said[v] for v in range(len(shape.keys))]


# Python iterates these two equal sets in different orders.
ONE, OTHER = {0, 8}, {8, 0}


def _rows_of_equal_keys(session: Session, key: str, one: Any, other: Any) -> int:
    """Writes one row with each of two keys that are equal in Python.

    Returns the number of rows that the table then has.
    """
    assert one == other
    table = f"equal_{uuid4().hex[:12]}"
    session.execute(f"CREATE TABLE {table} (k {key} PRIMARY KEY, v int)")
    insert = session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
    session.execute(insert, (one, 1))
    session.execute(insert, (other, 2))
    return len(session.execute(f"SELECT v FROM {table}").all())


@pytest.mark.parametrize(
    ("key", "one", "other"),
    [
        ("frozen<set<int>>", ONE, OTHER),
        ("frozen<map<int, int>>", {1: 1, 0: 0}, {0: 0, 1: 1}),
        ("frozen<list<frozen<set<int>>>>", [ONE], [OTHER]),
        ("frozen<map<int, frozen<set<int>>>>", {1: ONE}, {1: OTHER}),
    ],
)
def test_the_server_sorts_sets(session: Session, key: str, one: Any, other: Any) -> None:
    assert list(ONE) != list(OTHER)
    assert _rows_of_equal_keys(session, key, one, other) == 1


IN_ORDER = [0, 8]


@pytest.mark.parametrize(
    ("key", "one", "other", "in_order"),
    [
        ("tuple<frozen<set<int>>>", (ONE,), (OTHER,), (IN_ORDER,)),
        (
            "tuple<frozen<map<int, int>>>",
            ({8: 1, 0: 0},),
            ({0: 0, 8: 1},),
            ({0: 0, 8: 1},),
        ),
        ("vector<frozen<set<int>>, 1>", [ONE], [OTHER], [IN_ORDER]),
        (
            "frozen<list<frozen<tuple<frozen<set<int>>>>>>",
            [(ONE,)],
            [(OTHER,)],
            [(IN_ORDER,)],
        ),
        ("frozen<holder>", {"s": ONE}, {"s": OTHER}, {"s": IN_ORDER}),
    ],
)
def test_sets_inside_other_types_keep_their_written_order(
    session: Session, key: str, one: Any, other: Any, in_order: Any
) -> None:
    """In a key, the server does not sort sets that are inside tuples, vectors or UDTs.

    Programs must sort these sets themselves, as the documentation says.
    """
    session.execute("CREATE TYPE IF NOT EXISTS holder (s frozen<set<int>>)")
    assert _rows_of_equal_keys(session, key, one, other) == 2
    assert _rows_of_equal_keys(session, key, in_order, in_order) == 1
