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
from report_charts import (
    codec_charts,
    end_to_end_chart,
    growth_chart,
    in_flight_chart,
    overview_chart,
)
from report_data import (
    Sample,
    Shortfall,
    codec_cases,
    end_to_end,
    escaped,
    growth,
    interpreters,
    table,
)
from report_headline import headline, overview
from report_losses import losses_section
from targets import WORDS

__all__ = ["SAMPLES", "main"]

SAMPLES = HERE / "samples"
PAGE = ROOT / "docs" / "benchmarks.md"

_PICTURE = """\
Each dot is a rival's processor time divided by turbocql's, under INTERPRETER. Right of the red
line, turbocql needs less time. The number at the right is for the best rival. The bars are the
spread of the rounds. A hollow dot marks a client that sends or returns vectors as bytes, without
encoding or decoding them. The next section defines *workers*, *tasks*, *sync* and *bulk*.
"""

_METHOD = """\
Every figure on this page is computed by `bench/report.py` from the raw samples in
`SAMPLES`. `make bench` takes the samples.

- Each client runs in its own process and its own environment. The clients take turns. Their order
  changes from round to round.
- A codec case is timed only after all clients have given the same result for it. A request is
  timed only after a small run has read or written the right rows. Where a client cannot run a case,
  the reason is below the table.
- A figure with two others in brackets is the median of the rounds, with the lowest and the highest
  round.
- *Ratio*: the rival's figure divided by turbocql's. A ratio of times above 1 means that turbocql is
  faster. The lowest ratio is the rival's lowest round divided by turbocql's highest round. The
  highest ratio is the reverse.
- *Within the spread*: the ranges of the two clients overlap, and the range of the ratio contains 1.
  Another run can have the opposite result.
- All clients of a case were measured in one run. A case of requests is a scenario, a shape and a
  number of requests in flight. Different cases can come from different runs and builds, because
  cases can be measured again one by one.

Codec and growth:

- A round is one process. It times a call 5 times, each time for about 20 ms or one call, and keeps
  the least processor time. Python's garbage collector is off meanwhile.
WORDS
- The floors are measured in the same run. The end of the page says what each of them does.
- *peak memory*: the most by which one call raises the resident memory of its process, including the
  result. Allocators take memory in blocks and keep freed blocks, so small figures say little.

Requests to a server:

- *CPU*: user and system time of the client's process, divided by the number of requests. For a
  scan, a page and a load it is divided by the number of rows. *per second* is from the same
  requests.
- *p50*, *p99*: the latency that 50 % and 99 % of the requests do not exceed. These are other
  requests of the same process, so that taking their times does not add to the processor time.
- *workers*: coroutines, as many as requests in flight. Each awaits one request after another.
- *tasks*: one asyncio task per request. A semaphore limits the requests in flight.
- *callbacks*: `execute_async` with callbacks. It is compared with turbocql's *workers*, which can
  come from another run.
- *concurrent*: `execute_concurrent_with_args`. It is compared with turbocql's *tasks*, which can
  come from another run.
- *sync*: blocking calls, one after another.
- *bulk*: turbocql's `execute_many`, or what another client has for many rows.
- *by workers*: the client's fastest way to write many rows is coroutines, as in *workers*.
- *arrow*, *numpy*, *pandas*, *polars*: all rows become Arrow record batches, a dict of NumPy
  arrays, or a frame. *stream* hands over the same batches as *arrow* and keeps none.
  scylla-driver's *numpy* is `NumpyProtocolHandler`, and its *pandas* is `DataFrame(rows)`. A load
  takes a `pyarrow.Table` or a dict of NumPy arrays.
- *turbocql-raw*: floors of columns, through turbocql's session. *raw* receives the pages of a scan
  and decodes nothing. *kept* also holds all pages until the end. *blobs* and *ready* write cells
  that are encoded already: *blobs* from Arrow's binary columns by `load`, *ready* from tuples of
  bytes by `execute_many`. *byteswap* and *copyto* swap the bytes of a page's vectors with NumPy,
  into a new array and into one that exists.
- *turbocql-numpy*: turbocql, with vectors read as NumPy arrays.
- *engine*: a floor. It is the Rust driver under turbocql, called from a Rust program with values
  that are encoded already.
- *ready bytes* and *bytes, not decoded*: the client sends or returns vectors as bytes, without
  encoding or decoding them.

Targets:

- A codec target is met if one of three conditions holds. The column *how* names those that hold, or
  how far off each is if none holds.
    1. The ratio to scylla-driver is at least that of the figures from which the target was set.
    2. The time is at most 1.3 times the floor, or another factor that the target names.
    3. The time is at most the time in the target.
- A request target that names a client is met if turbocql needs less processor time than that client
  in the same run.
- A request target that names a time is met if turbocql reaches this time, or the ratio to
  scylla-driver, or 1.3 times the engine's time.
- *Not measured*: the figure that the target is compared with is missing.
"""

_CHARTS = {
    "overview": "Processor time of the other drivers, as a multiple of turbocql's",
    "codec-values": "Microseconds per call to encode a value, by client",
    "codec-rows-and-messages": "Microseconds per call to bind a row or build a message, by client",
    "codec-decode": "Microseconds per call to decode a value or a page, by client",
    "end-to-end": "Client processor time per request, by scenario, shape and client",
    "in-flight": "Client processor time per request, by number of requests in flight",
    "growth": "Microseconds per call, by number of elements or rows",
}
"""What each chart shows, for readers who do not see it."""


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
        if taken.accelerator:
            return  # it has a page of its own
        raise SystemExit(f"no samples in {samples.relative_to(ROOT)}: see make bench")
    charts = page.parent / page.stem
    for old in charts.glob("*.svg"):
        old.unlink()
    names = interpreters(taken.all)
    method = _METHOD.replace("SAMPLES", _place(samples)).replace("WORDS", _words())
    lines = ["# Benchmarks", "", *_beginning(taken, names, charts)]
    lines += ["## How the figures were measured", "", method, *_where(taken)]
    lines += ["## Where turbocql loses", ""]
    for name in names:
        lines += [f"Under {name}:", ""] if len(names) > 1 else []
        lines += _lost(taken, name)
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


def _beginning(taken: Samples, names: list[str], charts: Path) -> list[str]:
    """The picture and the three figures."""
    if not names:
        return []
    measured = {
        name: (codec_cases(taken.codec, name), end_to_end(taken.end_to_end, name)) for name in names
    }
    picture = _shown(overview_chart(overview(*measured[names[0]]), charts), charts)
    caption = fill(" ".join(_PICTURE.split()).replace("INTERPRETER", names[0]), 100)
    return [*picture, *([caption, ""] if picture else []), *headline(measured)]


def _lost(taken: Samples, interpreter: str) -> list[str]:
    """Where rivals are better: within the spread folded away."""
    cases = codec_cases(taken.codec, interpreter)
    points = end_to_end(taken.end_to_end, interpreter)
    losses = [
        *report_codec.losses(cases),
        *report_end_to_end.losses(points),
        *report_growth.losses(growth(taken.growth, interpreter)),
    ]
    cannot = {
        str(sample["series"])
        for sample in taken.growth
        if sample["client"] == "turbocql"
        and sample["ns"] is None
        and sample["interpreter"] == interpreter
    }
    shortfalls = [
        *report_codec.shortfalls(cases),
        *report_end_to_end.shortfalls(points),
        *(Shortfall(f"{name}: turbocql failed") for name in sorted(cannot)),
    ]
    return losses_section(losses, shortfalls)


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
    """The charts, each with what it shows."""
    lines = []
    for name in names:
        shows = next((text for begin, text in _CHARTS.items() if name.startswith(begin)), name)
        lines += [f"![{shows}]({charts.name}/{name})", ""]
    return lines


if __name__ == "__main__":
    main()
