"""Tests the Database API without a connection: names, exceptions, types and values."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import inspect
import pickle
import re
import socket
import traceback
from array import array
from collections import OrderedDict, UserList
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from tests.support.children import run_python

import turbocql
from turbocql import codec, dbapi, errors
from turbocql.bulk import BulkFailure, BulkReport

CLASSES = [
    cls for cls in vars(errors).values() if inspect.isclass(cls) and issubclass(cls, errors.Error)
]

# The classes of the section "Exceptions" of PEP 249, with their base classes.
STANDARD: dict[str, type[Exception]] = {
    "Warning": Exception,
    "Error": Exception,
    "InterfaceError": dbapi.Error,
    "DatabaseError": dbapi.Error,
    "DataError": dbapi.DatabaseError,
    "OperationalError": dbapi.DatabaseError,
    "IntegrityError": dbapi.DatabaseError,
    "InternalError": dbapi.DatabaseError,
    "ProgrammingError": dbapi.DatabaseError,
    "NotSupportedError": dbapi.DatabaseError,
}


def translated(error: errors.Error) -> Any:
    """Returns the exception that the Database API raises if a session raises `error`."""
    with pytest.raises(dbapi.Error) as caught:
        dbapi._reraise(error)
    return caught.value


# The module


def test_the_globals_of_the_module() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert callable(dbapi.connect)


def test_the_module_is_imported_on_first_use() -> None:
    program = """
        import sys, turbocql
        print("turbocql.dbapi" in sys.modules, turbocql.dbapi.apilevel)
        import turbocql.dbapi as imported
        print(imported is turbocql.dbapi)
    """
    assert run_python(program) == "False 2.0\nTrue\n"


# Exceptions


@pytest.mark.parametrize("name", STANDARD)
def test_the_tree_of_exceptions(name: str) -> None:
    cls = getattr(dbapi, name)
    assert issubclass(cls, STANDARD[name])
    assert cls.__name__ == cls.__qualname__ == name
    assert cls.__module__ == "turbocql.dbapi"
    assert getattr(dbapi.Connection, name) is cls
    assert not issubclass(dbapi.Warning, dbapi.Error)
    assert issubclass(dbapi.Error, errors.Error)
    assert not issubclass(dbapi.InterfaceError, dbapi.DatabaseError)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_has_a_turbocql_class_and_a_standard_class(cls: type[errors.Error]) -> None:
    """`_CLASS_BY_ERROR` has an entry for each error class, and a new class needs one too."""
    ours = dbapi._CLASS_BY_ERROR[cls]
    error: Any = cls("what happened")
    added = {"path": "value[1]", "code": 7, "details": {"received": 1}, "may_have_applied": True}
    vars(error).update(added)
    caught = translated(error)
    assert isinstance(caught, ours)
    assert isinstance(caught, cls)
    assert (str(caught), caught.args, vars(caught)) == (str(error), error.args, added)
    assert type(translated(cls("again"))) is type(caught)
    standard = [base.__name__ for base in type(caught).__mro__ if base.__name__ in STANDARD]
    assert standard[0] == ours.__name__, "tools go by the names of bases, in this order"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for same in (pickle.loads(pickle.dumps(caught, protocol)), copy.copy(caught)):
            assert type(same) is type(caught)
            assert (str(same), same.args, vars(same)) == (str(caught), caught.args, added)


def test_the_class_name_of_an_error_has_both_names() -> None:
    error = translated(errors.InvalidQuery("no such table"))
    said = traceback.format_exception_only(error)
    assert said == ["turbocql.dbapi.ProgrammingError.InvalidQuery: no such table\n"]
    assert type(error).__doc__ == errors.InvalidQuery.__doc__


def test_an_error_of_the_module_is_not_translated() -> None:
    error = dbapi.NotSupportedError("no")
    assert translated(error) is error
    once = translated(errors.WriteTimeout("late"))
    assert translated(once) is once


def test_a_class_without_an_entry_is_translated_as_its_base() -> None:
    class Newer(errors.ReadTimeout):
        pass

    caught = translated(Newer("?"))
    assert isinstance(caught, dbapi.OperationalError)
    assert isinstance(caught, Newer)


def test_translation_keeps_the_traceback_and_context() -> None:
    cause, context = KeyError("cause"), ValueError("context")
    original = errors.EncodeError("no")
    try:
        try:
            raise context
        except ValueError:
            raise original  # noqa: B904
    except errors.EncodeError:
        caught = translated(original)
    assert (caught.__cause__, caught.__context__) == (None, context)
    assert not caught.__suppress_context__
    names = [frame.name for frame in traceback.extract_tb(caught.__traceback__)]
    assert names[-1] == "test_translation_keeps_the_traceback_and_context", (
        "where it was raised first"
    )
    original.__cause__ = cause
    caught = translated(original)
    assert caught.__cause__ is cause
    assert caught.__suppress_context__


@pytest.mark.parametrize(
    ("first", "ours"),
    [
        (errors.EncodeError("7"), dbapi.DataError),
        (errors.WriteTimeout("late"), dbapi.OperationalError),
        (errors.InvalidQuery("?"), dbapi.ProgrammingError),
        (dbapi.ProgrammingError("2 parameters"), dbapi.ProgrammingError),
        (translated(errors.ReadTimeout("late")), dbapi.OperationalError),
        (OSError("no such file"), dbapi.InterfaceError),
    ],
)
def test_a_bulk_error_is_translated_as_its_first_failure(
    first: Exception, ours: type[dbapi.Error]
) -> None:
    failures = [BulkFailure(4, first), BulkFailure(5, errors.InvalidQuery("another"))]
    report = BulkReport(rows=6, succeeded=4, failures=failures)
    with pytest.raises(errors.BulkError) as raised:
        report.raise_for_failures()
    caught = translated(raised.value)
    assert isinstance(caught, ours)
    assert isinstance(caught, errors.BulkError)
    assert caught.__cause__ is first
    assert (caught.report, caught.done, caught.failed) == (report, 4, failures)
    assert str(caught) == str(raised.value)
    same = pickle.loads(pickle.dumps(caught))
    assert (type(same), same.done) == (type(caught), 4)


# Types

TYPES = {
    "STRING": ["ascii", "text"],
    "BINARY": ["blob", "'org.apache.cassandra.db.marshal.BytesType'", "'a.b(c.d<int>)'"],
    "NUMBER": [
        *("tinyint", "smallint", "int", "bigint", "counter", "varint"),
        *("float", "double", "decimal"),
    ],
    "DATETIME": ["date", "time", "timestamp", "duration"],
    "ROWID": [],
    "BOOLEAN": ["boolean"],
    "UUID": ["uuid", "timeuuid"],
    "INET": ["inet"],
    "COLLECTION": [
        "list<int>",
        "set<text>",
        "map<text, frozen<list<int>>>",
        "tuple<int, text>",
        "vector<float, 1536>",
        "frozen<set<int>>",
        "frozen<app.address>",
        "app.address",
        'app."Home.Address<>"',
        '"Of.Apps"."text"',
        'app."int"',
    ],
}


@pytest.mark.parametrize("name", TYPES)
def test_type_objects_equal_only_their_codes(name: str) -> None:
    type_object = getattr(dbapi, name)
    for group, codes in TYPES.items():
        for code in codes:
            assert (type_object == code) is (group == name), code
            assert (code == type_object) is (group == name), code
            assert (type_object != code) is (group != name), code
    assert type_object == type_object
    assert repr(type_object) == name
    others = [getattr(dbapi, other) for other in TYPES if other != name]
    assert type_object not in others
    assert type_object != None  # noqa: E711
    assert type_object != 7
    with pytest.raises(TypeError, match="unhashable"):
        hash(type_object)


def test_every_simple_type_of_the_codec_is_in_a_group() -> None:
    simple = {code for codes in TYPES.values() for code in codes if code.isalpha()}
    for code in simple:
        assert codec.CqlType(code).kind == code
    assert len(simple) == 20


# Values


def test_constructors_give_values_that_are_bound() -> None:
    instant = datetime.datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=datetime.timezone.utc)
    ticks = instant.timestamp()
    day, clock = datetime.date(2024, 2, 29), datetime.time(12, 30, 15)
    assert dbapi.Date(2024, 2, 29) == dbapi.DateFromTicks(ticks) == day
    assert dbapi.Time(12, 30, 15) == clock
    assert dbapi.TimeFromTicks(ticks) == clock.replace(microsecond=250_000)
    assert dbapi.Timestamp(2024, 2, 29, 12, 30, 15) == instant.replace(tzinfo=None, microsecond=0)
    assert dbapi.TimestampFromTicks(ticks) == instant
    assert dbapi.TimestampFromTicks(ticks).utcoffset() == datetime.timedelta(0)
    for cql_type, value in (
        ("date", dbapi.Date(2024, 2, 29)),
        ("date", dbapi.DateFromTicks(ticks)),
        ("time", dbapi.TimeFromTicks(ticks)),
        ("timestamp", dbapi.TimestampFromTicks(ticks)),
        ("blob", dbapi.Binary(b"\0\xff")),
    ):
        assert codec.decode(cql_type, codec.encode(cql_type, value)) == value
    naive = codec.encode("timestamp", dbapi.Timestamp(2024, 2, 29, 12, 30, 15, 250_000))
    assert naive == codec.encode("timestamp", instant)
    assert dbapi.DateFromTicks(-1) == datetime.date(1969, 12, 31)


def test_ticks_do_not_depend_on_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
        from turbocql import dbapi
        print(dbapi.DateFromTicks(0), dbapi.TimeFromTicks(0), dbapi.TimestampFromTicks(0))
    """
    monkeypatch.setenv("TZ", "America/New_York")
    assert run_python(program) == "1970-01-01 00:00:00 1970-01-01 00:00:00+00:00\n"


def test_binary_takes_buffers_only() -> None:
    buffers: list[Any] = [b"ab", bytearray(b"ab"), memoryview(b"ab")]
    for data in (*buffers, array("B", b"ab"), np.array([97, 98])):
        made = dbapi.Binary(data)
        assert type(made) is bytes
        assert made == bytes(memoryview(data))
    for nothing in ("ab", 2, [97, 98], None):
        with pytest.raises(TypeError):
            dbapi.Binary(nothing)  # type: ignore[arg-type]


# Parameters


NO_PARAMETERS = "parameters must be a sequence, a mapping or an object with fields"
SINGLE = "pass a single value as (value,)"
ONE_EACH = "pass one for each marker, in their order"
MARKERS = "the statement's bind markers are a, b"


@dataclasses.dataclass
class Data:
    b: int = 1
    a: int = 2


class Named(NamedTuple):
    b: int = 1
    more: int = 3
    a: int = 2


class Unnamed(NamedTuple):
    c: int = 1
    d: int = 2


class Struct(msgspec.Struct):
    a: int = 1
    b: int = 2


@pytest.mark.parametrize(
    "parameters",
    [
        *(Data(), Struct(), Named(), Unnamed(), UserList([1, 2])),
        (1, "a"),
        [1, "a"],
        np.array([1, 2]),
        {"a": 1, "b": None},
        OrderedDict(b=1, a=2),
        MappingProxyType({"a": 1, "b": 2}),
    ],
)
def test_parameters_that_are_right(parameters: Any) -> None:
    assert dbapi._problem(["a", "b"], parameters) is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((), f"the statement has 2 bind markers, got 0 parameters: {ONE_EACH}"),
        ((1,), f"the statement has 2 bind markers, got 1 parameter: {ONE_EACH}"),
        (Named()[:1], f"the statement has 2 bind markers, got 1 parameter: {ONE_EACH}"),
        ([1, 2, 3], f"the statement has 2 bind markers, got 3 parameters: {ONE_EACH}"),
        ({"a": 1}, f"{MARKERS}; 'b' is missing"),
        ({"a": 1, "b": 2, "c": 3}, f"{MARKERS}; 'c' is not one of them"),
        ({"a": 1, "B": 2}, f"{MARKERS}; 'b' is missing and 'B' is not one of them"),
        ("ab", f"{NO_PARAMETERS}, got str: {SINGLE}"),
        (b"ab", f"{NO_PARAMETERS}, got bytes: {SINGLE}"),
        ({1, 2}, f"{NO_PARAMETERS}, got set: {SINGLE}"),
        (iter((1, 2)), f"{NO_PARAMETERS}, got tuple_iterator: {SINGLE}"),
        (7, f"{NO_PARAMETERS}, got int: {SINGLE}"),
        (None, f"{NO_PARAMETERS}, got NoneType"),
    ],
)
def test_parameters_that_are_wrong(parameters: Any, message: str) -> None:
    assert dbapi._problem(["a", "b"], parameters) == message


def test_one_name_at_several_markers() -> None:
    assert dbapi._problem(["a", "a"], {"a": 1}) is None
    assert dbapi._problem(["a", "a"], (1, 2)) is None
    no_markers = "the statement has no bind markers (? or :name), got"
    assert dbapi._problem([], {"a": 1}) == f"{no_markers} 'a'"
    assert dbapi._problem([], Named()) == f"{no_markers} 3 parameters"
    assert str(dbapi._problem(["a"], (1, 2))).startswith("the statement has 1 bind marker, got 2 p")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT v\n FROM t WHERE k = ?", "SELECT v FROM t WHERE k = ?"),
        (
            "INSERT INTO t2 (\"a 'b\") VALUES ('it''s', 5, 1.5, $$a$$)",
            't2 ("a \'b") VALUES (…, …, …, …)',
        ),
        ("UPDATE t SET v = 'secret", "UPDATE t SET v = …"),
        ("SELECT v -- it's\n FROM t /* 'x */ WHERE v = 'a'", "SELECT v … FROM t … WHERE v = …"),
        ("CREATE ROLE a WITH PASSWORD = secret", "CREATE ROLE a WITH …"),
        ("x" * 200, "x" * 160 + "…"),
    ],
)
def test_the_statement_of_an_error_has_no_literals(text: str, shown: str) -> None:
    prepared: Any = SimpleNamespace(text=text, markers=[("ks", "t", "k", "int")])
    assert dbapi._shown(prepared).startswith("; statement: ")
    assert dbapi._shown(prepared).endswith(shown)
    with pytest.raises(dbapi.ProgrammingError, match="; statement: "):
        dbapi._check_parameters(prepared, ())


def test_a_connection_wraps_only_a_session() -> None:
    for nonsense in ("x", None, 5, turbocql.Session):
        with pytest.raises(dbapi.ProgrammingError, match=r"takes a turbocql\.Session, got"):
            dbapi.Connection(nonsense)  # type: ignore[arg-type]


# Connecting


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Yields a port on which no server listens.

    A socket is bound to the port during the test, so that no other program can use it.
    """
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_connecting_to_a_closed_port(closed_port: int) -> None:
    with pytest.raises(dbapi.OperationalError, match=str(closed_port)) as caught:
        dbapi.connect("127.0.0.1", port=closed_port, connect_timeout_s=10)
    assert isinstance(caught.value, errors.ConnectError)
    assert isinstance(caught.value, ConnectionError)


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(dbapi.ProgrammingError, match="page_size must be an int") as caught:
        dbapi.connect("127.0.0.1", page_size=0)
    assert isinstance(caught.value, errors.ConfigError)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(TypeError, match="unknown setting 'pages'"):
        dbapi.connect("127.0.0.1", pages=3)  # type: ignore[call-arg]


def test_connect_has_the_parameters_of_turbocql_connect() -> None:
    ours, theirs = inspect.signature(dbapi.connect), inspect.signature(turbocql.connect)
    assert list(ours.parameters.values()) == list(theirs.parameters.values())


def test_cursors_lack_three_optional_methods() -> None:
    for name in ("callproc", "nextset", "scroll"):
        assert not hasattr(dbapi.Cursor, name)
        assert not hasattr(dbapi.Cursor.__new__(dbapi.Cursor), name)


# The guide

GUIDE = (Path(__file__).parents[2] / "docs" / "dbapi.md").read_text(encoding="utf-8")


def listed(section: str) -> list[tuple[list[str], list[str]]]:
    """Returns the names in the first two columns of the table in a section of the guide."""
    text = GUIDE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`(\w+)`", one), re.findall(r"`(\w+)`", other)) for one, other in rows]


def test_the_guide_lists_every_error_under_its_class() -> None:
    told: dict[type[errors.Error], type[dbapi.Error]] = {}
    for ours, theirs in listed("Errors"):
        known = [getattr(errors, name) for name in theirs if name in errors.__all__]
        told |= dict.fromkeys(known, getattr(dbapi, ours[0]))
    # The guide omits base classes that are never raised. It also omits `BulkError`, because its
    # translation depends on the first failure of the report.
    unsaid = {errors.Error, errors.CodecError, errors.BulkError}
    assert told == {cls: ours for cls, ours in dbapi._CLASS_BY_ERROR.items() if cls not in unsaid}
    assert {name for ours, _ in listed("Errors") for name in ours} == set(STANDARD) - {"Error"}


def test_the_guide_lists_every_type_under_its_object() -> None:
    told = [name for ours, _ in listed("Types") for name in ours]
    assert sorted(told) == sorted(TYPES)
    for ours, types in listed("Types"):
        for cql_type in types:
            assert any(getattr(dbapi, name) == cql_type for name in ours), cql_type
    simple = {code for codes in TYPES.values() for code in codes if code.isalpha()}
    assert simple <= {name for _, types in listed("Types") for name in types}
