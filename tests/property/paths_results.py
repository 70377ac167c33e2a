"""Defines calls of every path through the decoder of RESULT bodies, for `paths.py`."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any, Literal

from tests.support.results import cell, result

from turbocql.codec import CqlType
from turbocql.protocol import RowsDecoder

__all__ = ["BODIES", "COLUMNS", "results"]

Path = Callable[[], object]
Kind = Literal["named", "tuple", "dict"]
KINDS: tuple[Kind, ...] = ("named", "tuple", "dict")


def counted(*cells: bytes | None, groups: int = 1) -> bytes:
    return struct.pack(">i", len(cells) // groups) + b"".join(map(cell, cells))


SCALARS: dict[str, bytes] = {
    "ascii": b"plain",
    "text": "grüße".encode(),
    "tinyint": b"\x81",
    "smallint": b"\xfe\xd4",
    "int": b"\x7f\xff\xff\xff",
    "bigint": b"\x80" + bytes(7),
    "counter": bytes(7) + b"\7",
    "varint": b"\1" * 40,
    "float": b"\x3f\xc0\0\0",
    "double": b"\x3f\xf8" + bytes(6),
    "decimal": b"\0\0\0\2" + b"\1" * 20,
    "boolean": b"\1",
    "blob": b"bytes",
    "uuid": b"\xff" * 16,
    "timeuuid": bytes(range(16)),
    "inet": b"\x7f\0\0\1",
    "date": b"\x80\0\0\1",
    "time": bytes(4) + b"\1\2\3\4",
    "timestamp": bytes(3) + b"\1\2\3\4\5",
    "duration": b"\2\4\6",
}

UDT = 'app."Home Address"{street text, "Zip Code" int, tags frozen<set<text>>}'
CELLS: dict[str, bytes] = {
    **SCALARS,
    **{f"list<{kind}>": counted(data, None, data) for kind, data in SCALARS.items()},
    "set<uuid>": counted(SCALARS["uuid"], SCALARS["timeuuid"]),
    "map<frozen<list<int>>, frozen<list<inet>>>": counted(
        counted(SCALARS["int"]), counted(SCALARS["inet"]), groups=2
    ),
    "list<frozen<list<text>>>": counted(counted(b"a", None), None),
    "tuple<int, frozen<list<time>>>": cell(SCALARS["int"]) + cell(counted(SCALARS["time"])),
    UDT: cell(b"street") + cell(None) + cell(counted(b"a")),
    "vector<float, 3>": bytes(12),
    "vector<frozen<list<uuid>>, 1>": b"\x18" + counted(SCALARS["uuid"]),
}
"""A value of each type that has its own path through the decoder."""

BEYOND: dict[str, bytes] = {
    "text": b"a\xff",
    "inet": bytes(15) + b"\1",
    "date": bytes(4),
    "time": b"\xff" * 8,
    "timestamp": b"\x7f" + b"\xff" * 7,
    "list<text>": counted(b"a", b"\xff", b"b"),
    "list<uuid>": counted(SCALARS["uuid"], b""),
}
"""Values that the quick path, which depends on CPython's internals, leaves to the safe path. The
quick path decodes some elements of a list before it leaves the list to the safe path."""

COLUMNS = [(f"c{i}", cql_type) for i, cql_type in enumerate(CELLS)]
PAIR = [("id", "int"), ("tags", "list<text>")]
GOOD_PAIR = [SCALARS["int"], counted(b"a", b"b")]
STATE = {"paging_state": b"state", "metadata_id": b"id"}

EVERY = result(COLUMNS, [list(CELLS.values()), [None] * len(CELLS)])
ODD = result(
    [(f"c{i}", cql_type) for i, cql_type in enumerate(BEYOND)], [list(BEYOND.values())] * 2
)
PAIRS = result(PAIR, [GOOD_PAIR] * 3, **STATE)  # type: ignore[arg-type]
KNOWN = result(2, [GOOD_PAIR] * 3)
SEVERAL = [
    result([(f"c{i}", "int")], [[b"\0\0\0\1"]], shared=i % 2 == 0, paging_state=b"")
    for i in range(70)
]
"""70 bodies with different columns. A decoder caches the metadata of only 64 bodies."""

BODIES = [EVERY, ODD, PAIRS, *SEVERAL[:2]]
"""Valid bodies that contain their metadata."""


def damaged_bodies() -> Iterator[tuple[str, bytes]]:
    """Yields bodies that fail at each stage of decoding, with names."""
    yield "nothing", b""
    yield "no rows", b"\0\0\0\1"
    yield "strange flags", b"\0\0\0\2\0\0\1\0" + bytes(8)
    yield "a count below zero", b"\0\0\0\2\0\0\0\1\xff\xff\xff\xff"
    yield "a cut state", PAIRS[:16]
    yield "a cut description", PAIRS[:40]
    yield "a name that is no text", PAIRS.replace(b"tags", b"ta\xffs")
    yield "an unknown type", PAIRS.replace(b"\0\x20\0\x0d", b"\0\x0a\0\x0d")
    yield "an unreadable class", result([("a", "'a.B'")]).replace(b"a.B", b"a.(")
    yield "types too deep", result([("a", "int")]).replace(b"\0\x09", b"\0\x20" * 70 + b"\0\x09")
    yield "too many rows", result(PAIR)[:-4] + b"\x7f\xff\xff\xff"
    yield "rows without columns", result([])[:-1] + b"\1"
    yield "a cut row", PAIRS[:-1]
    yield "a byte too many", PAIRS + b"\0"
    yield "a wrong cell", result(PAIR, [GOOD_PAIR, [b"\0", GOOD_PAIR[1]]])
    yield "a wrong element", result(PAIR, [GOOD_PAIR, [GOOD_PAIR[0], counted(b"a", b"b")[:-1]]])
    yield "a wrong number", result([("a", "list<int>")], [[counted(SCALARS["int"], b"\1")]])
    yield "a wrong UUID", result([("a", "list<uuid>")], [[counted(*[SCALARS["uuid"]] * 3, b"\1")]])
    yield "an undescribed one", KNOWN


def results() -> Iterator[tuple[str, Path, bool]]:
    """Yields the name of each call, the call, and whether the call must be refused."""
    described = [CqlType(cql_type) for _, cql_type in PAIR]
    known = [(name, cql_type) for (name, _), cql_type in zip(PAIR, described, strict=True)]

    def decoding(decoder: Any, body: Any) -> Path:
        def path() -> object:
            rows = decoder.decode(body).rows
            # tests/proof/memcheck.py checks each str, bytes object and array of a result. Values of
            # other classes are checked through the `repr`, which is a str.
            return rows, repr(rows)

        return path

    for kind in KINDS:
        for what, body in (("every type", EVERY), ("odd values", ODD), ("pairs", PAIRS)):
            yield f"rows, {kind}, of {what}", decoding(RowsDecoder(kind), body), False
        choices = RowsDecoder(kind, naive_timestamps=True, numpy_vectors=True)
        yield f"rows, {kind}, by choice", decoding(choices, EVERY), False
        yield f"rows, {kind}, known", decoding(RowsDecoder(kind, columns=known), KNOWN), False
        for what, body in damaged_bodies():
            yield f"rows, {kind}: {what}", decoding(RowsDecoder(kind), body), True

    decoder, bodies = RowsDecoder(), itertools.cycle(SEVERAL)
    yield "rows of more descriptions than are kept", lambda: decoder.decode(next(bodies)), False
    yield "rows of a bytearray", decoding(decoder, bytearray(PAIRS)), False
    yield "rows of a memoryview", decoding(decoder, memoryview(PAIRS + PAIRS)[: len(PAIRS)]), False
    yield "rows of no bytes", lambda: decoder.decode("abc"), True  # type: ignore[arg-type]
    yield "a decoder of rows", lambda: decoding(RowsDecoder(columns=known), KNOWN)(), False
    yield "no kind of rows", lambda: RowsDecoder("list"), True  # type: ignore[arg-type]
    yield "no columns of rows", lambda: RowsDecoder(columns=[("a", "int"), 5]), True
    yield "other columns than known", decoding(RowsDecoder(columns=known[:1]), KNOWN), True

    def whole() -> object:
        page = decoder.decode(PAIRS)
        parts = (page.rows, page.columns, page.paging_state, page.metadata_id, len(page))
        return parts, repr(page), repr(decoder)

    yield "a page and what comes with it", whole, False

    def looped() -> object:
        rows = decoder.decode(PAIRS).rows
        rows[0].tags.append(rows)
        return len(rows)

    yield "rows in a cycle", looped, False
