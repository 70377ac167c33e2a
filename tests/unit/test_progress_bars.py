"""Tests of the bar that `progress=True` shows, with stand-ins for tqdm."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from turbocql import Progress
from turbocql._transfer.monitor import shown_progress

FIRST = Progress(
    rows=10,
    failed=0,
    bytes=1000,
    rows_per_s=5.0,
    elapsed_s=2.0,
    left_s=None,
    share=None,
    window=8,
    in_flight=8,
    retried=0,
    batched=0,
    earlier_rows=0,
    ended=False,
)


class NotebookBar:
    """A bar that becomes red or green when it is closed, like the bar of `tqdm.notebook`."""

    made: list[NotebookBar]

    def __init__(self, total: int, bar_format: str) -> None:
        self.total, self.bar_format, self.n = total, bar_format, 0.0
        self.color: str | None = None
        self.texts: list[str] = []
        self.made.append(self)

    def set_description_str(self, text: str, refresh: bool) -> None:
        self.texts.append(text)

    def refresh(self) -> None:
        assert self.color is None, "the bar is closed"

    def close(self) -> None:
        self.color = "red" if self.n < self.total else "green"


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[NotebookBar]:
    NotebookBar.made = []
    auto: Any = ModuleType("tqdm.auto")
    auto.tqdm = NotebookBar
    # turbocql takes the bar from `tqdm.auto`, which selects the bar for notebooks or for terminals.
    monkeypatch.setitem(sys.modules, "tqdm", ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    return NotebookBar.made


def test_a_load_whose_size_is_not_known(bars: list[NotebookBar]) -> None:
    show = shown_progress()
    (bar,) = bars
    show(FIRST)
    assert "{bar}" not in bar.bar_format
    assert bar.color is None
    show(replace(FIRST, rows=20, ended=True))
    assert bar.color == "green"
    assert bar.texts[-1].startswith("20 rows, ")


def test_a_load_whose_size_is_known(bars: list[NotebookBar]) -> None:
    show = shown_progress()
    show(replace(FIRST, share=0.25))
    assert "{bar}" in bars[0].bar_format
    assert bars[0].n == 25.0
    show(replace(FIRST, share=1.0, ended=True))
    assert bars[0].color == "green"


def test_a_load_that_ended_early(bars: list[NotebookBar]) -> None:
    show = shown_progress()
    show(replace(FIRST, share=0.5, ended=True))
    assert bars[0].color == "red"
