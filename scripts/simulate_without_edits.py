"""Runs the simulation without one edit of the engine's crates after another: seeds must find each.

Usage: scripts/simulate_without_edits.py [LAST_SEED]     (300 by default)

The edits are taken out of a copy of the sources in build/without. Results are kept in
build/without.json, by the commit, so a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

from edited_crates import ROOT, Edit, Unfit, edits

NAMES = (
    "prepare",
    "keepalive",
    "orphans",
    "streams",
    "reconnect",
    "types",
    "batch",
    "silent-nodes",
)
"""Edits that faults of nodes and networks need. Those about hostile servers have other tests."""

DECLARED = {"types": "src/statement/prepared.rs", "silent-nodes": "src/cluster/node.rs"}
"""Files whose part of an edit stays, because the engine names what it declares."""

COPY = ROOT / "build" / "without"
TARGET = ROOT / "target" / "without"
RESULTS = ROOT / "build" / "without.json"


def taken_out(text: str, old: str, new: str) -> str:
    """Returns a file's text without the change of a hunk.

    Other edits may have changed the lines around it, so lines of context are left off until the
    text is found once.

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
    """Takes an edit out of the copy's crates."""
    crate = COPY / "build" / "crates" / edit.crate
    for file, old, new in reversed(edit.changes):
        if file != DECLARED.get(edit.name):
            path = crate / file
            path.write_text(taken_out(path.read_text(), old, new))


def copy_sources() -> None:
    """Copies the files of the checkout that git knows."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    shutil.rmtree(COPY, ignore_errors=True)
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)


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
    for name in NAMES:
        if name not in results:
            copy_sources()
            script = [sys.executable, "scripts/edited_crates.py"]
            subprocess.run(script, cwd=COPY, check=True, stdout=subprocess.DEVNULL)
            take_out(by_name[name])
            output = simulate(last)
            found = re.findall(
                r"^seed (\d+):[^\n]*\n(?:  \|[^\n]*\n)*  ! ([^\n]*)", output, re.MULTILINE
            )
            results[name] = {"seeds": len(found), "first": found[0] if found else None}
            RESULTS.write_text(json.dumps(results))
        of = results[name]
        said = (
            f"first seed {of['first'][0]}: {of['first'][1][:150]}" if of["first"] else "NOT FOUND"
        )
        print(f"without {name}: {of['seeds']} of {last} seeds; {said}", flush=True)
        missed += not of["first"]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
