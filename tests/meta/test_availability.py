"""The figures of the availability program, and its page. Measures nothing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.meta.sources import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the benchmarks; none of these needs more than the standard library."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module


def _outcomes() -> list[list[Any]]:
    """Twenty seconds, a request in each; the fault is to come at 4.5 s."""
    outcomes: list[list[Any]] = [[due, due + 0.25, "", False] for due in range(20)]
    outcomes[5] = [5, 6.5, "", False]  # answered late
    outcomes[6] = [6, 6.1, "ConnectionLost", True]
    outcomes[7] = [7, 17.0, "RequestTimeout", False]
    outcomes[16] = [16, None, "NoOutcome", False]
    return outcomes


def test_figures_count_from_when_a_request_was_due(bench: Any) -> None:
    found = bench("availability_figures").figures(_outcomes(), 4.5)
    assert (found["requests"], found["requests_just_after"]) == (20, 11)
    assert found["in_time_all"] == 16 / 20
    assert found["in_time_just_after"] == 8 / 11
    assert found["in_time_before"] == 1
    assert found["errors"] == {"ConnectionLost": 1, "RequestTimeout": 1, "NoOutcome": 1}
    assert found["connection_errors"] == 1
    assert (found["slowest_s"], found["slowest_error_s"]) == (1.5, 10)
    assert (found["first_answer_s"], found["last_late_s"]) == (2.0, 11.5)
    # From the fault to 6.5, then at 8.25; from 15.25 to 17.25 the request of 16 has no answer.
    assert found["longest_silence_s"] == 2.0
    assert found["in_time_by_second"] == [1] * 5 + [0] * 3 + [1] * 8 + [0] + [1] * 3


def test_requests_are_half_writes_with_keys_of_their_own(bench: Any) -> None:
    cases = bench("availability_cases")
    loads = [
        cases.Load("turbocql", run, ["127.0.0.1:9042"], None, seconds=2, rate=10) for run in (1, 2)
    ]
    written = [
        row(number)[0]
        for load in loads
        for row in (load.row_of, load.warming_row_of)
        for number in range(load.requests)
        if load.writes(number)
    ]
    assert len(set(written)) == len(written) == 40
    read = [load.row_of(n) for load in loads for n in range(load.requests) if not load.writes(n)]
    assert all(0 <= key < cases.STORED and value == cases.value_of(key) for key, value in read)
    assert (loads[0].hosts, loads[0].port) == (["127.0.0.1"], 9042)
    assert loads[0].due_s(5) == 0.5


def test_the_page_has_a_row_for_each_client_and_every_error(bench: Any, tmp_path: Path) -> None:
    report, environments = bench("report_availability"), bench("codec_environments")
    figures = bench("availability_figures").figures(_outcomes(), 4.5)
    about = {"version": "1", "interpreter": "CPython", "machine": "this", "date": "2026-11-23"}
    samples = [
        {
            "case": "stopped",
            "client": client,
            "round": turn,
            "lost_writes": 0,
            "busy": 0.2,
            **about,
            **figures,
        }
        for client, turn in (("acsylla", 1), ("turbocql", 1), ("turbocql", 2))
    ]
    environments.write_samples(tmp_path / "samples.jsonl", samples)
    report.write(tmp_path / "samples.jsonl", tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert max(map(len, page.partition("## How")[2].splitlines())) <= 100
    ours, theirs = [line for line in page.splitlines() if line.startswith(("| turbo", "| acs"))]
    assert "80.00 % (80.00 to 80.00)" in ours
    assert "2 ConnectionLost, 2 RequestTimeout, 2 NoOutcome" in ours
    assert "| 80.00 % |" in theirs
    assert "2 rounds, each with another node that fails" in page
