"""The asynchronous face: the same methods with the same words, to be awaited.

Works on any event loop; many completions wake it once. The synchronous twin is
[`turbocql.session`][turbocql.session].
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from . import _core
from ._face import Face, configure
from .bulk import BulkReport
from .config import Config, RowsAs
from .policies import Consistency
from .rows import AsyncRows
from .statements import Batch, Prepared, Statement, Values

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .config import Settings

__all__ = ["AsyncSession", "connect"]


class AsyncSession(Face):
    """An open session with a cluster. Made by [`connect`][turbocql.aio.connect].

    May be used from several event loops. As an asynchronous context manager it closes itself.
    """

    __slots__ = ()

    def execute(
        self,
        statement: Statement | Batch,
        values: Values | None = None,
        *,
        consistency: Consistency | str | None = None,
        serial_consistency: Consistency | str | None = None,
        timeout_s: float | None = None,
        page_size: int | None = None,
        timestamp: int | None = None,
        idempotent: bool | None = None,
        rows: RowsAs | None = None,
    ) -> Coroutine[Any, Any, AsyncRows]:
        """Sends a statement or a batch and gives its result.

        A text that comes with values is prepared behind the scenes and kept prepared. Values by
        name may leave names out: those columns stay as they are ([`UNSET`][turbocql.types.UNSET]).
        Options that are not given are the session's.

        Units: `timeout_s` in seconds (`math.inf` for no limit); `timestamp` in microseconds
        since 1970.

        Raises: `EncodeError` for a value that its column cannot take, before anything is sent;
            `RequestError` when the request fails; `ClosedError` after `close`.

        Example:
            >>> rows = await session.execute("SELECT v FROM t WHERE k = ?", (1,))
            >>> rows.one().v
            'a'
        """
        return self._core.call(
            statement,
            values,
            consistency,
            serial_consistency,
            timeout_s,
            page_size,
            timestamp,
            idempotent,
            rows,
        )

    async def prepare(self, statement: str) -> Prepared:
        """Has the server prepare a statement, unless that was done before.

        Raises: `ServerError` when the server refuses it.
        """
        op = self._core.prepare(statement)
        return cast(Prepared, await op)

    async def execute_many(
        self,
        statement: str | Prepared,
        rows: Iterable[Values],
        *,
        concurrency: int = 256,
        max_failures: int = 1000,
        raise_failures: bool = True,
        consistency: Consistency | str | None = None,
        timeout_s: float | None = None,
        timestamp: int | None = None,
        idempotent: bool | None = None,
    ) -> BulkReport:
        """Sends a statement once for each row of values, `concurrency` of them at a time.

        The rows may be any iterable, however long: a few hundred are held at a time. Every row
        is tried, unless more than `max_failures` fail. What the statements return is dropped.

        Raises: `BulkError` when a row failed (unless `raise_failures` is false) or the iterable
            raised; its `report` says what became of the rows. `ServerError` when the statement
            cannot be prepared.
        """
        op = self._execute_many(
            statement,
            rows,
            concurrency,
            max_failures,
            consistency,
            timeout_s,
            timestamp,
            idempotent,
        )
        report = cast(BulkReport, await op)
        if raise_failures:
            report.raise_for_failures()
        return report

    async def close(self, *, timeout_s: float = 10.0) -> None:
        """Takes no further requests, waits for those under way, and disconnects.

        What is still under way after `timeout_s` seconds is given up. Closing twice is harmless.
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
        return AsyncSession(await op, self._config)

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
    `config`.

    Raises: `ConfigError` for a setting that cannot be, `TypeError` for an unknown one, both at
        once; when awaited, `ConnectError` when no contact point answers and
        `AuthenticationError` when user or password are refused, `InvalidQuery` when there is no
        such keyspace.

    Example:
        >>> async with turbocql.aio.connect("127.0.0.1:9042", keyspace="demo") as session:
        ...     (await session.execute("SELECT release_version FROM system.local")).one()
        Row(release_version='5.0.5')
    """
    return _Connecting(configure(contact_points, config, dict(settings)))
