"""Tests that `verify` ignores the bits of a NaN, but not the sign of a zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import turbocql

from .conftest import Table

COLUMNS = {
    **{"d": "double", "f": "float", "l": "list<double>", "s": "set<double>"},
    **{"m": "map<text, double>", "k": "map<double, int>", "t": "tuple<double, int>"},
    **{"v": "vector<float, 2>", "n": "list<frozen<map<int, frozen<list<float>>>>>", "u": "of_nan"},
}


def negative() -> dict[str, Any]:
    """Returns columns of several types that contain a NaN with the sign bit set.

    Computations on x86 processors return such NaNs.
    """
    doubles = pa.py_buffer(bytes.fromhex("000000000000f8ff"))
    d = pa.Array.from_buffers(pa.float64(), 1, [None, doubles])
    f = pa.Array.from_buffers(pa.float32(), 1, [None, pa.py_buffer(bytes.fromhex("0000c0ff"))])
    ends, one = pa.array([0, 1], pa.int32()), pa.array([1], pa.int32())
    inner = pa.MapArray.from_arrays(ends, one, pa.ListArray.from_arrays(ends, f))
    return {
        **{"id": one, "d": d, "f": f},
        **dict.fromkeys("ls", pa.ListArray.from_arrays(ends, d)),
        "m": pa.MapArray.from_arrays(ends, pa.array(["a"]), d),
        "k": pa.MapArray.from_arrays(ends, d, one),
        "t": pa.StructArray.from_arrays([d, one], ["0", "1"]),
        "v": pa.FixedSizeListArray.from_arrays(pa.concat_arrays([f, f]), 2),
        "n": pa.ListArray.from_arrays(ends, inner),
        "u": pa.StructArray.from_arrays([d, f], ["d", "f"]),
    }


@pytest.fixture
def name(session: turbocql.Session, table: Table) -> str:
    session.execute("CREATE TYPE IF NOT EXISTS tables.of_nan (d double, f float)")
    columns = ", ".join(f"{name} {cql_type}" for name, cql_type in COLUMNS.items())
    return table(f"id int PRIMARY KEY, {columns}")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_nan_is_nan(session: turbocql.Session, name: str, tmp_path: Path, form: str) -> None:
    session.load(name, pa.table(negative()))
    session.unload(name, tmp_path / f"a.{form}")
    found = session.verify(name, tmp_path / f"a.{form}")
    assert found.equal, found.differences


def test_zeros_and_numbers_stay_different(
    session: turbocql.Session, name: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('id,d,f,l,s,v\n1,-0.0,NaN,[-0.0],[0.0],"[NaN,0.0]"\n')
    session.execute(
        f"INSERT INTO {name} (id, d, f, l, s, v) VALUES (1, 0.0, 1.0, [0.0], {{-0.0}}, [NaN, -0.0])"
    )
    found = session.verify(name, tmp_path / "a.csv")
    assert [it.column for it in found.differences] == ["d", "f", "l", "s", "v"]
