"""Tests the benchmark's table of engines. The tests use kept samples and measure nothing."""

from __future__ import annotations

from bench.harness import samples
from bench.harness.environments import KEPT
from bench.report.tables.engines import engines_section
from bench.suites.engines.cases import CLIENTS


def test_the_table_has_a_row_for_each_client() -> None:
    lines = engines_section(samples.read(KEPT / "engines.jsonl"))
    rows = [line for line in lines if line.startswith("| ")]
    titles = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert titles == ["client", *(client.title for client in CLIENTS.values())]
    text = "\n".join(lines)
    assert "1,000,000 rows; 16 tasks; 64 token ranges; 3" in text
    assert "scylla-driver 3.29.12; turbocql" in text
