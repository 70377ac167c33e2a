"""The codec's cases with scylla-driver, or cassandra-driver, as they come from PyPI.

Prints what it measured, as JSON; reads from standard input the Java class name of each type.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import cassandra
from cassandra.cqltypes import lookup_casstype
from cassandra.protocol import BatchMessage, ExecuteMessage, ProtocolHandler
from cassandra.query import (
    BatchType,
    BoundStatement,
    PreparedStatement,
    dict_factory,
    named_tuple_factory,
    tuple_factory,
)
from codec_cases import BATCHES, BINDS, EXECUTE, KEYS, PAGES, VALUES, VECTOR
from timing import Case, measure

CLASS_NAMES: dict[str, str] = json.load(sys.stdin)
FACTORIES = {"tuple": tuple_factory, "named": named_tuple_factory, "dict": dict_factory}


def features() -> list[Any]:
    """What later releases want to know of the connection."""
    try:
        from cassandra.protocol_features import ProtocolFeatures

        return [ProtocolFeatures()]
    except (ImportError, TypeError):
        return []


FEATURES = features()


def type_of(cql: str) -> Any:
    return lookup_casstype(CLASS_NAMES[cql])


def prepared(columns: list[tuple[str, str]], key: list[int] | None = None) -> Any:
    from cassandra.protocol import ColumnMetadata

    metadata = [ColumnMetadata("app", "items", name, type_of(cql)) for name, cql in columns]
    names = PreparedStatement.__init__.__code__.co_varnames
    lwt = {"is_lwt": False} if "is_lwt" in names else {}
    return PreparedStatement(metadata, b"id", key, "", "app", 4, None, None, **lwt)


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for name, (cql, value) in VALUES.items():
        found[f"value: {name}"] = value_case(type_of(cql), value)
    for name, (columns, row) in BINDS.items():
        found[f"bind: {name}"] = bind_case(prepared(columns), row)
    for name, (columns, row, key) in KEYS.items():
        found[f"routing key: {name}"] = key_case(BoundStatement(prepared(columns, key)).bind(row))
    for name, (statement, rows) in BATCHES.items():
        found[f"batch body: {name}"] = batch_case(statement, rows)
    found["execute body: 12 mixed"] = execute_case()
    vector = type_of("vector<float, 1536>")
    found["decode: vector<float, 1536> to list"] = Case(
        "decode(data, 4)",
        {"decode": vector.deserialize, "data": VECTOR},
        lambda: list(vector.deserialize(VECTOR, 4)),
    )
    for name, (page, shape) in PAGES.items():
        found[f"page: {name}"] = page_case(page.body, shape)
    return found


def value_case(cls: Any, value: Any) -> Case:
    serialize = cls.serialize
    names = {"serialize": serialize, "value": value}
    return Case("serialize(value, 4)", names, lambda: bytes(serialize(value, 4)).hex())


def bind_case(statement: Any, row: Any) -> Case:
    names = {"Bound": BoundStatement, "statement": statement, "row": row}
    expression = "Bound(statement).bind(row)"

    def outcome() -> list[str | None]:
        cells = eval(expression, names).values
        return [None if cell is None else cell.hex() for cell in cells]

    return Case(expression, names, outcome)


def key_case(bound: Any) -> Case:
    def run() -> Any:
        bound._routing_key = None
        return bound.routing_key

    return Case("run()", {"run": run}, lambda: run().hex())


def batch_case(statement: Any, rows: list[list[bytes]]) -> Case:
    queries = [(isinstance(statement, bytes), statement, row) for row in rows]

    def run() -> bytes:
        out = io.BytesIO()
        BatchMessage(BatchType.LOGGED, queries, 1).send_body(out, 4, *FEATURES)
        return out.getvalue()

    return Case("run()", {"run": run}, lambda: run().hex())


def execute_case() -> Case:
    def run() -> bytes:
        out = io.BytesIO()
        ExecuteMessage(b"0123456789abcdef", EXECUTE, 1).send_body(out, 4, *FEATURES)
        return out.getvalue()

    return Case("run()", {"run": run}, lambda: run().hex())


def page_case(body: bytes, shape: str) -> Case:
    make_rows: Callable[..., Any] = FACTORIES[shape]

    def run() -> Any:
        message = ProtocolHandler.decode_message(4, *FEATURES, {}, 0, 0, 8, body, None, None)
        return make_rows(message.column_names, message.parsed_rows)

    def outcome() -> list[str]:
        rows = run()
        rows = [list(row.values()) if shape == "dict" else list(row) for row in rows]
        return [str(len(rows)), *[str(cell) for cell in rows[-1]]]

    return Case("run()", {"run": run}, outcome)


if __name__ == "__main__":
    measure(f"{sys.argv[1]} {cassandra.__version__}", cases(), sys.argv[2:])
