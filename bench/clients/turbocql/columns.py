"""turbocql: results as columns, loads of columns, and the floors of both.

The floors receive pages without decoding them, swap the bytes of vectors with NumPy, or write cells
that are already encoded. They use the same session settings and the same number of requests in
flight as the cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import turbocql
from bench.suites.columns.job import ColumnClient, arrow_data, main, to_pylists
from bench.suites.requests import data
from bench.suites.requests.job import Job
from turbocql._rows.pages import SyncColumnPages


class Columns(ColumnClient):
    """Reads to NumPy, pandas, polars or Arrow (without pyarrow). Loads from Arrow and NumPy."""

    version = turbocql.__version__

    def __init__(self, job: Job) -> None:
        self._job = job
        _, self._rows, page_size = data.SCANNED.get(job.scenario, ("", 0, data.PAGE_SIZE))
        self._session = turbocql.connect(
            job.contact_point, rows="tuple", consistency="LOCAL_ONE", page_size=page_size
        )
        if not job.writes:
            self._prepared = self._session.prepare(job.statement)

    def scan(self, limit: int | None = None) -> Any:
        if limit is None:
            return self._shaped(self._session.execute(self._prepared))
        return self._shaped(self._session.execute(f"{self._job.statement} LIMIT {limit}"))

    def _shaped(self, rows: turbocql.Rows[Any]) -> Any:
        shape = self._job.shape
        if shape == "arrow":
            return list(rows.batches())
        if shape == "stream":
            return sum(map(len, rows.batches()))
        methods = {"numpy": rows.to_numpy, "pandas": rows.to_pandas, "polars": rows.to_polars}
        return methods[shape]()

    def page(self) -> Callable[[], Any]:
        rows = self._session.execute(self._prepared)
        return lambda: self._shaped(rows)

    def count(self, result: Any) -> int:
        if isinstance(result, int):
            return result
        if self._job.shape == "arrow":
            return sum(len(batch) for batch in result)
        return len(next(iter(result.values())) if self._job.shape == "numpy" else result)

    def rows(self, result: Any) -> Iterable[Iterable[Any]] | None:
        match self._job.shape:
            case "pandas":
                return result.itertuples(index=False, name=None)  # type: ignore[no-any-return]
            case "polars":
                return result.rows()  # type: ignore[no-any-return]
            case "numpy":
                return to_pylists(result)
            case "stream":
                return None
        if not self._job.check:
            # Converting Arrow data to Python values needs pyarrow, which a timed run does not have.
            return None
        import pyarrow as pa

        table = pa.Table.from_batches(map(pa.record_batch, result))
        return zip(*(column.to_pylist() for column in table.columns), strict=True)

    def make(self, first: int, count: int) -> Any:
        table = arrow_data(self._job, first, count)
        if self._job.shape == "arrow":
            return table
        if self._job.kind == "vector":
            flat = table["v"].combine_chunks().flatten().to_numpy()
            return {"k": table["k"].to_numpy(), "v": flat.reshape(count, data.DIMENSIONS)}
        times = table["at"].to_numpy().astype("M8[ms]")
        others = {name: table[name].to_numpy() for name in ("k", "name", "ratio")}
        return {**others, "at": times}

    def load(self, columns: Any) -> int:
        table, concurrency = f"bench.{self._job.kind}_loaded", self._job.in_flight
        return self._session.load(table, columns, concurrency=concurrency).succeeded

    def close(self) -> None:
        self._session.close()


class Raw(Columns):
    """Runs the floors: reads pages undecoded or swaps bytes with NumPy, and loads encoded cells."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        notes = {
            "raw": "floor: pages received, not decoded",
            "kept": "floor: pages received, not decoded, all kept to the end",
            "byteswap": "floor: the vectors in one array, NumPy's `byteswap()`",
            "copyto": "floor: the vectors in one array, byte-swapped into an array that is there",
            "blobs": "floor: ready bytes, Arrow's binary columns to blobs, by `load`",
            "ready": "floor: ready bytes, tuples of bytes to blobs, by `execute_many`",
        }
        self.note = notes[job.shape]

    def _shaped(self, rows: turbocql.Rows[Any]) -> Any:
        if self._job.shape == "kept":
            return [page for pages in SyncColumnPages(rows) for page in pages]
        pages, count = SyncColumnPages(rows), 0
        while (page := pages.next_page()) is not None:
            count += sum(map(len, page))
        return count

    def page(self) -> Callable[[], Any]:
        import numpy as np

        rows = self._session.execute(self._prepared).all()
        stored = [data.vectors()[data.number_of(key, 0)] for key, _ in rows]
        big_endian = np.stack(stored).astype(">f4")
        if self._job.shape == "byteswap":
            return big_endian.view("<f4").byteswap
        array = np.empty(big_endian.shape, "<f4")

        def copy() -> Any:
            np.copyto(array, big_endian)
            return array

        return copy

    def count(self, result: Any) -> int:
        if isinstance(result, list):
            return sum(map(len, result))
        return result if isinstance(result, int) else len(result)

    def rows(self, result: Any) -> Iterable[Iterable[Any]] | None:
        return None

    def make(self, first: int, count: int) -> Any:
        if self._job.shape == "blobs":
            return arrow_data(self._job, first, count)
        keys = range(first, first + count)
        return [data.cells(self._job.kind, key, self._job.salt) for key in keys]

    def load(self, columns: Any) -> int:
        table, concurrency = f"{self._job.kind}_ready", self._job.in_flight
        if self._job.shape == "blobs":
            return self._session.load(f"bench.{table}", columns, concurrency=concurrency).succeeded
        statement = data.insert(table, self._job.kind)
        return self._session.execute_many(statement, columns, concurrency=concurrency).succeeded


def connect(job: Job) -> ColumnClient:
    """Returns the client of turbocql, or of its floors."""
    return Raw(job) if job.client.endswith("-raw") else Columns(job)


if __name__ == "__main__":
    main(connect)
