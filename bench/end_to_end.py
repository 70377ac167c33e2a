"""turbocql beside other drivers, end to end, on the embedded Cassandra: client CPU and latency.

    .venv/bin/python bench/end_to_end.py [PATTERN...] [--rounds N]

A pattern is words of "scenario shape client in_flight", such as "insert_text workers 100". Each
sample is a process of its own in the client's environment, which the Makefile makes when it is
missing; clients take turns, round by round. No case is timed before a small run of the same code
gave the right rows, and what a sample wrote or read is looked at as well. Samples are appended to
`build/bench/end_to_end.jsonl`, medians go to standard output. Run it on a quiet machine; only
ratios of one run count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from clients.job import Job
from end_to_end_cases import FLOOR, Case, counterpart, environments, named, program
from end_to_end_server import Server, Wrong
from timing import today

from turbocql.testing import CassandraError

__all__ = ["main", "measure", "table"]

HERE = Path(__file__).parent
ROOT = HERE.parent
SAMPLES = ROOT / "build" / "bench" / "end_to_end.jsonl"
ROUNDS = 5
SAMPLE_TIMEOUT_S = 300

Sample = dict[str, Any]


class Failed(Exception):
    """A client did not do what was asked of it."""


class Run:
    """What goes on in one call of `main`."""

    def __init__(self, server: Server, suite: str, path: Path) -> None:
        self._server = server
        self._suite, self._path = suite, path
        self._salts = count(1)
        self.samples: list[Sample] = []
        self.failures: list[str] = []

    def fail(self, what: object, why: object) -> None:
        """Says so at once, and again at the end."""
        self.failures.append(f"{what}: {why}")
        _say(f"FAILED {what}: {why}")

    def check(self, wanted: Iterable[Case]) -> list[Case]:
        """The cases whose code has done a small run right."""
        fit: dict[tuple[str, ...], bool] = {}
        ordered = list(wanted)
        # With some in flight where there is a choice: the code is the same for any number.
        for case in sorted(ordered, key=lambda case: case.in_flight != 100):
            code = (case.client, case.scenario, case.shape, case.variant)
            if code not in fit:
                fit[code] = self._is_fit(case)
        for case in ordered:
            if case.cannot and not fit[case.client, case.scenario, case.shape, case.variant]:
                self._keep(case, {"requests": 0, "note": case.cannot})
        return [
            case for case in ordered if fit[case.client, case.scenario, case.shape, case.variant]
        ]

    def _is_fit(self, case: Case) -> bool:
        try:
            self._once(case, check=True)
        except Failed as error:
            if not case.cannot:
                self.fail(f"check of {case}", error)
            return False
        if case.cannot:
            self.fail(f"check of {case}", "it can, though end_to_end_cases.CANNOT says otherwise")
        return True

    def sample(self, case: Case) -> None:
        """One process of one case."""
        try:
            taken = self._once(case, check=False)
        except Failed as error:
            self.fail(case, error)
            return
        self._keep(case, taken)
        _say(f"{case}: {taken['cpu_s'] / taken['requests'] * 1e6:.4g} us")

    def _once(self, case: Case, *, check: bool) -> Sample:
        job = Job(
            client=case.client,
            scenario=case.scenario,
            shape=case.shape,
            in_flight=case.in_flight,
            contact_point=self._server.contact_point,
            requests=500 if check else case.requests,
            warm_up=100 if check else case.warm_up,
            latency_requests=200 if check else case.latency_requests,
            salt=next(self._salts),
            check=check,
            variant=case.variant,
        )
        taken = _process(*program(case, check=check), job)
        if case.writes:
            try:
                self._server.check_written(case.table, case.kind, job.requests, job.salt)
            except (Wrong, CassandraError, OSError) as error:
                raise Failed(f"what it wrote: {error}") from error
        return taken

    def _keep(self, case: Case, taken: Sample) -> None:
        nothing = dict.fromkeys(("version", "wall_s", "cpu_s", "p50_us", "p99_us", "note"))
        sample = {"suite": self._suite, **asdict(case), **nothing, **taken, "date": today()}
        self.samples.append(sample)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(sample) + "\n")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _process(environment: str, module: str, job: Job) -> Sample:
    python = str(ROOT / environment / "bin" / "python")
    command = [python, "-m", module, json.dumps(asdict(job))]
    try:
        # From here, so that the programs find each other in every environment.
        ended = subprocess.run(
            command,
            cwd=HERE,
            # NumPy's library of linear algebra starts threads, which spin for a while.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=SAMPLE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"not done in {SAMPLE_TIMEOUT_S} s") from None
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or ["nothing"]
        raise Failed(f"exit status {ended.returncode}, last said: {said[-1]}")
    try:
        sample: Sample = json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise Failed(f"it printed no sample: {ended.stdout[-200:]!r}") from None
    return sample


def _needed(case: Case) -> set[str]:
    """What `make` must have made for a case; the environment of turbocql runs this."""
    if case.client == FLOOR:
        return {"target/release/examples/pure_engine"}
    return {f"{one}/.installed" for one in environments(case) if one != ".venv"}


def _install(target: str) -> None:
    """Makes an environment, or the floor's program.

    Raises: Failed.
    """
    made = subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if made.returncode:
        said = made.stdout.strip().splitlines() or ["nothing"]
        raise Failed(f"{target} cannot be made: {said[-1]}")


def main(patterns: Sequence[str] = (), rounds: int = ROUNDS) -> int:
    """Runs the cases that the patterns name, and prints their medians; the exit status."""
    wanted = named(patterns)
    if not wanted:
        raise SystemExit(f"no case has {' or '.join(patterns)} in its name")
    return measure(wanted, rounds, "end_to_end", SAMPLES)


def measure(wanted: list[Case], rounds: int, suite: str, path: Path) -> int:
    """Appends a sample of each case and round to a file, and prints their medians."""
    with Server(scans_vectors=any(case.scenario == "scan_vector" for case in wanted)) as server:
        run = Run(server, suite, path)
        for target in sorted(set().union(*map(_needed, wanted))):
            try:
                _install(target)
            except Failed as error:
                clients = {case.client for case in wanted if target in _needed(case)}
                run.fail(", ".join(sorted(clients)), error)
                wanted = [case for case in wanted if target not in _needed(case)]
        fit = run.check(wanted)
        for number in range(1, rounds + 1):
            _say(f"round {number} of {rounds}")
            # And back every second time: nobody always comes after the same one.
            for case in fit if number % 2 else reversed(fit):
                run.sample(case)
    for line in table(run.samples):
        print(line)
    for failure in run.failures:
        print(f"FAILED {failure}")
    return 1 if run.failures else 0


def table(samples: Iterable[Sample]) -> list[str]:
    """The medians of each case as lines of text."""
    taken: dict[Case, list[Sample]] = {}
    for sample in samples:
        case = Case(
            scenario=sample["scenario"],
            shape=sample["shape"],
            client=sample["client"],
            in_flight=sample["in_flight"],
            variant=sample.get("variant", ""),
        )
        taken.setdefault(case, []).append(sample)
    cpu = {
        case: _median(of, lambda sample: sample["cpu_s"] / sample["requests"] * 1e6)
        for case, of in taken.items()
        if of[0]["requests"]
    }
    lines = [
        "medians; CPU of the client per request, its ratio to turbocql in the same shape"
        " (callbacks: workers, concurrent: tasks)",
        f"{'scenario':21} {'shape':10} {'client':28} {'in flight':>9} {'CPU us':>9} {'ratio':>6}"
        f" {'per s':>8} {'p50 us':>8} {'p99 us':>8}  note",
    ]
    for case, of in taken.items():
        scenario = f"{case.scenario} {case.variant}".strip()
        name = f"{scenario:21} {case.shape:10} {case.client:28} {case.in_flight:9}"
        note = of[0]["note"] or ""
        if case not in cpu:
            lines.append(f"{name} {'-':>9} {'-':>6} {'-':>8} {'-':>8} {'-':>8}  {note}")
            continue
        ours = cpu.get(counterpart(case))
        lines.append(
            f"{name} {cpu[case]:9.3f} {f'{cpu[case] / ours:.2f}' if ours else '-':>6}"
            f" {_median(of, lambda sample: sample['requests'] / sample['wall_s']):8.0f}"
            f" {_latency(of, 'p50_us')} {_latency(of, 'p99_us')}  {note}".rstrip()
        )
    about = {
        (s["client"], s["version"], s["interpreter"])
        for of in taken.values()
        for s in of
        if s["version"]
    }
    lines += [" ".join(said) for said in sorted(about)]
    return lines


def _median(samples: list[Sample], of: Callable[[Sample], float]) -> float:
    return statistics.median(of(sample) for sample in samples)


def _latency(samples: list[Sample], name: str) -> str:
    if samples[0][name] is None:
        return f"{'-':>8}"
    return f"{_median(samples, lambda sample: sample[name]):8.0f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="turbocql beside other drivers, end to end")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="words of a case's name")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    asked = parser.parse_args()
    sys.exit(main(asked.patterns, asked.rounds))
