"""Writes the page about loads and unloads of files, from samples and from nothing else.

`python bench/report_whole_tables.py` reads `bench/samples/whole_tables.jsonl`, which
`make bench-whole-tables BENCH_ARGS=--keep` writes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from codec_environments import HERE, ROOT, read_samples
from report_data import Sample, Spread, escaped, filled, number, table
from whole_tables_cases import SHAPES, TOOLS

__all__ = ["PAGE", "SAMPLES", "targets", "write"]

SAMPLES = HERE / "samples" / "whole_tables.jsonl"
PAGE = ROOT / "docs" / "whole-tables-figures.md"

_BEGINNING = """\
Loads and unloads of files by turbocql, by dsbulk and by cqlsh's COPY, with the processor time and
the memory that they take.
"""
_METHOD = """\
Every figure on this page is computed by `bench/report_whole_tables.py` from the samples in
`bench/samples/whole_tables.jsonl`. `make bench-whole-tables BENCH_ARGS=--keep` takes the samples.

- One node of Cassandra 5.0.5 with a heap of 1 GiB, on the machine of the client: both share its
  processors.
- The tools take turns. Each sample is a process of its own; what it has written is counted.
- *CPU*: user and system time of the client with its children, in microseconds a row. For turbocql
  that of the load itself, without the start of the interpreter; *whole process* has it, as the
  figures of dsbulk and cqlsh do. *Node*: the processor time of Cassandra meanwhile.
- *Peak*: the largest resident size of a process of the client. cqlsh has several.
- *Floors*: reading and converting the CSV file as a load does, and a load of the same rows from
  Arrow in memory. A load of CSV cannot take less than both.
- All tools have their defaults, but for a request timeout of 600 s in cqlsh. dsbulk and cqlsh put
  rows of one partition into batches by default, as turbocql does.
- dsbulk 1.10.0 knows no vectors.
- Figures are medians, with the lowest and the highest of the rounds in parentheses.
"""
_MOST_FACTOR = 1.3
_MOST_MIB = 300e6 / 2**20
_HEAD = ["client", "rows/s", "CPU, us a row", "whole process", "node", "peak, MiB"]


def write(samples: Path = SAMPLES, page: Path = PAGE) -> None:
    """Writes the page from the samples of a file."""
    taken = read_samples(samples)
    if not taken:
        raise SystemExit(f"no samples in {samples}: see make bench-whole-tables")
    lines = ["# Whole tables, measured", "", *filled(_BEGINNING)]
    lines += ["## Targets", "", *table(["target", "figure", ""], targets(taken))]
    for name, shape in SHAPES.items():
        for task in ("load", "unload"):
            rows = [_row(TOOLS[tool], of) for tool in TOOLS if (of := _of(taken, name, task, tool))]
            if rows:
                count = next(it["rows"] for it in taken if it["shape"] == name)
                title = f"{task.capitalize()} of {count:,} rows {shape.title}"
                lines += [f"## {title}", "", *table(_HEAD, rows)]
    lines += ["## How the figures were measured", "", *filled(_METHOD), *_about(taken)]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(escaped("\n".join(lines)).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}")


def _of(taken: Sequence[Sample], shape: str, task: str, tool: str) -> list[Sample]:
    key = (shape, task, tool)
    return [it for it in taken if (it["shape"], it["task"], it["tool"]) == key]


def _row(name: str, taken: Sequence[Sample]) -> list[str]:
    def micros(field: str) -> str:
        return str(Spread.of([it[field] / it["rows"] for it in taken], 1e6))

    rates = Spread.of([it["rows"] / it["wall_s"] for it in taken])
    return [
        name,
        str(rates),
        micros("cpu_s"),
        micros("whole_cpu_s"),
        micros("node_cpu_s"),
        str(Spread.of([it["peak_mib"] for it in taken])),
    ]


def _median(taken: Sequence[Sample], field: str) -> float:
    return float(statistics.median(it[field] / it["rows"] for it in taken))


def targets(taken: Sequence[Sample]) -> list[list[str]]:
    """Each target, its figure, and whether it is met."""
    rows: list[list[str]] = []

    def add(target: str, figure: str, is_met: bool) -> None:
        rows.append([target, figure, "met" if is_met else "**missed**"])

    for name, shape in SHAPES.items():
        what = shape.title
        ours = _of(taken, name, "load", "turbocql-csv")
        floors = [_of(taken, name, "load", tool) for tool in ("parse", "ready")]
        if ours and all(floors):
            floor = sum(_median(of, "cpu_s") for of in floors)
            factor = _median(ours, "cpu_s") / floor
            target = f"load of CSV, {what}: CPU at most {_MOST_FACTOR} times both floors"
            add(target, f"{factor:.2f} times", factor <= _MOST_FACTOR)
        for task in ("load", "unload"):
            mine, theirs = (_of(taken, name, task, it) for it in ("turbocql-csv", "dsbulk"))
            if mine and theirs:
                ratio = _median(theirs, "wall_s") / _median(mine, "wall_s")
                add(f"{task} of CSV, {what}: rows/s of dsbulk", f"{ratio:.1f} times", ratio >= 1)
    own = [it for it in taken if it["tool"].startswith("turbocql")]
    peak = max(it["peak_mib"] for it in own)
    add("peak memory below 300 MB", f"{peak * 2**20 / 1e6:,.0f} MB at most", peak < _MOST_MIB)
    return rows


def _about(samples: Sequence[Sample]) -> list[str]:
    """Versions, machine, days and rounds."""
    versions = {f"{TOOLS.get(it['client'], it['client'])} {it['version']}" for it in samples}
    others = [sorted({str(it[key]) for it in samples}) for key in ("interpreter", "machine")]
    days = sorted({str(sample["date"]) for sample in samples})
    period = " to ".join(dict.fromkeys((days[0], days[-1])))
    counts = [len(_of(samples, "mixed", "load", tool)) for tool in TOOLS]
    said = f"{'; '.join([*sorted(versions), *others[0], *others[1]])}; {period}."
    return [fill(f"{said} Rounds: {number(max(counts))}.", 100)]


if __name__ == "__main__":
    write()
