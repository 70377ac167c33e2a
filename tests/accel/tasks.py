"""Tasks that encode values, rows, messages and literals.

A task is a description and a function. The function is called without and with the accelerator,
and the results are compared.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from cassandra import ConsistencyLevel, protocol, query
from cassandra.encoder import Encoder
from cassandra.query import UNSET_VALUE, BatchType, BoundStatement, PreparedStatement
from tests.accel.answers import answer
from tests.accel.features import body, connections
from tests.accel.statements import statement
from tests.differential.cases import shown
from tests.differential.generate import Generator
from tests.differential.shapes import Shape

Task = tuple[str, Callable[[], Any]]


def serialize_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Yields tasks that encode values of a type with its `serialize`."""
    for shape in shapes:
        generator = Generator(zlib.crc32(shape.cql.encode()))
        for i in range(count):
            value, version = generator.value(shape), (3, 4, 5, 4, 4)[i % 5]
            said = f"{shape.cql}, version {version}: {shown(value)}"
            yield said, partial(answer, shape.reference.serialize, value, version)


class Row(tuple):  # type: ignore[type-arg]
    """A subclass of `tuple`."""


def bind_tasks(shapes: list[Shape], count: int) -> Iterator[Task]:
    """Yields tasks that bind a valid or wrong row, and read the statement's routing key."""
    rng = Random(7)
    generator = Generator(8)
    statements = []
    for _ in range(max(1, count // 10)):
        chosen = [rng.choice(shapes) for _ in range(rng.randrange(1, 7))]
        key = rng.sample(range(len(chosen)), rng.randrange(len(chosen) + 1))
        version = rng.choice((3, 4, 4, 5))
        types = [shape.reference for shape in chosen]
        statements.append((chosen, statement(*types, key=key, protocol_version=version)))
    for i in range(count * 10):
        chosen, prepared = statements[i % len(statements)]
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

        def task(prepared: PreparedStatement = prepared, row: Any = row) -> Any:
            bound = BoundStatement(prepared)
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
    """Yields tasks that write bodies of messages whose options have common or odd values."""
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


def row_tasks() -> Iterator[Task]:
    """Yields tasks that make rows with three row factories. Some column names are invalid."""
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
    """Yields tasks that format some literals of simple statements. test_literals.py has more."""
    for value in (None, 1, 1.5, "it's", b"b", [1, ["a"]], {"a": (1,)}, {2}, {"a": object}):

        def task(value: Any = value) -> Any:
            return answer(lambda: query.bind_params("%s", (value,), Encoder()))

        yield f"literal of {value!r}", task
