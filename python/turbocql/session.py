"""The synchronous face: every method blocks until its result is there.

Blocking calls release the interpreter, answer Ctrl-C, and may be made from any number of threads
at once. The asynchronous twin is [`turbocql.aio`][turbocql.aio].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload
from uuid import UUID

from . import _core
from ._checks import check_keyspace
from ._face import Face, configure
from ._options import CallOptions, ExecuteOptions
from ._schema_read import Answer, SchemaReading
from .bulk import BulkReport
from .config import Config, RowsAs
from .errors import DecodeError, InvalidQuery, RequestError, _no_session
from .policies import Consistency
from .rows import Rows
from .schema import Schema
from .statements import Batch, Prepared, Query, Statement, Values

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .config import Settings

__all__ = ["Session", "connect"]

T = TypeVar("T")


class Session(Face):
    """An open session with a cluster. Made by [`connect`][turbocql.session.connect].

    Thread-safe. As a context manager it closes itself.
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
        rows: RowsAs | None = None,
        row: None = None,
        **options: Unpack[CallOptions],
    ) -> Rows[Any]: ...

    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        **options: Unpack[ExecuteOptions],
    ) -> Rows[Any]:
        """Sends a statement or a batch and gives its result.

        A text that comes with values is prepared behind the scenes and kept prepared. Values by
        name may leave names out: those columns stay as they are ([`UNSET`][turbocql.types.UNSET]).
        Options that are not given are the statement's, then the profile's, then the session's:
        `consistency`, `serial_consistency` (sent with conditional statements only, unless given
        here), `timeout_s`, `page_size`, `timestamp`, `idempotent`, `tracing`, `profile`,
        `paging_state`, and what rows are to be: `rows` or `row`.

        `row` makes each row an object: a dataclass, a named tuple, or a class of attrs, msgspec or
        pydantic gets the values by the names of its fields; any other callable gets them as
        keyword arguments. `profile` is one of `Config.profiles`. `paging_state` is where a result
        goes on: see [`Rows.paging_state`][turbocql.rows.Rows.paging_state]. `tracing` has the
        server record what it does.

        Units: `timeout_s` in seconds (`math.inf` for no limit); `timestamp` in microseconds
        since 1970.

        Raises: `EncodeError` for a value that its column cannot take, before anything is sent;
            `RequestError` when the request fails; `ClosedError` after `close`.

        Example:
            >>> rows = session.execute("SELECT v FROM t WHERE k = ?", (1,))
            >>> rows.one().v
            'a'
        """
        op = self._core.execute(statement, values, options)
        return cast("Rows[Any]", op.wait())

    def prepare(self, statement: str) -> Prepared:
        """Has the server prepare a statement, unless that was done before.

        Raises: `ServerError` when the server refuses it.
        """
        op = self._core.prepare(statement)
        return cast(Prepared, op.wait())

    def execute_many(
        self,
        statement: str | Query | Prepared,
        rows: Iterable[Values],
        /,
        *,
        concurrency: int = 256,
        max_failures: int = 1000,
        raise_failures: bool = True,
        results: bool = False,
        consistency: Consistency | str | None = None,
        timeout_s: float | None = None,
        timestamp: int | None = None,
        idempotent: bool | None = None,
        profile: str | None = None,
    ) -> BulkReport:
        """Sends a statement once for each row of values, `concurrency` of them at a time.

        The rows may be any iterable, however long: a few hundred are held at a time. Every row is
        tried, unless more than `max_failures` fail; with 0, the first failure ends it. What the
        statements return is dropped, unless `results` asks for it: all of it is then in memory.

        Raises: `BulkError` when a row failed (unless `raise_failures` is false) or the iterable
            raised; its `report` says what became of the rows. `ServerError` when the statement
            cannot be prepared.
        """
        op = self._execute_many(
            statement,
            rows,
            concurrency,
            max_failures,
            results,
            consistency=consistency,
            timeout_s=timeout_s,
            timestamp=timestamp,
            idempotent=idempotent,
            profile=profile,
        )
        report = cast(BulkReport, op.wait())
        if raise_failures:
            report.raise_for_failures()
        return report

    def refresh_nodes(self) -> None:
        """Reads anew which nodes are in the cluster, and how keyspaces are replicated.

        The session does so by itself when the cluster tells of a change, and once a minute.
        """
        self._core.refresh().wait()

    def await_schema_agreement(self, *, timeout_s: float = 60.0) -> UUID:
        """Waits until all nodes that are up have the same schema, and gives its version.

        Statements that change the schema wait for it by themselves.

        Raises: `RequestTimeout` when they do not agree within `timeout_s` seconds.
        """
        return UUID(bytes=self._core.agreement(timeout_s).wait())

    def use_keyspace(self, name: str) -> None:
        """Makes `name` the keyspace of unqualified table names; letter case matters.

        Raises: `ConfigError` for what cannot be the name of a keyspace; `InvalidQuery` when there
            is no such keyspace, and the session stays in its own.
        """
        check_keyspace(name)
        self.execute(f'USE "{name}"')

    def schema(self, *, refresh: bool = False) -> Schema:
        """Gives the keyspaces, tables, types and functions that there are.

        They are read once and kept; each call asks one node for the schema's version, and all is
        read anew when that has changed, or with `refresh`. A schema is never half of one and half
        of another, whatever others change in the meantime.

        Raises: `RequestError` when a request fails, or when the schema is never the same for long
            enough to be read; `ClosedError` after `close`.

        Example:
            >>> schema = session.schema()
            >>> schema.keyspace("demo").table("t").columns["v"].cql_type
            'text'
        """
        reading = SchemaReading(self._schema, refresh)
        while queries := reading.queries:
            reading.take(self._ask(queries))
        self._schema = reading.result()
        return self._schema

    def _ask(self, queries: Sequence[str]) -> list[Answer]:
        """The rows of each query, or the error of one that the server does not know how to do."""
        answers: list[Answer] = []
        for op in [self._look(query) for query in queries]:
            try:
                rows = op.wait()
                answers.append(rows.all())
            except InvalidQuery as error:
                answers.append(error)
        return answers

    def close(self, *, timeout_s: float = 10.0) -> None:
        """Takes no further requests, waits for those under way, and disconnects.

        What is still under way after `timeout_s` seconds is given up; with 0, at once. Closing
        twice is harmless.
        """
        self._core.close(timeout_s).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    config: Config | None = None,
    **settings: Unpack[Settings],
) -> Session:
    """Opens a session.

    Settings are the fields of [`Config`][turbocql.config.Config], given one by one or as a
    `config`. In the place of contact points a URL is taken, as of
    [`Config.from_url`][turbocql.config.Config.from_url]; settings beside it win.

    Raises: `ConfigError` for a setting that cannot be, `TypeError` for an unknown one, both at
        once; `ConnectError` when no session comes about, because no contact point answers, say, or
        because there is no such keyspace; `AuthenticationError` when user or password are refused.

    Example:
        >>> with turbocql.connect("127.0.0.1:9042", keyspace="demo") as session:
        ...     session.execute("SELECT release_version FROM system.local").one()
        Row(release_version='5.0.5')
    """
    try:
        configuration = configure(contact_points, config, dict(settings))
    finally:
        # Tracebacks keep this frame, which has a password in it, perhaps.
        del contact_points, config, settings
    op = _core.connect(configuration._native(), Rows)
    try:
        return Session(op.wait(), configuration)
    except (RequestError, DecodeError) as error:
        raise _no_session(error) from error
