"""Tests the exceptions of `turbocql.errors`: their tree, attributes, pickles and messages."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import turbocql
from turbocql import codec, errors
from turbocql.bulk import BulkFailure, BulkReport

CLASSES: dict[str, type[errors.Error]] = {
    name: cls
    for name, cls in vars(errors).items()
    if inspect.isclass(cls) and issubclass(cls, errors.Error)
}

STANDARD_BASES: dict[str, tuple[type[Exception], ...]] = {
    "ConfigError": (ValueError,),
    "CodecError": (ValueError,),
    "EncodeError": (TypeError, ValueError),
    "RangeError": (TypeError, ValueError, OverflowError),
    "DecodeError": (ValueError,),
    "PagingTokenError": (ValueError,),
    "ConnectError": (ConnectionError,),
    "AuthenticationError": (ConnectionError,),
    "RequestTimeout": (TimeoutError,),
    "ConnectionLost": (ConnectionError,),
    "UnreadableAnswer": (ValueError,),
    "WriteTimeout": (TimeoutError,),
    "ReadTimeout": (TimeoutError,),
}

# These are the error codes of section 8 of the native protocol's specification.
CODES = {
    0x0000: "ServerInternalError",
    0x000A: "ProtocolViolation",
    0x0100: "BadCredentials",
    0x1000: "Unavailable",
    0x1001: "Overloaded",
    0x1002: "IsBootstrapping",
    0x1003: "TruncateError",
    0x1100: "WriteTimeout",
    0x1200: "ReadTimeout",
    0x1300: "ReadFailure",
    0x1400: "FunctionFailure",
    0x1500: "WriteFailure",
    0x1600: "CdcWriteFailure",
    0x1700: "CasWriteUnknown",
    0x2000: "CqlSyntaxError",
    0x2100: "Unauthorized",
    0x2200: "InvalidQuery",
    0x2300: "InvalidSchema",
    0x2400: "AlreadyExists",
    0x2500: "Unprepared",
}


def drawn() -> dict[str, str | None]:
    """Parses the tree in the docstring of `turbocql.errors`. Maps each class to its base class."""
    assert errors.__doc__
    drawing = errors.__doc__.split("```")[1]
    parents: dict[str, str | None] = {}
    branch: list[str] = []
    for line in drawing.strip().splitlines():
        indent = len(line) - len(line.lstrip("│├└─ "))
        depth = indent // 4
        del branch[depth:]
        bare = line.lstrip("│├└─ ")
        names = re.findall(r"\w+", bare if "," in bare.split("  ")[0] else bare.split()[0])
        for name in names:
            assert name not in parents, name
            parents[name] = branch[-1] if branch else None
        branch.append(names[0])
    return parents


def own_base(cls: type[errors.Error]) -> str | None:
    bases = [base.__name__ for base in cls.__bases__ if issubclass(base, errors.Error)]
    # UnreadableAnswer also derives from DecodeError, because earlier versions raised DecodeError.
    assert len(bases) <= 1 + (cls is errors.UnreadableAnswer)
    return bases[0] if bases else None


def test_the_class_tree_equals_the_drawing() -> None:
    assert {name: own_base(cls) for name, cls in CLASSES.items()} == drawn()


def test_the_package_exports_the_base_class() -> None:
    assert turbocql.Error is errors.Error


def test_every_class_is_exported_and_described() -> None:
    classes = [cls for cls in vars(errors).values() if inspect.isclass(cls)]
    assert {cls for cls in classes if issubclass(cls, BaseException)} == set(CLASSES.values())
    assert sorted(errors.__all__) == errors.__all__ == sorted([*CLASSES, "Attempt"])
    for cls in CLASSES.values():
        assert cls.__doc__
        assert cls.__module__ == "turbocql.errors"


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_bases_of_the_standard_library(name: str) -> None:
    cls = CLASSES[name]
    standard = (ValueError, TypeError, OverflowError, ConnectionError, TimeoutError)
    assert {base for base in standard if issubclass(cls, base)} == set(STANDARD_BASES.get(name, ()))
    depth = len([base for base in cls.__mro__ if issubclass(base, errors.Error)])
    assert depth <= 4 + (cls is errors.UnreadableAnswer)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_errors_pickle_with_their_attributes(name: str) -> None:
    error: Any = CLASSES[name]("what happened")
    added = {"path": "value[1]", "code": 7, "details": {"received": 1}, "may_have_applied": True}
    for key, value in added.items():
        setattr(error, key, value)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        same = pickle.loads(pickle.dumps(error, protocol))
        assert type(same) is CLASSES[name]
        assert (str(same), same.args, vars(same)) == (str(error), error.args, added)


@pytest.mark.parametrize("code", CODES, ids=hex)
def test_a_class_for_every_error_code_of_cql(code: int) -> None:
    details = {"consistency": "QUORUM", "required": 2}
    error: Any = errors.from_engine("server", "no", code, "10.0.0.1:9042", 3, True, details)
    assert type(error).__name__ == CODES[code]
    assert isinstance(error, errors.ServerError)
    assert (error.code, error.coordinator, error.attempts) == (code, "10.0.0.1:9042", 3)
    assert (error.may_have_applied, error.details) == (True, details)
    assert str(error).startswith("no; asked 10.0.0.1:9042 (3 attempts); it may have applied")
    same = pickle.loads(pickle.dumps(error))
    assert vars(same) == vars(error)
    assert f"0x{code:04X}" in (type(error).__doc__ or "")


def test_codes_and_classes_are_one_to_one() -> None:
    servers = {name for name, cls in CLASSES.items() if issubclass(cls, errors.ServerError)}
    # RateLimited has no fixed code, because each connection negotiates it with ScyllaDB.
    assert servers - {"ServerError", "RateLimited"} == set(CODES.values())
    unknown: Any = errors.from_engine("server", "new", 0x7777, None, None, False, {})
    assert type(unknown) is errors.ServerError
    assert unknown.code == 0x7777


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        ("config", errors.ConfigError),
        ("connect", errors.ConnectError),
        ("authentication", errors.NoHostAvailable),
        ("timeout", errors.RequestTimeout),
        ("broken", errors.ConnectionLost),
        ("no_hosts", errors.NoHostAvailable),
        ("full", errors.SessionFull),
        ("encode", errors.EncodeError),
        ("decode", errors.UnreadableAnswer),
        ("closed", errors.ClosedError),
        ("internal", errors.RequestError),
        ("a kind of tomorrow", errors.RequestError),
    ],
)
def test_each_kind_of_engine_error_has_a_class(kind: str, cls: type[errors.Error]) -> None:
    error = errors.from_engine(kind, "why", None, "10.0.0.1:9042", 2, True, {"a": 1})
    assert type(error) is cls
    assert str(error).startswith("why")
    if isinstance(error, errors.RequestError):
        assert (error.coordinator, error.attempts, error.details) == ("10.0.0.1:9042", 2, {"a": 1})
    else:
        assert vars(error) == {}


def test_messages_name_the_node_the_attempts_and_the_advice() -> None:
    """An error adds texts to the message. They come before the statement, and none comes twice."""

    def message(kind: str, said: str, code: int | None = None, attempts: int = 1) -> str:
        refusal = errors.from_engine(
            kind, f"{said}; statement: DELETE; x", code, "a:1", attempts, kind == "timeout", {}
        )
        text, mark, statement = str(refusal).partition("; statement: ")
        assert (mark, statement) == ("; statement: ", "DELETE; x")
        return text

    assert message("server", "no", 0x1000) == "no; asked a:1"
    assert message("server", "no", 0x1000, 3) == "no; asked a:1 (3 attempts)"
    assert message("timeout", "late; asked a:1") == "late; asked a:1; it may have applied"
    assert message("server", "no", 0x1001) == "no; asked a:1; send fewer requests at a time"
    assert "split the batch" in message("server", "Batch too large", 0x2200)
    assert message("server", "at '%'", 0x2000).endswith("; bind markers are ? or :name")
    assert message("closed", "closed") == "closed"


def test_a_refused_login_has_another_class_after_connecting() -> None:
    for message in ("connecting to a:1: user", "connecting: no contact point"):
        error = errors.from_engine("authentication", message, 0x0100, None, None, False, {})
        assert type(error) is errors.AuthenticationError
    message = "executing: no working connection to any node asked: user"
    later: Any = errors.from_engine("authentication", message, 0x0100, "a:1", 2, True, {})
    assert type(later) is errors.NoHostAvailable
    assert (later.coordinator, later.attempts, later.may_have_applied) == ("a:1", 2, True)


class Failing:
    """An operation that fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def wait(self) -> None:
        raise self.error

    def __await__(self) -> Iterator[None]:
        raise self.error
        yield


def open_session() -> None:
    turbocql.connect()


def await_session() -> None:
    async def open_it() -> None:
        await turbocql.aio.connect()

    asyncio.run(open_it())


@pytest.mark.parametrize("opened", [open_session, await_session])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.ServerInternalError("connecting to a:1: no"), "connecting to a:1: no"),
        (errors.InvalidQuery("no such keyspace"), "connecting: no such keyspace"),
        (errors.RequestError("?"), "connecting: ?"),
        (errors.DecodeError("connecting to a:1: bytes"), "connecting to a:1: bytes"),
    ],
)
def test_errors_of_connecting_become_a_connect_error(
    monkeypatch: pytest.MonkeyPatch, opened: Callable[[], None], error: Any, message: str
) -> None:
    monkeypatch.setattr(turbocql._core, "connect", lambda *_: Failing(error))
    with pytest.raises(errors.ConnectError) as caught:
        opened()
    assert type(caught.value) is errors.ConnectError
    assert str(caught.value) == message
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("opened", [open_session, await_session])
@pytest.mark.parametrize(
    "error",
    [
        errors.AuthenticationError("who"),
        errors.ConfigError("no"),
        errors.ClosedError("closed"),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_errors_of_connecting_that_keep_their_class(
    monkeypatch: pytest.MonkeyPatch, opened: Callable[[], None], error: Any
) -> None:
    monkeypatch.setattr(turbocql._core, "connect", lambda *_: Failing(error))
    with pytest.raises(type(error)) as caught:
        opened()
    assert caught.value is error


def test_the_defaults_of_attributes() -> None:
    request, server = errors.RequestError("x"), errors.ServerError("x")
    assert (request.coordinator, request.attempts, request.may_have_applied) == (None, None, False)
    assert dict(request.details) == {}
    with pytest.raises(TypeError):
        request.details["a"] = 1  # type: ignore[index]
    assert server.code == -1
    assert (errors.CodecError("x").path, errors.CodecError("x").cql_type) == ("", "")


def test_codec_errors_pickle_as_they_were_raised() -> None:
    with pytest.raises(errors.EncodeError) as caught:
        codec.encode("list<int>", [1, "a"])
    same = pickle.loads(pickle.dumps(caught.value))
    assert type(same) is errors.EncodeError
    assert (str(same), same.path, same.cql_type) == (str(caught.value), "value[1]", "int")


def test_bulk_errors_have_the_counts_of_their_report() -> None:
    failure = BulkFailure(4, errors.InvalidQuery("no such column"))
    with pytest.raises(errors.BulkError, match="1 of 5 rows failed; the first, row 4") as caught:
        BulkReport(rows=5, succeeded=4, failures=[failure]).raise_for_failures()
    error = caught.value
    assert (error.done, error.failed) == (4, [failure])
    same = pickle.loads(pickle.dumps(error))
    assert (same.done, str(same)) == (4, str(error))
    assert [(f.row, type(f.error), str(f.error)) for f in same.failed] == [
        (4, errors.InvalidQuery, "no such column")
    ]


def test_the_rate_limit_of_scylladb_is_recognized_by_its_details() -> None:
    details = {"op_type": "WRITE", "rejected_by_coordinator": True}
    error = errors.from_engine("server", "why", None, None, 1, False, details)
    assert type(error) is errors.RateLimited
    assert type(errors.from_engine("server", "why", None, None, 1, False, {})) is errors.ServerError
