"""Compares docs/accelerator-proposals.md with the accelerator's samples in `bench/samples`."""

from __future__ import annotations

import re

from bench.harness import samples
from bench.harness.environments import KEPT
from bench.harness.spread import number
from bench.report.tables.accelerator import codec_rows
from tests.meta.sources import ROOT

PAGE = (ROOT / "docs" / "accelerator-proposals.md").read_text(encoding="utf-8")
CLIENT = "scylla-driver"


def test_the_figures_are_the_medians_of_the_kept_samples() -> None:
    rows = codec_rows(samples.read(KEPT / "accelerator.jsonl"))
    medians = {
        row.name: tuple(map(number, (row.plain_us, row.accelerated_us, row.ratio)))
        for row in rows
        if row.driver == CLIENT
    }
    figures = re.findall(r"`([^`]+)`: (\S+) to (\S+) us \((\S+)x\)", PAGE)
    assert len(figures) == PAGE.count(" us (") > 10
    for case, *times in figures:
        assert medians[case] == tuple(times), case


def test_the_page_names_the_version_of_the_samples() -> None:
    kept = samples.read(KEPT / "accelerator.jsonl")
    versions = {sample["version"] for sample in kept if sample["client"] == CLIENT}
    assert [f"{CLIENT} {version} alone" in " ".join(PAGE.split()) for version in versions] == [True]
