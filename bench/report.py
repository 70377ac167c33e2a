"""Writes the benchmark page and its charts, from samples and from nothing else.

`python bench/report.py` reads `bench/samples/`, where the samples are that the page in `docs/`
is made of; `make bench` reads its own in `build/bench/`.
"""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill
from typing import Any

import report_accelerator
import report_codec
import report_end_to_end
import report_growth
from codec_environments import HERE, ROOT, read_samples
from report_charts import codec_charts, end_to_end_chart, growth_chart, in_flight_chart
from report_data import Sample, codec_cases, end_to_end, escaped, growth, interpreters, table
from targets import WORDS

__all__ = ["SAMPLES", "main"]

SAMPLES = HERE / "samples"
PAGE = ROOT / "docs" / "benchmarks.md"

_METHOD = """\
Every figure on this page is computed from samples by `bench/report.py`; `make bench` takes them.
The raw samples that this page was made of are in `SAMPLES`.

- Each client runs in a process and an environment of its own. The clients take turns, and who
  begins changes from round to round.
- Nothing is timed before all drivers gave the same for a case. Where a driver cannot do a case, the
  reason stands below the table.
- Codec and growth: processor time, the least of 5 repeats in a process, each about 20 ms or one
  call; the median over the rounds. The garbage collector is off meanwhile.
WORDS
- What the floor of each case does is listed at the end; it is taken in the same run.
- Requests to a server: user and system time of the client's process, divided by its requests; the
  median over the rounds. *callbacks* stand beside turbocql's *workers*, *concurrent* beside its
  *tasks*.
- *engine*: no driver, but the floor: the network engine that turbocql is built on, from a Rust
  program that sends ready bytes. A bulk target also counts as met within 1.3 times that.
- Memory: how far one call raises the resident memory of its process at most, with what it gives.
  Allocators take it in blocks and keep what was freed, so small figures say little.
- All clients of a case (a scenario in a shape, with so many in flight) were measured in one run;
  another case may be of another run and an earlier build, as cases are measured again one by one.
- *workers*: so many coroutines, each awaiting one request after another; *tasks*: a task for every
  request, so many let through a semaphore at a time; *callbacks* and *concurrent*: the drivers'
  `execute_async` with callbacks, and `execute_concurrent_with_args`; *sync*: one after another;
  *bulk*: `execute_many` or the like. *turbocql-numpy* reads vectors as arrays.
- *Ratio* is the rival's time divided by turbocql's: above 1, turbocql is faster.
- A target of the codec counts as met when the ratio to scylla-driver in this run is that of the
  figures which the targets were set by, or when the time is at most 1.3 times the floor (another
  factor where the target says so), or when the time itself is at most the target's. The column
  *how* says which of these held; where none did, how far they are.
- A target of a request to a server that names a client is met when turbocql needs less processor
  time than that client in the same run, whatever the time itself. *Not measured*: what the target
  is held against has no figure, so that it is neither met nor missed.
- Figures with two others in brackets are medians with the lowest and the highest of the rounds.
  *Within the spread*: these ranges overlap, so another run may turn out the other way.
"""


class Samples:
    """All samples of a directory, by suite."""

    def __init__(self, place: Path) -> None:
        self.codec = read_samples(place / "codec.jsonl")
        self.end_to_end = read_samples(place / "end_to_end.jsonl")
        self.growth = read_samples(place / "growth.jsonl")
        self.accelerator = read_samples(place / "accelerator.jsonl")
        profiles = place / "profiles.json"
        self.profiles: dict[str, Any] = {}
        if profiles.exists():
            self.profiles = json.loads(profiles.read_text(encoding="utf-8"))

    @property
    def all(self) -> list[Sample]:
        """Every sample."""
        return self.codec + self.end_to_end + self.growth


def main(samples: Path = SAMPLES, page: Path = PAGE) -> None:
    """Writes the page, and its charts into the directory of the same name beside it."""
    taken = Samples(samples)
    if page == PAGE:
        report_accelerator.write(taken.accelerator)
    if not taken.all:
        raise SystemExit(f"no samples in {samples.relative_to(ROOT)}: see make bench")
    charts = page.parent / page.stem
    for old in charts.glob("*.svg"):
        old.unlink()
    method = _METHOD.replace("SAMPLES", _place(samples)).replace("WORDS", _words())
    lines = ["# Benchmarks", "", method, *_where(taken)]
    names = interpreters(taken.all)
    lines += ["## Where turbocql loses", ""]
    for name in names:
        lost = _lost(taken, name)
        lines += [f"Under {name}:", ""] if len(names) > 1 else []
        lines += [*(lost or ["In no case that was measured."]), ""]
    for at, name in enumerate(names):
        lines += _sections(taken, name, charts, "" if at == 0 else f"-{at + 1}")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(escaped("\n".join(lines)).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}")


def _place(samples: Path) -> str:
    """The folder in the repository; only its name where it is elsewhere."""
    return f"{samples.relative_to(ROOT) if samples.is_relative_to(ROOT) else samples.name}/"


def _words() -> str:
    """What is timed and what words mean: a point for each sentence."""
    points = [f"*{name}*:{said}" for name, _, said in (words.partition(":") for words in WORDS)]
    return "\n".join(
        fill(point, 100, initial_indent="- ", subsequent_indent="  ") for point in points
    )


def _where(taken: Samples) -> list[str]:
    """Interpreters, machines, versions and rounds of what was taken."""
    suites = {"codec": taken.codec, "end to end": taken.end_to_end, "growth": taken.growth}
    rows = []
    for suite, samples in suites.items():
        for name in interpreters(samples):
            mine = [sample for sample in samples if sample.get("interpreter") == name]
            versions = dict.fromkeys(
                f"{sample['client']} {sample['version']}" for sample in mine if sample["version"]
            )
            numpy = dict.fromkeys(f"NumPy {s['numpy']}" for s in mine if s.get("numpy"))
            machines = dict.fromkeys(
                str(sample["machine"]) for sample in mine if sample.get("machine")
            )
            of_software = ", ".join([*versions, *numpy])
            rows.append(
                [suite, name, of_software, "; ".join(machines), _dates(mine), _rounds(mine)]
            )
    return table(["suite", "interpreter", "versions", "machine", "taken on", "rounds"], rows)


def _dates(samples: list[Sample]) -> str:
    """The days of the samples; older samples do not say theirs."""
    days = sorted({str(sample["date"]) for sample in samples if sample.get("date")})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "-"


def _rounds(samples: list[Sample]) -> str:
    """How many samples turbocql has per case, at least and at most."""
    counts: dict[tuple[Any, ...], int] = {}
    for sample in samples:
        if sample["client"] == "turbocql":
            parts = ("case", "series", "n", "scenario", "shape", "in_flight")
            key = tuple(sample.get(part) for part in parts)
            counts[key] = counts.get(key, 0) + 1
    if not counts:
        return "-"
    least, most = min(counts.values()), max(counts.values())
    return str(least) if least == most else f"{least} to {most}"


def _lost(taken: Samples, interpreter: str) -> list[str]:
    cannot = {
        str(sample["series"])
        for sample in taken.growth
        if sample["client"] == "turbocql"
        and sample["ns"] is None
        and sample["interpreter"] == interpreter
    }
    return [
        *report_codec.losses(codec_cases(taken.codec, interpreter)),
        *report_end_to_end.losses(end_to_end(taken.end_to_end, interpreter)),
        *report_growth.losses(growth(taken.growth, interpreter), cannot),
    ]


def _sections(taken: Samples, interpreter: str, charts: Path, suffix: str) -> list[str]:
    """Everything about one interpreter."""
    lines = []
    cases = codec_cases(taken.codec, interpreter)
    if cases:
        lines += [f"## The codec, {interpreter}", ""]
        lines += _shown(codec_charts(cases, charts, suffix), charts)
        lines += report_codec.codec_section(cases)
        missed = report_codec.missed(cases, taken.profiles)
        if missed:
            lines += [f"## Missed targets of the codec, {interpreter}", "", *missed]
    points = end_to_end(taken.end_to_end, interpreter)
    if points:
        lines += [f"## Requests to a server, {interpreter}", ""]
        lines += _shown(end_to_end_chart(report_end_to_end.usual(points), charts, suffix), charts)
        lines += report_end_to_end.end_to_end_section(points)
        lines += report_end_to_end.missed(points, taken.profiles)
        lines += report_end_to_end.without_figure(taken.end_to_end)
        lines += _shown(in_flight_chart(points, charts, suffix), charts)
        lines += report_end_to_end.in_flight_section(points)
    series = growth(taken.growth, interpreter)
    if series:
        lines += [f"## Growth, {interpreter}", ""]
        lines += _shown(growth_chart(series, charts, suffix), charts)
        lines += report_growth.growth_section(series)
    if cases:
        lines += [f"## Floors, {interpreter}", "", *report_codec.codec_floors(cases)]
    return lines


def _shown(names: list[str], charts: Path) -> list[str]:
    return [line for name in names for line in (f"![{name}]({charts.name}/{name})", "")]


if __name__ == "__main__":
    main()
