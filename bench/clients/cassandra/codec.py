"""Runs the codec benchmark's cases with the plain scylla-driver or cassandra-driver of PyPI.

Reads the Java class names of CQL types from standard input. Prints a line of JSON for each case.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import cassandra
from cassandra.cqltypes import lookup_casstype
from cassandra.protocol import BatchMessage, ColumnMetadata, ExecuteMessage, ProtocolHandler
from cassandra.query import (
    BatchType,
    BoundStatement,
    PreparedStatement,
    dict_factory,
    named_tuple_factory,
    tuple_factory,
)

from bench.harness.timing import Case, Maker, measure
from bench.suites.codec.cases import (
    BATCHES,
    BINDS,
    EXECUTE,
    KEYS,
    PAGES,
    VALUES,
    VECTOR,
    Page,
    plain_rows,
)

__all__ = ["make_page", "prepared", "read_class_names", "type_of"]

_class_names: dict[str, str] = {}
FACTORIES = {"tuple": tuple_factory, "named": named_tuple_factory, "dict": dict_factory}


def features() -> list[Any]:
    """Returns the further arguments of the driver's functions, as a list to unpack in calls.

    scylla-driver's functions take an object with the protocol features. cassandra-driver's do not,
    so for this driver the list is empty.
    """
    try:
        from cassandra.protocol_features import ProtocolFeatures

        return [ProtocolFeatures()]
    except (ImportError, TypeError):
        return []


FEATURES = features()


def read_class_names() -> None:
    """Reads the Java class name of each CQL type, which the suite writes to standard input."""
    _class_names.update(json.load(sys.stdin))


def type_of(cql: str) -> Any:
    return lookup_casstype(_class_names[cql])


def prepared(columns: list[tuple[str, str]], key: list[int] | None = None) -> Any:
    """Makes a prepared statement without a server.

    `key` has the indexes of the partition key's columns.
    """
    metadata = [ColumnMetadata("app", "items", name, type_of(cql)) for name, cql in columns]
    names = PreparedStatement.__init__.__code__.co_varnames
    lwt = {"is_lwt": False} if "is_lwt" in names else {}
    return PreparedStatement(metadata, b"id", key, "", "app", 4, None, None, **lwt)


def cases() -> dict[str, Maker]:
    """Maps the name of each case to its maker, a function that makes the case."""
    makers: dict[str, Maker] = {}
    for name, (cql, value) in VALUES.items():
        makers[f"value: {name}"] = partial(value_case, cql, value)
    for name, (columns, row) in BINDS.items():
        makers[f"bind: {name}"] = partial(bind_case, columns, row)
    for name, (columns, parts, key) in KEYS.items():
        makers[f"routing key: {name}"] = partial(key_case, columns, parts, key)
    for name, (statement, rows) in BATCHES.items():
        makers[f"batch body: {name}"] = partial(batch_case, statement, rows)
    makers["execute body: 12 mixed"] = execute_case
    makers["decode: vector<float, 1536> to list"] = vector_case
    makers["decode: vector<float, 1536> to NumPy"] = no_arrays
    for name, (page, shape) in PAGES.items():
        makers[f"page: {name}"] = partial(page_case, page, shape)
    return makers


def value_case(cql: str, value: Any) -> Case:
    serialize = type_of(cql).serialize
    names = {"serialize": serialize, "value": value}
    return Case("serialize(value, 4)", names, lambda: bytes(serialize(value, 4)).hex())


def bind_case(columns: list[tuple[str, str]], row: Any) -> Case:
    names = {"Bound": BoundStatement, "statement": prepared(columns), "row": row}
    expression = "Bound(statement).bind(row)"

    def outcome() -> list[str | None]:
        cells = eval(expression, names).values
        return [None if cell is None else bytes(cell).hex() for cell in cells]

    return Case(expression, names, outcome)


def key_case(columns: list[tuple[str, str]], row: Any, key: list[int]) -> Case:
    bound = BoundStatement(prepared(columns, key)).bind(row)

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


def vector_case() -> Case:
    vector = type_of("vector<float, 1536>")
    return Case(
        "decode(data, 4)",
        {"decode": vector.deserialize, "data": VECTOR},
        lambda: list(vector.deserialize(VECTOR, 4)),
    )


def no_arrays() -> Case:
    raise NotImplementedError("reads vectors to lists only")


def make_page(body: bytes, shape: str) -> Callable[[], Any]:
    """Returns a function that decodes a RESULT body to rows, as the driver's session does."""
    make_rows: Callable[..., Any] = FACTORIES[shape]
    decode = ProtocolHandler.decode_message

    def run() -> Any:
        message = decode(4, *FEATURES, {}, 0, 0, 8, body, None, None)
        return make_rows(message.column_names, message.parsed_rows)

    return run


def page_case(page: Page, shape: str) -> Case:
    run = make_page(page.body, shape)
    return Case("run()", {"run": run}, lambda: plain_rows(run(), page.columns, shape))


if __name__ == "__main__":
    read_class_names()
    measure(sys.argv[1], cassandra.__version__, cases(), sys.argv[2:], "codec")
