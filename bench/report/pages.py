"""Writes the charts, and those parts of the documentation's pages that have figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any

from bench.harness.environments import KEPT, ROOT
from bench.harness.samples import Sample
from bench.report import charts
from bench.report.markdown import escaped, folded, table
from bench.report.model import Samples, codec_cases, end_to_end, growth, interpreters
from bench.report.parts import BUILT, CHARTS, DOCS, filled, names, read
from bench.report.tables import codec, requests
from bench.report.tables import growth as growths
from bench.report.tables.accelerator import accelerator_section
from bench.report.tables.availability import availability_about, availability_section
from bench.report.tables.engines import engines_section
from bench.report.tables.headline import headline, overview
from bench.report.tables.losses import losses_section
from bench.report.tables.whole_tables import whole_tables_about, whole_tables_section

__all__ = ["IN_GIT", "keep", "write"]

IN_GIT = ("headline", "losses")
"""The names of the parts whose figures are also in git, in `docs/benchmarks.md`. Git also has the
overview chart."""

_CHARTS = {
    "codec-values": "Microseconds per call to encode a value, by client",
    "codec-rows-and-messages": "Microseconds per call to bind a row or build a message, by client",
    "codec-decode": "Microseconds per call to decode a value or a page, by client",
    "end-to-end": "Client processor time per request, by scenario, shape and client",
    "in-flight": "Client processor time per request, by number of requests in flight",
    "growth": "Microseconds per call, by number of elements or rows",
}
"""The alternative text of each chart."""


def write(
    samples: Path = KEPT, out: Path = BUILT, docs: Path = DOCS, *, draws: bool = True
) -> None:
    """Writes the parts, the charts, and the pages with both into the folder `out`.

    Raises: SystemExit if there are no samples.
    """
    measured = Samples(samples)
    for folder, ending in ((out / "parts", "md"), (out / CHARTS, "svg"), (out, "md")):
        for old in folder.glob(f"*.{ending}"):
            old.unlink()
    parts = _parts(measured, out / CHARTS if draws else None)
    if not parts:
        raise SystemExit(f"no samples in {samples}: see `make bench`")
    (out / "parts").mkdir(parents=True, exist_ok=True)
    for name, text in parts.items():
        (out / "parts" / f"{name}.md").write_text(text, encoding="utf-8")
    for page in sorted(docs.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if set(names(text)) & set(parts):
            (out / page.name).write_text(filled(text, parts), encoding="utf-8")
    print(f"wrote {out.relative_to(ROOT) if out.is_relative_to(ROOT) else out}")


def keep(built: Path = BUILT, docs: Path = DOCS) -> None:
    """Copies the parts of `IN_GIT` and the overview chart to the documentation's sources."""
    page = docs / "benchmarks.md"
    written = read(built)
    parts = {name: written[name] for name in IN_GIT}
    page.write_text(filled(page.read_text(encoding="utf-8"), parts), encoding="utf-8")
    for chart in (built / CHARTS / f"overview{theme}.svg" for theme in ("", "-dark")):
        (docs / CHARTS / chart.name).write_bytes(chart.read_bytes())


def _parts(measured: Samples, folder: Path | None) -> dict[str, str]:
    """Returns every part that has samples, by its name."""
    sections: dict[str, list[str]] = {}
    if measured.compared:
        sections |= _compared(measured, folder)
    ways: dict[str, tuple[list[Sample], Callable[[Any], list[str]]]] = {
        "accelerator": (measured.accelerator, accelerator_section),
        "availability": (measured.availability, availability_section),
        "availability-about": (measured.availability, availability_about),
        "engines": (measured.engines, engines_section),
        "whole-tables": (measured.tables, whole_tables_section),
        "whole-tables-about": (measured.tables, whole_tables_about),
    }
    sections |= {name: section(samples) for name, (samples, section) in ways.items() if samples}
    return {name: escaped("\n".join(lines)).strip() + "\n" for name, lines in sections.items()}


def _compared(measured: Samples, folder: Path | None) -> dict[str, list[str]]:
    """Returns the parts of `docs/benchmarks.md`."""
    interpreted = interpreters(measured.compared)
    both = {
        name: (codec_cases(measured.codec, name), end_to_end(measured.end_to_end, name))
        for name in interpreted
    }
    charts.overview_chart(overview(*both[interpreted[0]]), folder)
    taken = _dates(measured.compared)
    words = _CAPTION.replace("INTERPRETER", interpreted[0]).replace("DAYS", taken)
    caption = fill(" ".join(words.split()), 100)
    first, *others = interpreted
    outside, within = _lost(measured, first)
    for name in others:
        within += folded(
            f"Under {name}", [line for lines in _lost(measured, name) for line in lines]
        )
    tables: list[str] = []
    for at, name in enumerate(interpreted):
        tables += _tables(measured, name, folder, f"-{at + 1}" if at else "")
    return {
        "headline": [caption, "", *headline(both)],
        "benchmarks-about": _about(measured),
        "losses": [f"Under {first}:", "", *outside],
        "losses-more": within,
        "benchmarks": tables,
    }


_CAPTION = """\
Each dot is a rival's processor time divided by turbocql's, under INTERPRETER, taken from DAYS.
Right of the red line, turbocql needs less time. The number at the right is for the best rival. The
bars are the spread of the rounds. A hollow dot marks a client that sends or returns vectors as
bytes, without encoding or decoding them. The [terms](#all-figures) are below.
"""


def _about(measured: Samples) -> list[str]:
    """Returns a table of the interpreters, machines, versions and rounds of each suite."""
    suites = {
        "codec": measured.codec,
        "end to end": measured.end_to_end,
        "growth": measured.growth,
    }
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
            software = ", ".join([*versions, *numpy])
            rows.append(
                [
                    suite,
                    name,
                    software,
                    "; ".join(machines),
                    _dates(mine),
                    _commits(mine),
                    _rounds(mine),
                ]
            )
    head = ["suite", "interpreter", "versions", "machine", "taken on", "commit", "rounds"]
    return table(head, rows)


def _dates(samples: list[Sample]) -> str:
    """Returns the first and the last day of the samples. Old samples have no day."""
    days = sorted({str(sample["date"]) for sample in samples if sample.get("date")})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "-"


def _commits(samples: list[Sample]) -> str:
    """Returns the commits of turbocql that were measured. Old samples have no commit."""
    dated = sorted((str(s["date"]), str(s["commit"])) for s in samples if s.get("commit"))
    commits = dict.fromkeys(commit for _, commit in dated)
    if any(not sample.get("commit") for sample in samples):
        commits = dict.fromkeys(["earlier ones", *commits])
    return ", ".join(commits)


def _rounds(samples: list[Sample]) -> str:
    """Returns the fewest and the most samples that turbocql has per case."""
    counts: dict[tuple[Any, ...], int] = {}
    for sample in samples:
        if sample["client"] == "turbocql":
            fields = ("case", "series", "n", "scenario", "shape", "in_flight")
            key = tuple(sample.get(field) for field in fields)
            counts[key] = counts.get(key, 0) + 1
    if not counts:
        return "-"
    least, most = min(counts.values()), max(counts.values())
    return str(least) if least == most else f"{least} to {most}"


def _lost(measured: Samples, interpreter: str) -> tuple[list[str], list[str]]:
    """Returns two sections of figures in which a rival is better than turbocql.

    In the first one the difference is larger than the spread. This section also lists turbocql's
    failures.
    """
    cases = codec_cases(measured.codec, interpreter)
    points = end_to_end(measured.end_to_end, interpreter)
    losses = [
        *codec.losses(cases),
        *requests.losses(points),
        *growths.losses(growth(measured.growth, interpreter)),
    ]
    failed = {
        str(sample["series"])
        for sample in measured.growth
        if sample["client"] == "turbocql"
        and sample["ns"] is None
        and sample["interpreter"] == interpreter
    }
    failures = [*codec.failures(cases), *(f"{name}: turbocql failed" for name in sorted(failed))]
    return losses_section(losses, failures)


def _tables(measured: Samples, interpreter: str, folder: Path | None, suffix: str) -> list[str]:
    """Returns all tables and charts of one interpreter, in blocks that open on a click."""
    lines = []
    section: list[str]
    cases = codec_cases(measured.codec, interpreter)
    if cases:
        section = _shown(charts.codec_charts(cases, folder, suffix))
        lines += folded(f"The codec, {interpreter}", [*section, *codec.codec_section(cases)])
    points = end_to_end(measured.end_to_end, interpreter)
    if points:
        section = _shown(charts.end_to_end_chart(requests.usual(points), folder, suffix))
        section += requests.end_to_end_section(points)
        section += requests.without_figure(measured.end_to_end)
        section += _shown(charts.in_flight_chart(points, folder, suffix))
        lines += folded(f"Requests to a server, {interpreter}", section)
    series = growth(measured.growth, interpreter)
    if series:
        section = _shown(charts.growth_chart(series, folder, suffix))
        lines += folded(f"Growth, {interpreter}", [*section, *growths.growth_section(series)])
    if cases:
        lines += folded(f"Floors, {interpreter}", codec.codec_floors(cases))
    return lines


def _shown(files: list[str]) -> list[str]:
    """Returns the charts as Markdown images, each with its alternative text."""
    lines = []
    for name in files:
        shows = next((text for begin, text in _CHARTS.items() if name.startswith(begin)), name)
        lines += [f"![{shows}]({CHARTS}/{name})", ""]
    return lines
