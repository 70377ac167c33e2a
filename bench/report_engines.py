"""Writes the figures of docs/engines.md, from samples and from nothing else.

`python bench/report_engines.py` reads `bench/samples/engines.jsonl`, which
`make bench-engines BENCH_ARGS=--keep` writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from codec_environments import HERE, ROOT, read_samples
from engines_cases import CLIENTS, PARTS
from report_data import Sample, Spread, escaped, filled, number, table

__all__ = ["PAGE", "SAMPLES", "row", "write"]

SAMPLES = HERE / "samples" / "engines.jsonl"
PAGE = ROOT / "docs" / "engines.md"
_HEAD = ["client", "rows/s", "CPU of the workers, us a row", "of all client processes", "requests"]
_METHOD = """\
Every figure of this table is computed by `bench/report_engines.py` from the samples in
`bench/samples/engines.jsonl`. `make bench-engines BENCH_ARGS=--keep` takes the samples.

- {rows} rows (three integers, a text, a double, a timestamp, a vector of 8 floats) on three nodes
  with three replicas, all on one machine of two processors. So rows/s is the speed of the nodes
  more than of a client; the processor time of the client is what tells clients apart.
- The clients take turns. Each sample is a process of its own that has read the table twice before.
  All make Arrow (Dask: pandas) of every column, and add up the ids, which are checked.
- *All client processes*: the engine's own too, such as Ray's store and scheduler, or Spark's JVM.
- *Requests*: the scans that the nodes counted, in all and for each of the {ranges} token ranges
  into which nodes and {parts} tasks cut the ring.
- scylla-driver has one query for each of the same ranges, with tuples for rows, and one session
  for each worker.
- Figures are medians, with the lowest and the highest of {rounds} rounds in parentheses.
"""


def row(name: str, taken: Sequence[Sample]) -> list[str]:
    """The figures of a client."""
    of = [it for it in taken if it["client"] == name]

    def micros(field: str) -> str:
        return str(Spread.of([it[field] / it["rows"] for it in of], 1e6))

    requests = Spread.of([float(it["requests"]) for it in of])
    each = Spread.of([it["requests"] / it["ranges"] for it in of])
    return [
        CLIENTS[name].title,
        str(Spread.of([it["rows"] / it["wall_s"] for it in of])),
        micros("worker_cpu_s"),
        micros("cpu_s"),
        f"{number(requests.median)}, {number(each.median)} a range",
    ]


def write(samples: Path = SAMPLES, page: Path = PAGE) -> None:
    """Writes the section of the page from the samples of a file."""
    taken = read_samples(samples)
    if not taken:
        raise SystemExit(f"no samples in {samples}: see make bench-engines")
    names = [name for name in CLIENTS if any(it["client"] == name for it in taken)]
    lines = table(_HEAD, [row(name, taken) for name in names])
    rounds = max(sum(it["client"] == name for it in taken) for name in names)
    first = taken[0]
    said = {"rows": f"{first['rows']:,}", "ranges": first["ranges"], "parts": PARTS}
    lines += [*filled(_METHOD.format(rounds=rounds, **said)), *_about(taken)]
    section = (
        f"<!-- figures -->\n\n{escaped(chr(10).join(lines)).strip()}\n\n<!-- end of figures -->"
    )
    text, count = re.subn(
        r"<!-- figures -->.*?<!-- end of figures -->",
        lambda _: section,
        page.read_text(encoding="utf-8"),
        flags=re.S,
    )
    if count != 1:
        raise SystemExit(f"{page} has no place for figures")
    page.write_text(text, encoding="utf-8")


def _about(taken: Sequence[Sample]) -> list[str]:
    """Versions, machine and days."""
    drivers = {
        f"scylla-driver {it['version']}"
        if it["client"].startswith("driver")
        else f"turbocql {it['version']}"
        for it in taken
    }
    others = [sorted({str(it[key]) for it in taken}) for key in ("interpreter", "machine")]
    days = sorted({str(it["date"]) for it in taken})
    period = " to ".join(dict.fromkeys((days[0], days[-1])))
    return [fill(f"{'; '.join([*sorted(drivers), *others[0], *others[1]])}; {period}.", 100)]


if __name__ == "__main__":
    write()
