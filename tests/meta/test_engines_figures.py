"""The figures of the engines' page, which are those of the kept samples. Measures nothing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.meta.sources import ROOT


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("report_engines")


def test_the_page_has_the_figures_of_the_samples(report: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    kept = report.PAGE.read_text(encoding="utf-8")
    page.write_text(kept, encoding="utf-8")
    report.write(report.SAMPLES, page)
    assert page.read_text(encoding="utf-8") == kept
    # Each client has a row.
    table = kept.partition("<!-- figures -->")[2].partition("<!-- end of figures -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 9
