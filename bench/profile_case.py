"""Where the instructions of one codec case go, by callgrind: `profile_case.py "value: int"`.

Writes the top functions, and the instructions of the case's floors, to `profiles.json`, which the
report shows for targets that are missed. The file is that in `build/bench/`; with `--keep`, that in
`bench/samples/` too. Needs valgrind. Instructions are counted only while the case runs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import codec_turbocql
import floors
from codec_environments import BUILD, HERE
from counting import switch
from timing import Case, ns_per_call

__all__ = ["add", "annotated", "main"]

TOP = 12
NATIVE_NS = 30e6
"""How long the calls would take without callgrind, so that switching it on is lost among them."""
_LINE = re.compile(r"^\s*([\d,]+) \(\s*([\d.]+)%\)\s+(\S.*)$")
_TOTAL = re.compile(r"^\s*([\d,]+)(?: \(100\.0%\))?\s+PROGRAM TOTALS")


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", help="names of cases, in full")
    parser.add_argument("--keep", action="store_true", help="into bench/samples/ as well")
    parser.add_argument("--inside", choices=("turbocql", "floor"), help=argparse.SUPPRESS)
    parser.add_argument("--calls", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        run_case(find(given.inside, given.cases[0]), given.calls)
        return
    if shutil.which("valgrind") is None:
        raise SystemExit("profile_case.py needs valgrind: install it")
    for name in given.cases:
        found = {name: profile(name)}
        print("\n".join([name, found[name]["floor"], *found[name]["lines"]]))
        add(BUILD / "profiles.json", found)
        if given.keep:
            add(HERE / "samples" / "profiles.json", found)


def add(path: Path, found: dict[str, Any]) -> None:
    """Puts profiles beside those of other cases that are there."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**kept, **found}, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def find(client: str, name: str) -> Case:
    """The case, as the benchmark times it."""
    makers = floors.cases() if client == "floor" else codec_turbocql.cases()
    if name not in makers:
        raise SystemExit(f"no case {name}; there are: {', '.join(makers)}")
    return makers[name]()


def run_case(case: Case, calls: int) -> None:
    """Calls it, with callgrind counting only meanwhile."""
    code = f"def run():\n for _ in range({calls}):\n  {case.expression}\n"
    names = dict(case.names)
    exec(compile(code, "case", "exec"), names)
    run = names["run"]
    run()
    switch("on")
    run()
    switch("off")


def profile(name: str) -> dict[str, Any]:
    """The top functions of turbocql's call, and what the floors take."""
    total, lines = callgrind("turbocql", name)
    said = [f"Instructions per call, the interpreter's loop included: turbocql {total:,.0f}"]
    for each in floors.cases():
        if each.partition("#")[0] == name:
            count, _ = callgrind("floor", each)
            said.append(f"floor {find('floor', each).note}: {count:,.0f}")
    return {"lines": lines, "floor": "; ".join(said)}


def callgrind(client: str, name: str) -> tuple[float, list[str]]:
    """Instructions per call, and the functions that they are in."""
    calls = max(20, int(NATIVE_NS / ns_per_call(find(client, name))))
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out"
        command = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no"]
        command += [f"--callgrind-out-file={out}", sys.executable, __file__]
        subprocess.run(
            [*command, "--inside", client, "--calls", str(calls), name], check=True, cwd=HERE
        )
        return annotated(out, calls)


def annotated(out: Path, calls: int) -> tuple[float, list[str]]:
    """Instructions per call, and the functions that they are in, of what callgrind has written."""
    lines = subprocess.run(
        ["callgrind_annotate", "--threshold=99", "--auto=no", out],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.splitlines()
    totals = [match for line in lines if (match := _TOTAL.match(line))]
    if not totals:
        raise SystemExit("callgrind counted nothing")
    found = []
    for line in lines:
        match = _LINE.match(line)
        if match is None or "PROGRAM TOTALS" in line:
            continue
        count, share, where = match.groups()
        per_call = int(count.replace(",", "")) / calls
        found.append(f"{per_call:10,.0f} {float(share):5.1f} %  {function(where)}")
    return int(totals[0][1].replace(",", "")) / calls, found[:TOP]


def function(where: str) -> str:
    """The function and the name of its library, without the place of either."""
    name, _, library = where.partition(" [")
    name = name.partition(":")[2] or name
    library = Path(library.rstrip("]")).name.partition(".")[0] if library else ""
    return f"{name[:90]} [{library}]" if library else name[:90]


if __name__ == "__main__":
    main()
