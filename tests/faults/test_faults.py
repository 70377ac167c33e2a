"""Runs the short form of the audit under faults."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.faults.faults import short_plan
from tests.faults.run import Times, run

SEED = os.environ.get("TURBOCQL_FAULTS_SEED", "1")
"""The seed of the faults' order, of the faults' nodes and of the calls. The default is fixed."""

_TIMES = Times(warm_up_s=6, before_s=2, after_s=3, recover_s=20)


@pytest.mark.cassandra
def test_no_call_is_lost_late_or_untrue_under_faults(tmp_path: Path) -> None:
    """Prints the table and the lines of the audit: `pytest -s` shows them."""
    report = run(SEED, short_plan(SEED), _TIMES, tmp_path, print)
    print(report.markdown(SEED))
    assert report.violations == 0, f"{report.violations} violations: see what was printed"
