"""Tests when `make instructions` fails, and which recorded counts `RECORD=` replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import main
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
    # A figure of 0 cannot rise by a percentage, so any rise fails.
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


def test_a_reason_is_needed() -> None:
    with pytest.raises(SystemExit, match="with the reason"):
        main(["run", "--suite", "instructions", "--record", "  "])


def test_every_case_is_recorded() -> None:
    _, recorded = load(FILE)
    assert list(recorded) == names([])
