"""The driver plain and accelerated, on the same values in one process.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.compare --count 100

Run in the environment of either driver. First everything is done by the driver, then everything
again accelerated: bytes, cells, bodies and errors must be the same. Prints JSON.
"""

from __future__ import annotations

import argparse
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
from cassandra import ConsistencyLevel, protocol, query
from cassandra.protocol import ColumnMetadata
from cassandra.query import UNSET_VALUE, BatchType, BoundStatement, PreparedStatement
from tests.accel.answers import answer
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


def _body(message: Any, version: int) -> Any:
    out = io.BytesIO()
    return answer(message.send_body, out, version), out.getvalue()


def body_tasks(count: int) -> Iterator[Task]:
    """Messages with every option, usual and not."""
    rng = Random(9)

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
            else:
                text = rng.choice(("text \u20ac", "", b"bytes", None, "\ud800"))
                message = protocol.QueryMessage(text, level, **common, **paging)
                message.query_params = values()
            message.keyspace = keyspace
        yield f"{shown(vars(message))}, version {version}", partial(_body, message, version)


READERS = {
    "compiled": protocol.ProtocolHandler.message_types_by_opcode[8],
    "pure": protocol.ResultMessage,
}


def _shown(value: Any) -> Any:
    """A value and the classes in it, in a form that compares."""
    parts = type(value).__name__
    if isinstance(value, (list, tuple)):
        return parts, [_shown(part) for part in value]
    return parts, shown(value)


def _named(cls: Any) -> Any:
    return answer(lambda: cls.cql_parameterized_type())


def _page(reader: Any, body: bytes, version: int) -> Any:
    message = reader(2)
    source = io.BytesIO(body)
    source.read(4)
    said = answer(message.recv_results_rows, source, version, {}, None, None)
    known = vars(message)
    classes = known.get("column_types") or []
    columns = [(*c[:3], _named(c[3])) for c in known.get("column_metadata") or []]
    return (
        said,
        sorted(known),
        known.get("column_names"),
        [_named(cls) for cls in classes],
        columns,
        _shown(known.get("parsed_rows")),
        known.get("paging_state"),
        known.get("result_metadata_id"),
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
                said = f"page, {kind}, of {[s.cql for s in chosen]}: {body.hex()}"
                yield said, partial(_page, reader, body, version)


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
        *page_tasks(shapes, options.count),
        *row_tasks(),
    ]
    plain = [task() for _, task in tasks]
    turbocql.accelerate()
    accelerated = [task() for _, task in tasks]
    status = turbocql.accel.status()
    turbocql.accel.uninstall()
    again = [task() for _, task in tasks[:: max(1, len(tasks) // 2000)]]
    failures = [
        f"{said}\n    plain:       {shown(before)}\n    accelerated: {shown(after)}"
        for (said, _), before, after in zip(tasks, plain, accelerated, strict=True)
        if before != after
    ]
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
