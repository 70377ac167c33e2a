"""Random pages of rows, read whole by turbocql and by scylla-driver, cell by cell."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / ".venv-scylla-driver" / "bin" / "python"


@pytest.fixture(scope="module")
def report(proof: bool) -> dict[str, Any]:
    count = 10_000 if proof else 600
    paths = os.pathsep.join((str(ROOT / "python"), str(ROOT)))
    done = subprocess.run(
        [REFERENCE, "-m", "tests.differential.results", str(count), "20240229"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    assert made["counts"]["pages"] == count
    return made


def test_pages_read_alike(report: dict[str, Any]) -> None:
    assert report["wrong"] == []
    assert "wrong" not in report["counts"]
    counts = report["counts"]
    # Not only pages that somebody refuses, nor only listed differences.
    assert counts["read by all"] > counts["pages"] / 2
    assert counts["cells"] > counts["pages"] * 10
    assert sum(report["rules"].values()) < counts["cells"] / 10


def test_listed_differences_are_still_there_and_documented(report: dict[str, Any]) -> None:
    assert report["gone"] == []
    # "76" is "v" in hexadecimal, and a number.
    assert report["not described"] == ["vector<v{a int, b text}, 3>"]
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    chapter = page.partition("\n## Results\n")[2]
    documented = re.findall(r"^\| ([A-Z].+?) \|", chapter, flags=re.M)
    slugs = {re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-") for what in documented}
    assert slugs == {*report["odd"], "vectors-of-types-named-in-digits"}
