"""The growth series with turbocql."""

from __future__ import annotations

import sys

import turbocql
from bench.harness.timing import Case
from bench.suites.growth.cases import PAIR, Series
from bench.suites.growth.measuring import measure_series, plain
from turbocql.codec import RowEncoder, find_deserializer, find_serializer
from turbocql.protocol import RowsDecoder


def make(series: Series, size: int) -> Case:
    """Makes the case of a series at one size."""
    if series.kind == "bind":
        bind_many, rows = RowEncoder(PAIR).bind_many, series.value(size)
        return Case(
            "bind_many(rows)",
            {"bind_many": bind_many, "rows": rows},
            lambda: [tuple(row.cells) for row in bind_many(rows)],
        )
    if series.kind == "page":
        return page_case(series.encoded(size))
    if series.kind == "encode":
        value = series.value(size)
        serialize = find_serializer(series.cql(size)).serialize
        names = {"serialize": serialize, "value": value}
        return Case("serialize(value, 4)", names, lambda: serialize(value, 4))
    numpy_vectors = series.kind == "decode to NumPy"
    decode = find_deserializer(series.cql(size), numpy_vectors=numpy_vectors).deserialize
    data = series.encoded(size)
    return Case(
        "decode(data, 4)",
        {"decode": decode, "data": data},
        lambda: plain(decode(data, 4), series.shape),
    )


def page_case(body: bytes) -> Case:
    decode = RowsDecoder(rows="tuple").decode
    return Case(
        "decode(body).rows",
        {"decode": decode, "body": body},
        lambda: plain(decode(body).rows, "rows"),
    )


if __name__ == "__main__":
    measure_series("turbocql", turbocql.__version__, make, sys.argv[1])
