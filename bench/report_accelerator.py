"""The table of `docs/accelerator.md`: other drivers plain and accelerated, and its targets."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from codec_cases import EXTENSIONS
from codec_environments import ROOT
from end_to_end_cases import ACCELERATED, PYTHON
from report_data import Sample, Spread, against, escaped, number, table

__all__ = ["PAGE", "section", "write"]

PAGE = ROOT / "docs" / "accelerator.md"
_BEGIN, _END = "<!-- measured: begin -->", "<!-- measured: end -->"

_TARGETS: dict[str, float] = {
    "bind: (int, vector 1536), ndarray": 100,
    "bind: (int, vector 1536), list": 25,
    "bind: 10 ints": 4,
    "bind: 10 mixed, sequence": 4,
    "bind: 10 mixed, dict": 4,
    "value: list<int> of 100": 12,
    "value: set<text> of 100": 12,
    "value: map<text, int> of 100": 12,
    "value: tuple of 10": 6,
    "value: UDT of 5": 6,
    "batch body: 10x2 vectors of 128": 5,
    "batch body: 10x10 text": 5,
    "batch body: 50x10 text": 5,
    "batch, extensions: 10x10 text": 5,
    "batch, extensions: 50x10 text": 5,
    "routing key: 3 parts": 3,
    "page: 5000x10 to tuples": 2,
    "page: 5000x10 to named": 2,
    "page: 5000x10 to dicts": 2,
    "page: 1x10 with metadata, named": 8,
    "insert_vector ndarray, callbacks": 2.2,
    "insert_vector ndarray, concurrent": 1.8,
    "select_text named, callbacks": 1.8,
    "select_text named, concurrent": 1.8,
    "insert_vector ndarray above insert_text, callbacks": 10,
    "insert_vector ndarray above insert_text, concurrent": 10,
}
"""How many times as fast a case is to be; never slower, where nothing is said."""

_OWN = {f"value: {name}" for name in ("int", "bigint", "double", "text", "blob", "boolean", "uuid")}
"""Cases that the accelerator leaves to the driver: what differs there is noise."""


@dataclass(frozen=True)
class _Row:
    name: str
    driver: str
    plain_us: float
    accelerated_us: float
    spreads: tuple[Spread, Spread] | None = None
    """Accelerated and plain."""
    made_of: tuple[Spread, Spread] | None = None
    """What a difference is the difference of, accelerated."""
    targets: Mapping[str, float] = field(default_factory=lambda: _TARGETS)

    @property
    def within(self) -> str:
        """Whether the rounds of both overlap, in words."""
        if self.made_of is not None and self.made_of[0].rounds > 1:
            vector, text = self.made_of
            return f": the difference of {vector} us and {text} us"
        if self.spreads is None or self.spreads[0].rounds == 1:
            return ""
        return f": {against(*self.spreads, 'us')}"

    @property
    def ratio(self) -> float:
        return self.plain_us / self.accelerated_us if self.accelerated_us > 0 else float("inf")

    @property
    def wanted(self) -> float:
        return self.targets.get(self.name, 1)


def _codec_rows(samples: Iterable[Sample]) -> list[_Row]:
    taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for sample in samples:
        if sample.get("plain_ns") is not None:
            both = sample["plain_ns"] / 1000, sample["accelerated_ns"] / 1000
            taken.setdefault((sample["case"], sample["client"]), []).append(both)
    return [
        _Row(name, driver, *(statistics.median(part) for part in zip(*both, strict=True)))
        for (name, driver), both in taken.items()
    ]


def _processor_time(sample: Sample) -> float | None:
    return sample["cpu_s"] / sample["requests"] * 1e6 if sample.get("requests") else None


def _slowest(sample: Sample) -> float | None:
    return sample["p99_us"] / 1000 if sample.get("p99_us") else None


def _instructions(sample: Sample) -> float | None:
    return sample["instructions"] / 1000 if sample.get("instructions") else None


def _taken(
    samples: Iterable[Sample], figure: Callable[[Sample], float | None]
) -> dict[tuple[str, str], list[float]]:
    """A figure in each round, by case and client."""
    taken: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        found = figure(sample)
        if found is not None:
            name = f"{sample['scenario']} {sample.get('variant', '')}".strip()
            key = (f"{name}, {sample['shape']}", sample["client"])
            taken.setdefault(key, []).append(found)
    return taken


def _latency_rows(samples: Iterable[Sample]) -> list[_Row]:
    return [replace(row, targets={}) for row in _both(_taken(samples, _slowest))]


def _request_rows(
    samples: Iterable[Sample], figure: Callable[[Sample], float | None]
) -> list[_Row]:
    taken = _taken(samples, figure)
    return [*_both(taken), *_above(taken)]


def _both(taken: dict[tuple[str, str], list[float]]) -> list[_Row]:
    """Plain and accelerated."""
    medians = {key: statistics.median(of) for key, of in taken.items()}
    return [
        _Row(
            *(name, client, plain, medians[name, client + ACCELERATED]),
            (Spread.of(taken[name, client + ACCELERATED]), Spread.of(taken[name, client])),
        )
        for (name, client), plain in medians.items()
        if (name, client + ACCELERATED) in medians
    ]


def _above(taken: dict[tuple[str, str], list[float]]) -> list[_Row]:
    """What a vector costs above a text."""
    rows = []
    for shape in ("callbacks", "concurrent"):
        for driver in PYTHON:
            text, vector = f"insert_text, {shape}", f"insert_vector ndarray, {shape}"
            parts = [(name, driver + end) for end in ("", ACCELERATED) for name in (vector, text)]
            if all(part in taken for part in parts):
                costs = [statistics.median(taken[part]) for part in parts]
                name = f"insert_vector ndarray above insert_text, {shape}"
                made_of = (Spread.of(taken[parts[2]]), Spread.of(taken[parts[3]]))
                plain, accelerated = costs[0] - costs[1], costs[2] - costs[3]
                rows.append(_Row(name, driver, plain, accelerated, made_of=made_of))
    return rows


def section(samples: list[Sample]) -> list[str]:
    """The tables, and of which releases they are."""
    lines: list[str] = []
    codec = _codec_rows(samples)
    for title, rows in (
        (
            "The codec, us of processor time per call",
            [row for row in codec if row.name not in EXTENSIONS],
        ),
        (
            "On a connection with all extensions of ScyllaDB, us of processor time per call",
            [row for row in codec if row.name in EXTENSIONS],
        ),
        (
            "Requests to a server, us of client processor time each",
            _request_rows(samples, _processor_time),
        ),
        (
            "Requests to a server, ms in which 99 of 100 were answered, 100 in flight",
            _latency_rows(samples),
        ),
        (
            "Requests to a server, thousand instructions of the client each",
            _request_rows(samples, _instructions),
        ),
    ):
        if not rows:
            continue
        lines += [f"**{title}**", ""]
        drivers = [driver for driver in PYTHON if any(row.driver == driver for row in rows)]
        cells = []
        for name in dict.fromkeys(row.name for row in rows):
            line = [name]
            for driver in drivers:
                found = next((r for r in rows if (r.name, r.driver) == (name, driver)), None)
                line += _cells(found)
            wanted = next(r for r in rows if r.name == name).targets.get(name)
            said = "the driver's own" if name in _OWN else "-"
            cells.append([*line, said if wanted is None else f"{wanted:g}x"])
        head = [part for driver in drivers for part in (f"{driver}, plain", "accelerated", "ratio")]
        lines += table(["case", *head, "target"], cells)
        missed = [row for row in rows if row.ratio < row.wanted and row.name not in _OWN]
        listed = [
            f"- {row.name}, {row.driver}: {number(row.ratio)}x, wanted {row.wanted:g}x{row.within}"
            for row in missed
        ]
        lines += ["Below the target, or slower than plain:", "", *listed, ""] if missed else []
    return [*lines, *_about(samples)] if lines else []


def _cells(row: _Row | None) -> list[str]:
    if row is None:
        return ["-", "-", "-"]
    ratio = f"{number(row.ratio)}x" if row.ratio != float("inf") else "no cost left"
    return [number(row.plain_us), number(row.accelerated_us), ratio]


def _about(samples: list[Sample]) -> list[str]:
    versions = sorted(
        {f"{sample['client'].removesuffix(ACCELERATED)} {sample['version']}" for sample in samples}
    )
    interpreters = sorted({sample["interpreter"] for sample in samples if "interpreter" in sample})
    dates = sorted({sample["date"] for sample in samples})
    period = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    machines = sorted({sample["machine"] for sample in samples if "machine" in sample})
    return [f"{'; '.join([*versions, *interpreters, *machines])}; {period}.", ""]


def write(samples: list[Sample], page: Path = PAGE) -> None:
    """Puts the tables where the page has its marks."""
    lines = section(samples)
    if not lines:
        return
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, found, after = rest.partition(_END)
    if not found:
        raise SystemExit(f"{page.name} has no place for what was measured")
    measured = escaped("\n".join(lines)).rstrip()
    page.write_text(f"{before}{_BEGIN}\n\n{measured}\n\n{_END}{after}", encoding="utf-8")
    print(f"wrote {page.relative_to(ROOT)}")
