"""Checks that the quick and the safe path encode arrays of every dtype, order and stride alike.

The quick path depends on CPython's internals. `force_safe` turns it off.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from turbocql import _core
from turbocql.codec import RowEncoder, find_serializer
from turbocql.errors import EncodeError

DTYPES = (
    *("f2", "f4", "f8", ">f2", ">f4", ">f8", "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"),
    *(">i2", ">u2", ">i4", ">u4", ">i8", ">u8"),
)
ELEMENTS = ("float", "double", "int", "bigint", "smallint", "text")
DIMENSIONS = (1, 3, 8, 33)


@pytest.fixture(autouse=True)
def quick_again() -> Iterator[None]:
    yield
    _core.force_safe(False)


def said(encode: Callable[[Any], bytes], value: Any) -> bytes | str:
    try:
        return encode(value)
    except EncodeError as error:
        return str(error)


def check(cql_type: str, value: Any) -> None:
    """Compares the quick and the safe path, both for a serializer and for a `RowEncoder`."""
    bind = RowEncoder([("v", cql_type)]).bind
    for encode in (find_serializer(cql_type).serialize, lambda value: bytes(bind((value,)))):
        _core.force_safe(False)
        quick = said(encode, value)
        _core.force_safe(True)
        assert quick == said(encode, value), (cql_type, value)


def numbers(dtype: str, count: int, seed: int) -> Any:
    """Returns an array of random bits, or of small numbers that fit every type."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return random.integers(0, 2, count).astype(kind)
    if seed % 3 == 0:
        return random.integers(0, 100, count).astype(kind)
    return np.frombuffer(random.bytes(count * kind.itemsize), dtype=kind)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("element", ELEMENTS)
def test_arrays(dtype: str, element: str, proof: bool) -> None:
    for dimension in DIMENSIONS:
        for seed in range(60 if proof else 6):
            given = numbers(dtype, dimension * 2, seed)
            for value in (
                given[:dimension],
                given[::2],
                given[::-1][:dimension],
                given[1 : dimension + 1],
                given,
                given[:dimension].reshape(1, -1),
                given[:dimension].reshape(-1, 1)[:, 0],
            ):
                check(f"vector<{element}, {dimension}>", value)


@pytest.mark.parametrize("code", "fdbBhHiIlLqQ")
@pytest.mark.parametrize("element", ELEMENTS[:4])
def test_arrays_of_the_standard_library(code: str, element: str) -> None:
    random = np.random.default_rng(7)
    for _ in range(20):
        given = array.array(code)
        given.frombytes(random.bytes(given.itemsize * 9))
        view = memoryview(given)
        for value in (given, view, view[::-1], view[::2], view.cast("B"), given.tobytes()):
            check(f"vector<{element}, 9>", value)


def test_a_released_memoryview() -> None:
    view = memoryview(array.array("f", [1.0, 2.0]))
    view.release()
    check("vector<float, 2>", view)
    assert isinstance(said(find_serializer("vector<float, 2>").serialize, view), str)


def test_subclasses_of_ndarray() -> None:
    class Doubled(np.ndarray):
        def __len__(self) -> int:
            return 2

    check("vector<float, 4>", np.arange(4, dtype="f4").view(Doubled))
    check("vector<float, 4>", np.ma.masked_array([1.0, 2, 3, 4], mask=[False, True, False, False]))
