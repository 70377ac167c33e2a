"""Tests the tables on the page of the whole-table benchmark, and the benchmark's targets.

The page does not show the targets.
"""

from __future__ import annotations

from typing import Any

from bench.harness import samples
from bench.harness.environments import KEPT
from bench.report.tables.whole_tables import whole_tables_section
from bench.report.targets.verdicts import whole_table_verdicts


def sample(tool: str, seconds: float, cpu: float, peak: float = 100.0) -> dict[str, Any]:
    times = {"wall_s": seconds, "cpu_s": cpu, "whole_cpu_s": cpu, "node_cpu_s": 1.0}
    about = {"client": tool, "version": "1", "interpreter": "CPython", "machine": "this"}
    what = {"tool": tool, "task": "load", "shape": "mixed", "rows": 1000, "peak_mib": peak}
    return {**about, **times, **what, "date": "2026-11-23"}


def test_targets_are_met_or_missed_by_the_medians() -> None:
    floors = [sample("parse", 1.0, 1.0), sample("ready", 1.0, 4.0)]
    good = [*floors, sample("turbocql-csv", 2.0, 6.4), sample("dsbulk", 4.0, 60.0, 900.0)]
    assert [row[1:] for row in whole_table_verdicts(good)] == [
        ["1.28 times", "met"],
        ["2.0 times", "met"],
        ["105 MB at most", "met"],
    ]
    worse = [*floors, sample("turbocql-csv", 5.0, 6.6, 290.0), sample("dsbulk", 4.0, 60.0)]
    assert [row[2] for row in whole_table_verdicts(worse)] == ["**missed**"] * 3


def test_the_page_has_every_table_and_task_and_no_target() -> None:
    lines = whole_tables_section(samples.read(KEPT / "whole_tables.jsonl"))
    headings = [line.split(" rows ")[0] for line in lines if line.startswith("#")]
    assert headings == [
        "## Load of 1,000,000",
        "## Unload of 1,000,000",
        "## Load of 100,000",
        "## Unload of 100,000",
        "## Load of 1,000,000",
    ]
    assert "target" not in "\n".join(lines).lower()
    medians = sample("turbocql-csv", 2.0, 6.4)
    table = whole_tables_section([medians, sample("dsbulk", 4.0, 60.0, 900.0)])
    assert "| turbocql, CSV | 500 | 6,400 | 6,400 | 1,000 | 100 |" in table
    assert "| dsbulk | 250 | 60,000 | 60,000 | 1,000 | 900 |" in table
