"""Tests the errors for values that a type does not accept."""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from turbocql import UNSET
from turbocql.codec import encode
from turbocql.errors import EncodeError

from .encode_errors import refused

WRONG: list[tuple[str, Any, str]] = [
    ("ascii", "grün", 'expected ascii, got str "grün": a character that is not ASCII'),
    ("text", 5, "expected text (str), got int 5"),
    ("text", b"a", "expected text (str), got bytes of length 1"),
    ("text", "\ud800", "expected text, got str with a lone surrogate"),
    ("ascii", "a\udfff", "expected ascii, got str with a lone surrogate"),
    ("tinyint", 128, "int 128 is out of the range of tinyint"),
    ("smallint", -32_769, "int -32769 is out of the range of smallint"),
    ("int", 2**31, "int 2147483648 is out of the range of int"),
    ("int", "5", 'expected int (int or an object with __index__), got str "5"'),
    ("int", 1.0, "expected int (int or an object with __index__), got float 1.0"),
    ("int", np.float64(1), "got numpy.float64"),
    ("int", Decimal(1), "got decimal.Decimal"),
    ("int", int, "got type"),
    ("int", None, "got None"),
    ("int", 1 << 100_000, "int of more than 128 bits is out of the range of int"),
    ("bigint", 2**63, "int 9223372036854775808 is out of the range of bigint"),
    ("counter", -(2**63) - 1, "is out of the range of counter"),
    ("varint", 1.0, "expected varint (int or an object with __index__), got float 1.0"),
    ("float", 3.4028236e38, "float 3.4028236e+38 is out of the range of float"),
    ("float", np.float64(1e39), "numpy.float64 is out of the range of float"),
    ("float", 10**400, "is out of the range of float"),
    ("float", "1.5", 'expected float (float, int or another real number), got str "1.5"'),
    ("float", 1j, "got complex"),
    ("float", np.complex64(1), "got numpy.complex64"),
    ("double", 10**400, "is out of the range of double"),
    ("double", Fraction(10**400), "is out of the range of double"),
    ("double", Decimal(1), "expected double (float, int or another real number), got decimal"),
    ("double", np.array([1.0]), "expected double (float, int or another real number), got numpy"),
    ("double", np.ma.masked, "got numpy.ma"),
    ("decimal", 1.5, "expected decimal (decimal.Decimal or int), got float 1.5"),
    ("decimal", Decimal("NaN"), "expected a finite decimal, got NaN"),
    ("decimal", Decimal("sNaN123"), "expected a finite decimal, got sNaN123"),
    ("decimal", Decimal("-Infinity"), "expected a finite decimal, got -Infinity"),
    ("decimal", Decimal("1E-2147483648"), "a decimal's exponent of -2147483648 is beyond 32 bits"),
    ("decimal", Decimal("1E+2147483649"), "a decimal's exponent of 2147483649 is beyond 32 bits"),
    ("boolean", 2, "expected boolean (bool), got int 2"),
    ("boolean", 1, "expected boolean (bool), got int 1"),
    ("boolean", "true", "expected boolean (bool), got str"),
    ("blob", 5, "expected blob (bytes, bytearray, memoryview or another bytes-like), got int 5"),
    ("blob", "ab", "got str"),
    ("blob", [1, 2], "got list of length 2"),
    ("uuid", str(UUID(int=1)), "expected uuid (uuid.UUID), got str"),
    ("uuid", 5, "got int 5"),
    ("timeuuid", UUID(int=1), "a UUID whose version is not 1"),
    ("inet", "localhost", 'expected inet, got str "localhost", which is no IP address'),
    ("inet", "01.2.3.4", "which is no IP address"),
    ("inet", "::1%eth0", "which is no IP address"),
    ("inet", ip_address("::1%eth0"), "got an IPv6 address with a scope"),
    ("inet", 5, "expected inet (ipaddress.IPv4Address, ipaddress.IPv6Address or the str of one)"),
    ("date", datetime(2020, 1, 1), "of a datetime pass its .date()), got datetime.datetime"),
    ("date", "2020-01-01", 'got str "2020-01-01"'),
    ("date", -1, "int -1 is out of the range of date"),
    ("date", 2**32, "int 4294967296 is out of the range of date"),
    ("time", time(1, tzinfo=timezone.utc), "a datetime.time without a time zone"),
    ("time", -1, "nanoseconds outside a day"),
    ("time", 86_400 * 10**9, "nanoseconds outside a day"),
    ("time", timedelta(1), "got datetime.timedelta"),
    ("timestamp", 1.5, "expected timestamp (datetime, date, turbocql.Timestamp or int milli"),
    ("timestamp", "2020-01-01", "got str"),
    ("timestamp", time(1), "got datetime.time"),
    ("timestamp", np.datetime64(1, "s"), "got numpy.datetime64"),
    ("timestamp", 2**63, "int 9223372036854775808 is out of the range of timestamp"),
    ("duration", 5, "expected duration (turbocql.Duration or datetime.timedelta), got int 5"),
    (
        "list<int>",
        "ab",
        'expected list<int> (a list, tuple, array or another sequence), got str "ab"',
    ),
    ("list<int>", {1}, "got set"),
    ("list<int>", {1: 2}, "got dict of length 1"),
    ("list<int>", b"ab", "got bytes of length 2"),
    ("list<int>", [1, [2]], "value[1]: expected int"),
    ("list<smallint>", np.array([1, 70_000]), "value[1]: 70000 in numpy.ndarray cannot be stored"),
    ("list<int>", np.array([1.5]), "value[0]: 1.5 in numpy.ndarray cannot be stored as int"),
    (
        "list<float>",
        np.array([1, 1e39]),
        "value[1]: 1e39 in numpy.ndarray cannot be stored as float",
    ),
    ("set<int>", {1: 2}, "expected set<int> (a set, frozenset, list, tuple or another collection)"),
    ("set<text>", "ab", "got str"),
    ("map<int, int>", [(1, 2)], "expected map<int, int> (a dict or another mapping), got list"),
    ("map<text, int>", {1: 1}, "value[key #0]: expected text (str), got int 1"),
    (
        "map<text, int>",
        {"\ud800": 1},
        "value[key #0]: expected text, got str with a lone surrogate",
    ),
    ("map<int, text>", {7: 7}, "value[7]: expected text (str), got int 7"),
    ("tuple<int, int>", "ab", "expected tuple<int, int> (a tuple or list), got str"),
    ("tuple<int, int>", {1, 2}, "got set"),
    ("tuple<int, int>", {0: 1, 1: 2}, "got dict of length 2"),
    ("tuple<int, int>", (1, 2, 3), "expected tuple<int, int> of at most 2 components, got 3"),
    ("tuple<int, int>", (1, "a"), "value[1]: expected int"),
    ("u{a int, b text}", (1, "b", 2), "expected u of at most 2 fields, got 3"),
    ("u{a int, b text}", {"a": 1, "c": 2}, 'u has no field "c"; its fields are a, b'),
    ("u{a int, b text}", {"a": 1, 5: 2}, "u has no field 5"),
    (
        "u{a int, b text}",
        object(),
        "expected u (a mapping, dataclass, named tuple, tuple or object",
    ),
    ("u{a int, b text}", {"b": 1}, "value.b: expected text (str), got int 1"),
    ("vector<float, 2>", {1.0, 2.0}, "expected vector<float, 2> (a list, tuple, array"),
    ("vector<float, 2>", {1.0: 1, 2.0: 2}, "got dict of length 2"),
    ("vector<float, 8>", b"abcdefgh", "got bytes of length 8"),
    ("vector<float, 8>", bytearray(8), "got bytearray of length 8"),
    ("vector<boolean, 2>", b"\1\2", "got bytes of length 2"),
    ("vector<timeuuid, 1>", bytes(16), "got bytes of length 16"),
    ("vector<float, 2>", "ab", "got str"),
    ("vector<float, 2>", [1.0], "expected 2 elements for vector<float, 2>, got 1"),
    ("vector<float, 2>", np.zeros(3, "f4"), "expected 2 elements for vector<float, 2>, got 3"),
    (
        "vector<float, 2>",
        [1.0, None],
        "value[1]: expected float (an element of a vector cannot be null)",
    ),
    ("vector<float, 2>", np.array([1, None], object), "value[1]: expected float"),
    (
        "vector<text, 2>",
        ["a", None],
        "value[1]: expected text (an element of a vector cannot be null)",
    ),
    ("list<int>", UNSET, "expected list<int>, got UNSET, which stands for a whole column"),
]


@pytest.mark.parametrize(
    ("cql_type", "value", "said"), WRONG, ids=[f"{case[0]}-{i}" for i, case in enumerate(WRONG)]
)
def test_values_of_the_wrong_kind(cql_type: str, value: Any, said: str) -> None:
    if value is None or value is UNSET:
        with pytest.raises(EncodeError) as caught:
            encode(cql_type, value)
        assert said in str(caught.value)
        return
    error = refused(cql_type, value)
    assert said in str(error)
    assert len(str(error)) < 300


def test_long_values_are_not_shown_whole() -> None:
    assert len(str(refused("int", "x" * 10**6))) < 200
    assert len(str(refused("map<text, int>", {"x" * 10**6: "a"}))) < 200
    assert len(str(refused("map<text, int>", {"x" * 10**6: "a"}).path)) < 100
