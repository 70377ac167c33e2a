"""The inputs of the codec's benchmark cases, the same for every client. Imports no driver.

Types are CQL text. turbocql parses this text, the other drivers parse the Java class name of the
type. Frames are made here byte by byte, so that no client decodes bytes that it encoded itself.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import random
import struct
import uuid
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

__all__ = [
    "BATCHES",
    "BINDS",
    "EXECUTE",
    "EXTENSIONS",
    "KEYS",
    "NAMES",
    "PAGES",
    "PLANS",
    "VALUES",
    "VECTOR",
    "WORDS",
    "Page",
    "Shape",
    "plain_rows",
    "value_of",
]

_random = random.Random(20260229)


def _floats(count: int) -> list[float]:
    return [_random.uniform(-1, 1) for _ in range(count)]


def _single(count: int) -> Any:
    return np.array(_floats(count), dtype="float32")


_F1536, _F128 = _floats(1536), _floats(128)
_I1536 = [_random.randrange(-(2**31), 2**31) for _ in range(1536)]
_READ_ONLY = _single(1536)
_READ_ONLY.flags.writeable = False
_INTS = [_random.randrange(-(2**31), 2**31) for _ in range(1000)]
_TEXTS = [f"element {i}" for i in range(100)]
# In a Java class name, the names of a UDT and its fields are written in hexadecimal. The names here
# are chosen so that each contains a letter in this form: scylla-driver would read digits alone as a
# number.
UDT = "app.home{lot text, zip int, town text, long double, on boolean}"
TUPLE = f"tuple<{', '.join(['int'] * 10)}>"
_INSTANT = datetime.datetime(2026, 2, 28, 12, 34, 56, 789_000)
_UUID = uuid.UUID("12345678-1234-4678-9234-567812345678")

VALUES: dict[str, tuple[str, Any]] = {
    "vector<float, 1536>, float32 ndarray": ("vector<float, 1536>", _single(1536)),
    "vector<float, 768>, float32 ndarray": ("vector<float, 768>", _single(768)),
    "vector<float, 128>, float32 ndarray": ("vector<float, 128>", _single(128)),
    "vector<float, 1536>, float64 ndarray": ("vector<float, 1536>", np.array(_F1536)),
    "vector<float, 1536>, list": ("vector<float, 1536>", _F1536),
    "vector<float, 1536>, tuple": ("vector<float, 1536>", tuple(_F1536)),
    "vector<float, 128>, list": ("vector<float, 128>", _F128),
    "vector<int, 1536>, list": ("vector<int, 1536>", _I1536),
    "vector<int, 1536>, int32 ndarray": ("vector<int, 1536>", np.array(_I1536, dtype="int32")),
    "vector<double, 1536>, list": ("vector<double, 1536>", _F1536),
    "vector<double, 1536>, ndarray": ("vector<double, 1536>", np.array(_F1536)),
    "list<int> of 10": ("list<int>", _INTS[:10]),
    "list<int> of 100": ("list<int>", _INTS[:100]),
    "list<int> of 1000": ("list<int>", _INTS),
    "list<int> of 100, half null": ("list<int>", [*_INTS[:50], *[None] * 50]),
    "set<text> of 100": ("set<text>", set(_TEXTS)),
    "map<text, int> of 10": ("map<text, int>", dict(zip(_TEXTS, _INTS[:10], strict=False))),
    "map<text, int> of 100": ("map<text, int>", dict(zip(_TEXTS, _INTS, strict=False))),
    "tuple of 10": (TUPLE, tuple(_INTS[:10])),
    "tuple of 5 nulls": ("tuple<int, int, int, int, int>", (None,) * 5),
    "UDT of 5": (UDT, ("Main Street", 12345, "Springfield", 1.5, True)),
    "list<map<text, list<int>>> 10x5x10": (
        "list<frozen<map<text, frozen<list<int>>>>>",
        [dict.fromkeys(_TEXTS[:5], _INTS[:10]) for _ in range(10)],
    ),
    "int": ("int", 123_456),
    "bigint": ("bigint", 123_456_789_012),
    "double": ("double", 1.5),
    "text": ("text", "seventeen letters"),
    "blob": ("blob", b"seventeen letters"),
    "boolean": ("boolean", True),
    "timestamp, datetime": ("timestamp", _INSTANT),
    "varint, small": ("varint", 1_234_567),
    "varint, 300 bit": ("varint", (1 << 299) + 12_345),
    "decimal": ("decimal", decimal.Decimal("1234567.89")),
    "uuid": ("uuid", _UUID),
}
"""Values to encode: the type and the value."""

MIXED = [
    ("id", "int"),
    ("big", "bigint"),
    ("name", "text"),
    ("ratio", "double"),
    ("active", "boolean"),
    ("at", "timestamp"),
    ("uid", "uuid"),
    ("data", "blob"),
    ("tags", "list<int>"),
    ("amount", "decimal"),
]
_MIXED_ROW = (
    7,
    123_456_789_012,
    "seventeen letters",
    1.5,
    True,
    _INSTANT,
    _UUID,
    b"some bytes of a blob",
    [1, 2, 3],
    decimal.Decimal("1234567.89"),
)
_TEN = [(f"c{i}", "int") for i in range(10)]
_PAIR = [("id", "int"), ("v", "vector<float, 1536>")]

BINDS: dict[str, tuple[list[tuple[str, str]], Any]] = {
    "1 int": ([("id", "int")], (7,)),
    "(int, text)": ([("id", "int"), ("name", "text")], (7, "seventeen letters")),
    "10 ints": (_TEN, tuple(range(10))),
    "10 mixed, sequence": (MIXED, _MIXED_ROW),
    "10 mixed, dict": (
        MIXED,
        {name: value for (name, _), value in zip(MIXED, _MIXED_ROW, strict=True)},
    ),
    "(int, vector 1536), ndarray": (_PAIR, (7, _single(1536))),
    "(int, vector 1536), read-only ndarray": (_PAIR, (7, _READ_ONLY)),
    "(int, vector 1536), list": (_PAIR, (7, _F1536)),
}
"""Rows to bind: the columns and the row."""

KEYS: dict[str, tuple[list[tuple[str, str]], tuple[Any, ...], list[int]]] = {
    "3 parts": ([("a", "int"), ("b", "text"), ("c", "bigint")], (7, "a key", 99), [0, 1, 2]),
    "(200 bytes, int)": ([("a", "blob"), ("b", "int")], (bytes(200), 7), [0, 1]),
}
"""Rows whose routing key is built: the columns, the row, and the indexes of the key columns."""

_CELL = struct.pack(">i", 7)


def _vectors(statements: int) -> list[list[bytes]]:
    return [[_CELL, struct.pack(">128f", *_F128)] for _ in range(statements)]


def _texts(statements: int) -> list[list[bytes]]:
    return [[f"value {i} {j}".encode() for j in range(10)] for i in range(statements)]


BATCHES: dict[str, tuple[str | bytes, list[list[bytes]]]] = {
    "10x2 vectors of 128": (b"0123456789abcdef", _vectors(10)),
    "50x2 vectors of 128": (b"0123456789abcdef", _vectors(50)),
    "10x10 text": (b"0123456789abcdef", _texts(10)),
    "50x10 text": (b"0123456789abcdef", _texts(50)),
    "unprepared 10x2": ("INSERT INTO t (a, b) VALUES (?, ?)", _vectors(10)),
}
"""BATCH bodies to encode: the query or prepared id of all statements, and the cells of each."""

EXECUTE: list[Any] = [
    _CELL,
    struct.pack(">q", 5),
    b"seventeen letters",
    struct.pack(">d", 1.5),
    b"\x01",
    None,
    struct.pack(">q", 1_700_000_000_000),
    _UUID.bytes,
    b"some bytes of a blob",
    None,
    b"more text",
    struct.pack(">f", 2.5),
]
"""The cells of an EXECUTE body."""

VECTOR = struct.pack(">1536f", *_F1536)
"""An encoded vector<float, 1536>."""

_CODES = {
    "bigint": 2,
    "blob": 3,
    "boolean": 4,
    "double": 7,
    "int": 9,
    "timestamp": 11,
    "uuid": 12,
    "text": 13,
    "inet": 16,
}


def _string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _type(cql_type: str) -> bytes:
    if cql_type == "list<int>":
        return struct.pack(">HH", 0x20, 9)
    return struct.pack(">H", _CODES[cql_type])


def value_of(cql_type: str, row: int) -> bytes:
    """Returns a row's cell of this type, as the protocol encodes it."""
    match cql_type:
        case "int":
            return struct.pack(">i", row)
        case "bigint":
            return struct.pack(">q", row << 33)
        case "text":
            return f"text of row {row}".encode()
        case "double":
            return struct.pack(">d", row / 7)
        case "boolean":
            return bytes([row % 2])
        case "timestamp":
            return struct.pack(">q", 1_700_000_000_000 + row * 1001)
        case "uuid":
            return uuid.UUID(int=row << 64 | 0x4000_8000_0000_0000_0000).bytes
        case "blob":
            return struct.pack(">5i", *[row] * 5)
        case "list<int>":
            return struct.pack(">i6i", 3, *[n for i in range(3) for n in (4, row + i)])
        case "inet":
            return struct.pack(">I", 0x0A00_0000 + row)
    raise ValueError(cql_type)


Shape: TypeAlias = Literal["tuple", "named", "dict"]


@dataclass(frozen=True)
class Page:
    """The body of a RESULT frame with rows, and the name and type of each column."""

    columns: list[tuple[str, str]]
    row_count: int
    body: bytes

    @staticmethod
    def of(columns: list[tuple[str, str]], row_count: int) -> Page:
        """Builds the page as a server writes it in protocol version 4, with metadata."""
        out = bytearray(struct.pack(">iii", 2, 1, len(columns)) + _string("app") + _string("items"))
        for name, cql_type in columns:
            out += _string(name) + _type(cql_type)
        out += struct.pack(">i", row_count)
        for row in range(row_count):
            for _, cql_type in columns:
                value = value_of(cql_type, row)
                out += struct.pack(">i", len(value)) + value
        return Page(columns, row_count, bytes(out))

    @property
    def without_metadata(self) -> bytes:
        """The body that a server writes if the request asks it to leave the metadata out."""
        head = Page.of(self.columns, 0).body[:-4]
        return struct.pack(">iii", 2, 4, len(self.columns)) + self.body[len(head) :]


_TEN_COLUMNS = [*MIXED[:9], ("address", "inet")]
_SIX_COLUMNS = [MIXED[0], MIXED[2], MIXED[3], MIXED[1], MIXED[4], MIXED[5]]

_WIDE = Page.of(_TEN_COLUMNS, 5000)
_SINGLE = Page.of(_TEN_COLUMNS, 1)

PAGES: dict[str, tuple[Page, Shape]] = {
    "5000x10 to tuples": (_WIDE, "tuple"),
    "5000x10 to named": (_WIDE, "named"),
    "5000x10 to dicts": (_WIDE, "dict"),
    "5000x6 to tuples": (Page.of(_SIX_COLUMNS, 5000), "tuple"),
    "1x10 with metadata, tuples": (_SINGLE, "tuple"),
    "1x10 with metadata, named": (_SINGLE, "named"),
}
"""Pages to decode, and the shape of their rows."""

NAMES = (
    *(f"value: {name}" for name in VALUES),
    *(f"bind: {name}" for name in BINDS),
    *(f"routing key: {name}" for name in KEYS),
    *(f"batch body: {name}" for name in BATCHES),
    "execute body: 12 mixed",
    "decode: vector<float, 1536> to list",
    "decode: vector<float, 1536> to NumPy",
    *(f"page: {name}" for name in PAGES),
)
"""The names of the cases, in the order in which the report's tables list them."""

WORDS = (
    "value: serialize, from a Python value to its bytes.",
    "bind: from a row of Python values to its cells, each as bytes.",
    "routing key: from the cells of a row to the bytes that choose its node.",
    "batch body, execute body: from serialized values to the bytes of a message.",
    "decode: from bytes to a Python value.",
    "page: from the bytes of a result to a list of its rows.",
    "floor: the least that C code of Python or NumPy needs for a part of the work; turbocql can be"
    " below it.",
    "stock: scylla-driver as it comes from PyPI.",
)
"""Explanations of the words in the names of cases and clients."""


EXTENSIONS = (
    "query, extensions: SELECT",
    "batch, extensions: 10x10 text",
    "batch, extensions: 50x10 text",
    "execute, extensions: 12 mixed",
    "page, extensions: 5000x10 to tuples, columns left out",
    "page, extensions: 5000x10 to named, columns left out",
    "page, extensions: 1x10 to named, columns left out",
)
"""Cases of messages on connections with ScyllaDB's protocol extensions. Only scylla-driver runs
them."""
PLANS = ("query plan: TokenAwarePolicy, first host", "query plan: TokenAwarePolicy, all hosts")
"""Cases that measure the load-balancing policies of other drivers."""


def plain_rows(rows: list[Any], columns: list[tuple[str, str]], shape: str) -> list[str]:
    """Returns the row count, the first and last row, and a digest, as texts.

    The texts are the same for all clients. Named rows are read by name and dicts by key, so that a
    value in the wrong field is noticed. Time zones are dropped, because some clients return
    timestamps without one.
    """
    lines = []
    for row in rows:
        match shape:
            case "named":
                cells = [getattr(row, name) for name, _ in columns]
            case "dict":
                cells = [row[name] for name, _ in columns]
            case _:
                cells = list(row)
        lines.append(repr([_plain(cell) for cell in cells]))
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return [str(len(lines)), *lines[:1], *lines[-1:], digest]


def _plain(cell: Any) -> str:
    if isinstance(cell, datetime.datetime):
        return cell.replace(tzinfo=None).isoformat()
    return str(cell)
