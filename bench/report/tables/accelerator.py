"""Tables that compare other drivers without the accelerator (plain) and with it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.harness.samples import Sample
from bench.harness.spread import Spread, against, number
from bench.report.markdown import about, table
from bench.suites.accelerator.parts import PARTS
from bench.suites.codec.cases import EXTENSIONS
from bench.suites.codec.everyday import CASES as EVERYDAY_CASES
from bench.suites.requests.cases import ACCELERATED, PYTHON

__all__ = ["OWN", "Row", "accelerator_section", "codec_rows", "tables"]

OWN = {f"value: {name}" for name in ("int", "bigint", "double", "text", "blob", "boolean", "uuid")}
"""The cases that the accelerator leaves to the driver. So the differences between their plain and
their accelerated times are noise."""


@dataclass(frozen=True)
class Row:
    name: str
    driver: str
    plain_us: float
    accelerated_us: float
    spreads: tuple[Spread, Spread] | None = None
    """The spreads of the accelerated and of the plain time."""
    made_of: tuple[Spread, Spread] | None = None
    """The spreads of the accelerated times of two cases, if the row is the difference of these
    cases."""

    @property
    def within(self) -> str:
        """The spreads in words, and whether they overlap. Empty if there was only one round."""
        if self.made_of is not None and self.made_of[0].rounds > 1:
            vector, text = self.made_of
            return f": the difference of {vector} us and {text} us"
        if self.spreads is None or self.spreads[0].rounds == 1:
            return ""
        return f": {against(*self.spreads, 'us')}"

    @property
    def ratio(self) -> float:
        return self.plain_us / self.accelerated_us if self.accelerated_us > 0 else float("inf")


def codec_rows(samples: Iterable[Sample]) -> list[Row]:
    """Returns a row with the medians for each codec case and driver."""
    rounds: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for sample in samples:
        if sample.get("plain_ns") is not None:
            both = sample["plain_ns"] / 1000, sample["accelerated_ns"] / 1000
            rounds.setdefault((sample["case"], sample["client"]), []).append(both)
    return [
        Row(name, driver, *(statistics.median(part) for part in zip(*both, strict=True)))
        for (name, driver), both in rounds.items()
    ]


def _processor_time(sample: Sample) -> float | None:
    return sample["cpu_s"] / sample["requests"] * 1e6 if sample.get("requests") else None


def _slowest(sample: Sample) -> float | None:
    return sample["p99_us"] / 1000 if sample.get("p99_us") else None


def _instructions(sample: Sample) -> float | None:
    return sample["instructions"] / 1000 if sample.get("instructions") else None


def _rounds(
    samples: Iterable[Sample], figure: Callable[[Sample], float | None]
) -> dict[tuple[str, str], list[float]]:
    """Maps case and client to one figure of each round. `figure` computes it from a sample."""
    rounds: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        value = figure(sample)
        if value is not None:
            rounds.setdefault((_name(sample), sample["client"]), []).append(value)
    return rounds


def _name(sample: Sample) -> str:
    scenario = f"{sample['scenario']} {sample.get('variant', '')}".strip()
    return ", ".join(filter(None, (scenario, sample["shape"], sample.get("server"))))


def _latency_rows(samples: Iterable[Sample]) -> list[Row]:
    return _both(_rounds(samples, _slowest))


def _request_rows(samples: Iterable[Sample], figure: Callable[[Sample], float | None]) -> list[Row]:
    rounds = _rounds(samples, figure)
    return [*_both(rounds), *_above(rounds)]


def _both(rounds: dict[tuple[str, str], list[float]]) -> list[Row]:
    """Returns a row for each case and driver that was measured plain and accelerated."""
    medians = {key: statistics.median(of) for key, of in rounds.items()}
    return [
        Row(
            *(name, client, plain, medians[name, client + ACCELERATED]),
            (Spread.of(rounds[name, client + ACCELERATED]), Spread.of(rounds[name, client])),
        )
        for (name, client), plain in medians.items()
        if (name, client + ACCELERATED) in medians
    ]


def _above(rounds: dict[tuple[str, str], list[float]]) -> list[Row]:
    """Returns rows with the cost of inserting a vector, minus that of inserting a text."""
    rows = []
    for shape in ("callbacks", "concurrent"):
        for driver in PYTHON:
            text, vector = f"insert_text, {shape}", f"insert_vector ndarray, {shape}"
            parts = [(name, driver + end) for end in ("", ACCELERATED) for name in (vector, text)]
            if all(part in rounds for part in parts):
                costs = [statistics.median(rounds[part]) for part in parts]
                name = f"insert_vector ndarray above insert_text, {shape}"
                made_of = (Spread.of(rounds[parts[2]]), Spread.of(rounds[parts[3]]))
                plain, accelerated = costs[0] - costs[1], costs[2] - costs[3]
                rows.append(Row(name, driver, plain, accelerated, made_of=made_of))
    return rows


def tables(samples: list[Sample]) -> dict[str, list[Row]]:
    """Maps titles to tables, without tables that have no rows."""
    codec = codec_rows(samples)
    every = {
        "The codec, us of processor time per call": [
            row for row in codec if row.name not in EXTENSIONS and row.name not in EVERYDAY_CASES
        ],
        "Everyday values, us of processor time per call": [
            row for row in codec if row.name in EVERYDAY_CASES
        ],
        "On a connection with all extensions of ScyllaDB, us of processor time per call": [
            row for row in codec if row.name in EXTENSIONS
        ],
        "Requests to a server, us of client processor time each": _request_rows(
            samples, _processor_time
        ),
        "Requests to a server, ms in which 99 of 100 were answered": _latency_rows(samples),
        "Requests to a server, thousand instructions of the client each": _request_rows(
            samples, _instructions
        ),
    }
    return {title: rows for title, rows in every.items() if rows}


def accelerator_section(samples: list[Sample]) -> list[str]:
    """Returns the tables and the versions. Lists the cases that the accelerator makes slower."""
    lines: list[str] = []
    for title, rows in tables(samples).items():
        lines += [f"**{title}**", ""]
        drivers = [driver for driver in PYTHON if any(row.driver == driver for row in rows)]
        by_case = {(row.name, row.driver): row for row in rows}
        cells = [
            [name, *(cell for driver in drivers for cell in _cells(by_case.get((name, driver))))]
            for name in dict.fromkeys(row.name for row in rows)
        ]
        head = [part for driver in drivers for part in (f"{driver}, plain", "accelerated", "ratio")]
        lines += table(["case", *head], cells)
        skipped = list(dict.fromkeys(row.name for row in rows if row.name in OWN))
        if skipped:
            lines += [
                f"Left to the driver, so that a difference is noise: {'; '.join(skipped)}.",
                "",
            ]
        slower = [row for row in rows if row.ratio < 1 and row.name not in OWN]
        points = [f"- {row.name}, {row.driver}: {number(row.ratio)}x{row.within}" for row in slower]
        lines += ["Slower than plain:", "", *points, ""] if slower else []
    if not lines:
        return []
    lines += _parts_table(samples)
    versions = [f"{s['client'].removesuffix(ACCELERATED)} {s['version']}" for s in samples]
    return [*lines, *about(samples, versions)]


def _parts_table(samples: list[Sample]) -> list[str]:
    """Returns a table of the parts of each accelerated request's instructions."""
    counted = [s for s in samples if s.get("parts") and s["client"].endswith(ACCELERATED)]
    if not counted:
        return []
    cells = []
    for sample in counted:
        parts = [sample["parts"][part] / 1000 for part in PARTS]
        driver = sample["client"].removesuffix(ACCELERATED)
        cells.append([_name(sample), driver, *map(number, [sum(parts), *parts])])
    head = ["case, accelerated", "driver", "all", *PARTS]
    return ["**Parts of a request, thousand instructions**", "", *table(head, cells)]


def _cells(row: Row | None) -> list[str]:
    if row is None:
        return ["-", "-", "-"]
    ratio = f"{number(row.ratio)}x" if row.ratio != float("inf") else "no cost left"
    return [number(row.plain_us), number(row.accelerated_us), ratio]
