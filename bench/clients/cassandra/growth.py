"""The growth series with the plain scylla-driver or cassandra-driver of PyPI."""

from __future__ import annotations

import sys

import cassandra
from cassandra.query import BoundStatement

from bench.clients.cassandra.codec import make_page, prepared, read_class_names, type_of
from bench.harness.timing import Case
from bench.suites.growth.cases import PAIR, Series
from bench.suites.growth.measuring import measure_series, plain


def make(series: Series, size: int) -> Case:
    """Makes the case of a series at one size."""
    if series.kind == "bind":
        statement, rows = prepared(PAIR), series.value(size)
        return Case(
            "[Bound(statement).bind(row) for row in rows]",
            {"Bound": BoundStatement, "statement": statement, "rows": rows},
            lambda: [tuple(BoundStatement(statement).bind(row).values) for row in rows],
        )
    if series.kind == "page":
        run = make_page(series.encoded(size), "tuple")
        return Case("run()", {"run": run}, lambda: plain(run(), "rows"))
    if series.kind == "decode to NumPy":
        raise NotImplementedError("reads vectors to lists only")
    cls = type_of(series.cql(size))
    if series.kind == "encode":
        serialize, value = cls.serialize, series.value(size)
        names = {"serialize": serialize, "value": value}
        return Case("serialize(value, 4)", names, lambda: bytes(serialize(value, 4)))
    decode, data = cls.deserialize, series.encoded(size)
    return Case(
        "decode(data, 4)",
        {"decode": decode, "data": data},
        lambda: plain(decode(data, 4), series.shape),
    )


if __name__ == "__main__":
    read_class_names()
    measure_series(sys.argv[2], cassandra.__version__, make, sys.argv[1])
