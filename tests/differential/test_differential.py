"""turbocql against scylla-driver, value by value and byte by byte.

The comparison itself runs in the reference driver's environment, a process per core; `--proof`
makes it long.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / ".venv-scylla-driver" / "bin" / "python"
PROCESSES = 2
SECTIONS = ("Values taken", "Values given", "Bytes refused")

Report = dict[str, Any]


def _compare(part: int, count: int) -> Report:
    command = [str(REFERENCE), "-m", "tests.differential.compare"]
    command += ["--count", str(count), "--part", f"{part}/{PROCESSES}"]
    paths = os.pathsep.join((str(ROOT / "python"), str(ROOT)))
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    report: Report = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def reports(proof: bool) -> list[Report]:
    count = 10_000 if proof else 200
    with ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(lambda part: _compare(part, count), range(PROCESSES)))


def _sum(reports: list[Report], way: str) -> Counter[str]:
    return sum((Counter(report["compared"][way]) for report in reports), Counter())


def test_every_difference_is_a_listed_one(reports: list[Report]) -> None:
    failures = [failure for report in reports for failure in report["failures"]]
    assert not sum(report["failed"] for report in reports), "\n\n".join(failures)


def test_enough_was_compared(reports: list[Report], proof: bool) -> None:
    types = {cql for report in reports for cql in report["types"]}
    assert len(types) >= 150
    each = len(types) * (10_000 if proof else 200)
    for way, cases in (("encode", 1), ("decode", 2), ("decode, compiled", 2)):
        tally = _sum(reports, way)
        assert tally.total() >= cases * each, way
        # Not only refusals and listed differences.
        assert tally["same"] >= tally.total() // 3, way
    assert sum(report["routing"] for report in reports) >= 20 * (10_000 if proof else 200)


def test_all_conversions_were_seen(reports: list[Report]) -> None:
    for name in reports[0]["conversions"]:
        assert sum(report["conversions"][name][1] for report in reports) > 100, name


def test_all_rules_were_seen(reports: list[Report], proof: bool) -> None:
    seen: Counter[str] = Counter()
    for report in reports:
        seen.update(report["rules"])
    unseen = [name for name, times in seen.items() if not times]
    # A short run need not come by the rarest; every rule's example is compared in each.
    assert len(unseen) <= (0 if proof else 5), unseen


def test_the_documentation_lists_the_rules_and_no_others(reports: list[Report]) -> None:
    text = (ROOT / "docs" / "differences.md").read_text()
    chapters = dict(zip(*[iter(re.split(r"^## (.+)\n", text, flags=re.M)[1:])] * 2, strict=True))
    documented = {
        _slug(heading): section
        for section in SECTIONS
        for heading in re.findall(r"^### (.+)$", chapters[section], flags=re.M)
    }
    assert documented == reports[0]["sections"]


def test_the_documentation_lists_the_conversions(reports: list[Report]) -> None:
    text = (ROOT / "docs" / "differences.md").read_text()
    for name, (classes, _) in reports[0]["conversions"].items():
        assert f"| {name} | {classes} |" in text, name


def _slug(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")
