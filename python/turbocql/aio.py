"""The asynchronous API: the methods of the synchronous API, to be awaited.

It works on any event loop, and one wake of the loop handles many completions. The synchronous twin
is [`turbocql.session`][turbocql.session].
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Generator, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TextIO, TypeVar, overload
from uuid import UUID

from . import _core
from ._checks import check_int, check_keyspace
from ._config.meanings import SETTINGS
from ._diagnosis.collect import TIMEOUT_S, Diagnosis, steps
from ._options import (
    MEANINGS,
    CallOptions,
    ExecuteOptions,
    StatementOptions,
    checks_names,
    spelled_out,
)
from ._schema.read import Answer, Deadline, Row, SchemaReading
from ._session.async_tables import AsyncTables
from ._session.base import R, configure
from ._session.threads import for_threads, in_thread, sleep
from ._session.unawaited import Preparing, explain_unawaited, unawaited_error

# sync: from ._session.wrong_with import refuse_async_with
from ._session.wrong_with import ASYNCHRONOUS, refuse_with  # async only
from ._telemetry.streams import AsyncEventStream
from ._transfer.load import rows_or_columns
from ._transfer.stops import with_stop_reason
from .bulk import BulkReport
from .cluster import ClusterEvent
from .config import _DEFAULTS, Config, RowsAs, Settings
from .errors import ConnectError, DecodeError, Error, InvalidQuery, RequestError, _no_session
from .policies import Consistency, ConsistencyName
from .rows import AsyncRows, AwaitableRows
from .schema import Schema
from .statements import Batch, Prepared, Query, Statement, Values

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .config import _SettingsBesideRows

__all__ = ["AsyncSession", "connect"]
__all__ += ["diagnose", "diagnosis"]  # async only

T = TypeVar("T")


class AsyncSession(AsyncTables[R]):
    """An open session with a cluster, made by [`connect`][turbocql.aio.connect].

    It may be used from several event loops. As an asynchronous context manager, it closes itself at
    the end of the block.

    For type checkers, `R` is the type of the session's rows. For example, it is `dict[str, Any]`
    after `connect(rows="dict")`.
    """

    __slots__ = ()

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        row: Callable[..., T],
        **options: Unpack[CallOptions],
    ) -> AwaitableRows[T]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: Literal["tuple"],
        **options: Unpack[CallOptions],
    ) -> AwaitableRows[tuple[Any, ...]]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: Literal["dict"],
        **options: Unpack[CallOptions],
    ) -> AwaitableRows[dict[str, Any]]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: None = None,
        row: None = None,
        **options: Unpack[CallOptions],
    ) -> AwaitableRows[R]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: RowsAs,
        row: None = None,
        **options: Unpack[CallOptions],
    ) -> AwaitableRows[Any]: ...

    @spelled_out(ExecuteOptions.__annotations__, MEANINGS["execute"], {})
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        **options: Unpack[ExecuteOptions],
    ) -> AwaitableRows[Any]:
        """Sends a statement or a batch and returns its result.

        A text with values is prepared automatically, and its prepared statement is cached. If
        `values` is a mapping, it need not have a value for every bind marker: a marker without a
        value leaves its column unchanged, as [`UNSET`][turbocql.types.UNSET] does.

        The options are `consistency`, `serial_consistency`, `timeout_s`, `page_size`,
        `timestamp`, `idempotent`, `tracing`, `profile`, `custom_payload`, `paging_state`, `target`,
        and `rows` or `row` for the form of the rows. An option that is not passed comes from the
        statement, else from the profile, else from the session. A `serial_consistency`
        from the profile or the session is sent only with batches and conditional statements.

        `row` is a callable that makes an object of each row. A dataclass, a named tuple, or a class
        of attrs, msgspec or pydantic gets the values by the names of its fields. Any other callable
        gets the values as keyword arguments. `profile` is a name in `Config.profiles`.
        `paging_state` continues a result: see
        [`Rows.paging_state`][turbocql.rows.Rows.paging_state]. `tracing` makes the server record
        how it executes the request. `custom_payload` is a mapping of names to bytes, for a query
        handler of the server. `target` is a node of `session.nodes` or a replica of
        `session.replicas(bound)`. All attempts of the request, and the requests for all pages, go
        to this node only. On ScyllaDB, the request to a `Replica` goes to the replica's shard.

        Units: `timeout_s` in seconds (`math.inf` for no limit); `timestamp` in microseconds
        since 1970.

        Raises: `EncodeError` for a value that its column cannot take, before anything is sent;
            `RequestError` when the request fails; `ClosedError` after `close`.

        Example:
            >>> rows = await session.execute("SELECT v FROM t WHERE k = ?", (1,))
            >>> rows.one().v
            'a'
        """
        # sync: rows: Rows[Any] = _core.execute(self._core, statement, values, options).wait()
        # sync: return rows
        return _core.execute_when_awaited(self._core, statement, values, options)  # async only

    def prepare(self, statement: str) -> Coroutine[Any, Any, Prepared]:
        """Prepares a statement on the server, unless it is in the session's cache.

        Raises: `ServerError` when the server refuses the statement.
        """
        # sync: prepared: Prepared = self._core.prepare(statement).wait()
        # sync: return prepared
        return Preparing(self._prepare(statement))  # async only

    async def _prepare(self, statement: str) -> Prepared:  # async only
        prepared: Prepared = await self._core.prepare(statement)
        return prepared

    @checks_names(
        "execute_many takes a statement and rows by position: pass options by name, as in"
        " concurrency=100"
    )
    async def execute_many(
        self,
        statement: str | Query | Prepared,
        rows: Iterable[Values] | AsyncIterable[Values] | None = None,
        /,
        *,
        columns: Any = None,
        concurrency: int = 256,
        max_failures: int = 1000,
        raise_failures: bool = True,
        results: bool = False,
        retry_for_s: float = 0.0,
        consistency: Consistency | ConsistencyName | None = None,
        timeout_s: float | None = None,
        timestamp: int | None = None,
        idempotent: bool | None = None,
        profile: str | None = None,
    ) -> BulkReport:
        """Sends a statement once for each row of values, up to `concurrency` at a time.

        The rows may be any iterable of any length: a few hundred are in memory at a time. Instead
        of rows, `columns` takes the same data as [`load`][turbocql.session.Session.load]. Each bind
        marker gets the values of the column of the same name. A null is sent as a null. Every row
        is tried, unless more than `max_failures` rows fail. With `max_failures=0`, the call stops
        at the first failure. Results are dropped, unless `results` is true: then all of them are
        kept in memory.

        A row that fails with a temporary error, such as `RateLimited` or a timeout, is sent again
        for up to `retry_for_s` seconds. Meanwhile, fewer requests are in flight. If the statement
        is not declared idempotent, a row is sent again only if the row was certainly not written.

        `consistency`, `timeout_s` (seconds, for the request of a row), `timestamp` (the write time,
        microseconds since 1970), `idempotent` and `profile` are as for `execute`.

        Raises: `BulkError` when a row failed (unless `raise_failures` is false) or the iterable
            raised an error; the `report` of the `BulkError` has the outcome of the rows.
            `ServerError` when the statement cannot be prepared.
        """
        options = StatementOptions(
            consistency=consistency,
            timeout_s=timeout_s,
            timestamp=timestamp,
            idempotent=idempotent,
            profile=profile,
        )
        if isinstance(rows, AsyncIterable) and columns is None:  # async only
            self._check_many(concurrency, max_failures, retry_for_s)
            # Imported here, because `async_source` imports asyncio, which is slow to import. A
            # program that runs an event loop of asyncio has imported asyncio already.
            from ._session.async_source import from_async

            def start(chunk: list[Values], may_fail: int) -> _core.Op:
                return self._start_many(
                    statement, chunk, concurrency, may_fail, results, retry_for_s, options
                )

            merged = await from_async(rows, start, max_failures)
            merged = with_stop_reason(merged, f"max_failures={max_failures}")
            if raise_failures:
                merged.raise_for_failures()
            return merged
        if columns is not None:  # async only
            rows, columns = await in_thread(rows_or_columns, rows, for_threads(columns), True), None
        report: BulkReport = await self._start_many(
            statement,
            rows_or_columns(rows, columns, self._reads_on_thread),
            concurrency,
            max_failures,
            results,
            retry_for_s,
            options,
        )
        report = with_stop_reason(report, f"max_failures={max_failures}")
        if raise_failures:
            report.raise_for_failures()
        return report

    async def refresh_nodes(self) -> None:
        """Reads the nodes of the cluster and the replication of the keyspaces again.

        The session also does this by itself, when the cluster reports a change and once a minute.
        """
        await self._core.refresh()

    async def await_schema_agreement(self, *, timeout_s: float = 60.0) -> UUID:
        """Waits until all nodes that are up have the same schema, and returns the schema's version.

        Statements that change the schema wait for this agreement by themselves.

        Raises: `RequestTimeout` when the nodes do not agree within `timeout_s` seconds.
        """
        return UUID(bytes=await self._core.agreement(timeout_s))

    async def use_keyspace(self, name: str) -> None:
        """Makes `name` the keyspace of unqualified table names; letter case matters.

        Raises: `ConfigError` when `name` cannot be the name of a keyspace; `InvalidQuery` when
            there is no such keyspace: the session then keeps its current keyspace.
        """
        check_keyspace(name)
        await self.execute(f'USE "{name}"')

    async def schema(self, *, refresh: bool = False, timeout_s: float = 60.0) -> Schema:
        """Returns the keyspaces, tables, types and functions of the cluster.

        The schema is read once and cached. Each call asks one node for the version of the schema,
        and reads everything again if the version has changed or `refresh` is true. The result is
        never a mix of two schemas, even if other clients change the schema during the call.

        Units: `timeout_s` in seconds, for the whole call.

        Raises: `RequestError` when a request fails, or when none of 20 readings of the schema was
            equal to the previous reading; `RequestTimeout` when the schema was not read within
            `timeout_s`; `ClosedError` after `close`.

        Example:
            >>> schema = await session.schema()
            >>> schema.keyspace("demo").table("t").columns["v"].cql_type
            'text'
        """
        reading, deadline = SchemaReading(self._schema, refresh), Deadline(timeout_s)
        while queries := reading.queries:
            reading.take(await self._query_schema(queries, deadline))
        self._schema = reading.result()
        return self._schema

    async def _query_schema(self, queries: Sequence[str], deadline: Deadline) -> list[Answer]:
        """Returns the rows of each query, or the `InvalidQuery` if the server refuses the query."""
        answers: list[Answer] = []
        ops = [self._start_schema_query(query, deadline.left_s()) for query in queries]
        try:
            for op in ops:
                try:
                    result: AsyncRows[Row] = await op
                    rows: list[Row] = []
                    async for page in result.pages():
                        rows += page
                        deadline.left_s()
                    answers.append(rows)
                except InvalidQuery as error:
                    answers.append(error)
        finally:
            for op in ops:
                op.abandon()
        return answers

    def events(self, *, capacity: int = 1000) -> AsyncEventStream[ClusterEvent]:
        """Returns a stream of the events of nodes and of the schema from now on.

        The stream holds up to `capacity` events that were not read yet. When an event comes to a
        full stream, the stream drops its oldest event, and counts it in `dropped`. The stream ends
        when the session is closed, and does not keep the session open.
        """
        check_int("capacity", capacity, 1, 2**31 - 1)
        stream: AsyncEventStream[ClusterEvent] = AsyncEventStream(capacity)
        self._open_stream(stream)
        return stream

    async def close(self, *, timeout_s: float = 10.0) -> None:
        """Refuses further requests, waits for those in flight, and disconnects.

        Requests that are still in flight after `timeout_s` seconds are canceled. With
        `timeout_s=0`, all requests in flight are canceled at once. Closing twice is harmless.
        """
        self._keep_nodes()
        await self._core.close(timeout_s)
        self._end_telemetry()
        # sync: self._logs.wait()
        await self._logs.ended()  # async only

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


explain_unawaited(AsyncSession, "session")  # async only
refuse_with(AsyncSession)  # async only
# sync: refuse_async_with(Session)


async def _open(config: Config) -> AsyncSession[Any]:
    if config.wait_s == 0:
        return await _attempt(config, config.connect_timeout_s)
    # Imported here, because most programs do not wait.
    from ._session.waiting import Waiting

    waiting = Waiting(config)
    while True:
        try:
            return await _attempt(config, waiting.next_timeout_s())
        except ConnectError as error:
            pause_s = waiting.pause_s(error)
            if pause_s is None:
                raise
        # sync: waiting.sleep(pause_s)
        await sleep(pause_s)  # async only


async def _attempt(config: Config, timeout_s: float) -> AsyncSession[Any]:
    # Tracebacks keep this frame, so no variable has the native settings, which hold secrets.
    op = _core.connect(config._native(timeout_s), AsyncRows)
    try:
        return AsyncSession(await op, config)
    except (RequestError, DecodeError) as error:
        raise _no_session(error) from error


class _Connecting(Generic[R]):  # async only
    """A session that is not open yet: to be awaited, or entered with `async with`."""

    __slots__ = ("_config", "_session")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._session: AsyncSession[R] | None = None

    def _open(self) -> Coroutine[Any, Any, AsyncSession[R]]:
        return _open(self._config)

    def __await__(self) -> Generator[Any, Any, AsyncSession[R]]:
        return self._open().__await__()

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and hasattr(AsyncSession, name):
            raise unawaited_error("turbocql.aio.connect(...)", "session", name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __enter__(self) -> NoReturn:
        raise TypeError(ASYNCHRONOUS)

    def __exit__(self, *_: object) -> None:
        """Exists because a `with` statement looks this method up before it calls `__enter__`."""

    async def __aenter__(self) -> AsyncSession[R]:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()


@overload
def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    rows: Literal["dict"],
    **settings: Unpack[_SettingsBesideRows],
) -> _Connecting[dict[str, Any]]: ...
@overload
def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    rows: Literal["tuple"],
    **settings: Unpack[_SettingsBesideRows],
) -> _Connecting[tuple[Any, ...]]: ...
@overload
def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    config: Config | None = None,
    **settings: Unpack[Settings],
) -> _Connecting[Any]: ...
@spelled_out(Settings.__annotations__, SETTINGS, _DEFAULTS)
def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    config: Config | None = None,
    **settings: Unpack[Settings],
) -> _Connecting[Any]:
    """Opens a session: `await` the result, or use it with `async with`.

    Settings are the fields of [`Config`][turbocql.config.Config], passed one by one or as a
    `config`. `contact_points` may also be a URL, as for
    [`Config.from_url`][turbocql.config.Config.from_url]; settings passed beside the URL replace
    settings of the URL.

    Raises: `ConfigError` for an invalid setting and `TypeError` for an unknown one, both
        raised by the call itself. When awaited: `ConnectError` when no session can be opened, for
        example because no contact point answers or there is no such keyspace;
        `AuthenticationError` when the user or the password is refused. `wait_s` is how long
        `connect` waits for a database that starts.

    Example:
        >>> async with turbocql.aio.connect("127.0.0.1:9042", keyspace="demo") as session:
        ...     (await session.execute("SELECT release_version FROM system.local")).one()
        Row(release_version='5.0.5')
    """
    try:
        configuration = configure(contact_points, config, dict(settings))
    finally:
        # Tracebacks keep this frame, and its arguments may contain a password.
        del contact_points, config, settings
    # sync: return _open(configuration)
    return _Connecting(configuration)  # async only


async def diagnosis(session: AsyncSession | None = None) -> Diagnosis:  # async only
    """Describes this installation and, if a session is passed, its cluster.

    The description of the cluster comes from the server's system tables. Each query takes 10
    seconds at most. If a query fails, the `notes` in the `session` of the result say why. The
    result contains no secrets.

    Raises: `TypeError` if `session` is of a class other than `AsyncSession`.
    """
    if session is not None and not isinstance(session, AsyncSession):
        raise TypeError(
            f"expected a turbocql.aio.AsyncSession, got {type(session).__name__}; for a Session,"
            " call `turbocql.diagnose(session)`"
        )
    running = steps(session, asynchronous=True)
    try:
        statement = next(running)
        while True:
            assert session is not None
            try:
                rows = await session.execute(
                    statement, consistency="ONE", timeout_s=TIMEOUT_S, rows="dict"
                )
                answer: Any = await rows.all(), rows.coordinator
            except Error as error:
                answer = error
            statement = running.send(answer)
    except StopIteration as end:
        result: Diagnosis = end.value
        return result


async def diagnose(  # async only
    session: AsyncSession | None = None, *, file: TextIO | None = None
) -> None:
    """Prints what [`diagnosis`][turbocql.aio.diagnosis] finds, to standard output or `file`."""
    print(await diagnosis(session), file=file)
