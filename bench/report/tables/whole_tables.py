"""The figures of loads and unloads of files: one Markdown table per database table and task."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.samples import Sample
from bench.harness.spread import Spread
from bench.report.markdown import about, table
from bench.suites.tables.cases import SHAPES, TOOLS

__all__ = ["rounds_of", "whole_tables_about", "whole_tables_section"]

_HEAD = ["client", "rows/s", "CPU, us a row", "whole process", "node", "peak, MiB"]


def whole_tables_section(samples: Sequence[Sample]) -> list[str]:
    """Returns the tables with their headings."""
    lines = []
    for name, shape in SHAPES.items():
        for task in ("load", "unload"):
            by_tool = {tool: rounds_of(samples, name, task, tool) for tool in TOOLS}
            rows = [_row(TOOLS[tool], rounds) for tool, rounds in by_tool.items() if rounds]
            if rows:
                count = next(s["rows"] for s in samples if s["shape"] == name)
                title = f"{task.capitalize()} of {count:,} rows {shape.title}"
                lines += [f"## {title}", "", *table(_HEAD, rows)]
    return lines


def rounds_of(samples: Sequence[Sample], shape: str, task: str, tool: str) -> list[Sample]:
    """Returns the samples of one tool that does one task with one table."""
    key = (shape, task, tool)
    return [s for s in samples if (s["shape"], s["task"], s["tool"]) == key]


def _row(name: str, rounds: Sequence[Sample]) -> list[str]:
    def micros(field: str) -> str:
        return str(Spread.of([sample[field] / sample["rows"] for sample in rounds], 1e6))

    rates = Spread.of([sample["rows"] / sample["wall_s"] for sample in rounds])
    return [
        name,
        str(rates),
        micros("cpu_s"),
        micros("whole_cpu_s"),
        micros("node_cpu_s"),
        str(Spread.of([sample["peak_mib"] for sample in rounds])),
    ]


def whole_tables_about(samples: Sequence[Sample]) -> list[str]:
    """Returns the versions, the machine, the days and the rounds."""
    versions = [f"{TOOLS.get(s['client'], s['client'])} {s['version']}" for s in samples]
    rounds = max(len(rounds_of(samples, "mixed", "load", tool)) for tool in TOOLS)
    return about(samples, versions, f"Rounds: {rounds}.")
