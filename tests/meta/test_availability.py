"""Tests the figures of the availability benchmark, and its page. These tests measure nothing."""

from __future__ import annotations

from typing import Any

from bench.report.tables.availability import availability_about, availability_section
from bench.suites.availability import cases
from bench.suites.availability.figures import figures
from tests.meta.sources import ROOT


def _outcomes() -> list[list[Any]]:
    """Returns the outcomes of 20 s with one request per second, for a fault at 4.5 s.

    Each outcome is the due time, the end, the error, and whether the request lost a connection.
    """
    outcomes: list[list[Any]] = [[due, due + 0.25, "", False] for due in range(20)]
    outcomes[5] = [5, 6.5, "", False]  # This request is answered late.
    outcomes[6] = [6, 6.1, "ConnectionLost", True]
    outcomes[7] = [7, 17.0, "RequestTimeout", False]
    outcomes[16] = [16, None, "NoOutcome", False]
    return outcomes


def test_figures_count_from_when_a_request_was_due() -> None:
    found = figures(_outcomes(), 4.5)
    assert (found["requests"], found["requests_just_after"]) == (20, 11)
    assert found["in_time_all"] == 16 / 20
    assert found["in_time_just_after"] == 8 / 11
    assert found["in_time_before"] == 1
    assert found["errors"] == {"ConnectionLost": 1, "RequestTimeout": 1, "NoOutcome": 1}
    assert found["connection_errors"] == 1
    assert (found["slowest_s"], found["slowest_error_s"]) == (1.5, 10)
    assert (found["first_answer_s"], found["last_late_s"]) == (2.0, 11.5)
    # A silence is a time without an answer. The first silence begins with the fault at 4.5 s and
    # ends with the answer at 6.5 s. The request at 16 s has no answer, so there is another silence
    # from 15.25 s to 17.25 s. These two silences of 2 s are the longest.
    assert found["longest_silence_s"] == 2.0
    assert found["in_time_by_second"] == [1] * 5 + [0] * 3 + [1] * 8 + [0] + [1] * 3


def test_half_of_the_requests_are_writes_with_unique_keys() -> None:
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


def test_the_table_has_a_row_for_each_client_and_every_error() -> None:
    release = {"version": "1", "interpreter": "CPython", "machine": "this", "date": "2026-11-23"}
    samples = [
        {
            "case": "stopped",
            "client": client,
            "round": turn,
            "lost_writes": 0,
            "busy": 0.2,
            **release,
            **figures(_outcomes(), 4.5),
        }
        for client, turn in (("acsylla", 1), ("turbocql", 1), ("turbocql", 2))
    ]
    table = availability_section(samples)
    ours, theirs = [line for line in table if line.startswith(("| turbo", "| acs"))]
    assert "80.00 % (80.00 to 80.00)" in ours
    assert "2 ConnectionLost, 2 RequestTimeout, 2 NoOutcome" in ours
    assert "| 80.00 % |" in theirs
    about = "\n".join(availability_about(samples))
    assert max(map(len, about.splitlines())) <= 100
    assert "2 rounds; the node that fails changes each time" in " ".join(about.split())


def test_the_page_has_the_measured_times() -> None:
    page = " ".join((ROOT / "docs" / "availability.md").read_text(encoding="utf-8").split())
    assert f"answered within {cases.IN_TIME_S:g} s in both cases" in page
    assert f"- After {cases.FAULT_AT_S:g} s of load" in page
    assert f"in the first {cases.JUST_AFTER_S:g} s after the fault*" in page
