"""What can go wrong, as a tree of exceptions.

```
Error
├── ConfigError                a setting that cannot be (also ValueError)
├── CodecError                 a value and its CQL type do not fit (also ValueError)
│   ├── EncodeError            a Python value that the column cannot take (also TypeError)
│   │   └── RangeError         a value beyond the range of its type (also OverflowError)
│   └── DecodeError            bytes that are no value of their type
├── ConnectError               no session came about (also ConnectionError)
│   └── AuthenticationError    the server refused user or password
├── RequestError               a request failed
│   ├── RequestTimeout         the driver's own deadline passed (also TimeoutError)
│   ├── ConnectionLost         the connection broke under the request (also ConnectionError)
│   ├── NoHostAvailable        no node could be asked
│   └── ServerError            the server said so: one class per CQL error code
│       ├── ServerInternalError, ProtocolViolation, BadCredentials, Unavailable, Overloaded,
│       ├── IsBootstrapping, TruncateError, WriteTimeout, ReadTimeout, ReadFailure,
│       ├── FunctionFailure, WriteFailure, CdcWriteFailure, CasWriteUnknown, RateLimited,
│       └── CqlSyntaxError, Unauthorized, InvalidQuery, InvalidSchema, AlreadyExists, Unprepared
├── BulkError                  rows of an execute_many failed
└── ClosedError                use after close, or in a forked child
```

All of them can be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bulk import BulkReport

__all__ = [
    "AlreadyExists",
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
    "NoHostAvailable",
    "Overloaded",
    "ProtocolViolation",
    "RangeError",
    "RateLimited",
    "ReadFailure",
    "ReadTimeout",
    "RequestError",
    "RequestTimeout",
    "ServerError",
    "ServerInternalError",
    "TruncateError",
    "Unauthorized",
    "Unavailable",
    "Unprepared",
    "WriteFailure",
    "WriteTimeout",
]


class Error(Exception):
    """Everything that turbocql raises on its own account."""


class ConfigError(Error, ValueError):
    """A setting that cannot be."""


class CodecError(Error, ValueError):
    """A value and its CQL type do not fit."""

    path: str = ""
    """Where: the column, and the way from there to the part at fault; empty at the top."""
    cql_type: str = ""
    """The CQL type at that place."""


class EncodeError(CodecError, TypeError):
    """A Python value that its column cannot take. Nothing was sent."""


class RangeError(EncodeError, OverflowError):
    """A number, date, time or duration beyond the range of its CQL type. Nothing was sent.

    `2**31` for an `int`, `1e39` for a `float`, a `decimal` whose exponent takes more than 32 bits,
    wherever in a value it stands; also a number that a message of the protocol has no room for.
    """


class DecodeError(CodecError):
    """Bytes that are no value of their CQL type."""


class ConnectError(Error, ConnectionError):
    """No session came about; the message says what each contact point answered.

    Where a server answered with an error, or with what cannot be read, that is the `__cause__`: an
    `InvalidQuery` when there is no such keyspace.
    """


class AuthenticationError(ConnectError):
    """The server refused the user or password."""


class RequestError(Error):
    """A request failed."""

    coordinator: str | None = None
    """The node that was asked last, as `address:port`, where known."""
    attempts: int | None = None
    """How many times the request was sent, where known."""
    may_have_applied: bool = False
    """Whether a write may have taken effect although it failed."""
    details: Mapping[str, Any] = MappingProxyType({})
    """What the server added, such as `consistency`, `required` and `received`."""


class RequestTimeout(RequestError, TimeoutError):
    """The driver's own deadline passed before an answer came."""


class ConnectionLost(RequestError, ConnectionError):
    """The connection broke while the request was under way."""


class NoHostAvailable(RequestError):
    """No node could be asked: none is connected, or none was left to try."""


class ServerError(RequestError):
    """The server answered with an error."""

    code: int = -1
    """The error code of the CQL protocol; -1 where the engine does not tell."""


class ServerInternalError(ServerError):
    """Code 0x0000: something unexpected happened on the server."""


class ProtocolViolation(ServerError):
    """Code 0x000A: the server found a message malformed or out of place."""


class BadCredentials(ServerError):
    """Code 0x0100: authentication failed."""


class Unavailable(ServerError):
    """Code 0x1000: not enough replicas were alive; nothing was done."""


class Overloaded(ServerError):
    """Code 0x1001: the coordinator has too much to do; nothing was done."""


class IsBootstrapping(ServerError):
    """Code 0x1002: the coordinator is still starting; nothing was done."""


class TruncateError(ServerError):
    """Code 0x1003: a truncation failed."""


class WriteTimeout(ServerError, TimeoutError):
    """Code 0x1100: too few replicas acknowledged a write in time; it may still apply."""


class ReadTimeout(ServerError, TimeoutError):
    """Code 0x1200: too few replicas answered a read in time."""


class ReadFailure(ServerError):
    """Code 0x1300: a replica failed at a read."""


class FunctionFailure(ServerError):
    """Code 0x1400: a user-defined function failed."""


class WriteFailure(ServerError):
    """Code 0x1500: a replica failed at a write, which others may have applied."""


class CdcWriteFailure(ServerError):
    """Code 0x1600: the change data capture's space is full."""


class CasWriteUnknown(ServerError):
    """Code 0x1700: whether a contended lightweight transaction applied is unknown."""


class CqlSyntaxError(ServerError):
    """Code 0x2000: the statement is not CQL."""


class Unauthorized(ServerError):
    """Code 0x2100: the user may not do that."""


class InvalidQuery(ServerError):
    """Code 0x2200: the statement is CQL, but not a valid one."""


class InvalidSchema(ServerError):
    """Code 0x2300: a schema statement that cannot be carried out."""


class AlreadyExists(ServerError):
    """Code 0x2400: the keyspace or table exists already."""


class Unprepared(ServerError):
    """Code 0x2500: the server does not know a prepared statement, even after preparing again."""


class RateLimited(ServerError):
    """ScyllaDB: the partition's rate limit was exceeded; nothing was done."""


class BulkError(Error):
    """Rows of an `execute_many` failed, or reading the rows did."""

    report: BulkReport
    """What became of the rows."""

    @property
    def done(self) -> int:
        """Rows that succeeded."""
        return self.report.succeeded

    @property
    def failed(self) -> list[Any]:
        """Rows that failed, with their errors."""
        return self.report.failures


class ClosedError(Error):
    """The session is closed, or belongs to the process that this one was forked from."""


_BY_CODE: dict[int, type[ServerError]] = {
    0x0000: ServerInternalError,
    0x000A: ProtocolViolation,
    0x0100: BadCredentials,
    0x1000: Unavailable,
    0x1001: Overloaded,
    0x1002: IsBootstrapping,
    0x1003: TruncateError,
    0x1100: WriteTimeout,
    0x1200: ReadTimeout,
    0x1300: ReadFailure,
    0x1400: FunctionFailure,
    0x1500: WriteFailure,
    0x1600: CdcWriteFailure,
    0x1700: CasWriteUnknown,
    0x2000: CqlSyntaxError,
    0x2100: Unauthorized,
    0x2200: InvalidQuery,
    0x2300: InvalidSchema,
    0x2400: AlreadyExists,
    0x2500: Unprepared,
}

_BY_KIND: dict[str, type[Error]] = {
    "config": ConfigError,
    "connect": ConnectError,
    "authentication": AuthenticationError,
    "timeout": RequestTimeout,
    "broken": ConnectionLost,
    "no_hosts": NoHostAvailable,
    "encode": EncodeError,
    "decode": DecodeError,
    "closed": ClosedError,
    "internal": RequestError,
}


_SYNTAX_ERROR = 0x2000
_CONNECTING = "connecting"
"""How the engine's messages begin before there is a session."""


_CODEC_KIND: dict[str, type[CodecError]] = {
    "encode": EncodeError,
    "range": RangeError,
    "decode": DecodeError,
}


def from_codec(kind: str, message: str, path: str, cql_type: str) -> CodecError:
    """The exception for a value that does not fit. Called by the native core."""
    error = _CODEC_KIND[kind](message)
    error.path = path
    error.cql_type = cql_type
    return error


def in_batch(error: BaseException, number: int) -> None:
    """Has an error say which statement of a batch it is about. Called by the native core."""
    if isinstance(error, CodecError):
        error.args = (f"statement {number} of the batch: {error}",)


def _no_session(error: RequestError | DecodeError) -> ConnectError:
    """What `connect` raises for a failure of one of its requests; to be raised from that."""
    message = str(error)
    said = message if message.startswith(_CONNECTING) else f"{_CONNECTING}: {message}"
    return ConnectError(said)


def from_engine(
    kind: str,
    message: str,
    code: int | None,
    coordinator: str | None,
    attempts: int | None,
    may_have_applied: bool,
    details: dict[str, Any],
) -> Error:
    """The exception for a failure of the engine. Called by the native core."""
    if kind == "server":
        if code == _SYNTAX_ERROR and "'%" in message:
            message += "; bind markers are ? or :name"
        # The engine keeps the code of ScyllaDB's rate limit to itself, but not its details.
        limited = code is None and "rejected_by_coordinator" in details
        cls = RateLimited if limited else _BY_CODE.get(-1 if code is None else code, ServerError)
        server_error = cls(message)
        server_error.code = -1 if code is None else code
        error: Error = server_error
    elif kind == "authentication" and not message.startswith(_CONNECTING):
        # A session that is open has lost its connections, and no new one is let in.
        error = NoHostAvailable(message)
    else:
        error = _BY_KIND.get(kind, RequestError)(message)
    if isinstance(error, RequestError):
        error.coordinator = coordinator
        error.attempts = attempts
        error.may_have_applied = may_have_applied
        error.details = details
    return error
