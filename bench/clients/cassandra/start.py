"""Measures what the import of a driver costs, plain and accelerated, in processor time.

Each import runs in a new process. Plain and accelerated imports take turns. Prints a line of JSON
for each case.
"""

from __future__ import annotations

import os
import statistics
import sys
from importlib import metadata

from bench.harness import processes
from bench.harness.environments import ROOT
from bench.harness.provenance import provenance
from bench.harness.selection import chosen
from bench.harness.timing import say
from bench.suites.accelerator.start import CASES

ROUNDS = 21
PURELIB = ROOT / "packaging" / "turbocql.data" / "purelib"
"""The folder of the files that a wheel installs beside the package."""
WATCH = (
    f"import sys; sys.path.append({str(PURELIB)!r}); import _turbocql_accelerate as a; a.watch()"
)
VARIABLE = "TURBOCQL_ACCELERATE"


def processor_s(program: str, *, accelerated: bool) -> float:
    """Returns the processor time of an interpreter that runs a program.

    Raises: Failed if the program fails.
    """
    variables = processes.environment(**{VARIABLE: "1" if accelerated else "0"})
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    code = f"{WATCH}\n{program}" if accelerated else program
    running = os.posix_spawn(sys.executable, [sys.executable, "-c", code], variables)
    _, status, usage = os.wait4(running, 0)
    if status:
        raise processes.Failed(f"{program!r} failed: status {status}")
    return usage.ru_utime + usage.ru_stime


def main(client: str, patterns: list[str]) -> None:
    """Prints a line for each case that the patterns choose."""
    about = provenance(client, metadata.version(client))
    for name, program in CASES.items():
        if not chosen(name, patterns, "accelerator"):
            continue
        seconds: dict[bool, list[float]] = {False: [], True: []}
        # The first round does not count, because Python may compile the modules to bytecode.
        for number in range(ROUNDS + 1):
            for accelerated, measured in seconds.items():
                cpu_s = processor_s(program, accelerated=accelerated)
                measured += [cpu_s] if number else []
        plain_s, accelerated_s = (statistics.median(measured) for measured in seconds.values())
        say(
            {
                **{"suite": "accelerator", "series": "start", "case": name, **about},
                **{"plain_cpu_s": plain_s, "accelerated_cpu_s": accelerated_s, "rounds": ROUNDS},
            }
        )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
