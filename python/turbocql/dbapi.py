"""The Python Database API 2.0 (PEP 249) over a synchronous session, for tools that ask for one.

Programs of your own have more from [`turbocql.session`][turbocql.session], to which
`Connection.session` is the way.

CQL has no transactions: a write is durable when `execute` returns. It also counts no rows, so
`Cursor.rowcount` is always -1.

Every exception that leaves this module is a class of it and, where one of `turbocql.errors` is
behind it, of that too: a write that timed out is an `OperationalError` and an
`errors.WriteTimeout`, with `may_have_applied` and all its other attributes. Connections and modules
may be shared by threads (`threadsafety` 2), cursors may not.

Example:
    >>> with turbocql.dbapi.connect("127.0.0.1:9042", keyspace="demo") as connection:
    ...     connection.cursor().execute("SELECT k, v FROM t WHERE k = ?", (1,)).fetchall()
    [(1, 'a')]
"""

from __future__ import annotations

import datetime
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast, final

from . import errors
from . import session as _session
from ._checks import shown
from .config import Config
from .rows import Rows, _Iteration
from .statements import Prepared, Query, Values, _are_values, _has_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer, Self, Unpack

    from .config import Settings

__all__ = [
    "BINARY",
    "BOOLEAN",
    "COLLECTION",
    "DATETIME",
    "INET",
    "NUMBER",
    "ROWID",
    "STRING",
    "UUID",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TypeObject",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel: Final = "2.0"
"""The version of the Database API."""

threadsafety: Final = 2
"""Threads may share the module and connections: a session is made for that. A cursor is the place
in one result, so each thread makes its own."""

paramstyle: Final = "qmark"
"""Bind markers are `?`. With a mapping, `:name` markers are taken too."""


# Exceptions


class Warning(Exception):
    """Never raised: what the server warns of is in `Rows.warnings` of a session's results."""


class Error(errors.Error):
    """The base of all errors."""


class InterfaceError(Error):
    """Use of what is closed, or a result whose reading was broken off."""


class DatabaseError(Error):
    """The base of errors that have to do with the database."""


class DataError(DatabaseError):
    """A value that does not fit its column, or a function or operation that failed on one."""


class OperationalError(DatabaseError):
    """No connection, no answer in time, too few replicas, and the like."""


class IntegrityError(DatabaseError):
    """Never raised: CQL has no constraints. A condition that does not hold is a result."""


class InternalError(DatabaseError):
    """The server found itself, or a message, in disorder."""


class ProgrammingError(DatabaseError):
    """A statement that is not valid, or not allowed; parameters or settings that cannot be."""


class NotSupportedError(DatabaseError):
    """What CQL does not have."""


_OURS: dict[type[errors.Error], type[Error]] = {
    errors.Error: InterfaceError,
    errors.ConfigError: ProgrammingError,
    errors.CodecError: DataError,
    errors.EncodeError: DataError,
    errors.RangeError: DataError,
    errors.DecodeError: DataError,
    errors.ConnectError: OperationalError,
    errors.AuthenticationError: OperationalError,
    errors.RequestError: DatabaseError,
    errors.RequestTimeout: OperationalError,
    errors.ConnectionLost: OperationalError,
    errors.NoHostAvailable: OperationalError,
    errors.ServerError: DatabaseError,
    errors.ServerInternalError: InternalError,
    errors.ProtocolViolation: InternalError,
    errors.BadCredentials: OperationalError,
    errors.Unavailable: OperationalError,
    errors.Overloaded: OperationalError,
    errors.IsBootstrapping: OperationalError,
    errors.TruncateError: OperationalError,
    errors.WriteTimeout: OperationalError,
    errors.ReadTimeout: OperationalError,
    errors.ReadFailure: OperationalError,
    # Of operators too: a division by zero is one.
    errors.FunctionFailure: DataError,
    errors.WriteFailure: OperationalError,
    errors.CdcWriteFailure: OperationalError,
    errors.CasWriteUnknown: OperationalError,
    errors.CqlSyntaxError: ProgrammingError,
    errors.Unauthorized: ProgrammingError,
    errors.InvalidQuery: ProgrammingError,
    errors.InvalidSchema: ProgrammingError,
    errors.AlreadyExists: ProgrammingError,
    errors.Unprepared: OperationalError,
    errors.RateLimited: OperationalError,
    errors.BulkError: InterfaceError,
    errors.ClosedError: InterfaceError,
}
"""The class that an error is also of. A `BulkError` takes after its first failure; this is for one
whose iterable raised something foreign."""


def _class_for(error: errors.Error) -> type[Error]:
    """The class of PEP 249 for an error."""
    if isinstance(error, Error):
        made_of: tuple[type[Error], Any] | None = getattr(error, "_turbocql_made_of", None)
        return made_of[0] if made_of else type(error)
    if isinstance(error, errors.BulkError) and isinstance(error.__cause__, errors.Error):
        return _class_for(error.__cause__)
    return next(_OURS[cls] for cls in type(error).__mro__ if cls in _OURS)


_BOTH: dict[tuple[type[Error], type[errors.Error]], type[Error]] = {}


def _both(ours: type[Error], theirs: type[errors.Error]) -> type[Error]:
    """The class of errors that are caught as either; the same one each time."""
    if issubclass(ours, theirs):
        return ours
    if (made := _BOTH.get((ours, theirs))) is None:
        members = {
            "__module__": __name__,
            "__qualname__": f"{ours.__name__}.{theirs.__name__}",
            "__doc__": theirs.__doc__,
            "__reduce__": _reduce,
            "_turbocql_made_of": (ours, theirs),
        }
        # Of two threads that make it at once, one is first.
        cls = cast("type[Error]", type(theirs.__name__, (ours, theirs), members))
        made = _BOTH.setdefault((ours, theirs), cls)
    return made


def _reduce(error: Any) -> tuple[Any, ...]:
    """How errors of both classes are pickled: by what their class is made of."""
    return _load, (*error._turbocql_made_of, error.args), vars(error) or None


def _load(ours: type[Error], theirs: type[errors.Error], args: tuple[Any, ...]) -> Error:
    return _both(ours, theirs)(*args)


def _reraise(error: errors.Error) -> NoReturn:
    """Raises an error as one of this module's too, the same in everything else."""
    if isinstance(error, Error):
        raise error
    same = _both(_class_for(error), type(error))(*error.args)
    vars(same).update(vars(error))
    try:
        raise same.with_traceback(error.__traceback__)
    finally:
        # The original says nothing more, so it is not shown as what this one came from.
        same.__cause__, same.__context__ = error.__cause__, error.__context__
        same.__suppress_context__ = error.__suppress_context__


# Types


@final
class TypeObject:
    """Equal to the type codes of a group of CQL types.

    Type codes, the second item of each column of `Cursor.description`, are CQL types as text, such
    as `list<int>`.

    Example:
        >>> turbocql.dbapi.NUMBER == "int", turbocql.dbapi.COLLECTION == "vector<float, 3>"
        (True, True)
    """

    __slots__ = ("_name", "_types")

    def __init__(self, name: str, *types: str) -> None:
        self._name = name
        self._types = frozenset(types)

    def __eq__(self, other: object) -> bool:
        return _head(other) in self._types if isinstance(other, str) else self is other

    # Equal things would have to hash the same, and one group equals many codes.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self._name


def _head(cql_type: str) -> str:
    """What a CQL type is, without what it is of."""
    if cql_type.startswith("frozen<"):
        return _head(cql_type[len("frozen<") :])
    if cql_type.startswith("'"):
        return "custom"
    # Only user-defined types have the name of a keyspace before their own.
    return "udt" if "." in cql_type.partition("<")[0] else cql_type.partition("<")[0]


STRING: Final = TypeObject("STRING", "ascii", "text")
BINARY: Final = TypeObject("BINARY", "blob", "custom")
NUMBER: Final = TypeObject(
    "NUMBER",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "counter",
    "varint",
    "float",
    "double",
    "decimal",
)
DATETIME: Final = TypeObject("DATETIME", "date", "time", "timestamp", "duration")
ROWID: Final = TypeObject("ROWID")
"""Equal to no type code: CQL's rows have no other identity than their primary keys."""
BOOLEAN: Final = TypeObject("BOOLEAN", "boolean")
UUID: Final = TypeObject("UUID", "uuid", "timeuuid")
INET: Final = TypeObject("INET", "inet")
COLLECTION: Final = TypeObject("COLLECTION", "list", "set", "map", "tuple", "vector", "udt")
"""Everything that has parts, user-defined types too."""

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
"""Naive ones mean UTC, as everywhere in turbocql."""


def DateFromTicks(ticks: float) -> datetime.date:
    """The day, in UTC, of a number of seconds since 1970."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> datetime.time:
    """The time of day, in UTC, of a number of seconds since 1970."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The instant, aware and in UTC, of a number of seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks, datetime.timezone.utc)


def Binary(data: Buffer) -> bytes:
    """The bytes of any buffer."""
    return bytes(memoryview(data))


# Connections and cursors


class Connection:
    """A session, as PEP 249 sees it. Made by [`connect`][turbocql.dbapi.connect], or around a
    session that you have: `Connection(session)`.

    Thread-safe. The end of its `with` block closes it, and with it the session. The exceptions of
    this module are also its attributes.
    """

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    __slots__ = ("_session",)

    def __init__(self, session: _session.Session) -> None:
        if not isinstance(session, _session.Session):
            got = type(session).__name__
            raise ProgrammingError(f"a connection is around a turbocql.Session, got {got}")
        self._session = session

    @property
    def session(self) -> _session.Session:
        """The full driver. What it raises is of `turbocql.errors` alone."""
        return self._session

    def cursor(self) -> Cursor:
        """A new cursor.

        Raises: `InterfaceError` after `close`, as everything but `close` does.
        """
        self._check_open()
        return Cursor(self)

    def commit(self) -> None:
        """Does nothing: every write is durable when `execute` returns."""
        self._check_open()

    def rollback(self) -> NoReturn:
        """Raises: `NotSupportedError`: what was written stays."""
        self._check_open()
        raise NotSupportedError("CQL has no transactions: what was executed cannot be taken back")

    def close(self) -> None:
        """Closes the session, and with it the connection's cursors. Closing twice is harmless."""
        try:
            self._session.close()
        except errors.Error as error:
            _reraise(error)

    def _check_open(self) -> None:
        if self._session.closed:
            raise InterfaceError("the connection is closed")

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Cursor:
    """Executes statements and gives the rows of the last one, as tuples, page by page.

    For one thread at a time. The end of its `with` block closes it.
    """

    __slots__ = ("_closed", "_connection", "_given_back", "_pages", "_rows", "arraysize")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.arraysize = 1
        """How many rows `fetchmany` gives unless told."""
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._rows: Rows[Any] | None = None
        self._pages: _Iteration | None = None
        self._given_back: deque[Any] = deque()
        """Rows of a fetch that failed at a later page: the next one begins with them."""

    @property
    def connection(self) -> Connection:
        """The connection that the cursor is of."""
        return self._connection

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, None]] | None:
        """Name and type code of each column, each with five `None`; `None` without a result.

        The type code is the CQL type as text, and equals one of the module's type objects.
        """
        if self._rows is None or self._pages is None:
            return None
        return [
            (column.name, column.cql_type, None, None, None, None, None)
            for column in self._rows.columns
        ]

    @property
    def rowcount(self) -> int:
        """Always -1: the server counts neither what it found nor what it changed."""
        return -1

    @property
    def lastrowid(self) -> None:
        """Always `None`."""

    def execute(self, operation: str | Query | Prepared, parameters: Values | None = ()) -> Self:
        """Executes a statement and gives the cursor.

        Without parameters a text is sent as it is; with parameters it is prepared, and kept
        prepared. They are a sequence, a mapping for markers such as `:name`, or an object with
        fields as a session takes it, with a value for each marker:
        [`UNSET`][turbocql.types.UNSET] leaves a column as it is.

        Raises: `ProgrammingError` for a statement that the server refuses and for parameters too
            many or too few; `DataError` for a value that its column cannot take. Nothing was
            executed then. `OperationalError` when the request fails.

        Example:
            >>> cursor.execute("SELECT v FROM t WHERE k = :key", {"key": 1}).fetchone()
            ('a',)
        """
        self._begin(operation)
        session = self._connection._session
        if isinstance(parameters, (tuple, list, dict)) and not parameters:
            parameters = None
        try:
            if parameters is not None or isinstance(operation, Prepared):
                prepared = self._prepared(operation)
                _check_parameters(_markers(prepared), () if parameters is None else parameters)
                # A query has options, which go with it.
                operation = operation if isinstance(operation, Query) else prepared
            rows = session.execute(operation, parameters, rows="tuple")
        except errors.Error as error:
            _reraise(error)
        self._rows = rows
        # A statement without a result has no columns.
        self._pages = _Iteration(rows) if rows.columns else None
        return self

    def executemany(
        self, operation: str | Query | Prepared, seq_of_parameters: Iterable[Values]
    ) -> Self:
        """Executes a statement once for each of any number of parameters, many at a time.

        They may be any iterable, and are executed in no particular order. What the statements
        return is dropped, so do not ask it whether conditions (`IF NOT EXISTS`) held.

        Raises: `ProgrammingError` for parameters too many or too few, which ends it, and for a
            query. When others failed, an `Error` that is a `turbocql.errors.BulkError` too, of
            the class of the first failure; every row was tried unless a thousand failed, and its
            `report` says what became of them.
        """
        self._begin(operation)
        try:
            prepared = self._prepared(operation)
            if prepared.result_columns:
                raise ProgrammingError("executemany is for statements without a result")
            if not isinstance(seq_of_parameters, Iterable):
                got = type(seq_of_parameters).__name__
                raise ProgrammingError(f"seq_of_parameters must be an iterable, got {got}")
            sent = operation if isinstance(operation, Query) else prepared
            self._connection._session.execute_many(sent, _checked(prepared, seq_of_parameters))
        except errors.Error as error:
            _reraise(error)
        return self

    def _begin(self, operation: object) -> None:
        self._check_open()
        self._forget()
        if not isinstance(operation, (str, Query, Prepared)):
            got = type(operation).__name__
            raise ProgrammingError(f"an operation is a str, Query or Prepared, got {got}")
        if isinstance(operation, str) and any("\ud800" <= one <= "\udfff" for one in operation):
            raise ProgrammingError("the operation has characters that UTF-8 does not know")

    def _prepared(self, operation: str | Query | Prepared) -> Prepared:
        if isinstance(operation, Prepared):
            return operation
        text = operation.text if isinstance(operation, Query) else operation
        return self._connection._session.prepare(text)

    def fetchone(self) -> Any:
        """The next row, or `None` at the end.

        Raises: `ProgrammingError` when nothing was executed or the statement has no result;
            `OperationalError` when a page cannot be had, which the next fetch tries again; no row
            is lost.
        """
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """The next `size` rows (`arraysize` unless told), fewer at the end.

        Raises: as `fetchone`.
        """
        if size is None:
            size = self.arraysize
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise ProgrammingError(f"size must be an int of 0 or more, got {shown(size)}")
        # There are no more rows than that.
        return self._fetch(min(size, sys.maxsize))

    def fetchall(self) -> list[Any]:
        """All further rows of all pages.

        Raises: as `fetchone`.
        """
        return self._fetch(None)

    def _fetch(self, size: int | None) -> list[Any]:
        """So many rows, or all."""
        self._check_open()
        pages = self._pages
        if pages is None:
            executed = self._rows is not None
            raise ProgrammingError(
                "the statement has no result" if executed else "no statement was executed"
            )
        waiting = self._given_back
        count = len(waiting) if size is None else min(size, len(waiting))
        rows = [waiting.popleft() for _ in range(count)]
        try:
            while size is None or len(rows) < size:
                # A step goes to the next page where it must; the rest of the page is taken as one.
                rows.append(next(pages))
                rows += islice(pages._page or (), None if size is None else size - len(rows))
        except StopIteration:
            pass
        except BaseException as error:
            waiting.extendleft(reversed(rows))
            if isinstance(error, errors.Error):
                _reraise(error)
            raise
        return rows

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        rows = self._fetch(1)
        if not rows:
            raise StopIteration
        return rows[0]

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing: the server says what types parameters have."""
        self._check_open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing: values come whole."""
        self._check_open()

    def close(self) -> None:
        """Lets go of the result. Closing twice is harmless."""
        self._closed = True
        self._forget()

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self._connection._check_open()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _markers(prepared: Prepared) -> list[str]:
    return [name for _, _, name, _ in prepared.markers]


def _check_parameters(markers: list[str], parameters: object) -> None:
    """Raises unless there is a value for each bind marker: a session would leave out the others."""
    if not isinstance(parameters, (tuple, list)):
        if isinstance(parameters, Mapping):
            missing = [name for name in markers if name not in parameters]
            unknown = [name for name in parameters if name not in markers]
            if missing or unknown:
                trouble = f"{missing[0]!r} is missing" if missing else f"{unknown[0]!r} is none"
                known = ", ".join(markers) or "none"
                raise ProgrammingError(f"the statement's bind markers are {known}; {trouble}")
            return
        if _has_fields(parameters):
            # The session refuses one that lacks a field.
            return
        if not _are_values(parameters):
            got = type(parameters).__name__
            raise ProgrammingError(
                f"parameters must be a sequence, a mapping or an object with fields, got {got}"
            )
    elif markers and set(markers) <= set(_names(parameters)):
        # A named tuple goes by its names.
        return
    count = len(cast("Sequence[Any]", parameters))
    if count != len(markers):
        raise ProgrammingError(
            f"the statement has {len(markers)} bind markers, got {count} parameters"
        )


def _names(parameters: object) -> Sequence[str]:
    """What a named tuple calls its parts, one of turbocql's as the columns are called."""
    made_of = getattr(type(parameters), "_turbocql_made_of", None)
    names: Sequence[str] = made_of[1] if made_of else getattr(type(parameters), "_fields", ())
    return names


def _checked(prepared: Prepared, rows: Iterable[Values]) -> Iterator[Values]:
    markers = _markers(prepared)
    for row in rows:
        _check_parameters(markers, row)
        yield row


def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    config: Config | None = None,
    **settings: Unpack[Settings],
) -> Connection:
    """Opens a connection, with the same words as [`turbocql.connect`][turbocql.session.connect].

    Rows come as tuples whatever `rows` says, which is for `Connection.session`.

    Raises: `ProgrammingError` for a setting that cannot be, `TypeError` for an unknown one;
        `OperationalError` when no contact point answers or user and password are refused.
    """
    try:
        return Connection(_session.connect(contact_points, config=config, **settings))
    except errors.Error as error:
        _reraise(error)
    finally:
        # Tracebacks keep this frame, which has a password in it, perhaps.
        del contact_points, config, settings
