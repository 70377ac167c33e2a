"""Tests when `make instructions` fails, and which recorded counts `RECORD=` replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import main
from bench.harness.processes import Failed
from bench.suites.accelerator.parts import by_part
from bench.suites.instructions.suite import (
    FILE,
    Counts,
    Recorded,
    compare,
    load,
    names,
    read_dump,
    recorded_anew,
    save,
)

RECORDED = {"a": Recorded(Counts(1000.0, 100.0), "first"), "b": Recorded(Counts(50.0, 0.0), "why")}


def _now(total: float, core: float = 100.0) -> dict[str, Any]:
    return {"a": Counts(total, core), "b": Counts(50.0, 0.0)}


@pytest.mark.parametrize(
    ("total", "said", "failed"),
    [(1005, 0, 0), (1029, 2, 0), (1031, 2, 1), (971, 2, 0), (969, 3, 0)],
)
def test_a_rise_fails_and_a_fall_is_reported(total: float, said: int, failed: int) -> None:
    verdict = compare(RECORDED, _now(total), "total")
    assert (len(verdict.lines), len(verdict.failures)) == (said, failed)
    assert all("first" in failure for failure in verdict.failures)


def test_on_other_machines_only_the_core_counts() -> None:
    assert compare(RECORDED, _now(2000), "core").failures == []
    assert len(compare(RECORDED, _now(1000, 104), "core").failures) == 1
    # A rise is allowed up to a percentage. For a recorded figure of 0 there is no percentage, so
    # any rise fails.
    assert len(compare(RECORDED, {**_now(1000), "b": Counts(50.0, 1.0)}, "core").failures) == 1


def test_missing_and_new_cases_fail() -> None:
    assert "b: recorded" in compare(RECORDED, {"a": RECORDED["a"].counts}, "total").failures[0]
    more = {**_now(1000), "c": Counts(1.0, 1.0)}
    assert compare(RECORDED, more, "total").failures == ["c: not recorded yet"]


def test_unchanged_figures_keep_their_number_and_reason() -> None:
    now = {"c": Counts(1.0, 1.0), "a": Counts(1004.0, 100.0), "b": Counts(40.0, 0.0)}
    new = recorded_anew(RECORDED, now, "now")
    assert list(new) == ["c", "a", "b"]
    assert new["a"] == RECORDED["a"]
    assert new["b"] == Recorded(Counts(40.0, 0.0), "now")
    assert new["c"].reason == "now"
    assert recorded_anew(RECORDED, _now(1000, 101), "now")["a"].reason == "now"


def test_saved_figures_are_loaded_again(tmp_path: Path) -> None:
    file, place = tmp_path / "figures.json", {"architecture": "any", "rustc": "1"}
    save(file, place, RECORDED)
    assert load(file) == (place, RECORDED)
    assert len(file.read_text(encoding="utf-8").splitlines()) == len(RECORDED) + len(place) + 6
    assert load(tmp_path / "none") == ({}, {})
    save(file, place, {"a": Recorded(Counts(1.0, 1.0), " ")})
    with pytest.raises(SystemExit, match="a has no reason"):
        load(file)


def test_a_dump_is_parsed() -> None:
    dump = """\
events: Ir

ob=(1) /lib/python.so
fn=(1) eval
12 100
cob=(2) /lib/_core.so
cfn=(2) serialize
calls=5 0
+3 5000
-1 7

ob=(2)
fn=(2)
0 40
cob=(1)
cfn=(1)
calls=1 12
* 900
* 2

ob=(1)
fn=(3) more
0 1

totals: 150
"""
    assert read_dump(dump, "/lib/_core.so") == Counts(150, 42)


def test_instructions_are_divided_by_library_and_file(tmp_path: Path) -> None:
    dump = tmp_path / "out"
    dump.write_text(
        """events: Ir
ob=(1) /usr/lib/libpython3.11.so.1.0
fl=(1) /python/Objects/dictobject.c
fn=(1) insertdict
+1 10
fi=(2) /python/Include/object.h
+1 5
fn=(2) tupledealloc
+1 7
cob=(2) /python/turbocql/_core.so
cfn=(3) bind
calls=2 5
+1 400
ob=(2)
fl=(3) ???
fn=(3)
+1 40
ob=(3) /env/cassandra/cluster.so
fn=(4) execute
+1 30
ob=(4) /usr/lib/libc.so.6
fn=(5) __memset_avx2
+1 20
fn=(6) memcpy
+1 3

totals: 115
""",
        encoding="utf-8",
    )
    assert by_part(dump) == {
        "attributes and dicts": 15,
        "memory and GC": 7,
        "turbocql": 40,
        "compiled modules of the driver": 30,
        "LZ4, and memory that is cleared": 20,
        "C library and others": 3,
    }
    dump.write_text("events: Ir\ntotals: 0\n", encoding="utf-8")
    with pytest.raises(Failed, match="counted nothing"):
        by_part(dump)


def test_a_reason_is_needed() -> None:
    with pytest.raises(SystemExit, match="with the reason"):
        main(["run", "--suite", "instructions", "--record", "  "])


def test_every_case_is_recorded() -> None:
    _, recorded = load(FILE)
    assert list(recorded) == names([])
