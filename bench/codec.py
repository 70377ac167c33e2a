"""The codec's cases, turbocql beside scylla-driver, interleaved: a process per client and round.

Nothing is timed before all clients have given the same bytes. Raw samples go to
`build/codec.jsonl`, the medians to standard output. `make bench-codec`, or with part of a case's
name: `make bench-codec CASE=vector`. Run it on a quiet machine; only ratios of one run count.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from codec_cases import BINDS, KEYS, VALUES

from turbocql.codec import CqlType

HERE = Path(__file__).parent
ROOT = HERE.parent
ROUNDS = 3
CLIENTS = {
    "turbocql": [".venv/bin/python", "codec_turbocql.py"],
    "scylla-driver": [".venv-scylla-driver/bin/python", "codec_scylla_driver.py", "scylla-driver"],
}


def class_names() -> str:
    """Every type of the cases as Java writes it, which the other driver reads."""
    types = {cql for cql, _ in VALUES.values()} | {"vector<float, 1536>"}
    for columns in [columns for columns, _ in BINDS.values()] + [k[0] for k in KEYS.values()]:
        types |= {cql for _, cql in columns}
    return json.dumps({cql: CqlType(cql).class_name for cql in types})


def run(client: str, *patterns: str) -> list[dict[str, Any]]:
    """One process of one client."""
    python, script, *arguments = CLIENTS[client]
    lines = subprocess.run(
        [ROOT / python, HERE / script, *arguments, *patterns],
        # Sets come in the same order in all processes.
        env={**os.environ, "PYTHONHASHSEED": "0"},
        input=class_names(),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=1800,
    ).stdout
    return [json.loads(line) for line in lines.splitlines()]


def check(*patterns: str) -> None:
    """All clients give the same for every case that they share."""
    ours, theirs = (
        {sample["case"]: sample["outcome"] for sample in run(client, "--outcomes", *patterns)}
        for client in CLIENTS
    )
    for case in ours.keys() & theirs.keys():
        if ours[case] != theirs[case]:
            raise SystemExit(f"{case}: {ours[case]!r:.200} differs from {theirs[case]!r:.200}")


def main() -> None:
    """Checks, then measures, then prints a table."""
    patterns = [pattern for pattern in sys.argv[1:] if pattern]
    check(*patterns)
    samples = [
        sample for _ in range(ROUNDS) for client in CLIENTS for sample in run(client, *patterns)
    ]
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "codec.jsonl").open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(sample) + "\n" for sample in samples)
    taken: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        by_client = taken.setdefault(sample["case"], {})
        by_client.setdefault(sample["client"].split()[0], []).append(sample["ns"])
    print(f"{'median, us':56} {'turbocql':>10} {'scylla-driver':>14} {'ratio':>7}")
    for case, by_client in taken.items():
        ours, theirs = (
            statistics.median(by_client.get(client, [float("nan")])) / 1000 for client in CLIENTS
        )
        print(f"{case:56} {ours:10.3f} {theirs:14.3f} {theirs / ours:7.1f}")
    print(samples[0]["interpreter"], "|", samples[0]["machine"])


if __name__ == "__main__":
    main()
