"""Query results: the rows of all pages. The next page is fetched while the current one is read."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar, cast
from uuid import UUID

from . import _core
from ._checks import advise
from ._columns.consumers import (
    Arrays,
    Frame,
    consume,
    for_polars,
    gatherer,
    polars_frame,
    pyarrow_table,
)
from ._native.imports import provide
from ._native.row_classes import APPLIED
from ._rows.async_pages import AsyncColumnPages, AsyncPages, AwaitedPages, async_only_row
from ._rows.base import check_columns
from ._rows.html import result_table
from ._rows.pages import SyncColumnPages, SyncPages, only_row
from .cluster import Trace
from .columns import AsyncBatches, Batches, ColumnTypes
from .errors import Error

__all__ = ["AsyncRows", "AwaitableRows", "Column", "Rows"]

T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A result column or a bind marker."""

    keyspace: str
    table: str
    name: str
    cql_type: str
    """The type as CQL, such as `list<int>`."""


provide("column", Column)


def _type_or_none(cql_type: str) -> _core.CqlType | None:
    """Parses a type. Returns `None` for the name of a user type, which does not define the type."""
    try:
        return _core.CqlType(cql_type)
    except (ValueError, Error):
        return None


class _Result(_core.Cursor, Generic[T]):
    """The members that `Rows` and `AsyncRows` share."""

    __slots__ = ()

    _waits = True
    """Whether `one` may wait for further pages."""
    _item_hint = "use rows.one() for the first row, or rows.all()[0], or iterate"

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the result; empty for a statement that returns no rows."""
        return tuple(Column(*column) for column in self._columns)

    @property
    def coordinator(self) -> str | None:
        """The node that sent the current page, as `address:port`."""
        return self._coordinator

    @property
    def warnings(self) -> list[str]:
        """The server's warnings for the pages read so far."""
        return self._warnings

    @property
    def custom_payload(self) -> dict[str, bytes] | None:
        """The custom payload of the current page's response.

        It is `None` unless the statement was executed with the option `custom_payload` (an empty
        mapping is enough), and a query handler of the server has answered with a payload.
        """
        return self._custom_payload

    @property
    def paging_state(self) -> bytes | None:
        """The position of the page after the current one; `None` when there is no further page.

        To continue at that page, pass the paging state to `execute` as `paging_state`, with the
        same statement and values. This works in the same session, in another session and in another
        process. Servers trust the paging state, so users of a web site must not be able to change
        it: see [`PagingTokens`][turbocql.paging.PagingTokens]. Bytes that are not a paging state
        cause a `RequestError`.
        """
        return self._paging_state

    @property
    def applied(self) -> bool | None:
        """Whether a lightweight transaction was applied; `None` for other statements."""
        names = [column[2] for column in self._columns]
        if APPLIED not in names:
            return None
        row = self._plain_first()
        return None if row is None else bool(row[names.index(APPLIED)])

    @property
    def existing(self) -> dict[str, Any] | None:
        """The existing values, by column, when a lightweight transaction was not applied.

        It is `None` when the transaction was applied, and for other statements. Otherwise it is a
        `dict`, even if the rows have another form.
        """
        if self.applied is not False:
            return None
        names = [column[2] for column in self._columns]
        row = self._plain_first() or ()
        return {n: value for n, value in zip(names, row, strict=True) if n != APPLIED}

    @property
    def trace_id(self) -> UUID | None:
        """The server's id for the trace of the latest request for a page of this result.

        It is `None` unless the statement was executed with `tracing=True`.
        """
        trace_id = self._trace_id
        return None if trace_id is None else UUID(bytes=trace_id)

    def one(self) -> T | None:
        """The first row, or `None` when there is none. For a row that must exist, call
        `one_or_raise`.

        The first pages of a result may have no rows, for example when ScyllaDB has read many
        deleted rows. `execute` fetches pages until one has rows, or until its time limit. If no
        page has rows by then, `Rows.one` fetches further pages. `AsyncRows.one` cannot wait, so it
        raises `Error`: iterate, or use `all()`.

        If a callable was passed to `execute` as `row`, `one` also returns `None` for a lightweight
        transaction that was applied, because no object is made of the transaction's row.

        Raises: `Error` when an iteration has moved past the first page; for `AsyncRows`, also when
            no page with rows has arrived yet. `RequestError` when a page cannot be fetched.
        """
        self._skip_empty_pages()
        return cast("T | None", self._first())

    def scalar(self) -> Any:
        """The first column of the first row, or `None` when there is no row.

        A null is `None` too. The form of the rows does not matter. For a conditional statement, the
        first column has the same value as `applied`.

        Raises: the same errors as `one`; also `Error` when the statement is of a kind that returns
            no rows.
        """
        check_columns(self, "scalar")
        self._skip_empty_pages()
        row = self._plain_first()
        return None if row is None else row[0]

    def _skip_empty_pages(self) -> None:
        """Moves to the first page with rows, or to the last page."""
        self._check_first()
        while self._must_skip_empty_page():
            if not self._waits:
                raise Error(
                    "the first pages have no rows, and the time limit of execute has passed before"
                    " a page with rows: go on with `async for` or all(), or pass a longer timeout_s"
                )
            self._advance().wait()

    def page(self) -> list[T]:
        """The rows of the current page. No page is fetched."""
        return self._decode()

    # There is no `__len__` and no `__next__`, not even with an error that gives advice: libraries
    # such as pandas and polars look for them in the class, and take another path for a class that
    # has them.
    def __getitem__(self, index: object) -> NoReturn:
        raise TypeError(f"a result has no positions: {self._item_hint}")

    def __repr__(self) -> str:
        names = ", ".join(column[2] for column in self._columns)
        return f"<{type(self).__name__} ({names})>"

    def _repr_html_(self) -> str:
        """The first rows of the current page as a table, for notebooks. No page is fetched."""
        return result_table(self, [_type_or_none(column[3]) for column in self._columns])

    def _gatherer(
        self, types: ColumnTypes | None, rows_per_batch: int | None = None
    ) -> _core.Gatherer:
        self._check_first()
        return gatherer(self._raw(), types, rows_per_batch)

    def _arrays(self) -> Arrays:
        self._check_first()
        return Arrays(self._raw(), self._columns)

    def _frame(self, types: ColumnTypes | None) -> Frame:
        self._check_first()
        return Frame(self._raw(), self._columns, types)

    def _add_to(self, accumulator: Arrays | Frame, page: list[_core.RawPage]) -> None:
        """Appends the current page. `page` is a list with this page, undecoded."""
        for raw in page:
            accumulator.add(raw, self._tuples)


advise(
    _Result,
    {
        "column_names": "use rows.columns",
        "column_types": "use rows.columns",
        "current_rows": "use rows.page()",
        "fetch_next_page": "an iteration fetches the pages; rows.pages() has them as lists",
        "fetchall": "use rows.all()",
        "fetchmany": "iterate, or use rows.pages()",
        "fetchone": "use rows.one(), or iterate",
        "first": "use rows.one()",
        "get_query_trace": "use rows.trace(), after execute(..., tracing=True)",
        "has_more_pages": "rows.paging_state is None at the last page",
        "next": "use rows.one(), or iterate",
        "response_future": "use rows.coordinator, rows.warnings and rows.trace()",
        "rowcount": "use len(rows.all())",
        "was_applied": "use rows.applied",
    },
)


class _SyncResult(_Result[T]):
    """A result that consumers of Arrow read as a stream. These consumers block until pages arrive,
    so the result of an asynchronous session cannot be of this class.
    """

    __slots__ = ()

    def __arrow_c_schema__(self) -> object:
        """The Arrow schema, for consumers of the Arrow PyCapsule interface."""
        return gatherer(self._raw(), None, None).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as a stream of Arrow record batches, for consumers of the PyCapsule interface.

        The stream reads page after page, and fetches the next page ahead. `requested_schema` is
        ignored, as the protocol allows.

        Raises: `Error` when an iteration of a result of several pages has begun.
        """
        return Batches(SyncColumnPages(self), self._gatherer(None)).__arrow_c_stream__()

    def _read(self, types: ColumnTypes | None, consumer: Callable[[Any], Any]) -> Any:
        """Passes all rows to a consumer and returns the consumer's result. If reading fails, raises
        turbocql's error in place of the consumer's.
        """
        pages = SyncColumnPages(self)
        return consume(Batches(pages, self._gatherer(types), is_foreign=False), consumer)


class _AsyncResult(_Result[T]):
    """A result that consumers read as a list of batches, because a stream would block the event
    loop.
    """

    __slots__ = ()

    _waits = False
    _item_hint = "use rows.one() for the first row, or (await rows.all())[0], or iterate"

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "rows of an AsyncSession are read with `async for`, or with await rows.all()"
        )

    async def _read(self, types: ColumnTypes | None, consumer: Callable[[Any], Any]) -> Any:
        """Passes all rows to a consumer and returns the consumer's result."""
        batches = AsyncBatches(AsyncColumnPages(self), self._gatherer(types))
        return consumer(([batch async for batch in batches], batches._gatherer))


# Generated from AsyncRows of rows.py by scripts/async_to_sync.py: change the source.
class Rows(_SyncResult[T]):
    """The rows of a result. Iteration with `for` covers all pages.

    The next page is fetched while the current one is processed. A result of one page can be
    iterated any number of times. A longer result keeps only its current page, so a second iteration
    raises `Error`.

    An iteration never ends silently before the last row. When a page cannot be fetched, the step of
    the iteration raises an error, and the next step requests the page again. When a page cannot be
    decoded, the next step decodes it again. When waiting for a page was interrupted, the next step
    raises `Error`.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        return _core.RowIterator(SyncPages(self))

    def pages(self) -> Iterator[list[T]]:
        """Iterates over the pages as lists of rows. The next page is fetched in the background."""
        return SyncPages(self)

    def trace(self) -> Trace | None:
        """Reads the server's trace of the request; `None` without `tracing=True`.

        The server writes the trace after it has answered. This method polls for about a second,
        longer when the server is slow, and returns `None` when the trace is not complete by then.
        """
        return cast("Trace | None", self._trace().wait())

    def all(self) -> list[T]:
        """All rows of all pages."""
        self._check_first()
        self._prefetch()
        rows, page = self._decode(), 0
        while self._leave(page) and self._advance().wait():
            self._prefetch()
            rows += self._decode()
            page += 1
        return rows

    def one_or_raise(self) -> T:
        """The only row of the result.

        If the current page has one row and further pages may follow, the further pages are fetched,
        because they may have rows.

        Raises: `NoRow` when the result has no row; `MultipleRows` when it has several; `Error` for
            a statement that returns no rows, and when an iteration has moved past the first page;
            `RequestError` when a page cannot be fetched.
        """
        return cast("T", only_row(self))

    def batches(
        self, *, rows_per_batch: int | None = None, types: ColumnTypes | None = None
    ) -> Batches:
        """Iterates over the rows as Arrow record batches.

        Pages are gathered into a batch until it has at least 16,384 rows or 8 MiB. With
        `rows_per_batch`, each batch has exactly this many rows, except the last.

        Raises: `Error` when an iteration of a result of several pages has begun.
        """
        return Batches(SyncColumnPages(self), self._gatherer(types, rows_per_batch))

    def to_arrow(self, *, types: ColumnTypes | None = None) -> Any:
        """All rows as a `pyarrow.Table`. This method needs pyarrow."""
        return self._read(types, pyarrow_table)

    def to_pandas(self, *, types: ColumnTypes | None = None) -> Any:
        """All rows as a `pandas.DataFrame`. This method needs pandas and pyarrow.

        Numbers, texts, bytes and timestamps have types of pandas. Other values are the same objects
        as in rows, unless `types` selects another type. A vector of numbers is an array in each
        cell.
        Nulls: an integer column with nulls has a type such as `Int64`; a null among floats is NaN.
        """
        frame, pages = self._frame(types), SyncColumnPages(self)
        while (page := pages.next_page()) is not None:
            self._add_to(frame, page)
        return frame.to_pandas()

    def to_polars(self, *, types: ColumnTypes | None = None) -> Any:
        """All rows as a `polars.DataFrame`. This method needs polars."""
        return self._read(for_polars(types), polars_frame)

    def to_numpy(self) -> dict[str, Any]:
        """All rows as NumPy arrays, by column. This method needs NumPy.

        Shapes: a column of numbers, timestamps, dates or times is one array, and a column of
        vectors of numbers is one 2-D array. Any other column is an array of objects.
        Nulls: a masked array for numbers, `None` among objects.
        """
        arrays, pages = self._arrays(), SyncColumnPages(self)
        while (page := pages.next_page()) is not None:
            self._add_to(arrays, page)
        return arrays.by_column()


class AsyncRows(_AsyncResult[T]):
    """The rows of a result. Iteration with `async for` covers all pages.

    The next page is fetched while the current one is processed. A result of one page can be
    iterated any number of times. A longer result keeps only its current page, so a second iteration
    raises `Error`.

    An iteration never ends silently before the last row. When a page cannot be fetched, the step of
    the iteration raises an error, and the next step requests the page again. When a page cannot be
    decoded, the next step decodes it again. When waiting for a page was interrupted, the next step
    raises `Error`.
    """

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[T]:
        return _core.AsyncRowIterator(AsyncPages(self))

    def pages(self) -> AsyncIterator[list[T]]:
        """Iterates over the pages as lists of rows. The next page is fetched in the background."""
        return AsyncPages(self)

    async def trace(self) -> Trace | None:
        """Reads the server's trace of the request; `None` without `tracing=True`.

        The server writes the trace after it has answered. This method polls for about a second,
        longer when the server is slow, and returns `None` when the trace is not complete by then.
        """
        return cast("Trace | None", await self._trace())

    async def all(self) -> list[T]:
        """All rows of all pages."""
        self._check_first()
        self._prefetch()
        rows, page = self._decode(), 0
        while self._leave(page) and await self._advance():
            self._prefetch()
            rows += self._decode()
            page += 1
        return rows

    async def one_or_raise(self) -> T:
        """The only row of the result.

        If the current page has one row and further pages may follow, the further pages are fetched,
        because they may have rows.

        Raises: `NoRow` when the result has no row; `MultipleRows` when it has several; `Error` for
            a statement that returns no rows, and when an iteration has moved past the first page;
            `RequestError` when a page cannot be fetched.
        """
        return cast("T", await async_only_row(self))

    def batches(
        self, *, rows_per_batch: int | None = None, types: ColumnTypes | None = None
    ) -> AsyncBatches:
        """Iterates over the rows as Arrow record batches.

        Pages are gathered into a batch until it has at least 16,384 rows or 8 MiB. With
        `rows_per_batch`, each batch has exactly this many rows, except the last.

        Raises: `Error` when an iteration of a result of several pages has begun.
        """
        return AsyncBatches(AsyncColumnPages(self), self._gatherer(types, rows_per_batch))

    async def to_arrow(self, *, types: ColumnTypes | None = None) -> Any:
        """All rows as a `pyarrow.Table`. This method needs pyarrow."""
        return await self._read(types, pyarrow_table)

    async def to_pandas(self, *, types: ColumnTypes | None = None) -> Any:
        """All rows as a `pandas.DataFrame`. This method needs pandas and pyarrow.

        Numbers, texts, bytes and timestamps have types of pandas. Other values are the same objects
        as in rows, unless `types` selects another type. A vector of numbers is an array in each
        cell.
        Nulls: an integer column with nulls has a type such as `Int64`; a null among floats is NaN.
        """
        frame, pages = self._frame(types), AsyncColumnPages(self)
        while (page := await pages.next_page()) is not None:
            self._add_to(frame, page)
        return frame.to_pandas()

    async def to_polars(self, *, types: ColumnTypes | None = None) -> Any:
        """All rows as a `polars.DataFrame`. This method needs polars."""
        return await self._read(for_polars(types), polars_frame)

    async def to_numpy(self) -> dict[str, Any]:
        """All rows as NumPy arrays, by column. This method needs NumPy.

        Shapes: a column of numbers, timestamps, dates or times is one array, and a column of
        vectors of numbers is one 2-D array. Any other column is an array of objects.
        Nulls: a masked array for numbers, `None` among objects.
        """
        arrays, pages = self._arrays(), AsyncColumnPages(self)
        while (page := await pages.next_page()) is not None:
            self._add_to(arrays, page)
        return arrays.by_column()


class AwaitableRows(Coroutine[Any, Any, AsyncRows[T]], AsyncIterable[T]):
    """A call of `execute` or `scan` of an `AsyncSession`, whose request is not sent yet.

    `await` sends the request and returns an `AsyncRows`. `async for` sends the request, and
    iterates over the rows. A call can be awaited or iterated over once.
    """

    __slots__ = ()


def _rows_of_awaitable(call: AwaitableRows[T]) -> AsyncIterator[T]:
    """Iterates over the rows of a call. The native core calls this function."""
    return _core.AsyncRowIterator(AwaitedPages(call))


provide("rows_of_awaitable", _rows_of_awaitable)
