"""Tests the column types that `--create` derives from the values of CSV and JSON lines."""

from __future__ import annotations

import json

import pytest

from turbocql._files.json_values import json_decoder
from turbocql.cli._create_text import type_of_texts, type_of_values
from turbocql.errors import ConfigError


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["-9223372036854775808", "9223372036854775807"], "bigint"),
        (["9223372036854775808", "1"], "varint"),
        (["9" * 5000], "varint"),
        (["+5", "-3"], "bigint"),
        (["+4915112345678"], "text"),
        (["007", "8"], "text"),
        (["00.5", "1.5"], "text"),
        (["-0", "7"], "double"),
        (["-0", "9007199254740993"], "bigint"),
        (["0.10", "1e22", "-2.5E-3", "5", ".5", "5.", "+.5"], "double"),
        (["1234567890123456.78", "2"], "decimal"),
        (["0.1", "9007199254740993"], "decimal"),
        (["1e400"], "decimal"),
        (["1e-400"], "decimal"),
        (["0e99999999999"], "double"),
        (["1e99999999999"], "text"),
        (["1E+2147483648", "1E-2147483647"], "decimal"),
        (["1E+2147483649"], "text"),
        (["NaN", "1.5"], "double"),
        (["-Infinity", "+inf", "5"], "double"),
        (["NaN", "-inf"], "text"),
        (["NaN", "9007199254740993"], "text"),
        (["0x1F", "1"], "text"),
        (["1,5"], "text"),
        (["1", "a"], "text"),
        (["\u0661"], "text"),
        (["2020-01-31", "0001-01-01"], "date"),
        (["2020-01-31", "2020-02-30"], "text"),
        (["0000-00-00"], "text"),
        (["2020-01-31T08:30:00Z", "2020-01-31"], "timestamp"),
        (["2020-02-30T08:30:00Z"], "text"),
        (["2020-01-31T08:30:00.123456Z"], "text"),
        (["true", "False"], "boolean"),
        (["9F1C5B9E-2A5C-4D5C-8D8F-0A1B2C3D4E5F"], "uuid"),
        ([None, None], "text"),
        ([None, "5"], "bigint"),
        (["", "5"], "text"),
    ],
)
def test_types_of_texts(texts: list[str | None], expected: str) -> None:
    assert type_of_texts(texts, truncates=False) == expected


def test_with_truncation_finer_times_are_timestamps() -> None:
    assert type_of_texts(["2020-01-31T08:30:00.123456Z"], truncates=True) == "timestamp"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("[1, 9223372036854775807]", "bigint"),
        ("[9223372036854775808]", "varint"),
        ("[0.1, 1]", "double"),
        ("[0.1, 9007199254740993]", "decimal"),
        ("[1234567890123456.78]", "decimal"),
        ("[1.00000000000000000001]", "decimal"),
        ("[1e400, null]", "decimal"),
        ("[NaN, 1.5, Infinity]", "double"),
        ('["NaN", 1]', "double"),
        ('["NaN"]', "text"),
        ('["+5", "1"]', "text"),
        ("[[0.1], [9007199254740993]]", "list<decimal>"),
        ("[[[1], [9223372036854775808]]]", "list<list<varint>>"),
        ('[{"a": 0.5}, {"b": 12345678901234567.8}]', "map<text, decimal>"),
        ('[{"a": [1]}, {}]', "map<text, list<bigint>>"),
        ("[[], []]", "list<text>"),
        ('["2020-02-30"]', "text"),
        ('["\\ud800"]', "text"),
    ],
)
def test_types_of_json_values(values: str, expected: str) -> None:
    cells = json_decoder(exact=True).decode(values)
    assert type_of_values(cells, "x", truncates=False) == expected


@pytest.mark.parametrize(
    "values",
    ['[1, "a"]', "[true, 1]", "[[1, null]]", '[{"a": null}]', "[1e99999999999]", "[[], {}]"],
)
def test_values_without_a_type_name_the_column(values: str) -> None:
    with pytest.raises(ConfigError, match=r'column "x".*--type "x=TYPE"'):
        type_of_values(json_decoder(exact=True).decode(values), "x", truncates=False)
    assert json.loads(values)
