"""The Python Database API 2.0 (PEP 249) over a synchronous session, for tools that require it.

Your own programs can do more with [`turbocql.session`][turbocql.session]. A connection's session is
its attribute `session`.

CQL has no transactions: a write is durable when `execute` returns. CQL also does not count rows,
so `Cursor.rowcount` is always -1.

Each error that a connection or cursor raises is an instance of two classes: one of
`turbocql.errors` and one of this module. For example, a write that timed out is an
`OperationalError` and an `errors.WriteTimeout`, with the attributes of `errors.WriteTimeout`.

Threads may share the module and connections (`threadsafety` 2), but not cursors.

Example:
    >>> with turbocql.dbapi.connect("127.0.0.1:9042", keyspace="demo") as connection:
    ...     connection.cursor().execute("SELECT k, v FROM t WHERE k = ?", (1,)).fetchall()
    [(1, 'a')]
"""

from __future__ import annotations

import datetime
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast, final

from . import errors
from . import session as _session
from ._checks import advise, class_name, shown
from ._config.meanings import SETTINGS
from ._options import spelled_out
from .config import _DEFAULTS, Config, Settings
from .rows import Rows
from .statements import Prepared, Query, Values, _are_values, _has_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer, Self, Unpack


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
"""Threads may share the module and connections, because sessions are thread-safe. A cursor is a
position in one result, so each thread makes its own cursor."""

paramstyle: Final = "qmark"
"""Bind markers are `?`. With a mapping as parameters, markers such as `:name` work too."""


# Exceptions


class Warning(Exception):
    """A class of PEP 249 that is never raised. `Rows.warnings` has the server's warnings."""


class Error(errors.Error):
    """The base of all errors."""


class InterfaceError(Error):
    """Use of a closed connection or cursor, or of a result whose reading was interrupted.

    `executemany` also raises it if the iterable of parameters raises an error such as `OSError`.
    """


class DatabaseError(Error):
    """The base of errors that are related to the database."""


class DataError(DatabaseError):
    """A value that cannot be encoded or decoded, or an error in a CQL function or operator."""


class OperationalError(DatabaseError):
    """No connection, no answer in time, too few replicas, and similar failures."""


class IntegrityError(DatabaseError):
    """A class of PEP 249 that is never raised, because CQL has no constraints."""


class InternalError(DatabaseError):
    """An internal error of the server, or a message that violates the protocol."""


class ProgrammingError(DatabaseError):
    """A statement that is not valid or not allowed, or invalid parameters or settings."""


class NotSupportedError(DatabaseError):
    """The error of `Connection.rollback`, and of optional methods that a cursor does not have."""


_CLASS_BY_ERROR: dict[type[errors.Error], type[Error]] = {
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
    errors.UnreadableAnswer: DataError,
    errors.NoHostAvailable: OperationalError,
    errors.SessionFull: OperationalError,
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
    # Cassandra also sends this error for a failed CQL operator, such as a division by zero.
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
    errors.RowCountError: ProgrammingError,
    errors.NoRow: ProgrammingError,
    errors.MultipleRows: ProgrammingError,
    errors.PagingTokenError: ProgrammingError,
    errors.ClosedError: InterfaceError,
}
"""The class of PEP 249 for each class of `turbocql.errors`.

A `BulkError` caused by a failed row has the class of that failure. The entry of `BulkError` applies
when the iterable of rows raised an exception that is not one of `turbocql.errors`.
"""


def _class_for(error: errors.Error) -> type[Error]:
    """The class of PEP 249 for an error."""
    if isinstance(error, Error):
        base_classes: tuple[type[Error], Any] | None = getattr(
            error, "_turbocql_base_classes", None
        )
        return base_classes[0] if base_classes else type(error)
    if isinstance(error, errors.BulkError) and isinstance(error.__cause__, errors.Error):
        return _class_for(error.__cause__)
    return next(_CLASS_BY_ERROR[cls] for cls in type(error).__mro__ if cls in _CLASS_BY_ERROR)


_COMBINED_CLASSES: dict[tuple[type[Error], type[errors.Error]], type[Error]] = {}


def _combined_class(dbapi_class: type[Error], error_class: type[errors.Error]) -> type[Error]:
    """Returns a class derived from both classes, so that `except` with either catches its errors.

    The class is made once, and cached.
    """
    if issubclass(dbapi_class, error_class):
        return dbapi_class
    if (combined := _COMBINED_CLASSES.get((dbapi_class, error_class))) is None:
        members = {
            "__module__": __name__,
            "__qualname__": f"{dbapi_class.__name__}.{error_class.__name__}",
            "__doc__": error_class.__doc__,
            "__reduce__": _reduce,
            "_turbocql_base_classes": (dbapi_class, error_class),
        }
        # Two threads may make the class at once; `setdefault` keeps the first one.
        cls = cast("type[Error]", type(error_class.__name__, (dbapi_class, error_class), members))
        combined = _COMBINED_CLASSES.setdefault((dbapi_class, error_class), cls)
    return combined


def _reduce(error: Any) -> tuple[Any, ...]:
    """Pickles an error of a combined class by its two base classes."""
    return _load, (*error._turbocql_base_classes, error.args), vars(error) or None


def _load(
    dbapi_class: type[Error], error_class: type[errors.Error], args: tuple[Any, ...]
) -> Error:
    return _combined_class(dbapi_class, error_class)(*args)


def _reraise(error: errors.Error) -> NoReturn:
    """Raises the error as an instance of its own class and of a class of this module."""
    if isinstance(error, Error):
        raise error
    converted = _combined_class(_class_for(error), type(error))(*error.args)
    vars(converted).update(vars(error))
    try:
        raise converted.with_traceback(error.__traceback__)
    finally:
        # `converted` has all attributes of `error`, so `error` is not set as its cause.
        converted.__cause__, converted.__context__ = error.__cause__, error.__context__
        converted.__suppress_context__ = error.__suppress_context__


# Types


@final
class TypeObject:
    """A type object of PEP 249: it is equal to the type code of every CQL type in its group.

    Type codes are CQL types as text, such as `list<int>`. They are the second item of each column
    in `Cursor.description`.

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

    # Equal objects need equal hashes. A type object is equal to several type codes, which have
    # different hashes, so it has no hash.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self._name


def _head(cql_type: str) -> str:
    """The kind of a CQL type, without its parameters: `list` for `frozen<list<int>>`."""
    if cql_type.startswith("frozen<"):
        return _head(cql_type[len("frozen<") :])
    if cql_type.startswith("'"):
        return "custom"
    # A name with a dot is the name of a user-defined type: only these are qualified by a keyspace.
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
"""It is equal to no type code, because CQL rows have no identity except their primary keys."""
BOOLEAN: Final = TypeObject("BOOLEAN", "boolean")
UUID: Final = TypeObject("UUID", "uuid", "timeuuid")
INET: Final = TypeObject("INET", "inet")
COLLECTION: Final = TypeObject("COLLECTION", "list", "set", "map", "tuple", "vector", "udt")
"""All types that have elements or fields, including user-defined types."""

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
"""A naive `datetime` is taken as UTC, as everywhere in turbocql."""


def DateFromTicks(ticks: float) -> datetime.date:
    """The day in UTC that is `ticks` seconds after 1970-01-01T00:00:00Z."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> datetime.time:
    """The time of day in UTC that is `ticks` seconds after 1970-01-01T00:00:00Z."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The aware `datetime` in UTC that is `ticks` seconds after 1970-01-01T00:00:00Z."""
    return datetime.datetime.fromtimestamp(ticks, datetime.timezone.utc)


def Binary(data: Buffer) -> bytes:
    """Copies the bytes of any object with the buffer protocol."""
    return bytes(memoryview(data))


# Connections and cursors


class Connection:
    """A PEP 249 connection over a session.

    It is made by [`connect`][turbocql.dbapi.connect], or from a session that you have:
    `Connection(session)`. It is thread-safe. The end of its `with` block closes the session. The
    exceptions of this module are also attributes of the connection.
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
            raise ProgrammingError(f"Connection() takes a turbocql.Session, got {got}")
        self._session = session

    @property
    def session(self) -> _session.Session:
        """The session. It raises the errors of `turbocql.errors`, not the errors of this module."""
        return self._session

    def cursor(self) -> Cursor:
        """Makes a new cursor.

        Raises: `InterfaceError` after `close`. So do all other methods except `close`.
        """
        self._check_open()
        return Cursor(self)

    def commit(self) -> None:
        """Does nothing: every write is durable when `execute` returns."""
        self._check_open()

    def rollback(self) -> NoReturn:
        """Always fails, because CQL has no transactions and writes cannot be undone.

        Raises: `NotSupportedError` if the connection is open.
        """
        self._check_open()
        raise NotSupportedError("CQL has no transactions: executed statements cannot be undone")

    def close(self) -> None:
        """Closes the session. After that, cursors cannot execute or fetch.

        Closing twice is harmless.
        """
        try:
            self._session.close()
        except errors.Error as error:
            _reraise(error)

    def _check_open(self) -> None:
        if self._session.closed:
            raise InterfaceError("the connection is closed: open another with connect()")

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


advise(
    Connection,
    {
        "execute": "use connection.cursor().execute(operation, parameters)",
        "executemany": "use connection.cursor().executemany(operation, seq_of_parameters)",
        "executescript": "execute one statement at a time with a cursor",
    },
)


class _UnsupportedMethodError(NotSupportedError, AttributeError):
    """The error for a method that cursors lack: an `AttributeError`, so that `hasattr` is false."""


class Cursor:
    """Executes statements, and returns the rows of the last statement as tuples.

    Pages are fetched as they are needed. A cursor must not be used by two threads at once. The end
    of a cursor's `with` block closes the cursor.
    """

    __slots__ = ("_closed", "_connection", "_pages", "_rows", "_rows_of_failed_fetch", "arraysize")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.arraysize = 1
        """The number of rows that `fetchmany` returns by default."""
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._rows: Rows[Any] | None = None
        self._pages: Iterator[Any] | None = None
        self._rows_of_failed_fetch: deque[Any] = deque()
        """Rows of a fetch that failed at a later page. The next fetch returns them first."""

    @property
    def connection(self) -> Connection:
        """The connection that made the cursor."""
        return self._connection

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, None]] | None:
        """A tuple for each column of the result; `None` if there is no result.

        The tuple has the column's name, its type code, and five `None`. The type code is the CQL
        type as text. It is equal to one of the module's type objects.
        """
        if self._rows is None or self._pages is None:
            return None
        return [
            (column.name, column.cql_type, None, None, None, None, None)
            for column in self._rows.columns
        ]

    @property
    def rowcount(self) -> int:
        """It is always -1, because the server does not count rows that it finds or changes."""
        return -1

    @property
    def lastrowid(self) -> None:
        """It is always `None`."""

    def execute(self, operation: str | Query | Prepared, parameters: Values | None = ()) -> Self:
        """Executes a statement and returns the cursor.

        Without parameters, a text is sent unprepared. With parameters, it is prepared, and the
        prepared statement is cached. Parameters are a sequence, a mapping for markers such as
        `:name`, or an object with fields, as for a session. Each marker needs a value;
        [`UNSET`][turbocql.types.UNSET] leaves the column as it is.

        Raises: `ProgrammingError` for a statement that the server refuses, and for too many or too
            few parameters; `DataError` for a value that its column cannot take. In these cases
            nothing was executed. `OperationalError` when the request fails.

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
                _check_parameters(prepared, () if parameters is None else parameters)
                # A `Query` carries options, so it is passed on instead of its prepared statement.
                operation = operation if isinstance(operation, Query) else prepared
            rows = session.execute(operation, parameters, rows="tuple")
        except errors.Error as error:
            _reraise(error)
        self._rows = rows
        # A statement without a result has no columns.
        self._pages = iter(rows) if rows.columns else None
        return self

    def executemany(
        self, operation: str | Query | Prepared, seq_of_parameters: Iterable[Values]
    ) -> Self:
        """Executes a statement once for each item of an iterable, with many requests in flight.

        The order of execution is not defined. The results are discarded, so this method does not
        show whether conditions such as `IF NOT EXISTS` held.

        Raises: `ProgrammingError` for a statement with a result, and for too many or too few
            parameters. The first item with too many or too few parameters ends the execution. When
            items fail for other reasons, the exception has the PEP 249 class of the first failure,
            and is also a `turbocql.errors.BulkError`. Its `report` has the outcome. Every item was
            tried, unless more than 1,000 failed.
        """
        self._begin(operation)
        try:
            prepared = self._prepared(operation)
            if prepared.result_columns:
                raise ProgrammingError(
                    "executemany is for statements without a result: call execute for each row of"
                    f" parameters{_shown(prepared)}"
                )
            if not isinstance(seq_of_parameters, Iterable):
                got = type(seq_of_parameters).__name__
                raise ProgrammingError(f"seq_of_parameters must be an iterable, got {got}")
            statement = operation if isinstance(operation, Query) else prepared
            self._connection._session.execute_many(statement, _checked(prepared, seq_of_parameters))
        except errors.Error as error:
            _reraise(error)
        return self

    def _begin(self, operation: object) -> None:
        self._check_open()
        self._forget()
        if not isinstance(operation, (str, Query, Prepared)):
            got = type(operation).__name__
            raise ProgrammingError(f"an operation is a str, Query or Prepared, got {got}")
        if isinstance(operation, str) and any(
            "\ud800" <= character <= "\udfff" for character in operation
        ):
            raise ProgrammingError("the operation has characters that UTF-8 does not know")

    def _prepared(self, operation: str | Query | Prepared) -> Prepared:
        if isinstance(operation, Prepared):
            return operation
        text = operation.text if isinstance(operation, Query) else operation
        return self._connection._session.prepare(text)

    def fetchone(self) -> Any:
        """The next row, or `None` at the end.

        Raises: `ProgrammingError` when nothing was executed or the statement has no result;
            `OperationalError` when a page cannot be fetched. The next fetch then tries again, and
            no row is lost.
        """
        rows = self._fetch(1, "fetchone")
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """The next `size` rows (`arraysize` by default), or fewer at the end.

        Raises: the same errors as `fetchone`; `ProgrammingError` also for an invalid size.
        """
        if size is None:
            size = self.arraysize
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise ProgrammingError(f"size must be an int of 0 or more, got {shown(size)}")
        # `islice` accepts at most `sys.maxsize`, and no result has more rows.
        return self._fetch(min(size, sys.maxsize), "fetchmany")

    def fetchall(self) -> list[Any]:
        """All remaining rows of all pages.

        Raises: the same errors as `fetchone`.
        """
        return self._fetch(None, "fetchall")

    def _fetch(self, size: int | None, call: str) -> list[Any]:
        """The next `size` rows, or all remaining rows if `size` is `None`.

        `call` is the name of the calling method, for error messages.
        """
        self._check_open()
        pages = self._pages
        if pages is None:
            raise ProgrammingError(
                f"no statement was executed: call execute before {call}"
                if self._rows is None
                else f"the statement has no result: {call} is for statements that return rows, such"
                " as SELECT"
            )
        unreturned_rows = self._rows_of_failed_fetch
        count = len(unreturned_rows) if size is None else min(size, len(unreturned_rows))
        rows = [unreturned_rows.popleft() for _ in range(count)]
        try:
            # If a page cannot be fetched, `rows` has the rows before this page. They are kept for
            # the next fetch.
            rows.extend(islice(pages, None if size is None else size - len(rows)))
        except BaseException as error:
            unreturned_rows.extendleft(reversed(rows))
            if isinstance(error, errors.Error):
                _reraise(error)
            raise
        return rows

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        rows = self._fetch(1, "an iteration")
        if not rows:
            raise StopIteration
        return rows[0]

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing, because the server reports the types of the parameters."""
        self._check_open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, because values are always returned whole."""
        self._check_open()

    def close(self) -> None:
        """Closes the cursor and releases its result. Closing twice is harmless."""
        self._closed = True
        self._forget()

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed: make another with connection.cursor()")
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


advise(
    Cursor,
    {
        "callproc": "CQL has no stored procedures; SELECT f(k) FROM t calls a function",
        "nextset": "a statement of CQL has one result: there is no next set",
        "scroll": "rows are read forward only: use fetchmany, or keep those of fetchall in a list",
    },
    _UnsupportedMethodError,
)

_LITERALS_OR_NAMES = re.compile(
    r"(?s)\$\$.*?(?:\$\$|$)|'(?:[^']|'')*(?:'|$)|--[^\n]*|//[^\n]*|/\*.*?(?:\*/|$)|\b\d[\w.]*"
    r'|("(?:[^"]|"")*")'
)
_MAX_SHOWN_STATEMENT = 160


def _shown(prepared: Prepared) -> str:
    """Returns the last part of a message: the statement without literals, as in session errors."""
    text, *secret = re.split(r"(?i)\bpassword\b", prepared.text, maxsplit=1)
    masked = _LITERALS_OR_NAMES.sub(lambda match: match[1] or "…", text)
    line = " ".join(masked.split()) + (" …" if secret else "")
    cut = line if len(line) <= _MAX_SHOWN_STATEMENT else f"{line[:_MAX_SHOWN_STATEMENT]}…"
    return f"; statement: {cut}"


def _check_parameters(prepared: Prepared, parameters: object) -> None:
    """Raises `ProgrammingError` if the parameters do not fit the bind markers of the statement."""
    if problem := _problem([name for _, _, name, _ in prepared.markers], parameters):
        raise ProgrammingError(f"{problem}{_shown(prepared)}")


def _problem(markers: list[str], parameters: object) -> str | None:
    """What is wrong with parameters for these bind markers; `None` if nothing is.

    Unlike a session, a cursor needs a value for each marker. Sequences and mappings must have no
    other values. But an object may have further fields, because its values are bound by name. A
    named tuple with a field for each marker may have further fields for the same reason.
    """
    if not isinstance(parameters, (tuple, list)):
        if isinstance(parameters, Mapping):
            missing = [name for name in markers if name not in parameters]
            unknown = [name for name in parameters if name not in markers]
            if missing or unknown:
                if not markers:
                    return f"the statement has no bind markers (? or :name), got {unknown[0]!r}"
                problems = [f"{name!r} is missing" for name in missing[:1]]
                problems += [f"{name!r} is not one of them" for name in unknown[:1]]
                return (
                    f"the statement's bind markers are {', '.join(markers)};"
                    f" {' and '.join(problems)}"
                )
            return None
        if _has_fields(parameters):
            # The session refuses an object that lacks a field.
            return None
        if not _are_values(parameters):
            hint = ": pass a single value as (value,)" if parameters is not None else ""
            return (
                "parameters must be a sequence, a mapping or an object with fields, got"
                f" {class_name(parameters)}{hint}"
            )
    elif markers and set(markers) <= set(_names(parameters)):
        # The values of a named tuple are bound by name.
        return None
    count = len(cast("Sequence[Any]", parameters))
    if count == len(markers):
        return None
    got = f"{count} parameter" + ("" if count == 1 else "s")
    if not markers:
        return f"the statement has no bind markers (? or :name), got {got}"
    expected = f"{len(markers)} bind marker" + ("" if len(markers) == 1 else "s")
    return f"the statement has {expected}, got {got}: pass one for each marker, in their order"


def _names(parameters: object) -> Sequence[str]:
    """Returns the field names of a named tuple; an empty sequence for other sequences.

    If turbocql made the class of the named tuple, returns the names of the result's columns.
    """
    name_and_columns = getattr(type(parameters), "_turbocql_made_of", None)
    names: Sequence[str] = (
        name_and_columns[1] if name_and_columns else getattr(type(parameters), "_fields", ())
    )
    return names


def _checked(prepared: Prepared, rows: Iterable[Values]) -> Iterator[Values]:
    markers = [name for _, _, name, _ in prepared.markers]
    for row in rows:
        if problem := _problem(markers, row):
            advice = "; each item of seq_of_parameters is the parameters of a row, as in [(1, 'a')]"
            raise ProgrammingError(f"{problem}{advice}{_shown(prepared)}")
        yield row


@spelled_out(Settings.__annotations__, SETTINGS, _DEFAULTS)
def connect(
    contact_points: str | Sequence[str] | None = None,
    *,
    config: Config | None = None,
    **settings: Unpack[Settings],
) -> Connection:
    """Opens a connection, with the arguments of [`turbocql.connect`][turbocql.session.connect].

    Cursors return rows as tuples. The setting `rows` applies to `Connection.session` only.

    Raises: `ProgrammingError` for an invalid setting, `TypeError` for an unknown one;
        `OperationalError` when no contact point answers or user and password are refused.
    """
    try:
        return Connection(_session.connect(contact_points, config=config, **settings))
    except errors.Error as error:
        _reraise(error)
    finally:
        # A traceback keeps this frame alive, and its arguments may contain a password.
        del contact_points, config, settings
