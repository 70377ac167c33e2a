# Generated from aio.py by scripts/async_to_sync.py: change that file.
"""The synchronous API: every method blocks until its result is there.

Blocking calls release the GIL, respond to Ctrl-C, and may be made from any number of threads at
once. The asynchronous twin is [`turbocql.aio`][turbocql.aio].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from uuid import UUID

from . import _core
from ._checks import check_int, check_keyspace
from ._config.meanings import SETTINGS
from ._options import (
    MEANINGS,
    CallOptions,
    ExecuteOptions,
    StatementOptions,
    checks_names,
    spelled_out,
)
from ._schema.read import Answer, Deadline, Row, SchemaReading
from ._session.base import R, configure
from ._session.tables import Tables
from ._session.wrong_with import refuse_async_with
from ._telemetry.streams import EventStream
from ._transfer.load import rows_or_columns
from ._transfer.stops import with_stop_reason
from .bulk import BulkReport
from .cluster import ClusterEvent
from .config import _DEFAULTS, Config, RowsAs, Settings
from .errors import ConnectError, DecodeError, InvalidQuery, RequestError, _no_session
from .policies import Consistency, ConsistencyName
from .rows import Rows
from .schema import Schema
from .statements import Batch, Prepared, Query, Statement, Values

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .config import _SettingsBesideRows

__all__ = ["Session", "connect"]

T = TypeVar("T")


class Session(Tables[R]):
    """An open session with a cluster, made by [`connect`][turbocql.session.connect].

    It is thread-safe. As a context manager, it closes itself at the end of the block.

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
    ) -> Rows[T]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: Literal["tuple"],
        **options: Unpack[CallOptions],
    ) -> Rows[tuple[Any, ...]]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: Literal["dict"],
        **options: Unpack[CallOptions],
    ) -> Rows[dict[str, Any]]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: None = None,
        row: None = None,
        **options: Unpack[CallOptions],
    ) -> Rows[R]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: RowsAs,
        row: None = None,
        **options: Unpack[CallOptions],
    ) -> Rows[Any]: ...

    @spelled_out(ExecuteOptions.__annotations__, MEANINGS["execute"], {})
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        **options: Unpack[ExecuteOptions],
    ) -> Rows[Any]:
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
            >>> rows = session.execute("SELECT v FROM t WHERE k = ?", (1,))
            >>> rows.one().v
            'a'
        """
        rows: Rows[Any] = _core.execute(self._core, statement, values, options).wait()
        return rows

    def prepare(self, statement: str) -> Prepared:
        """Prepares a statement on the server, unless it is in the session's cache.

        Raises: `ServerError` when the server refuses the statement.
        """
        prepared: Prepared = self._core.prepare(statement).wait()
        return prepared

    @checks_names(
        "execute_many takes a statement and rows by position: pass options by name, as in"
        " concurrency=100"
    )
    def execute_many(
        self,
        statement: str | Query | Prepared,
        rows: Iterable[Values] | None = None,
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
        report: BulkReport = self._start_many(
            statement,
            rows_or_columns(rows, columns, self._reads_on_thread),
            concurrency,
            max_failures,
            results,
            retry_for_s,
            options,
        ).wait()
        report = with_stop_reason(report, f"max_failures={max_failures}")
        if raise_failures:
            report.raise_for_failures()
        return report

    def refresh_nodes(self) -> None:
        """Reads the nodes of the cluster and the replication of the keyspaces again.

        The session also does this by itself, when the cluster reports a change and once a minute.
        """
        self._core.refresh().wait()

    def await_schema_agreement(self, *, timeout_s: float = 60.0) -> UUID:
        """Waits until all nodes that are up have the same schema, and returns the schema's version.

        Statements that change the schema wait for this agreement by themselves.

        Raises: `RequestTimeout` when the nodes do not agree within `timeout_s` seconds.
        """
        return UUID(bytes=self._core.agreement(timeout_s).wait())

    def use_keyspace(self, name: str) -> None:
        """Makes `name` the keyspace of unqualified table names; letter case matters.

        Raises: `ConfigError` when `name` cannot be the name of a keyspace; `InvalidQuery` when
            there is no such keyspace: the session then keeps its current keyspace.
        """
        check_keyspace(name)
        self.execute(f'USE "{name}"')

    def schema(self, *, refresh: bool = False, timeout_s: float = 60.0) -> Schema:
        """Returns the keyspaces, tables, types and functions of the cluster.

        The schema is read once and cached. Each call asks one node for the version of the schema,
        and reads everything again if the version has changed or `refresh` is true. The result is
        never a mix of two schemas, even if other clients change the schema during the call.

        Units: `timeout_s` in seconds, for the whole call.

        Raises: `RequestError` when a request fails, or when none of 20 readings of the schema was
            equal to the previous reading; `RequestTimeout` when the schema was not read within
            `timeout_s`; `ClosedError` after `close`.

        Example:
            >>> schema = session.schema()
            >>> schema.keyspace("demo").table("t").columns["v"].cql_type
            'text'
        """
        reading, deadline = SchemaReading(self._schema, refresh), Deadline(timeout_s)
        while queries := reading.queries:
            reading.take(self._query_schema(queries, deadline))
        self._schema = reading.result()
        return self._schema

    def _query_schema(self, queries: Sequence[str], deadline: Deadline) -> list[Answer]:
        """Returns the rows of each query, or the `InvalidQuery` if the server refuses the query."""
        answers: list[Answer] = []
        ops = [self._start_schema_query(query, deadline.left_s()) for query in queries]
        try:
            for op in ops:
                try:
                    result: Rows[Row] = op.wait()
                    rows: list[Row] = []
                    for page in result.pages():
                        rows += page
                        deadline.left_s()
                    answers.append(rows)
                except InvalidQuery as error:
                    answers.append(error)
        finally:
            for op in ops:
                op.abandon()
        return answers

    def events(self, *, capacity: int = 1000) -> EventStream[ClusterEvent]:
        """Returns a stream of the events of nodes and of the schema from now on.

        The stream holds up to `capacity` events that were not read yet. When an event comes to a
        full stream, the stream drops its oldest event, and counts it in `dropped`. The stream ends
        when the session is closed, and does not keep the session open.
        """
        check_int("capacity", capacity, 1, 2**31 - 1)
        stream: EventStream[ClusterEvent] = EventStream(capacity)
        self._open_stream(stream)
        return stream

    def close(self, *, timeout_s: float = 10.0) -> None:
        """Refuses further requests, waits for those in flight, and disconnects.

        Requests that are still in flight after `timeout_s` seconds are canceled. With
        `timeout_s=0`, all requests in flight are canceled at once. Closing twice is harmless.
        """
        self._keep_nodes()
        self._core.close(timeout_s).wait()
        self._end_telemetry()
        self._logs.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


refuse_async_with(Session)


def _open(config: Config) -> Session[Any]:
    if config.wait_s == 0:
        return _attempt(config, config.connect_timeout_s)
    # Imported here, because most programs do not wait.
    from ._session.waiting import Waiting

    waiting = Waiting(config)
    while True:
        try:
            return _attempt(config, waiting.next_timeout_s())
        except ConnectError as error:
            pause_s = waiting.pause_s(error)
            if pause_s is None:
                raise
        waiting.sleep(pause_s)


def _attempt(config: Config, timeout_s: float) -> Session[Any]:
    # Tracebacks keep this frame, so no variable has the native settings, which hold secrets.
    op = _core.connect(config._native(timeout_s), Rows)
    try:
        return Session(op.wait(), config)
    except (RequestError, DecodeError) as error:
        raise _no_session(error) from error


@overload
def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    rows: Literal["dict"],
    **settings: Unpack[_SettingsBesideRows],
) -> Session[dict[str, Any]]: ...
@overload
def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    rows: Literal["tuple"],
    **settings: Unpack[_SettingsBesideRows],
) -> Session[tuple[Any, ...]]: ...
@overload
def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    config: Config | None = None,
    **settings: Unpack[Settings],
) -> Session[Any]: ...
@spelled_out(Settings.__annotations__, SETTINGS, _DEFAULTS)
def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    config: Config | None = None,
    **settings: Unpack[Settings],
) -> Session[Any]:
    """Opens a session.

    Settings are the fields of [`Config`][turbocql.config.Config], passed one by one or as a
    `config`. `contact_points` may also be a URL, as for
    [`Config.from_url`][turbocql.config.Config.from_url]; settings passed beside the URL replace
    settings of the URL.

    Raises: `ConfigError` for an invalid setting and `TypeError` for an unknown one, before
        anything is connected; `ConnectError` when no session can be opened, for example because no
        contact point answers or there is no such keyspace; `AuthenticationError` when the user or
        the password is refused. `wait_s` is how long `connect` waits for a database that starts.

    Example:
        >>> with turbocql.connect("127.0.0.1:9042", keyspace="demo") as session:
        ...     session.execute("SELECT release_version FROM system.local").one()
        Row(release_version='5.0.5')
    """
    try:
        configuration = configure(contact_points, config, dict(settings))
    finally:
        # Tracebacks keep this frame, and its arguments may contain a password.
        del contact_points, config, settings
    return _open(configuration)
