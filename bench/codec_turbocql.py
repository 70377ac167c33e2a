"""The codec's cases with turbocql."""

from __future__ import annotations

import sys
from typing import Any

from codec_cases import BATCHES, BINDS, EXECUTE, KEYS, VALUES, VECTOR
from timing import Case, measure

import turbocql
from turbocql.codec import RowEncoder, find_deserializer, find_serializer
from turbocql.protocol import BatchMessage, ExecuteMessage


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for name, (cql, value) in VALUES.items():
        found[f"value: {name}"] = value_case(cql, value)
    for name, (columns, row) in BINDS.items():
        found[f"bind: {name}"] = bind_case(RowEncoder(columns), row)
    for name, (columns, row, key) in KEYS.items():
        bound = RowEncoder(columns, key_columns=key).bind(row)
        found[f"routing key: {name}"] = key_case(bound)
    for name, (statement, rows) in BATCHES.items():
        found[f"batch body: {name}"] = batch_case(statement, rows)
    found["execute body: 12 mixed"] = execute_case()
    for name, numpy_vectors in (("to list", False), ("to NumPy", True)):
        decode = find_deserializer("vector<float, 1536>", numpy_vectors=numpy_vectors).deserialize
        found[f"decode: vector<float, 1536> {name}"] = vector_case(decode)
    return found


def value_case(cql: str, value: Any) -> Case:
    serialize = find_serializer(cql).serialize
    names = {"serialize": serialize, "value": value}
    return Case("serialize(value, 4)", names, lambda: serialize(value, 4).hex())


def bind_case(encoder: RowEncoder, row: Any) -> Case:
    bind = encoder.bind
    return Case(
        "bind(row)",
        {"bind": bind, "row": row},
        lambda: [None if cell is None else cell.hex() for cell in bind(row).cells],
    )


def key_case(bound: Any) -> Case:
    return Case("bound.routing_key", {"bound": bound}, lambda: bound.routing_key.hex())


def batch_case(statement: Any, rows: list[list[bytes]]) -> Case:
    names = {"Batch": BatchMessage, "statements": [(statement, row) for row in rows]}
    expression = "Batch(statements).encode(4)"
    return Case(expression, names, lambda: eval(expression, names).hex())


def execute_case() -> Case:
    names = {"Execute": ExecuteMessage, "values": EXECUTE}
    expression = "Execute(b'0123456789abcdef', values).encode(4)"
    return Case(expression, names, lambda: eval(expression, names).hex())


def vector_case(decode: Any) -> Case:
    names = {"decode": decode, "data": VECTOR}
    return Case("decode(data, 4)", names, lambda: list(map(float, decode(VECTOR))))


if __name__ == "__main__":
    measure(f"turbocql {turbocql.__version__}", cases(), sys.argv[1:])
