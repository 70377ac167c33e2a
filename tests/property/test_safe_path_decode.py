"""Checks that the quick paths and the safe path return the same values and raise the same errors.

The quick paths depend on CPython's internals, and `force_safe` turns them off. The tests compare
the values, and the classes of all nested values. They also compare the repr, str, hash and pickle
of the values, the time zone and fold of datetimes, and attributes of UUIDs and addresses.
"""

from __future__ import annotations

import itertools
import pickle
import struct
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from ipaddress import IPv4Address, IPv6Address, ip_address
from random import Random
from typing import Any
from uuid import UUID, SafeUUID

import numpy as np
import pytest
from tests.support.results import cell, result

from turbocql import FrozenMap, _core
from turbocql.codec import encode, find_deserializer
from turbocql.errors import DecodeError
from turbocql.protocol import RowsDecoder

from .paths import COMPOSITE, CUSTOM, GOOD, MALFORMED
from .test_mutations import SEED, damaged_bodies, mutants

DEFAULT, PROOF = 20_000, 500_000


@pytest.fixture(autouse=True)
def quick_again() -> Iterator[None]:
    yield
    _core.force_safe(False)


def hash_of(value: Any) -> object:
    try:
        return hash(value)
    except TypeError:
        return "none"


def image(value: Any) -> object:
    """Returns the comparable properties of a value and of its parts, including the classes."""
    kind = type(value)
    if isinstance(value, np.ndarray):
        flags = value.flags
        where = (flags.c_contiguous, flags.owndata, flags.writeable, flags.aligned)
        return kind, value.dtype.str, value.shape, where, value.tobytes()
    if isinstance(value, float):
        # Hashes of floats are not compared, because the hash of a NaN depends on the address of the
        # object.
        return kind, struct.pack(">d", value)
    if isinstance(value, (dict, FrozenMap)):
        return (
            kind,
            hash_of(value) == "none",
            [(image(key), image(part)) for key, part in value.items()],
        )
    if isinstance(value, (set, frozenset)):
        return kind, sorted(repr(image(part)) for part in value)
    if isinstance(value, (list, tuple)):
        return kind, [image(part) for part in value], getattr(value, "_fields", None)
    parts: list[object] = [kind, repr(value), str(value), hash_of(value)]
    if isinstance(value, datetime):
        zone = value.tzinfo
        assert zone is None or zone is timezone.utc
        parts += [zone, value.fold, value.timetuple(), value.isoformat()]
    if isinstance(value, UUID):
        assert value.is_safe is SafeUUID.unknown
        again = UUID(bytes=value.bytes)
        assert (value, hash(value), value.int) == (again, hash(again), again.int)
        assert not value < again
        assert type(value.int) is int
        # CPython stores an int in digits of its own. If turbocql had written wrong digits, this sum
        # would be wrong.
        assert (value.int + 1) - 1 == value.int
        assert value.int.bit_length() == int.from_bytes(value.bytes, "big").bit_length()
        parts += [value.fields, value.hex, value.urn, value.version]
    if isinstance(value, (IPv4Address, IPv6Address)):
        assert value == ip_address(value.packed)
        parts += [int(value), value.packed, value.is_private, value.reverse_pointer]
    if isinstance(value, str):
        parts += [value.isascii(), len(value), value + "\u20ac", value.encode("utf-8", "replace")]
    try:
        kept = pickle.dumps(value)
    except UnicodeEncodeError:
        parts.append("is not to be pickled")
    else:
        assert pickle.loads(kept) == value
        parts.append(kept)
    return parts


def outcome(decode: Callable[[], Any], safe: bool) -> object:
    """Returns the image of the decoded value, or the properties of the error."""
    _core.force_safe(safe)
    try:
        value = decode()
    except DecodeError as error:
        return "refused", str(error), error.path, error.cql_type
    return image(value)


OPTIONS: list[dict[str, bool]] = [{}, {"naive_timestamps": True}, {"numpy_vectors": True}]


def alone(cql_type: str, data: bytes) -> object:
    """Compares the outcomes of the quick and the safe path, once for each entry of `OPTIONS`.

    Returns the outcome for the first entry of `OPTIONS`, which is empty.
    """
    seen = []
    for options in OPTIONS:
        deserializer = find_deserializer(cql_type, **options)
        quick = outcome(lambda: deserializer.deserialize(data), False)  # noqa: B023
        safe = outcome(lambda: deserializer.deserialize(data), True)  # noqa: B023
        assert quick == safe, (cql_type, data.hex(" "), options)
        seen.append(quick)
    return seen[0]


KINDS = [(kind, options) for kind in ("named", "tuple", "dict") for options in OPTIONS]
IN_TURN = itertools.cycle(KINDS)


def in_rows(cql_type: str, cells: list[bytes | None], *, once: bool = False) -> None:
    """Compares the quick and the safe path for cells of a page, with each entry of `KINDS`.

    If `once` is true, each call uses only one entry of `KINDS`: the next entry after the one that
    the previous call used.
    """
    body = result([("a", cql_type), ("b", "int")], [(data, b"\0\0\0\1") for data in cells])
    for kind, options in [next(IN_TURN)] if once else KINDS:
        decoder: Any = RowsDecoder(kind, **options)  # type: ignore[arg-type]
        # The first call parses the metadata, and the later calls find the metadata in the cache. So
        # the quick path is called twice.
        ways = [
            outcome(lambda: decoder.decode(body).rows, safe)  # noqa: B023
            for safe in (False, True, False)
        ]
        assert ways[0] == ways[1] == ways[2], (cql_type, cells, kind, options)


def counted(cells: list[bytes | None], groups: int = 1) -> bytes:
    return struct.pack(">i", len(cells) // groups) + b"".join(map(cell, cells))


def everywhere(cql_type: str, cells: list[bytes | None]) -> None:
    """Compares the two paths for cells alone, in rows, and inside every compound type."""
    key: bytes | None = b"\0\0\0\5"
    for data in cells:
        if data is not None:
            alone(cql_type, data)
            in_rows(cql_type, [data], once=True)
    for part in [cells, *([data] for data in cells)]:
        pairs: list[bytes | None] = [x for data in part for x in (key, data)]
        turned: list[bytes | None] = [x for data in part for x in (data, key)]
        listed = counted(part)
        for inner, data in [
            (f"list<{cql_type}>", listed),
            (f"set<{cql_type}>", listed),
            (f"map<int, {cql_type}>", counted(pairs, 2)),
            (f"map<{cql_type}, int>", counted(turned, 2)),
            (f"tuple<{', '.join([cql_type] * len(part))}>", b"".join(map(cell, part))),
            (f"u{{a {cql_type}, b int}}", b"".join(map(cell, part[:1]))),
        ]:
            alone(inner, data)
            in_rows(inner, [data, None, data], once=True)
            nested = counted([data, None])
            # Inside sets and map keys, lists decode to tuples, so these are compared too.
            alone(f"list<frozen<{inner}>>", nested)
            alone(f"set<frozen<{inner}>>", nested)
            alone(f"map<frozen<{inner}>, frozen<{inner}>>", counted([data, data], 2))
            alone(f"tuple<{inner}, int>", cell(data))
    vector = f"vector<{cql_type}, {len(cells)}>"
    bare = [data or b"" for data in cells]
    alone(vector, b"".join(bare))
    alone(vector, b"".join(bytes([len(data) % 128]) + data for data in bare))


def big(number: int, width: int) -> bytes:
    return number.to_bytes(width, "big", signed=number < 0)


DAY = 86_400_000
FIRST, LAST = -719_162, 2_932_896
"""The days since 1970 of 0001-01-01 and 9999-12-31."""

TEXTS = [
    *(unit * count for unit in ("a", "é", "€", "\U0001f600") for count in (0, 1, 2, 100)),
    *("x" * length for length in range(101)),
    *("x" * length + end for length in (5, 6, 7, 8, 9, 62, 63, 64, 71, 72, 73) for end in "é€"),
    *("é" + "x" * length for length in (6, 7, 14, 15, 63, 71, 72)),
    "\0",
    "\x7f" * 17,
    "\x80",
    "a\0b",
]
NO_TEXTS = [b"\xff", b"a" * 8 + b"\x80", b"\xed\xa0\x80", b"a" * 80 + b"\xc3", b"\xf4\x90\x80\x80"]
TEXT_BYTES = [*(text.encode() for text in TEXTS), *NO_TEXTS]

WHOLE = [0, 1, -1, 5, 256, 257, -5, -6]
"""Small numbers, among them the largest and smallest that CPython caches, and their neighbours."""

INSTANTS = [
    *(n for day in (FIRST, LAST + 1, 0, 1, -1) for n in (day * DAY - 1, day * DAY, day * DAY + 1)),
    *(-(2**63), 2**63 - 1, 999, -999, 951_782_400_000, 951_868_799_999, -2_203_891_200_000),
    *(day * DAY + 12_345_678 for day in (FIRST, LAST, 11_016, -25_509, 47_540)),
]
UUIDS = [
    *(0, 1, 2, 256, 257, 2**29, 2**30 - 1, 2**30, 2**30 + 1),
    *(2**bits + more for bits in (59, 60, 61, 62, 63, 64, 89, 90, 91, 119, 120, 121, 127)
      for more in (-1, 0, 1)),
    *(2**128 - 1, 2**128 - 2, 0x00112233445566778899AABBCCDDEEFF),
    0x138140001DD211B28080808080808080,
]  # fmt: skip
DAYS = [0, 1, -1, FIRST, FIRST - 1, LAST, LAST + 1, -(2**31), 2**31 - 1, 11_016, -25_509]

CELLS: dict[str, list[bytes]] = {
    "ascii": TEXT_BYTES,
    "text": TEXT_BYTES,
    "tinyint": [big(n, 1) for n in (0, 1, -1, 127, -128)],
    "smallint": [big(n, 2) for n in [*WHOLE, 2**15 - 1, -(2**15)]],
    "int": [big(n, 4) for n in [*WHOLE, 2**30 - 1, 2**30, -(2**30), 2**31 - 1, -(2**31)]],
    "bigint": [big(n, 8) for n in [*WHOLE, 2**30, 2**60 - 1, 2**60, 2**63 - 1, -(2**63)]],
    "counter": [big(n, 8) for n in [*WHOLE, 2**63 - 1, -(2**63)]],
    "varint": [b"\0", b"\xff", b"\0\0\1", bytes(20), b"\x7f" + bytes(16), b"\x80" + bytes(30)],
    "float": [bytes.fromhex(n) for n in ("00000000", "80000000", "3dcccccd", "7f800000", "7fc00001",
                                         "00000001", "ff800001")],
    "double": [bytes.fromhex(n) for n in ("3fb999999999999a", "8000000000000000",
                                          "fff0000000000000", "7ff8000000000001")],
    "decimal": [b"\0\0\0\2", b"\0\0\0\2\1\x3a", b"\x80\0\0\0\1", b"\0\0\0\0\x80" + bytes(30)],
    "boolean": [b"\0", b"\1", b"\2", b"\xff"],
    "blob": [b"", b"\0", b"a", bytes(range(256)), bytes(1000)],
    CUSTOM: [b"", b"\0", b"abc"],
    "uuid": [big(n, 16) for n in UUIDS],
    "timeuuid": [big(n, 16) for n in UUIDS],
    "inet": [bytes(4), b"\xff" * 4, b"\x7f\0\0\1", b"\x0a\0\0\1", bytes(16), b"\xff" * 16,
             bytes(15) + b"\1", bytes(10) + b"\xff\xff\x7f\0\0\1"],
    "date": [(n + 2**31).to_bytes(4, "big") for n in DAYS],
    "time": [big(n, 8) for n in (0, 1, 999, 1000, 3_600 * 10**9, DAY * 10**6 - 1, DAY * 10**6, -1,
                                 2**63 - 1)],
    "timestamp": [big(n, 8) for n in INSTANTS],
    "duration": [b"\2\4\6", b"\0\0\0", b"\1\3\5"],
}  # fmt: skip
"""Valid bytes of values of each scalar type."""


@pytest.mark.parametrize("cql_type", CELLS)
def test_every_value_of_a_list_by_itself_and_in_rows(cql_type: str) -> None:
    cells = CELLS[cql_type]
    for data in cells:
        seen = alone(cql_type, data)
        assert not isinstance(seen, tuple) or seen[0] != "refused"
    in_rows(cql_type, [*cells, None, b"", *cells])
    for size in (1, 2, 7):
        for start in range(0, len(cells), size):
            alone(f"list<{cql_type}>", counted([*cells[start : start + size]]))
    alone(f"list<frozen<list<{cql_type}>>>", counted([counted([*cells, None])] * 3))
    alone(f"set<frozen<list<{cql_type}>>>", counted([counted([*cells, None])] * 3))


@pytest.mark.parametrize("cql_type", CELLS)
def test_odd_cells_everywhere(cql_type: str) -> None:
    """Compares the quick and the safe path for ordinary cells beside odd cells.

    The odd cells are null, empty, too short or too long.
    """
    good = [CELLS[cql_type][0], CELLS[cql_type][-1]]
    assert good[0] is not good[1]
    short, long = good[1][:-1], good[1] + b"\0"
    everywhere(cql_type, [good[0], None, good[1]])
    everywhere(cql_type, [b"", good[0]])
    everywhere(cql_type, [good[0], short])
    everywhere(cql_type, [good[0], long, None])
    for width in range(20):
        alone(cql_type, b"\1" * width)
        alone(f"list<{cql_type}>", counted([b"\1" * width]))


@pytest.mark.parametrize("cql_type", GOOD)
def test_values_of_all_types(cql_type: str) -> None:
    cells = [encode(cql_type, value) for value in GOOD[cql_type]]
    everywhere(cql_type, [*cells[:3], None])
    in_rows(cql_type, [*cells])


@pytest.mark.parametrize("cql_type", MALFORMED)
def test_malformed_bytes(cql_type: str) -> None:
    for data in MALFORMED[cql_type]:
        assert alone(cql_type, data)
        in_rows(cql_type, [data])
        everywhere(cql_type, [data])


def test_texts_of_every_length_with_one_odd_character_at_every_place() -> None:
    for length in (1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 71, 72, 73, 100):
        for at in range(length):
            for odd in ("\x80", "é", "\U0001f600"):
                data = ("a" * at + odd + "a" * (length - at - 1)).encode()
                alone("text", data)
            alone("ascii", b"a" * at + b"\xff" + b"a" * (length - at - 1))


@pytest.mark.parametrize("element", ["float", "double", "int", "bigint"])
def test_arrays(element: str) -> None:
    width = len(CELLS[element][0])
    for dimension in (1, 2, 3, 7, 8, 9, 16, 1536):
        data = b"".join(CELLS[element][i % len(CELLS[element])] for i in range(dimension))
        cql_type = f"vector<{element}, {dimension}>"
        for wrong in (data[:-1], data + b"\0", data[width:], b""):
            alone(cql_type, wrong)
        for nested in (cql_type, f"list<{cql_type}>", f"vector<{cql_type}, 1>"):
            alone(nested, counted([data, data]) if nested.startswith("list") else data)
        in_rows(cql_type, [data, None, data])


def random_cell(random: Random, cql_type: str) -> bytes | None:
    chance = random.random()
    if chance < 0.08:
        return None
    if chance < 0.12:
        return b""
    width = len(CELLS[cql_type][0])
    if chance < 0.16:
        return random.randbytes(random.randrange(20))
    if cql_type == "timestamp" and chance < 0.6:
        return big(random.randrange(FIRST * DAY, (LAST + 1) * DAY), 8)
    if cql_type == "date" and chance < 0.6:
        return big(random.randrange(FIRST, LAST + 1) + 2**31, 4)
    if cql_type == "uuid" and chance < 0.6:
        return big(random.getrandbits(random.randrange(1, 129)), 16)
    if cql_type in ("int", "bigint", "float", "double") and chance < 0.6:
        return random.randbytes(width)
    return random.choice(CELLS[cql_type])


def test_random_pages(proof: bool) -> None:
    """Decodes random pages, some with errors. Each decoder decodes several pages."""
    random = Random("pages both ways")
    types = [*CELLS, *(f"list<{cql_type}>" for cql_type in CELLS)]
    decoders: list[Any] = [
        RowsDecoder(kind, **options)  # type: ignore[arg-type]
        for kind, options in KINDS
    ]
    values = 0
    for _ in range(20_000 if proof else 400):
        chosen = [random.choice(types) for _ in range(random.choice((1, 2, 3, 12)))]
        rows: list[list[bytes | None]] = []
        for _ in range(random.choice((0, 1, 2, 5))):
            row: list[bytes | None] = []
            for cql_type in chosen:
                scalar = cql_type.removeprefix("list<").removesuffix(">")
                parts = [random_cell(random, scalar) for _ in range(random.randrange(4))]
                listed = scalar != cql_type
                row.append(counted(parts) if listed else random_cell(random, scalar))
            rows.append(row)
        names = [(random.choice("ab") + str(i), t) for i, t in enumerate(chosen)]
        body = result(names, rows, shared=random.random() < 0.5)
        decoder = random.choice(decoders)
        quick = outcome(lambda: decoder.decode(body).rows, False)  # noqa: B023
        safe = outcome(lambda: decoder.decode(body).rows, True)  # noqa: B023
        assert quick == safe, (chosen, body.hex(" "))
        assert isinstance(quick, tuple)
        values += quick[0] is list
    assert values > 100


def test_damaged_bytes_have_the_same_outcome(proof: bool) -> None:
    refused = 0
    for cql_type, data in mutants(SEED + 2, PROOF if proof else DEFAULT):
        deserializer = find_deserializer(cql_type, numpy_vectors=data[:1] < b"\x80")
        quick = outcome(lambda: deserializer.deserialize(data), False)  # noqa: B023
        safe = outcome(lambda: deserializer.deserialize(data), True)  # noqa: B023
        assert quick == safe, (cql_type, data.hex(" "))
        refused += isinstance(quick, tuple) and quick[0] == "refused"
    assert refused > 1_000


def test_damaged_results_have_the_same_outcome(proof: bool) -> None:
    refused = 0
    decoders: list[Any] = [RowsDecoder(kind, **options) for kind, options in KINDS]  # type: ignore[arg-type]
    for number, body in enumerate(damaged_bodies(SEED + 3, (PROOF if proof else DEFAULT) // 20)):
        decoder = decoders[number % len(decoders)]
        quick = outcome(lambda: decoder.decode(body).rows, False)  # noqa: B023
        assert quick == outcome(lambda: decoder.decode(body).rows, True), body.hex(" ")  # noqa: B023
        refused += isinstance(quick, tuple) and quick[0] == "refused"
    assert refused > 100


def test_composites() -> None:
    for data in (b"", b"\0\4\0\0\0\1\0", b"\0\4\0\0\0\1\0\0\1a\0", b"\0\3\0\0\0\0"):
        alone(COMPOSITE, data)
        in_rows(COMPOSITE, [data, None])
