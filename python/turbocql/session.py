"""The synchronous face: every method blocks until its result is there.

Blocking calls release the interpreter, answer Ctrl-C, and may be made from any number of threads
at once. The asynchronous twin is [`turbocql.aio`][turbocql.aio].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, cast

from . import _core
from ._face import Face, configure
from .bulk import BulkReport
from .config import Config, RowsAs
from .policies import Consistency
from .rows import Rows
from .statements import Batch, Prepared, Statement, Values

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .config import Settings

__all__ = ["Session", "connect"]


class Session(Face):
    """An open session with a cluster. Made by [`connect`][turbocql.session.connect].

    Thread-safe. As a context manager it closes itself.
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
    ) -> Rows:
        """Sends a statement or a batch and gives its result.

        A text that comes with values is prepared behind the scenes and kept prepared. Values by
        name may leave names out: those columns stay as they are ([`UNSET`][turbocql.types.UNSET]).
        Options that are not given are the session's.

        Units: `timeout_s` in seconds (`math.inf` for no limit); `timestamp` in microseconds
        since 1970.

        Raises: `EncodeError` for a value that its column cannot take, before anything is sent;
            `RequestError` when the request fails; `ClosedError` after `close`.

        Example:
            >>> rows = session.execute("SELECT v FROM t WHERE k = ?", (1,))
            >>> rows.one().v
            'a'
        """
        op = self._core.execute(
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
        return cast(Rows, op.wait())

    def prepare(self, statement: str) -> Prepared:
        """Has the server prepare a statement, unless that was done before.

        Raises: `ServerError` when the server refuses it.
        """
        op = self._core.prepare(statement)
        return cast(Prepared, op.wait())

    def execute_many(
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
        report = cast(BulkReport, op.wait())
        if raise_failures:
            report.raise_for_failures()
        return report

    def close(self, *, timeout_s: float = 10.0) -> None:
        """Takes no further requests, waits for those under way, and disconnects.

        What is still under way after `timeout_s` seconds is given up. Closing twice is harmless.
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
    `config`.

    Raises: `ConfigError` for a setting that cannot be, `TypeError` for an unknown one, both at
        once; `ConnectError` when no contact point answers; `AuthenticationError` when user or
        password are refused; `InvalidQuery` when there is no such keyspace.

    Example:
        >>> with turbocql.connect("127.0.0.1:9042", keyspace="demo") as session:
        ...     session.execute("SELECT release_version FROM system.local").one()
        Row(release_version='5.0.5')
    """
    configuration = configure(contact_points, config, dict(settings))
    return Session(_core.connect(configuration._native(), Rows).wait(), configuration)
