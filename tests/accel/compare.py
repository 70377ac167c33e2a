"""The driver plain and accelerated, on the same values in one process.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.compare --count 100

Run in the environment of either driver. First everything is done by the driver, then everything
again accelerated: bytes, cells, bodies and errors must be the same. Prints JSON.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import logging
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np
from cassandra import ConsistencyLevel, cqltypes, protocol, query
from cassandra.encoder import Encoder
from cassandra.protocol import ColumnMetadata
from cassandra.query import UNSET_VALUE, BatchType, BoundStatement, PreparedStatement
from tests.accel.answers import answer
from tests.accel.connections import segment_tasks, timer_tasks
from tests.accel.extensions import body, connections
from tests.differential.cases import shown
from tests.differential.generate import Generator
from tests.differential.pools import WRONG
from tests.differential.results import definition, odd_cell, tame_cell
from tests.differential.shapes import Shape, every_type
from tests.support.results import result

import turbocql

Task = tuple[str, Callable[[], Any]]


def serialize_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Values of every type, by the type's `serialize`."""
    for shape in shapes:
        generator = Generator(zlib.crc32(shape.cql.encode()))
        for i in range(count):
            value, version = generator.value(shape), (3, 4, 5, 4, 4)[i % 5]
            said = f"{shape.cql}, version {version}: {shown(value)}"
            yield said, partial(answer, shape.reference.serialize, value, version)


def prepared(shapes: list[Shape], key: list[int], version: int) -> PreparedStatement:
    """A statement with a column of each type."""
    columns = [ColumnMetadata("ks", "t", f"c{i}", s.reference) for i, s in enumerate(shapes)]
    return PreparedStatement(
        column_metadata=columns,
        query_id=b"id",
        routing_key_indexes=key,
        query="INSERT",
        keyspace="ks",
        protocol_version=version,
        result_metadata=[],
        result_metadata_id=None,
    )


class Row(tuple):  # type: ignore[type-arg]
    """A row by inheritance."""


def bind_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Rows of some columns, as sequences and mappings, right and wrong; then their routing keys."""
    rng = Random(7)
    generator = Generator(8)
    statements = []
    for _ in range(max(1, count // 10)):
        chosen = [rng.choice(shapes) for _ in range(rng.randrange(1, 7))]
        key = rng.sample(range(len(chosen)), rng.randrange(len(chosen) + 1))
        statements.append((chosen, prepared(chosen, key, rng.choice((3, 4, 4, 5)))))
    for i in range(count * 10):
        chosen, statement = statements[i % len(statements)]
        values = [
            rng.choice((None, UNSET_VALUE)) if rng.random() < 0.1 else generator.value(shape)
            for shape in chosen
        ]
        chance = rng.random()
        if chance < 0.1:
            values = values[: rng.randrange(len(values) + 1)]
        elif chance < 0.15:
            values.append(1)
        row: Any = values
        if chance > 0.7:
            row = {f"c{n}": value for n, value in enumerate(values)}
            if chance > 0.95:
                row = {"other": 1, **row}
        elif chance > 0.5:
            row = tuple(values)
        elif chance > 0.48:
            row = Row(values)
        elif chance > 0.46:
            row = rng.choice((None, iter(values), "text", 5, set()))

        def task(statement: PreparedStatement = statement, row: Any = row) -> Any:
            bound = BoundStatement(statement)
            said = answer(bound.bind, row)
            same = said is bound
            return (
                same or said,
                list(bound.values),
                getattr(bound, "raw_values", None) is row or shown(vars(bound).get("raw_values")),
                answer(lambda: bound.routing_key),
                answer(lambda: bound.routing_key),
            )

        if not hasattr(row, "__next__"):
            yield f"bind {[s.cql for s in chosen]}: {shown(row)}", task


def body_tasks(count: int) -> Iterator[Task]:
    """Messages with every option, usual and not."""
    rng = Random(9)
    told = [features for _, features in connections()]

    def values() -> Any:
        some: list[Any] = [
            rng.choice((None, UNSET_VALUE, b"", b"value", rng.randbytes(9)))
            for _ in range(rng.randrange(5))
        ]
        if rng.random() < 0.1:
            some.append(rng.choice(("text", 5, bytearray(b"a"), memoryview(b"b"), object)))
        return rng.choice((some, tuple(some), some, None))

    for _ in range(count * 20):
        version = rng.choice((3, 4, 5, 4, 2, 6))
        common = {
            "serial_consistency_level": rng.choice((None, 8, 9, 0, 5, "x")),
            "timestamp": rng.choice((None, 0, 5, -5, 1 << 62, 1 << 64, True, "1")),
            "keyspace": rng.choice((None, None, None, "", "ks", "\u20ac")),
        }
        if rng.random() < 0.6:
            common = dict.fromkeys(common)
        level = rng.choice((*range(11), 11, None, ConsistencyLevel.ONE))
        kind = rng.randrange(3)
        if kind == 2:
            queries = [
                (rng.choice((True, False, True, 1)), rng.choice((b"id", "text \u20ac")), values())
                for _ in range(rng.randrange(4))
            ]
            batch_type = rng.choice((BatchType.LOGGED, BatchType.UNLOGGED, BatchType.COUNTER))
            message: Any = protocol.BatchMessage(batch_type, queries, level, **common)
        else:
            paging: dict[str, Any] = {
                "fetch_size": rng.choice(
                    (None, 0, 1, 5000, -1, 1 << 31, True, query.FETCH_SIZE_UNSET)
                ),
                "paging_state": rng.choice((None, b"", b"state", "state", bytearray(b"s"))),
            }
            if rng.random() < 0.6:
                paging = dict.fromkeys(paging)
            keyspace = common.pop("keyspace")
            if kind == 1:
                message = protocol.ExecuteMessage(
                    rng.choice((b"id", b"", "id", None)), values(), level, **common, **paging
                )
                message.result_metadata_id = rng.choice((None, b"", b"metadata", "metadata"))
                message.skip_meta = rng.choice((False, False, True))
                message.tablet_version_block = rng.choice((None, 0, 255, 256))
            else:
                text = rng.choice(("text \u20ac", "", b"bytes", None, "\ud800"))
                message = protocol.QueryMessage(text, level, **common, **paging)
                message.query_params = values()
            message.keyspace = keyspace
        features = rng.choice(told)
        negotiated = [vars(feature) for feature in features if feature]
        said = f"{shown(vars(message))}, version {version}, {negotiated}"
        yield said, partial(body, message, version, *features)


HANDLERS = {
    "compiled": protocol.ProtocolHandler,
    "pure": protocol._ProtocolHandler,
    "lazy": protocol.LazyProtocolHandler,
    "arrays": protocol.NumpyProtocolHandler,
}
READERS = {
    kind: handler.message_types_by_opcode[8]
    for kind, handler in HANDLERS.items()
    if handler is not None
}


def deep(value: Any) -> Any:
    """A value, the classes in it and what its objects keep, in a form that compares."""
    if isinstance(value, type):
        return named(value)
    cls = type(value)
    # Of named tuples, that is the module of whoever asked first.
    said = ("" if hasattr(cls, "_fields") else cls.__module__, cls.__name__)
    if isinstance(value, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(value).tolist()
        return (
            said,
            value.dtype.str,
            value.dtype.byteorder,
            mask,
            repr(value.tolist()),
            repr(value.fill_value),
        )
    if isinstance(value, np.ndarray):
        return said, str(value.dtype), [deep(part) for part in value.tolist()]
    if isinstance(value, dict):
        return said, [(deep(key), deep(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return said, getattr(value, "_fields", None), [deep(part) for part in value]
    if said[0] == "cassandra.util":
        return said, deep(vars(value))
    return said, shown(value)


def named(cls: Any) -> Any:
    return answer(lambda: cls.cql_parameterized_type())


def _rows(made: Any) -> Any:
    """What a page gives; where that is an iterator, up to its first error."""
    if not hasattr(made, "__next__"):
        return deep(made)
    rows: list[Any] = []
    while True:
        row = answer(next, made, "no more")
        rows.append(deep(row))
        if row == "no more" or len(rows) > 100:
            return rows


class Disguise:
    """A policy that has turned the bits of some columns."""

    def __init__(self, classes: dict[str, Any]) -> None:
        self._classes = classes

    def contains_column(self, column: Any) -> bool:
        """Whether it is one of them."""
        return column.col in self._classes

    def column_type(self, column: Any) -> Any:
        """As what it is read."""
        return self._classes[column.col]

    def decrypt(self, column: Any, given: bytes) -> bytes:
        """Turned back."""
        return bytes(byte ^ 0xFF for byte in given)


def page_answer(
    reader: Any, body: bytes, version: int, types: Any = None, known: Any = None, policy: Any = None
) -> Any:
    message = reader(2)
    # Warnings and the like may stand before it.
    before = zlib.crc32(body) % 5
    source = io.BytesIO(bytes(before) + body)
    source.read(before + 4)
    said = answer(message.recv_results_rows, source, version, types or {}, known, policy)
    found = vars(message)
    rows = _rows(found.get("parsed_rows"))
    if types:
        for cls in cqltypes.UserType._cache.values():
            cls.mapped_class = None
    classes = found.get("column_types") or []
    columns = [(*c[:3], named(c[3])) for c in found.get("column_metadata") or []]
    return (
        said,
        sorted(found),
        found.get("column_names"),
        [named(cls) for cls in classes],
        columns,
        rows,
        found.get("paging_state"),
        found.get("result_metadata_id"),
        source.tell(),
    )


def deserialize_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Bytes of every type, right and damaged, by the type's functions."""
    for shape in shapes:
        generator = Generator(zlib.crc32(shape.cql.encode()) + 1)
        for i in range(count):
            version = (3, 4, 5, 4, 4)[i % 5]
            given = (odd_cell if i % 4 == 0 else tame_cell)(generator, shape, version)
            cls = shape.reference

            def task(cls: Any = cls, given: Any = given, version: int = version) -> Any:
                read = [] if given is None else [answer(cls.deserialize, given, version)]
                read.append(answer(cls.from_binary, given, version))
                # What was read is written again.
                written = [answer(cls.serialize, value, version) for value in read]
                return [deep(value) for value in read], written

            said = None if given is None else given.hex()
            yield f"{shape.cql}, version {version}, bytes {said}", task


class Mapped:
    """A class that users register for a type."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __repr__(self) -> str:
        return f"Mapped({self.fields})"


def special_page_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Pages whose columns the client knows, that are encrypted, or of types with classes."""
    rng = Random(13)
    generator = Generator(14)
    udts = [shape for shape in shapes if shape.bare.kind == "udt"]
    for i in range(count):
        chosen = [rng.choice(shapes) for _ in range(2)]
        if udts and i % 2:
            chosen[0] = rng.choice(udts)
        columns = [(f"c{n}", definition(shape)) for n, shape in enumerate(chosen)]
        known = [("ks", "t", f"c{n}", shape.reference) for n, shape in enumerate(chosen)]
        names = [shape.bare.name for shape in chosen if shape.bare.kind == "udt"]
        types: Any = {"ks": dict.fromkeys(names, Mapped)} if i % 3 else {}
        for turn in range(3):
            version = rng.choice((3, 4, 5))
            rows = [[tame_cell(generator, shape, version) for shape in chosen] for _ in range(2)]
            turned = [
                [row[0], None if row[1] is None else bytes(byte ^ 0xFF for byte in row[1])]
                for row in rows
            ]
            policy = Disguise({"c1": chosen[1].reference})
            for kind, reader in READERS.items():
                if kind == "arrays":
                    continue
                said = f"page, {kind}, of {[s.cql for s in chosen]}: {rows}"
                body = result(2, rows)
                yield f"known {said}", partial(page_answer, reader, body, version, types, known)
                if turn == 2:
                    yield (
                        f"other {said}",
                        partial(page_answer, reader, body, version, {}, known[:1] * 2),
                    )
                body = result(columns, rows)
                yield f"registered {said}", partial(page_answer, reader, body, version, types)
                body = result([columns[0], ("c1", "blob")], turned)
                yield (
                    f"encrypted {said}",
                    partial(page_answer, reader, body, version, types, None, policy),
                )


def page_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Pages of columns of all types, right, damaged, and with bytes that are no page."""
    rng = Random(11)
    generator = Generator(12)
    for i in range(count * 6):
        # Mostly few types, so that pages of one description come again and again.
        some = shapes if i % 3 else [shape for shape in shapes if not shape.bare.parts]
        chosen = [rng.choice(some) for _ in range(rng.randrange(1, 5))]
        columns = [(f"c{n}", definition(shape)) for n, shape in enumerate(chosen)]
        for _ in range(3):
            version = rng.choice((3, 4, 5))
            rows = [
                [
                    tame_cell(generator, shape, version)
                    if rng.random() < 0.95
                    else odd_cell(generator, shape, version)
                    for shape in chosen
                ]
                for _ in range(rng.randrange(4))
            ]
            state = rng.choice((None, None, b"", b"state"))
            new_id = rng.choice((None, None, b"id")) if version == 5 else None
            body = result(columns, rows, shared=i % 2 == 0, paging_state=state, metadata_id=new_id)
            if rng.random() < 0.05:
                body = body[: rng.randrange(4, len(body))] if i % 2 else body + b"\0"
            for kind, reader in READERS.items():
                if kind == "arrays":
                    continue
                said = f"page, {kind}, of {[s.cql for s in chosen]}: {body.hex()}"
                yield said, partial(page_answer, reader, body, version)


def array_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Pages as arrays. No damaged cells: the driver writes numbers of any width into its arrays."""
    rng = Random(15)
    generator = Generator(16)
    numbers = [shape for shape in shapes if shape.kind in ("bigint", "int", "float", "double")]
    for _ in range(count * 2):
        chosen = [rng.choice(rng.choice((shapes, numbers))) for _ in range(3)]
        columns = [(f"c{n % 3}", definition(shape)) for n, shape in enumerate(chosen)]
        for _ in range(2):
            rows = [
                [tame_cell(generator, shape, 4) or None for shape in chosen]
                for _ in range(rng.randrange(5))
            ]
            body = result(columns, rows, paging_state=b"state")
            said = f"page, arrays, of {[s.cql for s in chosen]}: {body.hex()}"
            yield said, partial(page_answer, READERS["arrays"], body, 4)


def row_tasks() -> Iterator[Task]:
    """Rows by every factory, with names that are none as well."""
    rows = [(1, "a"), (2, "b")]
    for names in (
        ["a", "b"],
        ["a", "a"],
        ["class", "b"],
        ["", "b"],
        ["a b", "_c"],
        ["a"],
        ["1", "\u20ac"],
    ):
        for factory in (query.named_tuple_factory, query.dict_factory, query.tuple_factory):

            def task(factory: Any = factory, names: list[str] = names) -> Any:
                made = answer(factory, names, rows)
                if not isinstance(made, list):
                    return made
                return [(repr(row), type(row).__name__, getattr(row, "_fields", 0)) for row in made]

            yield f"{factory.__name__} {names}", task


def literal_tasks() -> Iterator[Task]:
    """Some literals of simple statements; literals.py has many."""
    for value in (None, 1, 1.5, "it's", b"b", [1, ["a"]], {"a": (1,)}, {2}, {"a": object}):

        def task(value: Any = value) -> Any:
            return answer(lambda: query.bind_params("%s", (value,), Encoder()))

        yield f"literal of {value!r}", task


def differing(one: Any, other: Any) -> tuple[Any, Any]:
    """The first parts that differ."""
    both = (one, other)
    if all(type(value) in (list, tuple) for value in both) and len(one) == len(other):
        for pair in zip(one, other, strict=True):
            if pair[0] != pair[1]:
                return differing(*pair)
    return both


def main() -> None:
    """Prints what differs; exit status 1 when anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for value in WRONG:
        # scylla-driver shifts arrays of no dimension in place.
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value.setflags(write=False)
    shapes = every_type()
    tasks = [
        *serialize_tasks(shapes, options.count),
        *bind_tasks(shapes, options.count),
        *body_tasks(options.count),
        *deserialize_tasks(shapes, options.count),
        *page_tasks(shapes, options.count),
        *special_page_tasks(shapes, options.count),
        *(array_tasks(shapes, options.count) if "arrays" in READERS else ()),
        *row_tasks(),
        *literal_tasks(),
        *segment_tasks(options.count),
        *timer_tasks(),
    ]
    plain = [task() for _, task in tasks]
    turbocql.accelerate()
    accelerated = [task() for _, task in tasks]
    # What the driver lacks has nothing to be compared with here: serializers.py does it.
    find = importlib.import_module("cassandra.serializers").find_serializer
    assert find(cqltypes.FloatType).serialize(1.5, 4) == cqltypes.FloatType.serialize(1.5, 4)
    status = turbocql.accel.status()
    turbocql.accel.uninstall()
    again = [task() for _, task in tasks[:: max(1, len(tasks) // 2000)]]
    failures = []
    for (said, _), *both in zip(tasks, plain, accelerated, strict=True):
        if both[0] != both[1]:
            before, after = map(shown, differing(*both))
            failures.append(f"{said}\n    plain:       {before}\n    accelerated: {after}")
    if again != plain[:: max(1, len(tasks) // 2000)]:
        failures.append("uninstalled, it is not what it was")
    report = {
        "tasks": len(tasks),
        "status": str(status),
        "left": {seam.name: seam.why for seam in status.seams if not seam.patched},
        "native": {seam.name: seam.native for seam in status.seams},
        "failed": len(failures),
        "failures": failures[:20],
    }
    json.dump(report, sys.stdout, indent=1)
    print()
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
