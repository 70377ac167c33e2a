# Generated from _session/async_tables.py by scripts/async_to_sync.py: change that file.
"""The methods of `Session` for whole tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from .._checks import check_int
from .._cql.names import parse_table_name
from .._options import (
    MEANINGS,
    ExecuteOptions,
    LoadOptions,
    ScanCallOptions,
    ScanOptions,
    UnloadOptions,
    VerifyOptions,
    spelled_out,
)
from .._transfer.load import QUERY, UDTS, Load
from .._transfer.load_options import DEFAULTS as LOAD_DEFAULTS
from .._transfer.scan import DEFAULTS as SCAN_DEFAULTS
from .._transfer.scan import (
    KEYSPACES,
    PARTITIONER,
    TABLE,
    TABLES,
    Scan,
    check_partitioner,
    missing_table,
    query_options,
)
from .._transfer.target import INDEXES, NOW
from .._transfer.unload import DEFAULTS as UNLOAD_DEFAULTS
from .._transfer.unload import Unload
from .._transfer.verify import DEFAULTS as VERIFY_DEFAULTS
from .._transfer.verify import Verification
from ..bulk import BulkReport, UnloadReport, VerifyReport
from ..errors import InvalidQuery, RequestError
from ..rows import Rows
from ..statements import Prepared, Values
from ..tables import Split
from .base import R, SessionBase

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .. import _core
    from ..config import RowsAs

__all__ = ["Tables"]

T = TypeVar("T")


class Tables(SessionBase[R]):
    """The methods of a session that read and write whole tables."""

    __slots__ = ()

    @spelled_out(LoadOptions.__annotations__, MEANINGS["load"], LOAD_DEFAULTS)
    def load(self, table: str, data: Any, /, **options: Unpack[LoadOptions]) -> BulkReport:
        """Writes data to a table: Arrow data, a DataFrame, arrays, or files.

        The options are `rename`, `columns`, `nulls`, `ttl`, `timestamp`, `truncate_time`, and some
        options of `execute_many`: `concurrency`, `max_failures`, `raise_failures`, `consistency`,
        `timeout_s`, `idempotent`, `profile`. Further options are `adaptive`, `rate_limit`,
        `retry_for_s`, `batches`, `batch_bytes`, `max_errors`, `dry_run`, `progress`, and for files
        `format`, `csv`, `limit`, `checkpoint`, `resume` and `rejects`: see the guide to whole
        tables.

        `data` is a path, a pattern of paths or a list of these, for Parquet, CSV, JSON lines or
        Arrow files. Files need pyarrow. `data` may also be an object with the Arrow PyCapsule
        interface (a stream, a record batch, a DataFrame), a pandas DataFrame, or a dict. The values
        of the dict are NumPy arrays, Arrow arrays, tensors with `__dlpack__` or lists. An iterable
        of these objects is accepted too. A 2-D array is a vector column. A column of the data is
        written to the column of the same name in the table; `rename` maps names of the data to
        names of the table, and `columns` selects columns of the table. The types are checked before
        anything is sent, because only conversions that lose nothing are made. A row with a
        timestamp finer than a millisecond fails, unless `truncate_time` is true.

        A null leaves its column as it is in the table (`nulls="unset"`), or deletes the column's
        value (`nulls="null"`). If a row of a file has a null in its primary key, only this row
        fails. If a row of other data has a null in its primary key, the load raises an error before
        it sends any row of the same record batch. If this data can be read twice, such as a table
        or a DataFrame, the load raises the error before it sends anything.

        `ttl` (seconds) and `timestamp` (the write time, microseconds since 1970) are a number or
        the name of a column of the data. A non-frozen list that is written twice with the same
        write time would have each element twice. So if a load with `timestamp` writes non-frozen
        lists, it also reads the stored lists, which needs Cassandra 5.0 or later.

        At most `concurrency` requests are in flight. Unless `adaptive` is false, their number
        adapts to the cluster. Rows are numbered from 0 in the order of the data. The INSERTs are
        treated as idempotent, unless `idempotent` is false. A row that fails with a temporary error
        is sent again for `retry_for_s` seconds. A row that can never be written fails soon, and
        delays no other row. `rate_limit` is a number of rows per second, or a text such as
        `"20 MB"` for bytes per second. `max_errors` replaces `max_failures`: it is a number of
        rows, or a share of the rows if it is below 1.

        Rows of one partition that are close to each other in the data are sent in one unlogged
        batch. A batch has at most `batch_bytes` bytes of values. By default (`batches="auto"`), the
        load measures the speed with and without batches, and chooses the faster way. `True` always
        batches such rows, and `False` never does. If the server refuses a batch, its rows are sent
        one by one.

        `limit` is the maximum number of rows to load from files; later rows are left out. With
        `dry_run`, all rows are read and converted, and none is sent.

        Raises: `EncodeError` when a column or its type does not fit the table; `ConfigError` for a
            table that does not exist and for invalid options; `BulkError` when a row failed (unless
            `raise_failures` is false) or reading the data failed. The `report` of the `BulkError`
            has the outcome of the rows. `OSError` when a checkpoint or rejects cannot be written.

        Example:
            >>> import numpy as np
            >>> data = {"k": np.arange(2, 4, dtype=np.int32), "v": np.array(["b", "c"])}
            >>> session.load("t", data).succeeded
            2
        """
        shows_values = self.config.values_in_errors
        load = Load(table, self.keyspace, options, shows_values=shows_values)
        self._check_many(load.concurrency, load.max_failures, load.pace.retry_for_s)
        columns = self._table(QUERY, load.keyspace_and_table, load.query_options)
        udts = self._query(UDTS, load.keyspace_and_table[:1], load.query_options)
        opened = load.open(data, columns, udts)
        if opened is None:
            return BulkReport(0, 0)
        load.match(opened.names, columns)
        care = self._care(load)
        with load.naming_settings():
            if load.is_dry_run or load.has_file_types or load.checks_first_block:
                insert: Prepared = self._core.prepare(load.statement).wait()
                load.check_file_types(self._core, insert, care)
            if load.checks_first_block:
                checked = load.checked_block(self._core, opened, insert)
                if isinstance(checked, BulkReport):
                    return checked
                opened = checked
            if load.is_dry_run:
                return load.dry_run_report(self._core, opened, insert, care)
            load.check(data)
            report = BulkReport(0, 0)
            with load.monitor() as monitor:
                report = self._start_load(load, opened, care, monitor).wait()
        return load.finished_report(report)

    def _care(self, load: Load) -> _core.Care | None:
        """Makes the native `Care` of a load from `load.care`; `None` if `load.care` is `None`.

        This takes up to three steps, each only if the load needs it: read the cluster's time, read
        the table's indexes, and prepare the statements that read stored lists.
        """
        care = load.care
        if care is None:
            return None
        now, indexes, reads = None, list[Any](), list[Prepared]()
        if load.needs_cluster_time:
            rows = self._query(NOW, None, load.query_options)
            now = rows[0][0] if rows else None
        if care.has_vectors:
            indexes = self._query(INDEXES, load.keyspace_and_table, load.query_options)
        try:
            for text in load.list_read_statements():
                reads.append(self._core.prepare(text).wait())
        except InvalidQuery as error:
            raise care.write_time_error(error) from error
        return load.native_care(now, reads, indexes)

    def _query(
        self, text: str, values: Values | None, options: ExecuteOptions
    ) -> list[tuple[Any, ...]]:
        """Reads all rows of a query of system tables."""
        rows: Rows[tuple[Any, ...]] = self._start_query(text, values, options).wait()
        return rows.all()

    def _table(
        self, text: str, keyspace_and_table: tuple[str, str], options: ExecuteOptions
    ) -> list[tuple[Any, ...]]:
        """Reads the columns of a table. `text` is one of the queries `QUERY` and `TABLE`.

        Raises: `ConfigError` if there is no such table.
        """
        rows = self._query(text, keyspace_and_table, options)
        if not rows:
            tables = self._query(TABLES, keyspace_and_table[:1], options)
            keyspaces = self._query(KEYSPACES, None, options)
            names = [[name for (name,) in answer] for answer in (tables, keyspaces)]
            raise missing_table(keyspace_and_table, *names)
        return rows

    def _match(self, scan: Scan) -> list[tuple[Any, ...]]:
        """Checks a scan against its table, and returns the table's columns."""
        columns = self._table(TABLE, scan.keyspace_and_table, scan.query_options)
        scan.match(columns, self._partitioner(scan.query_options))
        return columns

    def _partitioner(self, options: ExecuteOptions) -> tuple[str] | None:
        rows = self._query(PARTITIONER, None, options)
        return rows[0] if rows else None

    @overload
    def scan(
        self,
        table: str | None = None,
        /,
        *,
        row: Callable[..., T],
        **options: Unpack[ScanCallOptions],
    ) -> Rows[T]: ...

    @overload
    def scan(
        self,
        table: str | None = None,
        /,
        *,
        rows: Literal["tuple"],
        **options: Unpack[ScanCallOptions],
    ) -> Rows[tuple[Any, ...]]: ...

    @overload
    def scan(
        self,
        table: str | None = None,
        /,
        *,
        rows: Literal["dict"],
        **options: Unpack[ScanCallOptions],
    ) -> Rows[dict[str, Any]]: ...

    @overload
    def scan(
        self,
        table: str | None = None,
        /,
        *,
        rows: None = None,
        row: None = None,
        **options: Unpack[ScanCallOptions],
    ) -> Rows[R]: ...

    @overload
    def scan(
        self,
        table: str | None = None,
        /,
        *,
        rows: RowsAs,
        row: None = None,
        **options: Unpack[ScanCallOptions],
    ) -> Rows[Any]: ...

    @spelled_out(ScanOptions.__annotations__, MEANINGS["scan"], SCAN_DEFAULTS)
    def scan(self, table: str | None = None, /, **options: Unpack[ScanOptions]) -> Rows[Any]:
        """Reads a whole table, or a part of it, by token ranges, several at a time.

        Each range is read page by page, from nodes that own it. The result has each row of the
        table once, in no order: iterate over it, or convert it to columns. At most one page of each
        range is in memory. Pages have at most `page_size` rows and about 1 MiB.

        The options are `columns`, `where`, `values`, `split`, `concurrency`, `retry_for_s`, and
        options of `execute`: `consistency`, `timeout_s`, `page_size`, `profile`, `rows`, `row`.
        `columns` lists the columns to read, by default all columns. `where` is a condition in CQL:
        the server returns only rows that meet the condition (`ALLOW FILTERING`). `values` are for
        the bind markers of `where`. `split` is a part of a table, as returned by
        [`splits`][turbocql.session.Session.splits]; with `split`, `table` may be left out.
        `concurrency` is the number of ranges that are read at the same time. The default is two for
        each node, but at least 4 and at most 32.

        A page that cannot be read is requested again for `retry_for_s` seconds, in addition to the
        session's own retries. If all these requests fail, the error is raised, and the next step of
        an iteration requests the page again.

        Rows that are written during the scan may or may not be in the result.

        Raises: `ConfigError` when there is no such table or column; `RequestError` when a range
            cannot be read.

        Example:
            >>> len(session.scan("t", columns=["k"]).all()) > 0
            True
        """
        return self._scan(table, options)

    def _scan(self, table: str | None, options: ScanOptions) -> Rows[Any]:
        scan = Scan(table, self.keyspace, options)
        self._match(scan)
        rows: Rows[Any] = self._start_scan(scan).wait()
        return rows

    @spelled_out(
        UnloadOptions.__annotations__, MEANINGS["unload"], {**SCAN_DEFAULTS, **UNLOAD_DEFAULTS}
    )
    def unload(
        self, table: str, path: str | os.PathLike[str], /, **options: Unpack[UnloadOptions]
    ) -> UnloadReport:
        """Writes a whole table, or a part of it, to files: Parquet, CSV, JSON lines or Arrow IPC.

        The table is read as by [`scan`][turbocql.session.Session.scan]. All options of `scan` are
        accepted except `rows` and `row`. `format` is `"parquet"`, `"csv"`, `"jsonl"` or `"arrow"`.
        Without `format`, the suffix of the file's name selects the format (`.parquet`, `.csv`,
        `.csv.gz`, `.jsonl`, `.jsonl.gz`, `.arrow`). `compression` must be a compression that the
        format supports. If `path` is a directory, or `files` is above 1, the files are named
        `part-00000.parquet` and so on. Files are written under temporary names, and renamed when
        all are complete. If the call fails, no file is left. Existing files are an error, unless
        `overwrite` is true. `limit` is the maximum number of rows. Rows have no order. This method
        needs pyarrow.

        Raises: `ConfigError` for an unknown table or column, and for an invalid option or target;
            `RequestError` when a range cannot be read; `OSError` when a file cannot be written.
        """
        unload = Unload(table, self.keyspace, path, options)
        unload.match(self._match(unload.scan))
        try:
            rows: Rows[Any] = self._start_scan(unload.scan).wait()
            unload.begin(rows)
            for batch in rows.batches():
                if not unload.write(batch):
                    break
            return unload.end()
        except BaseException:
            unload.abandon()
            raise

    @spelled_out(VerifyOptions.__annotations__, MEANINGS["verify"], VERIFY_DEFAULTS)
    def verify(self, table: str, data: Any, /, **options: Unpack[VerifyOptions]) -> VerifyReport:
        """Compares each row of the data with the row of the table that has the same key.

        `data` and the options `rename`, `columns`, `nulls`, `truncate_time`, `format`, `csv` and
        `limit` are those of [`load`][turbocql.session.Session.load]. Only the cells that a load
        would write are compared. So nulls of the data are compared only with `nulls="null"`.
        `sample` is the share of the rows to look up; by default, all rows are looked up. `seed`
        determines which rows are in the sample. `progress` is called now and then with the number
        of rows of the data that were read so far. If several rows of the data have the same key,
        the report counts all of them except the first. The memory that a comparison takes is
        bounded. The other options are `concurrency`, `retry_for_s`, `consistency`, `timeout_s` and
        `profile`.

        The comparison does not find rows of the table that are missing in the data.

        Raises: the errors that `load` raises before it sends a row; `BulkError` when a row of the
            table cannot be read.

        Example:
            >>> import numpy as np
            >>> data = {"k": np.arange(9, 10, dtype=np.int32), "v": np.array(["x"])}
            >>> report = session.verify("t", data)
            >>> report.equal, report.missing
            (False, 1)
        """
        shows_values = self.config.values_in_errors
        verification = Verification(table, self.keyspace, options, shows_values=shows_values)
        load = verification.load
        self._check_many(load.concurrency, load.max_failures, load.pace.retry_for_s)
        columns = self._table(QUERY, load.keyspace_and_table, load.query_options)
        udts = self._query(UDTS, load.keyspace_and_table[:1], load.query_options)
        opened = load.open(data, columns, udts)
        if opened is None:
            return verification.report()
        load.match(opened.names, columns)
        verification.match(columns)
        insert: Prepared = self._core.prepare(load.statement).wait()
        read: Prepared = self._core.prepare(verification.statement).wait()
        load.check_file_types(self._core, insert, None)
        encoded = verification.encoded(self._core, opened, insert)
        while (part := encoded.take()) is not None:
            rows = verification.chosen_rows(*part)
            keys = verification.key_values(rows)
            report: BulkReport = self._start_look_up(load, read, keys).wait()
            report.raise_for_failures()
            verification.compare(rows, report.results or [])
        return verification.report()

    def splits(self, table: str, n: int, /) -> list[Split]:
        """Cuts a table into `n` parts of about equal size, for readers in several processes.

        Sizes come from the nodes' estimates (`system.size_estimates`). Nodes refresh the estimates
        every few minutes, and count only data on disk. If estimates are missing or stale, parts
        differ in size, but together they always contain each row of the table once. No partition is
        in two parts.

        Raises: `ConfigError` when there is no such table; `RequestError` when the table cannot be
            looked up.

        Example:
            >>> parts = session.splits("t", 4)
            >>> len(parts)
            4
        """
        name = parse_table_name(table, self.keyspace)
        check_int("n", n, 1, 100_000)
        self._table(TABLE, name, query_options({}))
        check_partitioner(self._partitioner(query_options({})))
        estimates: list[tuple[str, str, int, int]] = []
        for op in self._start_estimates(name):
            # Estimates are only hints. If a node's estimates cannot be read, the table is cut
            # without them.
            with suppress(RequestError):
                estimates += op.wait().all()
        return self._split(name, n, estimates)
