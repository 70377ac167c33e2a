"""Writes the page about nodes that fail, from samples and from nothing else.

`python bench/report_availability.py` reads `bench/samples/availability.jsonl`, which
`make bench-availability BENCH_ARGS=--keep` writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

from availability_cases import CLIENTS, FAULT_AT_S, FAULTS, IN_TIME_S, JUST_AFTER_S
from codec_environments import HERE, ROOT, read_samples
from report_data import Sample, Spread, escaped, filled, number, table

__all__ = ["PAGE", "SAMPLES", "tables", "write"]

SAMPLES = HERE / "samples" / "availability.jsonl"
PAGE = ROOT / "docs" / "availability.md"

_BEGINNING = """\
A node can end, and a node can hang: its connections stay open, and it answers nothing. The tables
show which share of a program's requests are answered within IN_TIME s in both cases, with turbocql
and with other drivers.
"""

_METHOD = """\
Every figure on this page is computed by `bench/report_availability.py` from the samples in
`bench/samples/availability.jsonl`. `make bench-availability` takes the samples.

- Three nodes of Cassandra 5.0.5 on one machine, replication factor 3, consistency `QUORUM`. The
  timeouts of the server are its defaults.
- The load is open-loop: 60 requests per second for 40 s, whether earlier requests have ended or
  not. Every second request writes a row with a new key. The others read one row by its key, of
  1,000 rows.
- After FAULT_AT s of load, one node is stopped (SIGSTOP) or killed (SIGKILL). It stays so until the
  last request has ended. Before the next client the cluster is whole again.
- Every time is measured from when a request was due, not from when it was sent. A driver that
  sends late is not measured as faster.
- Each driver runs in its own process and its own environment. All drivers have the same contact
  points and a timeout of 10 s per request. All other settings are the driver's defaults.
- *Within IN_TIME s, all*: the share of all requests that were answered without an error within
  IN_TIME s. *JUST_AFTER s after the fault*: the same for the requests that were due in those
  seconds.
- *Errors* are those that the program sees. *Lost connections*: errors that say that a connection
  was lost or that no node is connected.
- *Slowest answer*: of the requests that were answered without an error.
- *First answer*: from the fault to the first answer of a request that was due after it.
- *Longest silence*: the longest time after the fault in which no request was answered.
- With speculative execution, a request without an answer after 0.1 s is sent to one more node. The
  statements are declared idempotent for this. No client has it without being configured.
- *Last late request*: from the fault to when the last request was due that was not answered
  within IN_TIME s.
- Acknowledged writes that a read at `QUORUM` did not find after the node was back: LOST.
"""


def write(samples: Path = SAMPLES, page: Path = PAGE) -> None:
    """Writes the page from the samples of a file."""
    taken = read_samples(samples)
    if not taken:
        raise SystemExit(f"no samples in {samples}: see make bench-availability")
    lost = f"{sum(sample['lost_writes'] for sample in taken):,}"
    lines = ["# When a node fails", "", *_filled(_BEGINNING), *tables(taken)]
    lines += [
        "## How the figures were measured",
        "",
        *_filled(_METHOD.replace("LOST", lost)),
        *_about(taken),
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(escaped("\n".join(lines)).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}")


def _filled(text: str) -> list[str]:
    """A text with its constants, its paragraphs and points filled again."""
    for name, value in (
        ("JUST_AFTER", JUST_AFTER_S),
        ("IN_TIME", IN_TIME_S),
        ("FAULT_AT", FAULT_AT_S),
    ):
        text = text.replace(name, f"{value:g}")
    return filled(text)


def tables(samples: list[Sample]) -> list[str]:
    """A table for each fault, as lines of Markdown."""
    lines: list[str] = []
    for name, fault in FAULTS.items():
        rows = []
        for client in CLIENTS:
            taken = [s for s in samples if (s["case"], s["client"]) == (name, client)]
            if taken:
                rows.append([client, *_cells(taken)])
        if rows:
            lines += [f"## {fault.title}", "", *table(_HEAD, rows)]
    return lines


_HEAD = [
    "driver",
    f"within {IN_TIME_S:g} s, all",
    f"within {IN_TIME_S:g} s, {JUST_AFTER_S:g} s after the fault",
    "errors",
    "lost connections",
    "slowest answer, s",
    "first answer, s",
    "longest silence, s",
    "last late request, s",
]


def _cells(rounds: list[Sample]) -> list[str]:
    """The figures of one client: medians of the rounds with their range, and errors in all."""
    errors: Counter[str] = Counter()
    for sample in rounds:
        errors.update(sample["errors"])
    said = ", ".join(f"{times} {name}" for name, times in errors.most_common())
    return [
        _shares(sample["in_time_all"] for sample in rounds),
        _shares(sample["in_time_just_after"] for sample in rounds),
        said or "0",
        f"{sum(sample['connection_errors'] for sample in rounds):,}",
        _seconds(sample["slowest_s"] for sample in rounds),
        _seconds(sample["first_answer_s"] for sample in rounds),
        _seconds(sample["longest_silence_s"] for sample in rounds),
        _seconds(sample["last_late_s"] for sample in rounds),
    ]


def _shares(values: Iterable[float | None]) -> str:
    given = [value for value in values if value is not None]
    if not given:
        return "-"
    spread = Spread.of(given, 100)
    if spread.rounds == 1:
        return f"{spread.median:.2f} %"
    return f"{spread.median:.2f} % ({spread.low:.2f} to {spread.high:.2f})"


def _seconds(values: Iterable[float | None]) -> str:
    given = [value for value in values if value is not None]
    return str(Spread.of(given)) if given else number(None)


def _about(samples: list[Sample]) -> list[str]:
    """Versions, machine, days and rounds."""
    versions = sorted({f"{sample['client']} {sample['version']}" for sample in samples})
    interpreters = sorted({str(sample["interpreter"]) for sample in samples})
    machines = sorted({str(sample["machine"]) for sample in samples})
    days = sorted({str(sample["date"]) for sample in samples})
    period = " to ".join(dict.fromkeys((days[0], days[-1])))
    rounds = max(sample["round"] for sample in samples)
    times = "One round" if rounds == 1 else f"{rounds} rounds, each with another node that fails"
    busy = max(sample["busy"] for sample in samples)
    said = f"{'; '.join([*versions, *interpreters, *machines])}; {period}. {times}."
    return [fill(f"{said} The machine's processors were at most {busy:.0%} busy.", 100)]


if __name__ == "__main__":
    write()
