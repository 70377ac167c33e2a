"""If a program changes how the driver decodes values, the change also takes effect with the
accelerator.

The changes are made before the accelerator is switched on or while it is on. When a change is
undone, values are decoded as before the change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cassandra import cqltypes, protocol, util
from tests.accel.answers import answer
from tests.accel.pages import READERS, Mapped, deep, page_answer
from tests.differential.results import definition
from tests.differential.shapes import parse
from tests.support.results import result

from turbocql import accel

TYPES = {
    "timestamp": ["0000019aa3f1c2d3", ""],
    "date": ["80005100"],
    "time": ["0000000000000007"],
    "duration": ["020406"],
    "int": ["00000007", ""],
    "blob": ["0102", ""],
    "varint": ["0123456789"],
    "decimal": ["00000002ff6a"],
    "list<int>": ["0000000200000004000000070000000400000008", "000000010000000000"],
    "set<int>": ["0000000200000004000000070000000400000008", "0000000100000000"],
    "set<text>": ["00000002000000016200000001" + "61"],
    "map<text, int>": ["00000001000000016100000004" + "00000007"],
    "tuple<int, text>": ["0000000400000007", ""],
    "pair{a int, b text}": ["00000004000000070000000161", "0000000400000007"],
    "vector<timestamp, 1>": ["0000019aa3f1c2d3"],
    "list<timestamp>": ["00000001000000080000019aa3f1c2d3"],
}


def readings(types: Any = None) -> list[Any]:
    """Decodes the cells in `TYPES` with each reader, and with the methods of their types."""
    seen: list[Any] = []
    for text, cells in TYPES.items():
        shape = parse(text)
        columns = [("c", definition(shape))]
        rows = [[bytes.fromhex(cell)] for cell in cells]
        body = result(columns, rows)
        for kind, reader in READERS.items():
            # For empty cells, the driver leaves elements of arrays uninitialized. So such arrays
            # are not compared.
            if kind != "arrays" or "" not in cells:
                seen.append((text, kind, page_answer(reader, body, 4, types)))
        for (cell,) in rows:
            seen.append((text, deep(answer(shape.reference.deserialize, cell, 4))))
            seen.append((text, deep(answer(shape.reference.from_binary, cell, 4))))
    return seen


def expect(expected: list[Any]) -> None:
    """Compares each item of `readings()` with `expected`, and asserts that they are equal."""
    for reading, other in zip(readings(), expected, strict=True):
        assert reading == other


@pytest.fixture(scope="module")
def unchanged() -> list[Any]:
    """Returns the values that the unchanged driver decodes."""
    return readings()


@contextlib.contextmanager
def changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Sets or deletes an attribute of the driver, and restores it at the end."""
    absent = object()
    then = vars(owner).get(name, absent)
    if value is absent or value == "deleted":
        delattr(owner, name)
    else:
        setattr(owner, name, value)
    try:
        yield
    finally:
        if then is absent:
            delattr(owner, name)
        else:
            setattr(owner, name, then)


@contextlib.contextmanager
def without(table: dict[Any, Any], key: Any) -> Iterator[None]:
    """Removes an entry from a dict of the driver, and restores it at the end."""
    then = table.pop(key)
    try:
        yield
    finally:
        table[key] = then


class Date(util.Date):  # type: ignore[misc]
    """A program's own class of dates."""


class Duration(util.Duration):  # type: ignore[misc]
    """A program's own class of durations."""


class Keyed(util.OrderedMapSerializedKey):  # type: ignore[misc]
    """A program's own class of maps."""


def changes() -> dict[str, Callable[[], contextlib.AbstractContextManager[None]]]:
    """Maps the name of each change to a function.

    The function returns a context manager, which makes the change and undoes it at the end.
    """

    def read(byts: bytes, protocol_version: int) -> Any:
        return "read", byts.hex(), protocol_version

    def read_class(cls: Any, byts: bytes, protocol_version: int) -> Any:
        return cls.__name__, byts.hex(), protocol_version

    types = cqltypes
    found: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
        "timestamps": lambda: changed(types.DateType, "deserialize", staticmethod(read)),
        "varints": lambda: changed(types.IntegerType, "deserialize", staticmethod(read)),
        "durations": lambda: changed(types.DurationType, "deserialize", staticmethod(read)),
        "vectors": lambda: changed(types.VectorType, "deserialize", classmethod(read_class)),
        "collections": lambda: changed(
            types._ParameterizedType, "deserialize", classmethod(read_class)
        ),
        "maps": lambda: changed(types.MapType, "deserialize_safe", classmethod(read_class)),
        "lists": lambda: changed(types.ListType, "from_binary", classmethod(read_class)),
        "ints": lambda: changed(types.Int32Type, "from_binary", classmethod(read_class)),
        "empty ints": lambda: changed(types.Int32Type, "support_empty_values", True),
        "empty values": lambda: changed(types._CassandraType, "support_empty_values", True),
        "no empty ints": lambda: changed(types.Int32Type, "empty_binary_ok", True),
        "sets as lists": lambda: changed(types.SetType, "adapter", list),
        "lists as tuples": lambda: changed(types.ListType, "adapter", tuple),
        "dates of my own": lambda: changed(util, "Date", Date),
        "durations of my own": lambda: changed(util, "Duration", Duration),
        "sorted lists": lambda: changed(util, "sortedset", sorted),
        "maps of my own": lambda: changed(util, "OrderedMapSerializedKey", Keyed),
    }
    if protocol.HAVE_CYTHON:
        from cassandra import deserializers

        found |= {
            "no DesDateType": lambda: changed(deserializers, "DesDateType", "deleted"),
            "no DesSetType": lambda: changed(
                deserializers, "DesSetType", deserializers.DesListType
            ),
            "blobs as bytearrays": lambda: changed(
                deserializers, "DesBytesType", deserializers.DesBytesTypeByteArray
            ),
        }
    if "arrays" in READERS:
        from cassandra import numpy_parser

        table = numpy_parser._cqltype_to_numpy
        found["ints as objects"] = lambda: without(table, types.Int32Type)
    return found


CHANGES = changes()


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_before_acceleration(name: str, unchanged: list[Any]) -> None:
    with CHANGES[name]():
        changed = readings()
    expect(unchanged)
    with CHANGES[name](), accel.accelerated():
        for _ in range(2):
            expect(changed)
    expect(unchanged)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_during_acceleration(name: str, unchanged: list[Any]) -> None:
    with CHANGES[name]():
        changed = readings()
    with accel.accelerated():
        for _ in range(2):
            expect(unchanged)
        for _ in range(2):
            with CHANGES[name]():
                for _ in range(2):
                    expect(changed)
            expect(unchanged)
    expect(unchanged)


def test_a_class_is_registered(unchanged: list[Any]) -> None:
    mapped = {"ks": {"pair": Mapped}}
    plain_mapped = readings(mapped)
    with accel.accelerated():
        for _ in range(2):
            expect(unchanged)
            assert readings(mapped) == plain_mapped
