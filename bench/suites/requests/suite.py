"""Measures requests to the embedded Cassandra through all drivers: client CPU and latency.

A pattern has words of "scenario shape client in_flight", such as "insert_text workers 100". Each
sample comes from a new process in the client's environment. `make` creates missing environments. A
case is timed only after a small run of the same code returned the right rows. The rows of the timed
run are checked too. Run the suite on a quiet machine. Only ratios within one run are meaningful.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import count

from bench.harness import processes
from bench.harness.environments import OURS, install, python_in
from bench.harness.processes import Failed
from bench.harness.provenance import commit, interpreter, today
from bench.harness.samples import Sample
from bench.harness.spread import turns
from bench.harness.suites import Options, Run, Suite, say
from bench.suites.requests.cases import FLOOR, SIMULATED, Case, counterpart, environments, program
from bench.suites.requests.job import Job
from bench.suites.requests.selection import named
from bench.suites.requests.server import Server, Wrong
from turbocql.testing import CassandraError

__all__ = ["COLUMNS", "SUITE", "by_server", "job_of", "measure", "table"]

ROUNDS = 5
SAMPLE_TIMEOUT_S = 300


class Measurement:
    """Starts the processes of one run. All of them use the same server."""

    def __init__(self, server: Server, run: Run, suite: str) -> None:
        self._server, self._run, self._suite = server, run, suite
        self._salts = count(1)

    def fit(self, cases: Sequence[Case]) -> list[Case]:
        """Runs the code of each case on few rows. Returns the cases whose rows were right."""
        fit: dict[tuple[str, ...], bool] = {}
        # Cases that differ only in the number in flight run the same code, so one of them is
        # checked: the case with 100 in flight, if it is chosen.
        for case in sorted(cases, key=lambda case: case.in_flight != 100):
            if _code(case) not in fit:
                fit[_code(case)] = self._is_fit(case)
        for case in cases:
            if case.cannot and not fit[_code(case)]:
                # A failed process reports no interpreter. So the sample names that of this process.
                about = {"interpreter": interpreter(), "requests": 0, "note": case.cannot}
                self._run.add(self._complete(case, about))
        return [case for case in cases if fit[_code(case)]]

    def _is_fit(self, case: Case) -> bool:
        try:
            self._once(case, check=True)
        except Failed as error:
            if not case.cannot:
                self._run.fail(f"check of {case}", error)
            return False
        if case.cannot:
            self._run.fail(f"check of {case}", "it can, though requests.cases.CANNOT has it")
        return True

    def sample(self, case: Case, turn: str) -> None:
        """Runs one process of one case."""
        for sample in self._run.measure(case, partial(self._sampled, case)):
            say(f"{turn}: {case}: {sample['cpu_s'] / sample['requests'] * 1e6:.4g} us")

    def _sampled(self, case: Case) -> list[Sample]:
        return [self._complete(case, self._once(case, check=False))]

    def _once(self, case: Case, *, check: bool) -> Sample:
        sizes = (500, 100, 200) if check else (case.requests, case.warm_up, case.latency_requests)
        job = job_of(case, self._server.contact_point, *sizes, next(self._salts), check=check)
        environment, module = program(case, check=check)
        python = python_in(environment)
        lines = processes.samples(
            python, module, json.dumps(asdict(job)), timeout_s=SAMPLE_TIMEOUT_S
        )
        if not lines:
            raise Failed("it printed no sample")
        if case.writes:
            try:
                self._server.check_written(case.table, case.kind, job.requests, job.salt)
            except (Wrong, CassandraError, OSError) as error:
                raise Failed(f"what it wrote: {error}") from error
        return lines[-1]

    def _complete(self, case: Case, sample: Sample) -> Sample:
        nothing = dict.fromkeys(("version", "wall_s", "cpu_s", "p50_us", "p99_us", "note"))
        return {
            "suite": self._suite,
            **asdict(case),
            **nothing,
            **sample,
            "date": today(),
            "commit": commit(),
        }


def _code(case: Case) -> tuple[str, ...]:
    return case.client, case.scenario, case.shape, case.variant


def job_of(
    case: Case,
    contact_point: str,
    requests: int,
    warm_up: int,
    latency_requests: int = 0,
    salt: int = 1,
    *,
    check: bool = False,
) -> Job:
    """Returns the job of one process of a case."""
    return Job(
        client=case.client,
        scenario=case.scenario,
        shape=case.shape,
        in_flight=case.in_flight,
        contact_point=contact_point,
        requests=requests,
        warm_up=warm_up,
        latency_requests=latency_requests,
        salt=salt,
        check=check,
        variant=case.variant,
    )


def _needed(case: Case) -> set[str]:
    """Returns a case's `make` targets. turbocql's environment needs none, because it exists."""
    if case.client == FLOOR:
        return {"target/release/examples/pure_engine"}
    return {
        f"{environment}/.installed" for environment in environments(case) if environment != OURS
    }


def measure(cases: list[Case], rounds: int, run: Run, suite: str) -> None:
    """Takes a sample of each case that can run, in each round. Each server has its own rounds."""
    for server, group in by_server(cases):
        with server:
            _measure_with(server, group, rounds, run, suite)


def by_server(cases: Iterable[Case]) -> Iterator[tuple[Server, list[Case]]]:
    """Yields the servers that the cases need, and the cases of each. No server is started yet."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.server, []).append(case)
    for name, group in groups.items():
        scans_vectors = any(case.scenario == "scan_vector" for case in group)
        yield Server(scans_vectors=scans_vectors, simulates_scylla=name == SIMULATED), group


def _measure_with(server: Server, cases: list[Case], rounds: int, run: Run, suite: str) -> None:
    for target in sorted(set().union(*map(_needed, cases))):
        try:
            install(target)
        except Failed as error:
            clients = {case.client for case in cases if target in _needed(case)}
            run.fail(", ".join(sorted(clients)), error)
            cases = [case for case in cases if target not in _needed(case)]
    measurement = Measurement(server, run, suite)
    for number, case in turns(measurement.fit(cases), rounds):
        measurement.sample(case, f"round {number} of {rounds}")


def _run(cases: Callable[[Sequence[str]], list[Case]], options: Options) -> Run:
    run = Run(SUITE.file)
    measure(cases(options.patterns), options.rounds or ROUNDS, run, SUITE.name)
    print("\n".join(table(run.samples)))
    return run


def table(samples: Iterable[Sample]) -> list[str]:
    """Returns lines of text: the medians of each case, then the versions of the clients."""
    groups: dict[Case, list[Sample]] = {}
    for sample in samples:
        case = Case(
            scenario=sample["scenario"],
            shape=sample["shape"],
            client=sample["client"],
            in_flight=sample["in_flight"],
            variant=sample.get("variant", ""),
            server=sample.get("server", ""),
        )
        groups.setdefault(case, []).append(sample)
    cpu = {
        case: _median(of, lambda sample: sample["cpu_s"] / sample["requests"] * 1e6)
        for case, of in groups.items()
        if of[0]["requests"]
    }
    lines = [
        "medians; CPU of the client per request, its ratio to turbocql in the same shape"
        " (callbacks: workers, concurrent: tasks)",
        f"{'scenario':21} {'shape':10} {'client':28} {'in flight':>9} {'CPU us':>9} {'ratio':>6}"
        f" {'per s':>8} {'p50 us':>8} {'p99 us':>8}  note",
    ]
    for case, of in groups.items():
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
        for of in groups.values()
        for s in of
        if s["version"]
    }
    return [*lines, *(" ".join(words) for words in sorted(about))]


def _median(samples: list[Sample], of: Callable[[Sample], float]) -> float:
    return statistics.median(of(sample) for sample in samples)


def _latency(samples: list[Sample], name: str) -> str:
    if samples[0][name] is None:
        return f"{'-':>8}"
    return f"{_median(samples, lambda sample: sample[name]):8.0f}"


def _names(patterns: Sequence[str]) -> list[str]:
    return [str(case) for case in named(patterns)]


def _columns(patterns: Sequence[str]) -> list[Case]:
    """Returns the chosen cases of columns, and the cases of rows to compare them with."""
    return named([f"columns {pattern}" for pattern in patterns or [""]])


def _column_names(patterns: Sequence[str]) -> list[str]:
    return [str(case) for case in _columns(patterns)]


SUITE = Suite(
    "requests",
    "requests to a server: processor time of the client, and latency; columns too",
    _names,
    partial(_run, named),
    "end_to_end.jsonl",
    by_default=True,
)
COLUMNS = Suite(
    "columns",
    "results as columns and loads of columns, and what they are compared with",
    _column_names,
    partial(_run, _columns),
    "end_to_end.jsonl",
)
