"""Tests which kinds, options, statements and values a `Batch` accepts, and which it refuses."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserList
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from turbocql import Batch, Consistency, Query, errors


@pytest.mark.parametrize("kind", ["logged", "UNLOGGED", "Counter"])
def test_kinds_are_accepted_in_any_case(kind: Any) -> None:
    batch = Batch(kind)
    assert batch.kind == kind.lower()
    assert repr(batch) == f"<Batch {kind.lower()} of 0>"


@pytest.mark.parametrize("kind", ["", "log", 5, None, ["logged"], {"logged"}])
def test_an_unknown_kind_is_refused(kind: Any) -> None:
    with pytest.raises(errors.ConfigError, match="a batch is 'logged', 'unlogged' or 'counter'"):
        Batch(kind)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"timestamp": "x"}, TypeError, "timestamp must be an int"),
        ({"timestamp": 2**63}, errors.ConfigError, "timestamp must fit 64 bits"),
        ({"consistency": "nope"}, errors.ConfigError, "consistency"),
        ({"consistency": 5}, TypeError, "consistency must be"),
        ({"serial_consistency": "ONE"}, errors.ConfigError, "ONE"),
        ({"timeout_s": 0}, errors.ConfigError, "timeout_s must be above 0"),
        ({"idempotent": 1}, TypeError, "idempotent must be a bool"),
        ({"tracing": "yes"}, TypeError, "tracing must be a bool"),
        ({"profile": 5}, TypeError, "profile must be"),
    ],
)
def test_wrong_options_are_refused_by_the_constructor(
    options: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        Batch(**options)
    # `Query` refuses the same options.
    with pytest.raises(kind, match=said):
        Query("x", **options)


def test_valid_options_are_accepted() -> None:
    Batch(consistency="quorum", serial_consistency="SERIAL", timeout_s=1, timestamp=5)
    Batch("counter", consistency=Consistency.ONE, idempotent=True, tracing=False, profile="slow")


@dataclasses.dataclass
class Data:
    k: int = 1


@attrs.define
class Attrs:
    k: int = 1


class Row(NamedTuple):
    k: int


class Struct(msgspec.Struct):
    k: int = 1


class Model(pydantic.BaseModel):
    k: int = 1


INSERT = "INSERT INTO t (k) VALUES (?)"


@pytest.mark.parametrize(
    "values",
    [
        4,
        4.5,
        True,
        "text",
        b"bytes",
        bytearray(b"x"),
        memoryview(b"x"),
        {1},
        iter([1]),
        np.int64(4),
    ],
    ids=repr,
)
def test_values_that_are_no_row_are_refused_by_add(values: Any) -> None:
    batch = Batch()
    with pytest.raises(TypeError, match="values must be a list, tuple, other sequence, mapping or"):
        batch.add(INSERT, values)
    with pytest.raises(
        TypeError, match=rf"got {type(values).__name__}(: a single value is passed as \(value,\))?$"
    ):
        batch.add(Query(INSERT), values)
    assert len(batch) == 0


@pytest.mark.parametrize(
    "values",
    [
        *(None, (), [1], (1,), {"k": 1}, range(1), UserList([1]), OrderedDict(k=1)),
        *(Row(1), np.array([1]), Data(), Attrs(), Struct(), Model()),
    ],
    ids=repr,
)
def test_rows_of_values_are_accepted(values: Any) -> None:
    batch = Batch()
    batch.add(INSERT, values)
    assert len(batch) == 1
