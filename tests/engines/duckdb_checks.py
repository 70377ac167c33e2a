"""Live tables in duckdb: run by `tests.engines.run`."""

from __future__ import annotations

import time

import duckdb
from tests.engines.rows import COLUMNS, sums_of_arrow, table_of, total
from tests.engines.support import (
    CONFIG,
    EXPECTED,
    ROWS,
    ask,
    during,
    new_table,
    node_started,
    said,
)

import turbocql
import turbocql.duckdb


def main() -> None:
    connection, table = duckdb.connect(), new_table("duckdb")
    with turbocql.connect(config=CONFIG) as session:
        for first in range(0, ROWS, 100_000):
            session.load(table, table_of(range(first, min(first + 100_000, ROWS))))
        live = turbocql.duckdb.scan(connection, session, table)
        connection.register("live", live)

        began = time.time()
        chosen = ", ".join(f'"{name}"' for name in COLUMNS)
        reader = connection.sql(f"SELECT {chosen} FROM live").to_arrow_reader(100_000)
        assert total(map(sums_of_arrow, reader)) == EXPECTED
        said("duckdb reads", began)

        began = time.time()
        assert connection.sql("SELECT count(*), sum(id) FROM live").fetchall() == [
            (ROWS, EXPECTED.ids)
        ]
        found = connection.sql("SELECT name FROM live WHERE id = 77 OR ratio = 1.0 ORDER BY id")
        assert found.fetchall() == [("row 7",), ("row 77",)]
        some = turbocql.duckdb.scan(
            connection, session, table, where="bucket = ?", values=[7], columns=["id"]
        )
        assert some.columns == ["id"]
        assert some.aggregate("count(*)").fetchall() == [(len(range(7, ROWS, 1000)),)]
        assert len(connection.sql("SELECT * FROM live LIMIT 5").fetchall()) == 5
        said("duckdb filters and limits", began)

        def fault() -> None:
            time.sleep(0.3)
            ask("kill 1")

        def read() -> object:
            made = total(
                map(
                    sums_of_arrow,
                    connection.sql(f"SELECT {chosen} FROM live").to_arrow_reader(20_000),
                )
            )
            return made

        began = time.time()
        with node_started():
            assert during(fault, read) == EXPECTED
            said("duckdb reads, a node is killed", began)


if __name__ == "__main__":
    main()
