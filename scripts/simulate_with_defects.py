"""Runs the simulation once for each of a list of defects. Each defect must make a seed fail.

Usage: scripts/simulate_with_defects.py [LAST_SEED]     (300 by default)

A defect is a bug that the script plants, or a missing edit (a patch of the ScyllaDB Rust driver).
The script makes each defect in a copy of the sources. It stores the results for the current commit
in build/defects.json. So after an interruption, the next run continues with the next defect.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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
        "        if let Some(gate) = self.gate.take().filter(|_| self.bytes != 72) {\n",
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

FOUND = re.compile(r"^seed (\d+):[^\n]*\n(?:  \|[^\n]*\n)*  ! ([^\n]*)", re.MULTILINE)
"""Matches a failed seed in the simulation's output, and the first of its lines that begin with `!`.
These lines say what was wrong."""

COPY = Path(tempfile.gettempdir()) / "turbocql-defects"
"""The copy of the sources. It is outside of the checkout, because the checkout's cargo
configuration would apply to a copy within it."""
TARGET = ROOT / "target" / "defects"
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


def copy_sources() -> None:
    """Copies the checkout without ignored files, and makes the edited crates of the copy."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    shutil.rmtree(COPY, ignore_errors=True)
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)
    script = [sys.executable, "scripts/edited_crates.py"]
    subprocess.run(script, cwd=COPY, check=True, stdout=subprocess.DEVNULL)


def simulate(last: int) -> str:
    """Builds and runs the simulation of the copy.

    Raises: SystemExit, if it does not compile.
    """
    manifest = ["--locked", "--manifest-path", "simulation/Cargo.toml", "--target-dir", TARGET]
    built = subprocess.run(["cargo", "build", *manifest], cwd=COPY, capture_output=True, text=True)
    if built.returncode:
        sys.exit(built.stderr)
    program = [TARGET / "debug" / "simulate", "1", str(last)]
    return subprocess.run(program, cwd=COPY, capture_output=True, text=True).stdout


def main() -> int:
    last = int(sys.argv[1]) if sys.argv[1:] else 300
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if (results.get("commit"), results.get("last")) != (commit, last):
        results = {"commit": commit, "last": last}
    by_name = {edit.name: edit for edit in edits()}
    missed = 0
    for name in (*EDITS, *PLANTED):
        if name not in results:
            copy_sources()
            plant(name) if name in PLANTED else take_out(by_name[name])
            output = simulate(last)
            failures = FOUND.findall(output)
            results[name] = {
                "seeds": len(failures),
                "first": failures[0] if failures else None,
                "servers at fault": sum(
                    message.startswith(SERVERS_AT_FAULT) for _, message in failures
                ),
            }
            RESULTS.write_text(json.dumps(results))
        of = results[name]
        verdict = (
            f"first seed {of['first'][0]}: {of['first'][1][:150]}" if of["first"] else "NOT FOUND"
        )
        label = name if name in PLANTED else f"without {name}"
        print(f"{label}: {of['seeds']} of {last} and the kept seeds; {verdict}", flush=True)
        expected = of["seeds"] if name in OF_SERVERS else 0
        if of["servers at fault"] != expected:
            print(f"  servers at fault in {of['servers at fault']} seeds, expected {expected}")
        missed += not of["first"] or of["servers at fault"] != expected
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
