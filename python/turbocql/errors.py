"""The exceptions of turbocql, as a tree.

```
Error
├── ConfigError                an invalid setting (also ValueError)
├── CodecError                 a value and its CQL type do not match (also ValueError)
│   ├── EncodeError            a Python value that the column cannot take (also TypeError)
│   │   └── RangeError         a value beyond the range of its type (also OverflowError)
│   └── DecodeError            bytes that are not a value of their type
├── ConnectError               no session could be opened (also ConnectionError)
│   └── AuthenticationError    the server refused user or password
├── RequestError               a request failed
│   ├── RequestTimeout         the driver's own deadline passed (also TimeoutError)
│   ├── ConnectionLost         the connection broke during the request (also ConnectionError)
│   ├── UnreadableAnswer       the answer could not be decoded (also DecodeError)
│   ├── NoHostAvailable        no node could be asked
│   ├── SessionFull            the session has as many requests in flight as it may have
│   └── ServerError            the server answered with an error: one class per CQL error code
│       ├── ServerInternalError, ProtocolViolation, BadCredentials, Unavailable, Overloaded,
│       ├── IsBootstrapping, TruncateError, WriteTimeout, ReadTimeout, ReadFailure,
│       ├── FunctionFailure, WriteFailure, CdcWriteFailure, CasWriteUnknown, RateLimited,
│       └── CqlSyntaxError, Unauthorized, InvalidQuery, InvalidSchema, AlreadyExists, Unprepared
├── BulkError                  rows of an execute_many failed
├── RowCountError              a result has not exactly one row
│   └── NoRow, MultipleRows
├── PagingTokenError           a signed paging token is not valid (also ValueError)
└── ClosedError                use after close, or in a forked child
```

All these exceptions can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

if TYPE_CHECKING:
    from .bulk import BulkReport

__all__ = [
    "AlreadyExists",
    "Attempt",
    "AuthenticationError",
    "BadCredentials",
    "BulkError",
    "CasWriteUnknown",
    "CdcWriteFailure",
    "ClosedError",
    "CodecError",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "CqlSyntaxError",
    "DecodeError",
    "EncodeError",
    "Error",
    "FunctionFailure",
    "InvalidQuery",
    "InvalidSchema",
    "IsBootstrapping",
    "MultipleRows",
    "NoHostAvailable",
    "NoRow",
    "Overloaded",
    "PagingTokenError",
    "ProtocolViolation",
    "RangeError",
    "RateLimited",
    "ReadFailure",
    "ReadTimeout",
    "RequestError",
    "RequestTimeout",
    "RowCountError",
    "ServerError",
    "ServerInternalError",
    "SessionFull",
    "TruncateError",
    "Unauthorized",
    "Unavailable",
    "Unprepared",
    "UnreadableAnswer",
    "WriteFailure",
    "WriteTimeout",
]


class Error(Exception):
    """The base class of turbocql's exceptions."""


class ConfigError(Error, ValueError):
    """An invalid setting or option."""


class CodecError(Error, ValueError):
    """A value and its CQL type do not match."""

    path: str = ""
    """The path to the faulty part: the column if there is one, then the position in the value."""
    cql_type: str = ""
    """The CQL type of the faulty part."""


class EncodeError(CodecError, TypeError):
    """A Python value that its column cannot take. Nothing was sent."""


class RangeError(EncodeError, OverflowError):
    """A number, date, time or duration beyond the range of its CQL type. Nothing was sent.

    Examples are `2**31` for an `int`, `1e39` for a `float`, and a `decimal` whose exponent takes
    more than 32 bits. The number may be nested in a larger value. This error is also raised for a
    number that does not fit its field in a message of the protocol.
    """


class DecodeError(CodecError):
    """Bytes that are not a value of their CQL type."""


class ConnectError(Error, ConnectionError):
    """No session could be opened. The message has the reasons, such as contact points' answers.

    When a server answered with an error, or with bytes that cannot be decoded, the exception for
    this answer is the `__cause__`. For example, the `__cause__` is an `InvalidQuery` when the
    keyspace does not exist.
    """


class AuthenticationError(ConnectError):
    """The server refused the user or password."""


class Attempt(NamedTuple):
    """An attempt to execute a request. It failed, or had not ended when the request failed."""

    node: str
    """The node that the request was sent to, as `address:port`."""
    answer: str | None
    """The error of the attempt; `None` if there was no answer yet."""
    began_s: float
    """When the attempt began, in seconds since the beginning of the request."""
    ended_s: float | None
    """When the attempt ended, in seconds since the beginning of the request; `None` if it had not
    ended."""


class RequestError(Error):
    """A request failed.

    When several attempts failed for different reasons, the exception is for the most informative
    reason. An error that a server sent has precedence over the loss of a connection.
    """

    coordinator: str | None = None
    """The node that the request was last sent to, as `address:port`; `None` if unknown."""
    attempts: int | None = None
    """How many times the request was sent; `None` if unknown."""
    may_have_applied: bool = False
    """Whether a write may have taken effect although the request failed."""
    details: Mapping[str, Any] = MappingProxyType({})
    """Further fields of the server's error, such as `consistency`, `required` and `received`."""
    history: tuple[Attempt, ...] = ()
    """The attempts that failed or had not ended, in the order of their beginning."""


class RequestTimeout(RequestError, TimeoutError):
    """The driver's own deadline passed before an answer came."""


class ConnectionLost(RequestError, ConnectionError):
    """The connection broke while the request was in flight."""


class UnreadableAnswer(RequestError, DecodeError):
    """The server's answer could not be decoded.

    The server has carried out the request, or refused it: the answer does not show which. So
    `may_have_applied` is true for a write.
    """


class NoHostAvailable(RequestError):
    """No node could be asked: none is connected, or none was left to try."""


class SessionFull(RequestError):
    """The session has as many requests in flight as it may have. Nothing was sent.

    Raised only with `Config(when_full="raise")`.
    """


class ServerError(RequestError):
    """The server answered with an error."""

    code: int = -1
    """The error code of the CQL protocol; -1 if the engine does not report the code."""


class ServerInternalError(ServerError):
    """Code 0x0000: something unexpected happened on the server."""


class ProtocolViolation(ServerError):
    """Code 0x000A: the server found a message malformed or out of place."""


class BadCredentials(ServerError):
    """Code 0x0100: authentication failed."""


class Unavailable(ServerError):
    """Code 0x1000: not enough replicas were alive. The attempt that got this answer did nothing.

    Another attempt of the same request may have changed data: see `may_have_applied`.
    """


class Overloaded(ServerError):
    """Code 0x1001: the coordinator is overloaded. See `may_have_applied`."""


class IsBootstrapping(ServerError):
    """Code 0x1002: the coordinator is still starting; nothing was done."""


class TruncateError(ServerError):
    """Code 0x1003: a truncation failed."""


class WriteTimeout(ServerError, TimeoutError):
    """Code 0x1100: too few replicas acknowledged a write in time; the write may still apply."""


class ReadTimeout(ServerError, TimeoutError):
    """Code 0x1200: too few replicas answered a read in time."""


class ReadFailure(ServerError):
    """Code 0x1300: a replica failed during a read."""


class FunctionFailure(ServerError):
    """Code 0x1400: a user-defined function failed."""


class WriteFailure(ServerError):
    """Code 0x1500: a replica failed during a write; other replicas may have applied the write."""


class CdcWriteFailure(ServerError):
    """Code 0x1600: the space for change data capture is full."""


class CasWriteUnknown(ServerError):
    """Code 0x1700: it is unknown whether a contended lightweight transaction was applied."""


class CqlSyntaxError(ServerError):
    """Code 0x2000: the statement is not CQL."""


class Unauthorized(ServerError):
    """Code 0x2100: the user lacks the permission for the request."""


class InvalidQuery(ServerError):
    """Code 0x2200: the statement is correct in syntax, but not valid."""


class InvalidSchema(ServerError):
    """Code 0x2300: a schema statement that cannot be carried out."""


class AlreadyExists(ServerError):
    """Code 0x2400: the keyspace or table exists already."""


class Unprepared(ServerError):
    """Code 0x2500: the server does not know a statement, even after it was prepared again."""


class RateLimited(ServerError):
    """ScyllaDB: the partition's rate limit was exceeded. See `may_have_applied`."""


class BulkError(Error):
    """Rows of values of an `execute_many` or a load failed, or could not be read."""

    report: BulkReport
    """The outcome of the rows."""

    @property
    def done(self) -> int:
        """The number of rows that succeeded."""
        return self.report.succeeded

    @property
    def failed(self) -> list[Any]:
        """The rows that failed, with their errors."""
        return self.report.failures


class RowCountError(Error):
    """A result has no row or several rows, where exactly one row was expected."""


class NoRow(RowCountError):
    """A result has no row, where exactly one row was expected."""


class MultipleRows(RowCountError):
    """A result has several rows, where exactly one row was expected."""


class PagingTokenError(Error, ValueError):
    """A signed paging token was changed, or is for another statement, values, context or key.

    Nothing was sent.
    """


class ClosedError(Error):
    """The session is closed, or this process is a fork and the session belongs to its parent."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from ._elsewhere import missing_attribute

        raise missing_attribute(__name__, name)


_BY_CODE: dict[int, type[ServerError]] = {
    **{0x0000: ServerInternalError, 0x000A: ProtocolViolation, 0x0100: BadCredentials},
    **{0x1000: Unavailable, 0x1001: Overloaded, 0x1002: IsBootstrapping, 0x1003: TruncateError},
    **{0x1100: WriteTimeout, 0x1200: ReadTimeout, 0x1300: ReadFailure, 0x1400: FunctionFailure},
    **{0x1500: WriteFailure, 0x1600: CdcWriteFailure, 0x1700: CasWriteUnknown},
    **{0x2000: CqlSyntaxError, 0x2100: Unauthorized, 0x2200: InvalidQuery, 0x2300: InvalidSchema},
    **{0x2400: AlreadyExists, 0x2500: Unprepared},
}

_BY_KIND: dict[str, type[Error]] = {
    "config": ConfigError,
    "connect": ConnectError,
    "authentication": AuthenticationError,
    "timeout": RequestTimeout,
    "broken": ConnectionLost,
    "no_hosts": NoHostAvailable,
    "full": SessionFull,
    "encode": EncodeError,
    "decode": UnreadableAnswer,
    "closed": ClosedError,
    "internal": RequestError,
}

_STATEMENT = "; statement: "
"""The beginning of the last part of the engine's messages."""
_CONNECTING = "connecting"
"""The first word of the engine's messages about a session that is being opened."""

_SESSIONS: WeakSet[Any] = WeakSet()
"""The sessions of the process. Their caches contain the column names that the advice in a message
suggests."""

_CODEC_KIND = {"encode": EncodeError, "range": RangeError, "decode": DecodeError}


def from_codec(kind: str, message: str, path: str, cql_type: str) -> CodecError:
    """Makes the exception for a value and a type that do not match. The native core calls this."""
    with suppress(OSError):  # The import fails if the process has no file descriptor left.
        from ._hints import value_hint

        if hint := value_hint(message):
            message = _insert_before_statement(message, [hint])
    error: CodecError = _CODEC_KIND[kind](message)
    error.path = path
    error.cql_type = cql_type
    return error


def in_batch(error: BaseException, number: int) -> None:
    """If the error is a `CodecError`, adds the statement's number in its batch to the message."""
    if isinstance(error, CodecError):
        error.args = (f"statement {number} of the batch: {error}",)


def _no_session(error: RequestError | DecodeError) -> ConnectError:
    """Makes the exception that `connect` raises in place of an error of one of its requests."""
    message = str(error)
    connect_message = message if message.startswith(_CONNECTING) else f"{_CONNECTING}: {message}"
    return ConnectError(connect_message)


def _insert_before_statement(message: str, added: Sequence[str]) -> str:
    """Returns a message of the engine with further parts inserted before the statement."""
    text, mark, statement = message.partition(_STATEMENT)
    return "; ".join([text, *added]) + mark + statement


def from_engine(
    kind: str,
    message: str,
    code: int | None,
    coordinator: str | None,
    attempts: int | None,
    may_have_applied: bool,
    details: dict[str, Any],
    history: Sequence[tuple[str, str | None, float, float | None]] = (),
) -> Error:
    """Makes the exception for a failure that the engine reports. The native core calls this."""
    if kind == "server":
        # The engine reports the details of ScyllaDB's rate limit error, but not its code.
        limited = code is None and "rejected_by_coordinator" in details
        cls: type[Error] = (
            RateLimited if limited else _BY_CODE.get(-1 if code is None else code, ServerError)
        )
    elif kind == "authentication" and not message.startswith(_CONNECTING):
        # A session that was open has lost its connections, and the server refuses new connections.
        cls = NoHostAvailable
    else:
        cls = _BY_KIND.get(kind, RequestError)
    added: list[str] = []
    if issubclass(cls, RequestError):
        if coordinator is not None and coordinator not in message:
            times = f" ({attempts} attempts)" if attempts is not None and attempts > 1 else ""
            added.append(f"asked {coordinator}{times}")
        if may_have_applied:
            added.append("it may have applied")
    with suppress(Exception):  # A failure to make the advice must not hide the error.
        from ._hints import hints  # Imported here, because most programs raise no such error.

        text, _, statement = message.partition(_STATEMENT)
        added += hints(cls.__name__, text, statement, coordinator, _SESSIONS)
    error = cls(_insert_before_statement(message, added))
    if isinstance(error, ServerError):
        error.code = -1 if code is None else code
    if isinstance(error, RequestError):
        error.coordinator = coordinator
        error.attempts = attempts
        error.may_have_applied = may_have_applied
        error.details = details
        error.history = tuple(Attempt(*attempt) for attempt in history)
    return error
