"""Counts instructions per codec call and per request, and compares them with recorded counts.

`make instructions` fails if a case takes over 3 % more instructions than `recorded.json` says.
`make instructions RECORD="why"` records the new counts, with that reason. A case that changed by at
most 0.5 % keeps its recorded counts and reason. Thus small rises add up, until the case fails.

Only instructions in turbocql's own shared library are compared, because their number is the same on
a busy and on a quiet machine. All instructions of a call are recorded too, and shown if they have
changed. But they cannot fail a case, for three reasons. The allocators of Python and C vary by some
200 instructions with the state of the heap. Libraries choose code for the features of the host's
processor, which callgrind emulates. Python's share depends on its version and build. So
`recorded.json` also says where it was recorded. On another architecture nothing is compared.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from bench.harness.environments import ROOT
from bench.harness.selection import chosen
from bench.harness.suites import Options, Run, Suite
from bench.suites.codec.cases import NAMES
from bench.suites.instructions.dump import Counts, read_dump
from bench.suites.instructions.requests import REQUESTS, count_requests

__all__ = [
    "FILE",
    "SUITE",
    "Counts",
    "Recorded",
    "Verdict",
    "check",
    "compare",
    "load",
    "read_dump",
    "recorded_anew",
    "save",
]

FILE = Path(__file__).with_name("recorded.json")
ALL = (*NAMES, *REQUESTS)
EMPTY = ""
"""The name of the empty loop, whose instructions are subtracted from those of each case."""
LIMIT = 0.03
NOTABLE = 0.005
ADVICE = f'make instructions RECORD="why", and commit {FILE.name} with the change'


class Recorded(NamedTuple):
    """The recorded counts of a case, and the reason given when they were recorded."""

    counts: Counts
    reason: str


@dataclass(frozen=True)
class Verdict:
    """The lines to print about the cases, and a message for each failure."""

    lines: list[str]
    failures: list[str]


def change(before: float, now: float) -> float:
    """Returns the relative rise from `before` to `now`: 0.1 is 10 % more."""
    if before == 0:
        return 0.0 if now == 0 else float("inf")
    return now / before - 1


def compare(recorded: Mapping[str, Recorded], now: Mapping[str, Counts], share: str) -> Verdict:
    """Compares counts with the recorded ones. `share` names the field of `Counts` to compare."""
    lines, risen, fallen, missing = [], [], [], []
    for name, counts in now.items():
        if name not in recorded:
            missing.append(name)
            continue
        before, after = getattr(recorded[name].counts, share), getattr(counts, share)
        moved = change(before, after)
        if abs(moved) > NOTABLE:
            lines.append(f"{name:44} {before:12.1f} {after:12.1f} {moved:+8.1%}")
        if moved > LIMIT:
            risen.append(
                f"{name}: {moved:+.1%} instructions; recorded with: {recorded[name].reason}"
            )
        elif moved < -LIMIT:
            fallen.append(name)
    if lines:
        lines.insert(0, f"{'case':44} {'recorded':>12} {'now':>12} {'change':>8}")
    lines += [f"{name}: over {LIMIT:.0%} fewer; record it: {ADVICE}" for name in fallen]
    failures = [*risen, *(f"{name}: not recorded yet" for name in missing)]
    failures += [f"{name}: recorded, but not counted" for name in recorded if name not in now]
    return Verdict(lines, failures)


def recorded_anew(
    recorded: Mapping[str, Recorded], now: Mapping[str, Counts], reason: str
) -> dict[str, Recorded]:
    """Returns the cases to record: new counts if they changed by over 0.5 %, otherwise the old."""
    cases = {}
    for name, counts in now.items():
        old = recorded.get(name)
        moved = old is None or any(
            abs(change(*pair)) > NOTABLE for pair in zip(old.counts, counts, strict=True)
        )
        cases[name] = Recorded(counts, reason) if old is None or moved else old
    return cases


def count(patterns: Sequence[str]) -> tuple[dict[str, Counts], dict[str, str]]:
    """Returns the fewest instructions per call of each case.

    Also returns, for each case that was left out, the reason.
    """
    # Of the caller's environment variables, only two are passed on: the size of all variables moves
    # the stack, and some change what Python, its libraries or callgrind do.
    environment = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "python")))
    environment |= {n: os.environ[n] for n in ("PATH", "LD_LIBRARY_PATH") if n in os.environ}
    with tempfile.TemporaryDirectory() as folder:
        order, out = Path(folder, "order"), Path(folder, "dump")
        command = ["valgrind", "--quiet", "--tool=callgrind", "--dump-before=getppid"]
        command += [f"--callgrind-out-file={out}", sys.executable]
        command += ["-m", "bench.clients.turbocql.instructions", str(order), *patterns]
        subprocess.run(command, check=True, cwd=folder, env=environment)
        report = json.loads(order.read_text(encoding="utf-8"))
        if Path(report["core"]).resolve() != extension():
            raise SystemExit(f"callgrind counted {report['core']}, not {extension()}")
        samples = report["samples"]
        dumps = len(list(Path(folder).glob("dump.*")))
        if dumps != 2 * len(samples):
            raise SystemExit(f"{dumps} dumps of {len(samples)} samples: others call getppid too?")
        least: dict[tuple[str, int], Counts] = {}
        for origin, (name, calls) in enumerate(samples):
            text = Path(f"{out}.{2 * origin + 2}").read_text(encoding="utf-8", errors="replace")
            counts = read_dump(text, report["core"])
            old = least.get((name, calls), counts)
            least[name, calls] = Counts(*map(min, old, counts))
    per_call = {}
    for (name, calls), counts in least.items():
        empty = least[EMPTY, calls]
        if name != EMPTY:
            pairs = zip(counts, empty, strict=True)
            per_call[name] = Counts(*(round((most - none) / calls, 1) for most, none in pairs))
    if not any(counts.core for counts in per_call.values()):
        raise SystemExit(f"callgrind has no instructions of {report['core']}")
    return per_call, report["undone"]


def extension() -> Path:
    """Returns turbocql's shared library.

    Raises: SystemExit unless it is in this tree and unchanged since `make build`.
    """
    from turbocql import _core

    core = Path(str(_core.__file__)).resolve()
    built = Path(sys.prefix, "bin", ".built")
    if not core.is_relative_to(ROOT / "python"):
        raise SystemExit(f"{core} is not of this tree: run `make build`")
    if not built.exists() or core.stat().st_mtime > built.stat().st_mtime:
        raise SystemExit(
            f"{core.name} was not built by `make build`, which builds with optimization:"
            " run `rm .venv/bin/.built`, then `make build`"
        )
    return core


def surroundings(core: Path) -> dict[str, str]:
    """Returns what the counts depend on: the processor, Python, rustc, libc and NumPy."""
    rustc = re.search(rb"rustc version ([^\0]+)", core.read_bytes())
    try:
        numpy = metadata.version("numpy")
    except metadata.PackageNotFoundError:
        numpy = "none"
    return {
        "architecture": platform.machine(),
        "processor": processor(),
        "interpreter": f"{platform.python_implementation()} {' '.join(sys.version.split())}",
        "rustc": rustc[1].decode() if rustc else "unknown",
        "libc": " ".join(platform.libc_ver()) or str(ctypes.util.find_library("c")),
        "numpy": numpy,
    }


def processor() -> str:
    """Returns the host's features that decide which processor callgrind emulates."""
    try:
        words = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return "unknown"
    return " ".join(name for name in ("sse4_2", "avx", "avx2") if name in words) or "none of them"


def load(path: Path) -> tuple[dict[str, str], dict[str, Recorded]]:
    """Returns where the counts in a file were recorded, and the counts.

    Raises: SystemExit if a case has no reason.
    """
    if not path.exists():
        return {}, {}
    content = json.loads(path.read_text(encoding="utf-8"))
    cases = {}
    for name, case in content["cases"].items():
        if not case["reason"].strip():
            raise SystemExit(f"{path.name}: {name} has no reason")
        cases[name] = Recorded(Counts(case["total"], case["core"]), case["reason"])
    return content["recorded on"], cases


def save(path: Path, origin: dict[str, str], cases: Mapping[str, Recorded]) -> None:
    """Writes the file, one line for each case, so that a diff shows which cases changed."""
    lines = [
        f"    {json.dumps(name)}: " + json.dumps({**case.counts._asdict(), "reason": case.reason})
        for name, case in cases.items()
    ]
    head = json.dumps(origin, indent=4).replace("\n}", "\n  }")
    body = ",\n".join(lines)
    text = f'{{\n  "recorded on": {head},\n  "cases": {{\n{body}\n  }}\n}}\n'
    path.write_text(text, encoding="utf-8")


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the cases that the patterns choose."""
    return [name for name in ALL if chosen(name, patterns, "instructions")]


def check(patterns: Sequence[str], reason: str | None) -> list[str]:
    """Counts, then compares the counts or records them. Returns a message for each failure."""
    if reason is not None and not reason.strip():
        raise SystemExit('figures are recorded with the reason why they moved: RECORD="why"')
    core = extension()
    origin, (recorded_place, recorded) = surroundings(core), load(FILE)
    changed = [key for key in origin if recorded_place and origin[key] != recorded_place.get(key)]
    if "architecture" in changed and reason is None:
        print(
            f"Nothing was compared: the figures are of {recorded_place['architecture']}, and"
            f" instructions of {origin['architecture']} are others."
        )
        return []
    if shutil.which("valgrind") is None:
        return ["turbocql needs valgrind to count instructions: install valgrind"]

    modified = core.stat().st_mtime_ns
    of_codec = [name for name in names(patterns) if name in NAMES]
    now, undone = count(patterns) if of_codec else ({}, {})
    requests = [name for name in names(patterns) if name in REQUESTS]
    now |= count_requests(requests, core)
    if extension().stat().st_mtime_ns != modified:
        raise SystemExit(f"{core.name} was rebuilt during the measurement: run it again")
    for name, why in undone.items():
        print(f"{name}: left out, {why}")
    if reason is not None:
        _record(origin, {} if changed else recorded, now, reason.strip())
        return []

    for key in changed:
        print(f"{key}: recorded on {recorded_place.get(key)}, here is {origin[key]}")
    recorded = {name: recorded[name] for name in recorded if name in names(patterns)}
    if not changed:
        in_all = compare(recorded, now, "total").lines
        heading = ["all instructions of a call (shown only, not checked):"] if in_all else []
        print(*heading, *in_all, sep="\n")
    verdict = compare(recorded, now, "core")
    print(*verdict.lines, sep="\n", end="\n" if verdict.lines else "")
    if verdict.failures:
        print(f"If that is meant to be: {ADVICE}", file=sys.stderr)
    print(f"{len(now)} cases, by turbocql's own instructions: {len(verdict.failures)} failed")
    return verdict.failures


def _record(
    origin: dict[str, str], recorded: Mapping[str, Recorded], now: dict[str, Counts], reason: str
) -> None:
    """Writes the file. Cases of `recorded` that were not counted keep their figures."""
    new = recorded_anew(recorded, now, reason)
    new |= {name: case for name, case in recorded.items() if name in ALL and name not in now}
    save(FILE, origin, {name: new[name] for name in ALL if name in new})
    written = sum(recorded.get(name) != case for name, case in new.items())
    print(f"{len(new)} cases, {written} of them recorded anew: {reason}")


def run(options: Options) -> Run:
    """Compares the counts with the recorded ones, or records them if a reason is given."""
    current = Run(SUITE.file)
    for failure in check(options.patterns, options.record):
        current.fail("instructions", failure)
    return current


SUITE = Suite(
    "instructions",
    "instructions per call and per request beside those recorded: `make instructions`",
    names,
    run,
    FILE.name,
    is_kept=False,
)
