"""The codec's cases, turbocql beside its rivals and the floors, a process per client and round.

Clients take turns, and who begins changes from round to round. Nothing is timed before all drivers
have given the same. Raw samples go to `build/bench/codec.jsonl`, the medians to standard output.
`make bench CASE=codec`, or with part of a case's name: `make bench CASE=vector`. Run it on a quiet
machine; only ratios of one run count.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from codec_cases import BINDS, KEYS, VALUES
from codec_environments import BUILD, CLIENTS, RIVALS, keep_samples, run
from targets import WORDS

from turbocql.codec import CqlType

__all__ = ["check", "class_names", "main"]

ROUNDS = 5
DRIVERS = ("turbocql", *RIVALS)
SAMPLES = BUILD / "codec.jsonl"
SCRIPTS = {
    "turbocql": ("codec_turbocql.py", []),
    "floor": ("floors.py", []),
    **{rival: ("codec_scylla_driver.py", [rival]) for rival in RIVALS},
}


def class_names(more: set[str] | None = None) -> str:
    """Every type of the cases as Java writes it, which the other drivers read."""
    types = {cql for cql, _ in VALUES.values()} | {"vector<float, 1536>"} | (more or set())
    for columns in [columns for columns, _ in BINDS.values()] + [k[0] for k in KEYS.values()]:
        types |= {cql for _, cql in columns}
    return json.dumps({cql: CqlType(cql).class_name for cql in types})


def _run(client: str, *arguments: str, interpreter: Path | None) -> list[dict[str, Any]]:
    script, first = SCRIPTS[client]
    return run(client, script, [*first, *arguments], stdin=class_names(), interpreter=interpreter)


def check(patterns: list[str], interpreter: Path | None = None) -> set[str]:
    """All drivers that can do a case give the same for it.

    Only cassandra-driver may differ, and is not timed there: the cases where it does.
    """
    given: dict[str, dict[str, Any]] = {}
    for client in DRIVERS:
        for sample in _run(client, "--outcomes", *patterns, interpreter=interpreter):
            if sample["done"]:
                given.setdefault(sample["case"], {})[client] = sample["outcome"]
    differing = set()
    for case, by_client in given.items():
        ours = by_client.pop("turbocql", None)
        for rival, theirs in by_client.items():
            if ours is None or ours == theirs:
                continue
            if rival == "scylla-driver":
                raise SystemExit(f"{case}: {rival} gives {theirs!r:.300}, turbocql {ours!r:.300}")
            differing.add(case)
    return differing


def main(
    patterns: list[str], rounds: int = ROUNDS, interpreter: Path | None = None
) -> list[dict[str, Any]]:
    """Checks, then measures, then prints a table."""
    differing = check(patterns, interpreter)
    samples: list[dict[str, Any]] = []
    for turn in range(rounds):
        first = turn % len(CLIENTS)
        for client in CLIENTS[first:] + CLIENTS[:first]:
            samples += _run(client, *patterns, interpreter=interpreter)
    if not samples:
        return []
    for sample in samples:
        if sample["client"] == "cassandra-driver" and sample["case"] in differing:
            sample |= {"ns": None, "note": "gives something else than scylla-driver and turbocql"}
    keep_samples(SAMPLES, samples)
    print_table(samples)
    return samples


def print_table(samples: list[dict[str, Any]]) -> None:
    """The medians in microseconds; of several floors the lowest."""
    taken: dict[str, dict[tuple[str, str], list[float]]] = {}
    for sample in samples:
        by_client = taken.setdefault(sample["case"], {})
        if sample["ns"] is not None:
            by_client.setdefault((sample["client"], sample["note"]), []).append(sample["ns"])
    print("\n".join(WORDS))
    print(f"{'median, us':48}" + "".join(f"{client:>17}" for client in CLIENTS))
    for case, by_client in taken.items():
        line = f"{case:48}"
        for client in CLIENTS:
            medians = [statistics.median(ns) for key, ns in by_client.items() if key[0] == client]
            line += f"{min(medians) / 1000:17.3f}" if medians else f"{'-':>17}"
        print(line)
    print(samples[0]["interpreter"], "|", samples[0]["machine"])


if __name__ == "__main__":
    main(sys.argv[1:])
