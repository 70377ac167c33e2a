"""Time and memory of a call as its size grows, a process per series, client and round.

Each process checks what it gives at each size before it times it. Raw samples go to
`build/bench/growth.jsonl`. `make bench CASE=growth`, or with part of a series' name.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from codec import class_names
from codec_environments import BUILD, RIVALS, keep_samples, run
from growth_cases import SERIES
from growth_timing import series_named

__all__ = ["main"]

ROUNDS = 3
SAMPLES = BUILD / "growth.jsonl"


def _run(name: str, client: str, interpreter: Path | None) -> list[dict[str, Any]]:
    if client == "turbocql":
        return run(client, "growth_turbocql.py", [name], interpreter=interpreter)
    series = SERIES[name]
    types = {series.cql(size) for size in series.sizes} if series.shape != "rows" else set()
    return run(
        client,
        "growth_scylla_driver.py",
        [name, client],
        stdin=class_names(types),
        interpreter=interpreter,
    )


def main(
    patterns: list[str], rounds: int = ROUNDS, interpreter: Path | None = None
) -> list[dict[str, Any]]:
    """Measures, then prints the time of each series' largest size."""
    samples: list[dict[str, Any]] = []
    clients = ("turbocql", *RIVALS)
    for name in series_named(patterns):
        for turn in range(rounds):
            first = turn % len(clients)
            for client in clients[first:] + clients[:first]:
                samples += _run(name, client, interpreter)
        print_series(name, [sample for sample in samples if sample["series"] == name])
    if samples:
        keep_samples(SAMPLES, samples)
    return samples


def print_series(name: str, samples: list[dict[str, Any]]) -> None:
    """Nanoseconds per element, or row, at each client's largest size."""
    unit = "row" if SERIES[name].shape == "rows" else "element"
    line = f"{name:40}"
    for client in ("turbocql", *RIVALS):
        taken = [s for s in samples if s["client"] == client and s["ns"] is not None]
        if taken:
            size = max(sample["n"] for sample in taken)
            ns = statistics.median(sample["ns"] for sample in taken if sample["n"] == size)
            line += f"  {client} {ns / size:.2f} ns per {unit} at n = {size}"
        else:
            line += f"  {client} -"
    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
