"""The page of the whole-table benchmark: its targets, and that it is that of the kept samples."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.meta.sources import ROOT


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The report, which needs no more than the standard library."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("report_whole_tables")


def sample(tool: str, seconds: float, cpu: float, peak: float = 100.0) -> dict[str, Any]:
    times = {"wall_s": seconds, "cpu_s": cpu, "whole_cpu_s": cpu, "node_cpu_s": 1.0}
    about = {"client": tool, "version": "1", "interpreter": "CPython", "machine": "this"}
    what = {"tool": tool, "task": "load", "shape": "mixed", "rows": 1000, "peak_mib": peak}
    return {**about, **times, **what, "date": "2026-11-23"}


def test_targets_are_met_or_missed_by_the_medians(report: Any) -> None:
    floors = [sample("parse", 1.0, 1.0), sample("ready", 1.0, 4.0)]
    taken = [*floors, sample("turbocql-csv", 2.0, 6.4), sample("dsbulk", 4.0, 60.0, 900.0)]
    assert [row[1:] for row in report.targets(taken)] == [
        ["1.28 times", "met"],
        ["2.0 times", "met"],
        ["105 MB at most", "met"],
    ]
    worse = [*floors, sample("turbocql-csv", 5.0, 6.6, 290.0), sample("dsbulk", 4.0, 60.0)]
    assert [row[2] for row in report.targets(worse)] == ["**missed**"] * 3


def test_the_page_is_that_of_the_kept_samples(report: Any, tmp_path: Path) -> None:
    report.write(page=tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == report.PAGE.read_text()
