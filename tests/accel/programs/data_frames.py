"""Writes and reads pandas DataFrames. Uses rows from iterrows and itertuples, NaN, and a row
factory.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BatchStatement
from tests.accel.programs.running import attempt, connected, print_native

TABLE = (
    "TABLE prices (symbol text, at timestamp, number bigint, price double, volume int,"
    " day date, note text, valid boolean, levels list<double>, PRIMARY KEY (symbol, at, number))"
)
INSERT = f"INSERT INTO prices ({{}}) VALUES ({', '.join('?' * 9)})"


def frame() -> Any:
    count = 30
    return pd.DataFrame(
        {
            "symbol": [f"it's{number % 3}" for number in range(count)],
            "at": pd.date_range("2026-11-23 10:30:15.123456", periods=count, freq="h"),
            "number": np.arange(count, dtype=np.int64),
            "price": [np.nan if number % 7 == 0 else number / 3 for number in range(count)],
            "volume": np.arange(count, dtype=np.int32),
            "day": [datetime.date(2026, 1, number + 1) for number in range(count)],
            "note": [None if number % 5 == 0 else f"note {number}" for number in range(count)],
            "valid": np.arange(count) % 2 == 0,
            "levels": [np.array([number, 0.5]) for number in range(count)],
        }
    )  # fmt: skip


def as_frame(names: list[str], rows: list[Any]) -> Any:
    """A row factory that returns each page as a DataFrame."""
    return pd.DataFrame(rows, columns=names)


def main() -> None:
    data = frame()
    with connected(TABLE) as session:
        insert = session.prepare(INSERT.format(", ".join(data.columns)))
        for row in data.itertuples(index=False):
            attempt(lambda r=row: session.execute(insert, r).one())
        for _, row in data.head(10).iterrows():
            attempt(lambda r=row: session.execute(insert, tuple(r)).one())
            attempt(lambda r=row: session.execute(insert, r.tolist()).one())
            attempt(lambda r=row: session.execute(insert, r.to_dict()).one())
            attempt(insert.bind, row)
        whole = data.astype(object).where(data.notna(), None)
        done = execute_concurrent_with_args(session, insert, whole.values.tolist())
        print([ok for ok, _ in done])
        batch = BatchStatement()
        for row in data[data["symbol"] == "it's1"].itertuples(index=False, name=None):
            attempt(batch.add, insert, row)
        attempt(lambda: session.execute(batch).one())
        text = "INSERT INTO prices (symbol, at, number, price) VALUES (%s, %s, %s, %s)"
        for symbol, at, number, price in data.iloc[:, :4].itertuples(index=False):
            moment = at.to_pydatetime() if number % 2 else at
            row = (f"simple {symbol}", moment, number, price)
            attempt(lambda r=row: session.execute(text, r).one())
        attempt(insert.bind, ("a", pd.NaT, 1, 1.0, 1, None, None, None, None))
        attempt(insert.bind, ("a", data["at"][0], pd.NA, 1.0, 1, None, None, None, None))
        attempt(insert.bind, ("a", data["at"][0], 1, 1.0, np.float64(2.5), None, None, None, []))
        session.row_factory, session.default_fetch_size = as_frame, 12
        select = session.prepare("SELECT * FROM prices WHERE symbol = ?")
        for symbol in ("it's0", "it's1", "simple it's0", "nothing"):
            result = session.execute(select, (symbol,))
            pages = [result._current_rows]
            while result.has_more_pages:
                result.fetch_next_page()
                pages.append(result._current_rows)
            read = pd.concat(pages)
            print(len(pages), {name: str(kind) for name, kind in read.dtypes.items()})
            print(read.to_dict("list"))
    print_native()


if __name__ == "__main__":
    main()
