"""Tests that an error names the column that cannot be read, and that a load may leave out this
column.

These tests need no server.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import duckdb
import nanoarrow as na
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from turbocql._columns.pieces import columns_of
from turbocql._transfer.load import rows_or_columns
from turbocql.errors import EncodeError

ONE = pa.array([1], pa.int64())
UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["a"])])
HUGE = pl.Series([5], dtype=pl.Int128)


def invalid_text() -> Any:
    offsets = pa.py_buffer(struct.pack("<ii", 0, 1))
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])


DATA: dict[str, Callable[[], Any]] = {
    "complex of pandas": lambda: pd.DataFrame({"id": [1], "bad": [1 + 2j]}),
    "sparse of pandas": lambda: pd.DataFrame({"id": [1], "bad": pd.arrays.SparseArray([0.5])}),
    "longdouble of pandas": lambda: pd.DataFrame({"id": [1], "bad": np.array([1], "longdouble")}),
    "mixed category": lambda: pd.DataFrame({"id": [1, 2], "bad": pd.Categorical([1, "a"])}),
    "dict of pandas": lambda: {"id": np.array([1]), "bad": pd.Series([1 + 2j])},
    "Int128": lambda: pl.DataFrame({"id": [1], "bad": HUGE}),
    "UInt128": lambda: pl.DataFrame({"id": [1], "bad": pl.Series([5], dtype=pl.UInt128)}),
    "list of Int128": lambda: pl.DataFrame(
        {"id": [1], "bad": pl.Series([[5]], dtype=pl.List(pl.Int128))}
    ),
    "struct of Int128": lambda: pl.DataFrame(
        {"id": [1], "bad": pl.Series([{"a": 5}], dtype=pl.Struct({"a": pl.Int128}))}
    ),
    "dict of Int128": lambda: {"id": np.array([1]), "bad": HUGE},
    "Int128 beside objects": lambda: pl.DataFrame(
        {"id": [1], "bad": HUGE, "o": pl.Series([object()], dtype=pl.Object)}
    ),
    "union in a table": lambda: pa.table({"id": ONE, "bad": UNION}),
    "union in a batch": lambda: pa.record_batch({"id": ONE, "bad": UNION}),
    "union in a list": lambda: [pa.table({"id": ONE, "bad": UNION})],
    "union in a reader": lambda: pa.table({"id": ONE, "bad": UNION}).to_reader(),
    "union in a dict": lambda: {"id": np.array([1]), "bad": UNION},
    "union in chunks": lambda: {"id": np.array([1]), "bad": pa.chunked_array([UNION])},
    "nested union": lambda: pa.table(
        {"id": ONE, "bad": pa.StructArray.from_arrays([UNION], ["u"])}
    ),
    "union without rows": lambda: pa.table({"id": ONE, "bad": UNION}).slice(0, 0),
    "union of duckdb": lambda: duckdb.sql("SELECT 1::bigint id, union_value(a := 'x') bad"),
    "invalid text": lambda: pa.table({"id": ONE, "bad": invalid_text()}),
    "invalid text in a batch": lambda: pa.record_batch({"id": ONE, "bad": invalid_text()}),
}


def read(data: Any, is_wanted: Callable[[str], bool] = lambda name: True) -> tuple[list[str], int]:
    """Returns the names of the columns, and the number of rows."""
    columns = columns_of(data, is_wanted)
    assert columns is not None
    return columns.names, sum(len(piece) for piece in columns.pieces)


@pytest.mark.parametrize("name", DATA)
def test_the_error_names_the_column(name: str) -> None:
    with pytest.raises(EncodeError, match='column "bad"'):
        read(DATA[name]())


@pytest.mark.parametrize("name", DATA)
def test_an_unreadable_column_may_be_left_out(name: str) -> None:
    names, rows = read(DATA[name](), lambda column: column != "bad")
    assert names[:2] == ["id", "bad"]
    assert rows == {"mixed category": 2, "union without rows": 0}.get(name, 1)


def test_the_error_of_a_one_time_stream_has_advice() -> None:
    data = na.c_array_stream(pa.table({"id": ONE, "bad": UNION}))
    with pytest.raises(EncodeError, match=r"CArrayStream is a union, .*leave it out"):
        read(data)


@pytest.mark.parametrize(
    "wrapped",
    [lambda it: it, lambda it: {"id": it}, lambda it: [it]],
    ids=["frame", "dict", "list"],
)
def test_lazy_frames_must_be_collected(wrapped: Callable[[Any], Any]) -> None:
    lazy = pl.LazyFrame({"id": [1]})
    with pytest.raises(TypeError, match=r"LazyFrame.*frame\.collect\(\)"):
        read(wrapped(lazy))
    for rows, columns in ((lazy, None), (None, wrapped(lazy))):
        with pytest.raises(TypeError, match=r"frame\.collect\(\)"):
            rows_or_columns(rows, columns, False)


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        (
            [("station", ""), ("temp", "mean")],
            r"""got ('station', ''): in pandas, frame.columns = ["_".join(filter(None, name))""",
        ),
        ([1, 2], "got 1: in pandas, frame.columns = frame.columns.map(str)"),
    ],
)
def test_names_of_a_frame_that_are_not_texts(names: list[Any], advice: str) -> None:
    frame = pd.DataFrame([[1, 2]], columns=pd.Index(names))
    with pytest.raises(TypeError, match=re.escape(advice)):
        columns_of(frame)
    if isinstance(names[0], tuple):
        frame.columns = pd.Index(["_".join(filter(None, name)) for name in frame.columns])
    else:
        frame.columns = frame.columns.map(str)
    assert all(isinstance(name, str) for name in frame.columns)
    columns = columns_of(frame)
    assert columns is not None
    assert columns.names in (["station", "temp_mean"], ["1", "2"])
