"""The codec's cases with turbocql."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import turbocql
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
    Shape,
    plain_rows,
)
from turbocql.codec import RowEncoder, find_deserializer, find_serializer
from turbocql.protocol import BatchMessage, ExecuteMessage, RowsDecoder


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
    for name, numpy_vectors in (("to list", False), ("to NumPy", True)):
        makers[f"decode: vector<float, 1536> {name}"] = partial(vector_case, numpy_vectors)
    for name, (page, shape) in PAGES.items():
        makers[f"page: {name}"] = partial(page_case, page, shape)
    return makers


def value_case(cql: str, value: Any) -> Case:
    serialize = find_serializer(cql).serialize
    names = {"serialize": serialize, "value": value}
    return Case("serialize(value, 4)", names, lambda: serialize(value, 4).hex())


def bind_case(columns: list[tuple[str, str]], row: Any) -> Case:
    bind = RowEncoder(columns).bind
    return Case(
        "bind(row)",
        {"bind": bind, "row": row},
        lambda: [None if cell is None else cell.hex() for cell in bind(row).cells],
    )


def key_case(columns: list[tuple[str, str]], row: Any, key: list[int]) -> Case:
    bound = RowEncoder(columns, key_columns=key).bind(row)
    return Case("bound.routing_key", {"bound": bound}, lambda: (bound.routing_key or b"").hex())


def batch_case(statement: Any, rows: list[list[bytes]]) -> Case:
    names = {"Batch": BatchMessage, "statements": [(statement, row) for row in rows]}
    expression = "Batch(statements).encode(4)"
    return Case(expression, names, lambda: eval(expression, names).hex())


def execute_case() -> Case:
    names = {"Execute": ExecuteMessage, "values": EXECUTE}
    expression = "Execute(b'0123456789abcdef', values).encode(4)"
    return Case(expression, names, lambda: eval(expression, names).hex())


def vector_case(numpy_vectors: bool) -> Case:
    deserializer = find_deserializer("vector<float, 1536>", numpy_vectors=numpy_vectors)
    decode = deserializer.deserialize
    names = {"decode": decode, "data": VECTOR}
    return Case("decode(data, 4)", names, lambda: list(map(float, decode(VECTOR))))


def page_case(page: Page, shape: Shape) -> Case:
    decode = RowsDecoder(rows=shape).decode
    names = {"decode": decode, "body": page.body}
    return Case(
        "decode(body).rows",
        names,
        lambda: plain_rows(decode(page.body).rows, page.columns, shape),
    )


if __name__ == "__main__":
    measure("turbocql", turbocql.__version__, cases(), sys.argv[1:], "codec")
