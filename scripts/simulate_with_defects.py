"""Runs the simulation once for each of a list of defects. Each defect must make a seed fail.

Usage: scripts/simulate_with_defects.py [LAST_SEED] [--only DEFECT]

A defect is a bug that the script plants, or a missing edit (a patch of the ScyllaDB Rust driver).
The script makes each defect in a copy of the sources, and runs the kept seeds and the seeds from 1
to LAST_SEED. Then it runs the first seed that fails twice more. Both runs must have the same hash.
The script stores the results for the current sources in build/defects.json. So after an
interruption, the next run continues with the next defect.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from edited_crates import ROOT, Edit, Unfit, edits

EDITS = (
    "prepare",
    "orphans",
    "streams",
    "reconnect",
    "types",
    "batch",
    "tablets",
    "hung-shards",
    "control-connection",
    "waiting",
    "opening",
)
"""The edits that are left out, one at a time. They are for faults of nodes and networks. Edits
against hostile servers have other tests."""

DECLARED = {"types": "src/statement/prepared.rs"}
"""Maps an edit to one of its files. This file stays edited when the edit is left out, because the
engine uses declarations in it."""

PLANTED = {
    # The engine uses declarations of the edits `silent-nodes` and `keepalive`. So the engine does
    # not compile without these edits. Instead of leaving them out, the next two entries remove
    # their effect.
    "without silent-nodes": (
        "crates/engine/src/cluster/watch.rs",
        "            self.silence.known.set(silent.map(|(node, at)| (node.host_id, at))"
        ".collect());\n",
        "            let _ = silent.count();\n",
    ),
    "without keepalive": (
        "build/crates/scylla/src/network/connection.rs",
        "        if buf.filled().len() > before {\n            *self.last",
        "        if buf.filled().len() < before {\n            *self.last",
    ),
    "a lost wake-up": (
        "crates/engine/src/request/gate.rs",
        "(!is_weighed);\n        self.admit_waiting(state);\n",
        "(!is_weighed);\n",
    ),
    "a double send": (
        "crates/engine/src/policies/retry.rs",
        "if !request.is_idempotent && attempt_may_have_applied",
        "if self.forgotten > MAX_FORGOTTEN && attempt_may_have_applied",
    ),
    "a place not given back": (
        "crates/engine/src/request/gate.rs",
        "        if let Some(gate) = self.gate.take() {\n",
        "        if let Some(gate) = self.gate.take().filter(|_| self.bytes != 48) {\n",
    ),
    "a row not sent": (
        "crates/engine/src/bulk/window.rs",
        "            if self.occupied.load(Ordering::Relaxed)"
        " > self.limit.load(Ordering::Relaxed) {\n"
        "                break;\n            }\n            match self.take() {\n",
        "            let next = self.take();\n"
        "            if self.occupied.load(Ordering::Relaxed)"
        " > self.limit.load(Ordering::Relaxed) {\n"
        "                break;\n            }\n            match next {\n",
    ),
    "a limit that begins anew after the queue": (
        "crates/engine/src/session/batch.rs",
        "Some(time_left.remaining)",
        "Some(time_left.limit)",
    ),
    "a scan that ends at a failed page": (
        "crates/engine/src/results/pager.rs",
        "                *ahead = Ahead::Failed { at: at.clone() };",
        "                *ahead = Ahead::End;",
    ),
    "a server error taken for a refusal": (
        "crates/engine/src/error/server.rs",
        "        _ if effect == Effect::Reads => false,\n        // The server refuses",
        "        _ if effect == Effect::Reads => false,\n        DbError::ServerError => false,\n"
        "        // The server refuses",
    ),
    "an unlogged batch taken for one write": (
        "crates/engine/src/session/batch.rs",
        "        BatchKind::Unlogged => Effect::Staged,",
        "        BatchKind::Unlogged => Effect::Writes,",
    ),
    "write times that follow the clock": (
        "build/crates/scylla/src/policies/timestamp_generator.rs",
        "            if u_cur > last {",
        "            if u_cur != last {",
    ),
    "a claim taken for a plain write": (
        "crates/engine/src/error/server.rs",
        "DbError::Unavailable { .. } => effect == Effect::Staged,",
        "DbError::Unavailable { .. } => false,",
    ),
    "a bulk that never gives a row up": (
        "crates/engine/src/bulk/window.rs",
        "            let since = *since.get_or_insert_with(|| self.outages.since(&error));",
        "            since.get_or_insert_with(|| self.outages.since(&error));\n"
        "            let since = Instant::now();",
    ),
    "a batch with mixed-up statements": (
        "crates/engine/src/session/batch.rs",
        "driver_statements = statements.iter().map(|statement| match statement {",
        "driver_statements = statements.iter().map(|_| match &statements[0] {",
    ),
    "a batch that is never sent as texts": (
        "build/crates/scylla/src/network/connection.rs",
        "if repreparations == most {",
        "if repreparations == most && batch.statements.is_empty() {",
    ),
    "speculation that never begins": (
        "crates/engine/src/policies/profile.rs",
        ".speculative_execution_policy(self.speculation.as_ref().map(Speculation::policy))",
        ".speculative_execution_policy(None)",
    ),
    "servers that lose a write": (
        "simulation/src/cluster/mod.rs",
        "        *stored = written.max(*stored);\n",
        "        if written.value % 20 != 3 {\n"
        "            *stored = written.max(*stored);\n"
        "        }\n",
    ),
}
"""Maps the name of a bug to a file, a text in the file, and the text that replaces it."""

OF_SERVERS = {"servers that lose a write"}
"""The bugs that are planted in the simulated servers. The simulation must say that these are at
fault, and must not say so for other defects."""
SERVERS_AT_FAULT = "the servers: "
"""How the first line about a failed seed begins if the simulated servers are at fault."""

FOUND = re.compile(r"^seed (\d+)( \(kept\))?:[^\n]*\n(?:  \|[^\n]*\n)*  ! ([^\n]*)", re.MULTILINE)
"""Matches a failed seed in the simulation's output, whether it is a kept one, and the first of its
lines that begin with `!`. These lines say what was wrong."""
SUMMARY = re.compile(
    r"^\d+ seeds, (\d+) of them kept; .* (\d+) seeds break a promise, (\d+) of them kept\n\Z",
    re.MULTILINE,
)
"""Matches the last line of the simulation's output: the number of kept seeds, of all failed seeds,
and of the failed ones among the kept."""
HASH = re.compile(r"^seed \d+(?: \(kept\))?: .* ([0-9a-f]{16})$", re.MULTILINE)
"""Matches the line about a run that came to its end, and the hash of its trace."""

BUILT_FROM = ("Cargo.", "crates/", "edits/", "scripts/edited_", "scripts/simulate_", "simulation/")
"""The beginnings of the names of files on which the results depend."""

CHECKOUT = hashlib.sha256(os.fsencode(ROOT)).hexdigest()[:12]
COPY = Path(tempfile.gettempdir()) / f"turbocql-defects-{CHECKOUT}"
"""The copy of the sources. It is outside of the checkout, because the checkout's cargo
configuration would apply to a copy within it. Each checkout has a copy of its own."""
TARGET = ROOT / "target" / "defects"
PROGRAM = TARGET / "debug" / "simulate"
RESULTS = ROOT / "build" / "defects.json"


def taken_out(text: str, old: str, new: str) -> str:
    """Reverts a hunk of an edit in the text of a file, and returns the new text.

    Other edits may have changed the lines around the hunk. So lines of context are removed from the
    hunk until its text is found exactly once.

    Raises: Unfit, if no part of the hunk is found once.
    """
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    while True:
        if text.count("".join(after)) == 1:
            return text.replace("".join(after), "".join(before))
        if before and after and before[0] == after[0] and before[-1:] != after[-1:]:
            del before[0], after[0]
        elif before and after and before[-1] == after[-1]:
            del before[-1], after[-1]
        elif before and after and before[0] == after[0]:
            del before[0], after[0]
        else:
            raise Unfit(f"this change was not found once: {new}")


def take_out(edit: Edit) -> None:
    """Reverts an edit in the crates of the copy."""
    crate = COPY / "build" / "crates" / edit.crate
    for file, old, new in reversed(edit.changes):
        if file != DECLARED.get(edit.name):
            path = crate / file
            path.write_text(taken_out(path.read_text(), old, new))


def plant(name: str) -> None:
    """Plants a bug in the copy."""
    file, old, new = PLANTED[name]
    path = COPY / file
    text = path.read_text()
    if text.count(old) != 1:
        raise Unfit(f"{name}: expected this text once in {file}: {old}")
    path.write_text(text.replace(old, new))


def sources() -> list[str]:
    """Returns the names of the checkout's files without those that git ignores."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in set(files.split("\0")) if name and (ROOT / name).is_file())


def fingerprint(folder: Path, names: list[str]) -> str:
    """Returns a hash over the names and contents of files below a folder, without those that the
    simulation is not built from.
    """
    of_all = hashlib.sha256()
    for name in (name for name in names if name.startswith(BUILT_FROM)):
        of_file = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        of_all.update(f"{of_file} {name}\0".encode())
    return of_all.hexdigest()


def copy_sources(expected: str) -> None:
    """Copies the sources, whose fingerprint must be as expected, and makes the edited crates.

    Raises: SystemExit, if the sources have another fingerprint.
    """
    names = sources()
    shutil.rmtree(COPY, ignore_errors=True)
    for name in names:
        (COPY / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, COPY / name)
    if fingerprint(COPY, names) != expected:
        sys.exit("the sources have changed meanwhile; start again")
    script = [sys.executable, "scripts/edited_crates.py"]
    subprocess.run(script, cwd=COPY, check=True, stdout=subprocess.DEVNULL)


def build() -> None:
    """Builds the simulation of the copy. Does not build incrementally: after an interruption, that
    could mix the code of two defects.

    Raises: SystemExit, if it does not compile.
    """
    manifest = ["--locked", "--manifest-path", "simulation/Cargo.toml", "--target-dir", str(TARGET)]
    built = subprocess.run(
        ["cargo", "build", *manifest],
        cwd=COPY,
        env={**os.environ, "CARGO_INCREMENTAL": "0"},
        capture_output=True,
        text=True,
    )
    if built.returncode:
        sys.exit(built.stderr)


def simulate(*arguments: str) -> str:
    """Runs the simulation that was built last, and returns its output.

    Raises: SystemExit, if it does not say how many seeds have failed.
    """
    ran = subprocess.run([PROGRAM, *arguments], cwd=COPY, capture_output=True, text=True)
    summary = SUMMARY.search(ran.stdout)
    if summary is None or ran.returncode != (1 if int(summary[2]) else 0):
        command = " ".join(("simulate", *arguments))
        end = (ran.stdout + ran.stderr)[-2000:]
        sys.exit(f"{command}: exit code {ran.returncode}, and its output ends with:\n{end}")
    failures = FOUND.findall(ran.stdout)
    counted = (len(failures), sum(bool(kept) for _, kept, _ in failures))
    if counted != (int(summary[2]), int(summary[3])):
        sys.exit(f"{counted[0]} failed seeds were read, {counted[1]} of them kept: {summary[0]}")
    return ran.stdout


def replayed(seed: str, message: str) -> str | None:
    """Runs a failed seed twice, and returns the hash of its trace.

    A run that crashes or hangs has no hash. In place of it, the result says so. It is `None` if the
    two runs differ, or if they fail with another message than the first run.
    """
    runs = [simulate(seed, "--trace", "--jobs", "1") for _ in range(2)]
    hashes = [HASH.findall(run) for run in runs]
    messages = [FOUND.findall(run)[:1] for run in runs]
    if hashes[0] != hashes[1] or any(not of or of[0][2] != message for of in messages):
        return None
    return hashes[0][0] if hashes[0] else "no hash"


def find(last: int) -> dict[str, object]:
    """Runs the seeds with the defect that the copy has, and returns the result."""
    output = simulate("1", str(last))
    failures = FOUND.findall(output)
    kept = sum(bool(is_kept) for _, is_kept, _ in failures)
    first = next(iter(failures), None)
    return {
        "kept": kept,
        "random": len(failures) - kept,
        "first": [first[0], first[2]] if first else None,
        "replayed": replayed(first[0], first[2]) if first else None,
        "servers at fault": sum(message.startswith(SERVERS_AT_FAULT) for _, _, message in failures),
    }


def store(results: dict[str, Any]) -> None:
    """Writes the results, so that an interruption leaves the old file or the new one."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    written = RESULTS.with_suffix(f".{os.getpid()}.tmp")
    written.write_text(json.dumps(results))
    os.replace(written, RESULTS)


def row(name: str, result: dict[str, Any]) -> tuple[str, bool]:
    """Returns the line about a defect, and whether the simulation judges it as it must."""
    label = name if name in PLANTED else f"without {name}"
    if not result["first"]:
        return f"{label:42} {0:4} {0:6}  NOT FOUND", False
    seed, message = result["first"]
    replay = result["replayed"]
    of_seed = f"{seed}, twice more: {replay or 'DIFFERENT RUNS'}"
    found = result["kept"] + result["random"]
    expected = found if name in OF_SERVERS else 0
    at_fault = result["servers at fault"]
    line = f"{label:42} {result['kept']:4} {result['random']:6}  {of_seed:39}  {message[:150]}"
    if at_fault != expected:
        line += f"\n  servers at fault in {at_fault} seeds, expected {expected}"
    return line, replay is not None and at_fault == expected


def seed(text: str) -> int:
    """Reads the number of the last seed."""
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"the last seed is a number of at least 1, not {text!r}")
    return int(text)


def parsed() -> argparse.Namespace:
    """Reads the arguments of the script."""
    parser = argparse.ArgumentParser(
        description="Runs the simulation once for each of a list of defects.",
        epilog='With make: make simulate-defects SEEDS=300, or SEEDS="20 --only=batch",'
        " or SEEDS=\"20 --only='a lost wake-up'\".",
    )
    parser.add_argument(
        "last",
        metavar="LAST_SEED",
        nargs="*",
        type=seed,
        help="the seeds from 1 to this one are run, after the kept ones (300)",
    )
    parser.add_argument(
        "--only",
        metavar="DEFECT",
        choices=(*EDITS, *PLANTED),
        action="append",
        help="run only this defect; several times for several",
    )
    arguments = parser.parse_args()
    if len(arguments.last) > 1:
        parser.error("give only the last seed: the first one is 1")
    arguments.last = arguments.last[0] if arguments.last else 300
    return arguments


def main() -> int:
    arguments = parsed()
    last = arguments.last
    state = {"sources": fingerprint(ROOT, sources()), "last": last}
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results = {**state, "defects": {}}
    if all(stored.get(key) == value for key, value in state.items()):
        results = stored
    by_name = {edit.name: edit for edit in edits()}
    missed = 0
    print(f"{'defect':42} kept random  {'first seed, hash':39}  what is wrong", flush=True)
    for name in arguments.only or (*EDITS, *PLANTED):
        if name not in results["defects"]:
            copy_sources(state["sources"])
            plant(name) if name in PLANTED else take_out(by_name[name])
            build()
            results["defects"][name] = find(last)
            store(results)
        line, is_right = row(name, results["defects"][name])
        print(line, flush=True)
        missed += not is_right
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
