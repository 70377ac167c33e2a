"""Groups samples for the report, and computes their medians."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import samples as files
from bench.harness.samples import Sample
from bench.harness.spread import Spread
from bench.suites.codec.cases import NAMES
from bench.suites.requests.cases import SCENARIOS

__all__ = [
    "FLOOR",
    "OURS",
    "RIVALS",
    "STOCK",
    "CodecCase",
    "Compared",
    "Endpoint",
    "GrowthSeries",
    "Loss",
    "Samples",
    "codec_cases",
    "end_to_end",
    "growth",
    "interpreters",
]

OURS, STOCK = "turbocql", "scylla-driver"
RIVALS = (STOCK, "cassandra-driver")
FLOOR = "engine"
"""The client that calls turbocql's network engine from Rust. It is not a driver. Its time is the
floor of turbocql's time, because it runs no Python code."""


_BESIDE = {"decode: vector<float, 1536> to NumPy": "decode: vector<float, 1536> to list"}
"""Maps a case that scylla-driver cannot run to another case. scylla-driver's time in the other case
is used instead."""


class Samples:
    """The samples of a folder, by suite."""

    def __init__(self, folder: Path) -> None:
        self.codec = files.read(folder / "codec.jsonl")
        self.end_to_end = files.read(folder / "end_to_end.jsonl")
        self.growth = files.read(folder / "growth.jsonl")
        self.accelerator = files.read(folder / "accelerator.jsonl")
        self.availability = files.read(folder / "availability.jsonl")
        self.engines = files.read(folder / "engines.jsonl")
        self.tables = files.read(folder / "whole_tables.jsonl")

    @property
    def compared(self) -> list[Sample]:
        """The samples that docs/benchmarks.md shows."""
        return self.codec + self.end_to_end + self.growth


def interpreters(samples: Iterable[Sample]) -> list[str]:
    """Returns the interpreters of the samples; Debian's come last."""
    names = dict.fromkeys(str(s["interpreter"]) for s in samples if s.get("interpreter"))
    return sorted(names, key=lambda name: "Debian" in name)


@dataclass(frozen=True)
class Compared:
    """The processor times of turbocql and its rivals in one case, in microseconds."""

    label: str
    ours: Spread
    rivals: dict[str, Spread]
    as_bytes: frozenset[str] = frozenset()
    """The rivals that neither encode nor decode vectors."""

    @property
    def best(self) -> str:
        """The rival with the lowest median."""
        return min(self.rivals, key=lambda rival: self.rivals[rival].median)

    def ratio(self, rival: str) -> Spread:
        """Returns the rival's time divided by turbocql's."""
        return self.rivals[rival].divided_by(self.ours)


@dataclass(frozen=True)
class Loss:
    """A figure in which a rival is better than turbocql."""

    case: str
    figure: str
    ours: Spread
    rival: str
    theirs: Spread
    note: str = ""
    """The note of the rival's samples, for example that the rival does not decode vectors."""

    @property
    def within(self) -> bool:
        """Whether the difference is within the spread."""
        return self.ours.overlaps(self.theirs)


@dataclass
class CodecCase:
    """A case of the codec under one interpreter: medians in nanoseconds."""

    name: str
    ns: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """Maps each client without a time to the reason why it has none."""
    floors: dict[str, float] = field(default_factory=dict)
    stock_beside: float | None = None
    spreads: dict[str, Spread] = field(default_factory=dict)
    """Maps each client to the spread of its times, in microseconds."""

    @property
    def stock(self) -> float | None:
        """scylla-driver's time in this case.

        If scylla-driver cannot run the case, this is its time in the case that `_BESIDE` names.
        """
        return self.ns.get(STOCK, self.stock_beside)


def codec_cases(samples: list[Sample], interpreter: str) -> list[CodecCase]:
    """Returns the cases of one interpreter, in the order of the suite."""
    cases: dict[str, CodecCase] = {}
    times: dict[tuple[str, str, str], list[float]] = {}
    for sample in samples:
        if sample["interpreter"] != interpreter:
            continue
        name, client, note = sample["case"], sample["client"], sample["note"] or ""
        case = cases.setdefault(name, CodecCase(name))
        if sample["ns"] is None:
            case.notes[client] = note
        else:
            times.setdefault((name, client, note if client == "floor" else ""), []).append(
                sample["ns"]
            )
    for (name, client, note), ns in times.items():
        if client == "floor":
            cases[name].floors[note] = statistics.median(ns)
        else:
            cases[name].ns[client] = statistics.median(ns)
            cases[name].spreads[client] = Spread.of(ns, 1e-3)
    order = {name: at for at, name in enumerate(NAMES)}
    for name, beside in _BESIDE.items():
        if name in cases and beside in cases:
            cases[name].stock_beside = cases[beside].ns.get(STOCK)
    return sorted(cases.values(), key=lambda case: order.get(case.name, len(order)))


@dataclass(frozen=True)
class Endpoint:
    """One client's medians in a scenario and shape, with one number of requests in flight."""

    scenario: str
    shape: str
    client: str
    in_flight: int
    cpu_us: float
    """Client processor time per request; for a scan, per row."""
    per_s: float
    p50_us: float | None
    p99_us: float | None
    samples: int
    note: str
    spreads: dict[str, Spread]
    """The spreads of the figures that were measured, by the name of the field."""


def end_to_end(samples: list[Sample], interpreter: str) -> list[Endpoint]:
    """Returns one interpreter's results, sorted by scenario, shape, number in flight, CPU time."""
    groups: dict[tuple[str, str, str, int], list[Sample]] = {}
    for sample in samples:
        if sample.get("interpreter") == interpreter and sample.get("cpu_s") is not None:
            key = (sample["scenario"], sample["shape"], sample["client"], sample["in_flight"])
            groups.setdefault(key, []).append(sample)
    endpoints = []
    for (scenario, shape, client, in_flight), group in groups.items():

        def median(name: str, group: list[Sample] = group) -> float | None:
            values = [sample[name] for sample in group if sample.get(name) is not None]
            return statistics.median(values) if values else None

        spreads = {
            "cpu_us": Spread.of((s["cpu_s"] / s["requests"] for s in group), 1e6),
            "per_s": Spread.of(s["requests"] / s["wall_s"] for s in group),
        }
        for name in ("p50_us", "p99_us"):
            if median(name) is not None:
                spreads[name] = Spread.of(s[name] for s in group if s.get(name) is not None)
        cpu, rate = spreads["cpu_us"].median, spreads["per_s"].median
        endpoints.append(
            Endpoint(
                *(scenario, shape, client, in_flight, cpu, rate),
                *(median("p50_us"), median("p99_us"), len(group), group[0].get("note") or ""),
                spreads,
            )
        )
    order = {name: at for at, name in enumerate(SCENARIOS)}
    return sorted(
        endpoints,
        key=lambda e: (order.get(e.scenario, 99), e.scenario, e.shape, e.in_flight, e.cpu_us),
    )


@dataclass
class GrowthSeries:
    """One client's results in a series of the growth suite: medians by size."""

    name: str
    client: str
    ns: dict[int, float] = field(default_factory=dict)
    peak: dict[int, float] = field(default_factory=dict)
    spreads: dict[int, Spread] = field(default_factory=dict)
    """The spreads of the times, in microseconds."""
    peaks: dict[int, Spread] = field(default_factory=dict)
    """The spreads of the peak memory, in MiB."""


def growth(samples: list[Sample], interpreter: str) -> dict[str, dict[str, GrowthSeries]]:
    """Maps the name of each series and then the client to the results under one interpreter."""
    times: dict[tuple[str, str, int], list[float]] = {}
    peaks: dict[tuple[str, str, int], list[float]] = {}
    for sample in samples:
        if sample["interpreter"] != interpreter or sample["ns"] is None:
            continue
        key = (sample["series"], sample["client"], sample["n"])
        times.setdefault(key, []).append(sample["ns"])
        if sample["peak_bytes"] is not None:
            peaks.setdefault(key, []).append(sample["peak_bytes"])
    series_by_name: dict[str, dict[str, GrowthSeries]] = {}
    for (name, client, size), ns in sorted(times.items(), key=lambda item: item[0][2]):
        series = series_by_name.setdefault(name, {}).setdefault(client, GrowthSeries(name, client))
        series.ns[size] = statistics.median(ns)
        series.spreads[size] = Spread.of(ns, 1e-3)
    for (name, client, size), peak in peaks.items():
        series_by_name[name][client].peak[size] = statistics.median(peak)
        series_by_name[name][client].peaks[size] = Spread.of(peak, 2**-20)
    return dict(sorted(series_by_name.items()))
