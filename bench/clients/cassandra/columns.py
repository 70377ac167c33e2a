"""scylla-driver: reads rows as NumPy arrays or pandas frames, and decodes a page to tuples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from bench.suites.columns.job import ColumnClient, add_packages_of, main, to_pylists
from bench.suites.requests import data
from bench.suites.requests.job import Job

try:
    import cassandra
except ImportError:
    # This process runs in `.venv-columns`, which has pandas but not the driver.
    add_packages_of(".venv-scylla-driver")
    import cassandra

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.protocol import NumpyProtocolHandler, ProtocolHandler
from cassandra.query import SimpleStatement, tuple_factory


class Kept(ProtocolHandler):  # type: ignore[misc]
    """Decodes protocol messages, and keeps the arguments of the last call of `decode_message`."""

    last: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    @classmethod
    def decode_message(cls, *arguments: Any, **named: Any) -> Any:
        cls.last = (arguments, named)
        return super().decode_message(*arguments, **named)


class Columns(ColumnClient):
    """Scans by `NumpyProtocolHandler`, `DataFrame(rows)` or `np.array`; decodes pages to tuples."""

    version = cassandra.__version__

    def __init__(self, job: Job) -> None:
        logging.getLogger("cassandra").setLevel(logging.ERROR)
        self._job = job
        profile = ExecutionProfile(
            consistency_level=ConsistencyLevel.LOCAL_ONE,
            request_timeout=60,
            row_factory=tuple_factory,
        )
        self._cluster = Cluster(
            [job.host], port=job.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}
        )
        self._session = self._cluster.connect()
        _, _, page_size = data.SCANNED.get(job.scenario, ("", 0, data.PAGE_SIZE))
        self._session.default_fetch_size = page_size
        self._prepared = self._session.prepare(job.statement)
        if job.shape == "numpy" and job.kind != "vector":
            self._session.client_protocol_handler = NumpyProtocolHandler
            self.note = "NumpyProtocolHandler; its pages concatenated"
        elif job.shape == "numpy":
            self.note = "an array of the rows' lists: NumpyProtocolHandler cannot read vectors"
        elif job.shape == "pandas":
            self.note = "DataFrame(rows)"

    def scan(self, limit: int | None = None) -> Any:
        statement = self._prepared
        if limit is not None:
            statement = SimpleStatement(f"{self._job.statement} LIMIT {limit}")
        return self._shaped(self._session.execute(statement))

    def _shaped(self, result: Any) -> Any:
        import numpy as np

        if self._job.shape == "pandas":
            import pandas as pd

            return pd.DataFrame(list(result), columns=result.column_names)
        if self._job.kind == "vector":
            rows = list(result)
            return {
                "k": np.array([row[0] for row in rows], np.int32),
                "v": np.array([row[1] for row in rows], np.float32),
            }
        pages = list(result)
        join: Any = np.ma.concatenate
        return {name: join([page[name] for page in pages]) for name in pages[0]}

    def page(self) -> Callable[[], Any]:
        self._session.client_protocol_handler = Kept
        self._session.execute(self._prepared)
        (arguments, named), decode = Kept.last, ProtocolHandler.decode_message

        def run() -> Any:
            message = decode(*arguments, **named)
            return tuple_factory(message.column_names, message.parsed_rows)

        return run

    def count(self, result: Any) -> int:
        return len(next(iter(result.values())) if self._job.shape == "numpy" else result)

    def rows(self, result: Any) -> Iterable[Iterable[Any]] | None:
        if self._job.shape == "pandas":
            return result.itertuples(index=False, name=None)  # type: ignore[no-any-return]
        return to_pylists(result) if self._job.shape == "numpy" else result

    def close(self) -> None:
        self._cluster.shutdown()


if __name__ == "__main__":
    main(Columns)
