"""The floors of the codec's cases: C code of Python and NumPy that does part of a case's work.

A floor does at most as much as its case. For example, it packs numbers without the lengths between
them, or joins cells that are already encoded. If a case has several floors, all are measured, and
the fastest counts. A floor's note says what the floor does. This module imports no driver.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import repeat
from operator import add, attrgetter
from struct import Struct
from typing import Any

import numpy as np

from bench.harness.timing import Case, Maker, measure
from bench.suites.codec.cases import BATCHES, BINDS, EXECUTE, KEYS, PAGES, VALUES, VECTOR, value_of

_Floor = tuple[str, str, dict[str, Any]]
"""A floor: its note, its expression, and the names in the expression besides `value`."""


COPY: _Floor = ("`list.copy()`, every element touched", "value.copy()", {})


def _pack(layout: str) -> _Floor:
    return f"`Struct('{layout}').pack(*value)`", "pack(*value)", {"pack": Struct(layout).pack}


def _single(layout: str) -> _Floor:
    return f"`Struct('{layout}').pack(value)`", "pack(value)", {"pack": Struct(layout).pack}


def _array(dtype: str) -> _Floor:
    return (
        f"`np.array(value, dtype='{dtype}').tobytes()`",
        f"array(value, dtype='{dtype}').tobytes()",
        {"array": np.array},
    )


BYTES: _Floor = ("`bytes(ndarray)`, bytes not swapped", "bytes(value)", {})
TOBYTES: _Floor = ("`ndarray.tobytes()`, bytes not swapped", "value.tobytes()", {})
SWAP: _Floor = ("`ndarray.byteswap().tobytes()`", "value.byteswap().tobytes()", {})
NARROW: _Floor = ("`ndarray.astype('>f4').tobytes()`", "value.astype('>f4').tobytes()", {})
JOIN: _Floor = (
    "texts joined and encoded, without lengths",
    "join(value).encode()",
    {"join": "".join},
)


def _map(size: int) -> list[_Floor]:
    return [
        (
            "keys joined and encoded, values packed, without lengths",
            "join(value).encode() + pack(*value.values())",
            {"join": "".join, "pack": Struct(f">{size}i").pack},
        )
    ]


def _values() -> dict[str, list[_Floor]]:
    arrays = [BYTES, TOBYTES, SWAP]
    pairs = {name: VALUES[name][1] for name in ("list<int> of 100, half null", "UDT of 5")}
    half = [number for number in pairs["list<int> of 100, half null"] if number is not None]
    street, number, town, long, on = pairs["UDT of 5"]
    nested = VALUES["list<map<text, list<int>>> 10x5x10"][1]
    numbers = [n for entry in nested for inner in entry.values() for n in inner]
    floors: dict[str, list[_Floor]] = {
        "vector<float, 1536>, float32 ndarray": arrays,
        "vector<float, 768>, float32 ndarray": arrays,
        "vector<float, 128>, float32 ndarray": arrays,
        "vector<float, 1536>, float64 ndarray": [NARROW],
        "vector<float, 1536>, list": [_pack(">1536f"), _array(">f4"), COPY],
        "vector<float, 1536>, tuple": [
            _pack(">1536f"),
            _array(">f4"),
            ("the tuple made a list, every element touched", "list(value)", {}),
        ],
        "vector<float, 128>, list": [_pack(">128f"), _array(">f4"), COPY],
        "vector<int, 1536>, list": [_pack(">1536i"), _array(">i4"), COPY],
        "vector<int, 1536>, int32 ndarray": arrays,
        "vector<double, 1536>, list": [_pack(">1536d"), _array(">f8"), COPY],
        "vector<double, 1536>, ndarray": arrays,
        "list<int> of 100, half null": [
            ("its 50 numbers by `Struct.pack`", "pack(*half)", {**_pack(">50i")[2], "half": half})
        ],
        "set<text> of 100": [JOIN],
        "map<text, int> of 10": _map(10),
        "map<text, int> of 100": _map(100),
        "tuple of 10": [_pack(">10i")],
        "tuple of 5 nulls": [
            ("`Struct('>5i').pack` of five -1", "pack(-1, -1, -1, -1, -1)", _pack(">5i")[2])
        ],
        "UDT of 5": [
            (
                "`Struct.pack` of fields that are encoded already",
                "pack(*fields)",
                {
                    "pack": Struct(f">i{len(street)}siii{len(town)}sidi?").pack,
                    "fields": (
                        *(len(street), street.encode(), 4, number, len(town), town.encode()),
                        *(8, long, 1, on),
                    ),
                },
            )
        ],
        "list<map<text, list<int>>> 10x5x10": [
            (
                "its 500 numbers, in one list, by `Struct.pack`",
                "pack(*numbers)",
                {"pack": Struct(">500i").pack, "numbers": numbers},
            )
        ],
        "int": [_single(">i")],
        "bigint": [_single(">q")],
        "double": [_single(">d")],
        "text": [("`str.encode()`", "value.encode()", {})],
        "blob": [("`bytes(value)`, the same object", "bytes(value)", {})],
        "boolean": [_single(">?")],
        "timestamp, datetime": [
            (
                "`datetime` minus the epoch, and a `Struct.pack`",
                "(value - epoch, pack(0))",
                {"epoch": datetime(1970, 1, 1), "pack": Struct(">q").pack},
            )
        ],
        "varint, small": [
            ("`int.to_bytes(3, 'big', signed=True)`", "value.to_bytes(3, 'big', signed=True)", {})
        ],
        "varint, 300 bit": [
            ("`int.to_bytes(38, 'big', signed=True)`", "value.to_bytes(38, 'big', signed=True)", {})
        ],
        "decimal": [("`Decimal.as_tuple()`", "value.as_tuple()", {})],
        "uuid": [
            (
                "`uuid.int` read and `int.to_bytes(16, 'big')`",
                "number(value).to_bytes(16, 'big')",
                {"number": attrgetter("int")},
            )
        ],
    }
    for size in (10, 100, 1000):
        floors[f"list<int> of {size}"] = [_pack(f">{size}i"), _array(">i4"), COPY]
    return floors


def _binds() -> dict[str, list[_Floor]]:
    vector = {"pack": Struct(">iii").pack}
    arrays: list[_Floor] = [
        (
            "`Struct.pack` of the int and the lengths, and `ndarray.tobytes()`",
            "(pack(4, value[0], 6144), value[1].tobytes())",
            vector,
        )
    ]
    mixed: list[_Floor] = [
        (
            "`Struct.pack` of what has a fixed size; text, uuid and the like ready",
            "pack(7, 123456789012, text, 1.5, True, 0, text, text, 1, 2, 3, text)",
            {"pack": Struct(">iq17sd?q16s20siii8s").pack, "text": b"seventeen letters"},
        )
    ]
    return {
        "1 int": [
            ("`Struct('>ii').pack(4, *row)`", "pack(4, *value)", {"pack": Struct(">ii").pack})
        ],
        "(int, text)": [
            (
                "`Struct.pack` of the int and the lengths, and `str.encode()`",
                "(pack(4, value[0], 17), value[1].encode())",
                vector,
            )
        ],
        "10 ints": [_pack(">10i")],
        "10 mixed, sequence": mixed,
        "10 mixed, dict": mixed,
        "(int, vector 1536), ndarray": arrays,
        "(int, vector 1536), read-only ndarray": arrays,
        "(int, vector 1536), list": [
            (
                "`Struct.pack` of the int, and the list copied",
                "(pack(4, value[0], 6144), value[1].copy())",
                vector,
            ),
        ],
    }


def _joined(cells: list[list[bytes]] | list[Any]) -> _Floor:
    ready = [cell for row in cells for cell in (row if isinstance(row, list) else [row]) if cell]
    return (
        f"`bytes.join` of its {len(ready)} cells, without lengths",
        "join(ready)",
        {"join": b"".join, "ready": ready},
    )


def _list_floors() -> list[_Floor]:
    return [
        (
            "`np.frombuffer(data, '>f4').tolist()`",
            "frombuffer(value, '>f4').tolist()",
            {"frombuffer": np.frombuffer},
        ),
        ("`list(Struct.unpack(data))`", "list(unpack(value))", {"unpack": Struct(">1536f").unpack}),
    ]


def _rows(columns: list[tuple[str, str]], count: int, shape: str) -> _Floor:
    """Returns a floor that zips columns to rows.

    C loops decode columns of numbers, texts and timestamps. Cells of other columns stay encoded.
    """
    names: dict[str, Any] = {"zip": zip, "map": map, "add": add, "repeat": repeat}
    parts = []
    for at, (_, cql) in enumerate(columns):
        cells = [value_of(cql, row) for row in range(count)]
        codes = {"int": "i", "bigint": "q", "double": "d", "boolean": "?"}
        if cql in codes:
            names[f"unpack{at}"] = Struct(f">{count}{codes[cql]}").unpack
            names[f"data{at}"] = b"".join(cells)
            parts.append(f"unpack{at}(data{at})")
        elif cql == "text":
            names[f"data{at}"] = b"\n".join(cells)
            parts.append(f"data{at}.decode().split('\\n')")
        elif cql == "timestamp":
            names["epoch"] = datetime(1970, 1, 1)
            names[f"data{at}"] = [
                timedelta(milliseconds=int.from_bytes(cell, "big")) for cell in cells
            ]
            parts.append(f"map(add, repeat(epoch), data{at})")
        else:
            names[f"data{at}"] = cells
            parts.append(f"data{at}")
    of = {"tuple": "tuples", "named": "tuples", "dict": "tuples, not dicts"}[shape]
    note = f"columns of numbers, text, timestamps unpacked by C loops, others ready; {of} by `zip`"
    return note, f"list(zip({', '.join(parts)}))", names


def cases() -> dict[str, Maker]:
    """Maps names to functions that make floors. A number after `#` tells a case's floors apart."""
    values, binds = _values(), _binds()
    every: list[tuple[str, Any, list[_Floor]]] = [
        (f"value: {name}", value, values[name]) for name, (_, value) in VALUES.items()
    ]
    every += [(f"bind: {name}", row, binds[name]) for name, (_, row) in BINDS.items()]
    for name, (_, parts, _) in KEYS.items():
        ready = [str(part).encode() for part in parts]
        floor = ("`bytes.join` of parts that are ready", "join(value)", {"join": b"".join})
        every.append((f"routing key: {name}", ready, [floor]))
    for name, (_, rows) in BATCHES.items():
        every.append((f"batch body: {name}", None, [_joined(rows)]))
    every.append(("execute body: 12 mixed", None, [_joined(EXECUTE)]))
    every.append(("decode: vector<float, 1536> to list", VECTOR, _list_floors()))
    numpy: _Floor = (
        "`np.frombuffer(data, '>f4').astype('f4')`",
        "frombuffer(value, '>f4').astype('f4')",
        {"frombuffer": np.frombuffer},
    )
    every.append(("decode: vector<float, 1536> to NumPy", VECTOR, [numpy]))
    for name, (page, shape) in PAGES.items():
        every.append((f"page: {name}", None, [_rows(page.columns, page.row_count, shape)]))
    return {
        f"{name}#{at}": partial(_case, value, floor)
        for name, value, floors in every
        for at, floor in enumerate(floors)
    }


def _case(value: Any, floor: _Floor) -> Case:
    note, expression, names = floor
    names = {**names, "value": value}
    run: Callable[[], Any] = partial(eval, expression, names)
    # A floor's result differs from its case's result. So the outcome only says whether the floor
    # has a result.
    return Case(expression, names, lambda: run() is not None, note)


if __name__ == "__main__":
    measure("floor", "", cases(), sys.argv[1:], "codec")
