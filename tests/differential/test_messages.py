"""Random requests, written by turbocql and by scylla-driver, are the same bytes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-scylla-driver" / "bin" / "python"

RULES = {
    "query": {
        "empty_paging_state",
        "negative_timestamp",
        "page_size_below_1",
        "unset_in_version_3",
    },
    "execute": {
        "empty_paging_state",
        "metadata_id_left_out",
        "negative_timestamp",
        "no_metadata_id",
        "page_size_below_1",
        "skip_metadata",
        "unset_in_version_3",
    },
    "batch": {"empty_batch_keyspace", "negative_timestamp", "unset_in_version_3"},
}
"""The rules of `messages.py` that each kind of request needs."""


@pytest.mark.parametrize("kind", RULES)
def test_messages_are_the_same_bytes(kind: str, request: pytest.FixtureRequest) -> None:
    count = 10_000 if request.config.getoption("--proof", default=False) else 300
    program = ROOT / "tests" / "differential" / "messages.py"
    done = subprocess.run(
        [PYTHON, program, kind, str(count), "791"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert set(report["differing"]) == RULES[kind]
    assert report["compared"] == 3 * count
    assert report["equal"] == report["compared"] - sum(report["differing"].values())
    assert report["equal"] > report["compared"] / 2


def test_the_rules_are_documented() -> None:
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    chapter = page.partition("\n## Requests\n")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", chapter, flags=re.M)) == set().union(*RULES.values())
