"""The asynchronous face: the same methods with the same words, to be awaited.

Works on any event loop; many completions wake it once. The synchronous twin is
[`turbocql.session`][turbocql.session].
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Generator, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar, cast, overload
from uuid import UUID

from . import _core
from ._checks import check_keyspace
from ._diagnosis import TIMEOUT_S, Diagnosis, steps
from ._diagnosis import Answer as Told
from ._face import Face, configure
from ._options import CallOptions, ExecuteOptions
from ._schema_read import Answer, SchemaReading
from .bulk import BulkReport
from .config import Config, RowsAs
from .errors import DecodeError, Error, InvalidQuery, RequestError, _no_session
from .policies import Consistency
from .rows import AsyncRows
from .schema import Schema
from .statements import Batch, Prepared, Query, Statement, Values

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .config import Settings

__all__ = ["AsyncSession", "connect", "diagnose", "diagnosis"]

T = TypeVar("T")


class AsyncSession(Face):
    """An open session with a cluster. Made by [`connect`][turbocql.aio.connect].

    May be used from several event loops. As an asynchronous context manager it closes itself.
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
    ) -> Coroutine[Any, Any, AsyncRows[T]]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: Literal["tuple"],
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, AsyncRows[tuple[Any, ...]]]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: Literal["dict"],
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, AsyncRows[dict[str, Any]]]: ...

    @overload
    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        rows: RowsAs | None = None,
        row: None = None,
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, AsyncRows[Any]]: ...

    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        **options: Unpack[ExecuteOptions],
    ) -> Coroutine[Any, Any, AsyncRows[Any]]:
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
            >>> rows = await session.execute("SELECT v FROM t WHERE k = ?", (1,))
            >>> rows.one().v
            'a'
        """
        return self._core.call(statement, values, options)

    async def prepare(self, statement: str) -> Prepared:
        """Has the server prepare a statement, unless that was done before.

        Raises: `ServerError` when the server refuses it.
        """
        op = self._core.prepare(statement)
        return cast(Prepared, await op)

    async def execute_many(
        self,
        statement: str | Query | Prepared,
        rows: Iterable[Values] | AsyncIterable[Values],
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
        options: dict[str, Any] = {
            "consistency": consistency,
            "timeout_s": timeout_s,
            "timestamp": timestamp,
            "idempotent": idempotent,
            "profile": profile,
        }

        async def send(some: Iterable[Values], may_fail: int) -> BulkReport:
            op = self._execute_many(statement, some, concurrency, may_fail, results, **options)
            return cast(BulkReport, await op)

        if isinstance(rows, AsyncIterable):
            self._check_many(concurrency, max_failures)
            # It imports asyncio, which takes long; who comes here has it.
            from ._async_rows import from_async

            report = await from_async(rows, send, max_failures)
        else:
            report = await send(rows, max_failures)
        if raise_failures:
            report.raise_for_failures()
        return report

    async def refresh_nodes(self) -> None:
        """Reads anew which nodes are in the cluster, and how keyspaces are replicated.

        The session does so by itself when the cluster tells of a change, and once a minute.
        """
        await self._core.refresh()

    async def await_schema_agreement(self, *, timeout_s: float = 60.0) -> UUID:
        """Waits until all nodes that are up have the same schema, and gives its version.

        Statements that change the schema wait for it by themselves.

        Raises: `RequestTimeout` when they do not agree within `timeout_s` seconds.
        """
        return UUID(bytes=await self._core.agreement(timeout_s))

    async def use_keyspace(self, name: str) -> None:
        """Makes `name` the keyspace of unqualified table names; letter case matters.

        Raises: `ConfigError` for what cannot be the name of a keyspace; `InvalidQuery` when there
            is no such keyspace, and the session stays in its own.
        """
        check_keyspace(name)
        await self.execute(f'USE "{name}"')

    async def schema(self, *, refresh: bool = False) -> Schema:
        """Gives the keyspaces, tables, types and functions that there are.

        They are read once and kept; each call asks one node for the schema's version, and all is
        read anew when that has changed, or with `refresh`. A schema is never half of one and half
        of another, whatever others change in the meantime.

        Raises: `RequestError` when a request fails, or when the schema is never the same for long
            enough to be read; `ClosedError` after `close`.

        Example:
            >>> schema = await session.schema()
            >>> schema.keyspace("demo").table("t").columns["v"].cql_type
            'text'
        """
        reading = SchemaReading(self._schema, refresh)
        while queries := reading.queries:
            reading.take(await self._ask(queries))
        self._schema = reading.result()
        return self._schema

    async def _ask(self, queries: Sequence[str]) -> list[Answer]:
        """The rows of each query, or the error of one that the server does not know how to do."""
        answers: list[Answer] = []
        for op in [self._look(query) for query in queries]:
            try:
                rows = await op
                answers.append(await rows.all())
            except InvalidQuery as error:
                answers.append(error)
        return answers

    async def close(self, *, timeout_s: float = 10.0) -> None:
        """Takes no further requests, waits for those under way, and disconnects.

        What is still under way after `timeout_s` seconds is given up; with 0, at once. Closing
        twice is harmless.
        """
        await self._core.close(timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class _Connecting:
    """A session on its way: awaited, or entered with `async with`."""

    __slots__ = ("_config", "_session")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._session: AsyncSession | None = None

    async def _open(self) -> AsyncSession:
        op = _core.connect(self._config._native(), AsyncRows)
        try:
            return AsyncSession(await op, self._config)
        except (RequestError, DecodeError) as error:
            raise _no_session(error) from error

    def __await__(self) -> Generator[Any, Any, AsyncSession]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncSession:
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


def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    config: Config | None = None,
    **settings: Unpack[Settings],
) -> _Connecting:
    """Opens a session: `await` it, or use it with `async with`.

    Settings are the fields of [`Config`][turbocql.config.Config], given one by one or as a
    `config`. In the place of contact points a URL is taken, as of
    [`Config.from_url`][turbocql.config.Config.from_url]; settings beside it win.

    Raises: `ConfigError` for a setting that cannot be, `TypeError` for an unknown one, both at
        once; when awaited, `ConnectError` when no session comes about, because no contact point
        answers, say, or because there is no such keyspace; `AuthenticationError` when user or
        password are refused.

    Example:
        >>> async with turbocql.aio.connect("127.0.0.1:9042", keyspace="demo") as session:
        ...     (await session.execute("SELECT release_version FROM system.local")).one()
        Row(release_version='5.0.5')
    """
    try:
        return _Connecting(configure(contact_points, config, dict(settings)))
    finally:
        # Tracebacks keep this frame, which has a password in it, perhaps.
        del contact_points, config, settings


async def diagnosis(session: AsyncSession | None = None) -> Diagnosis:
    """What there is to know about this installation and, with a session, about its cluster.

    The server is asked for its system tables; what it does not answer is among the notes of the
    session, with the reason, after 10 seconds per question at most. There are no secrets in it.

    Raises: `TypeError` for what is no session of this face.
    """
    if session is not None and not isinstance(session, AsyncSession):
        raise TypeError(
            f"expected a turbocql.aio.AsyncSession, got {type(session).__name__}; a Session is for"
            " turbocql.diagnose(session)"
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
                answer: Told = await rows.all(), rows.coordinator
            except Error as error:
                answer = error
            statement = running.send(answer)
    except StopIteration as end:
        found: Diagnosis = end.value
        return found


async def diagnose(session: AsyncSession | None = None, *, file: TextIO | None = None) -> None:
    """Prints what [`diagnosis`][turbocql.aio.diagnosis] finds, to standard output or `file`."""
    print(await diagnosis(session), file=file)
