"""The long form of the audit under faults: `python -m tests.faults.soak`, or `make soak`.

It prints the table and the lines of the audit, and writes them to a file as Markdown. The exit
status is 1 if there is a violation.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.faults import Step, long_plan
from tests.faults.run import Times, run

_TIMES = Times(warm_up_s=60, before_s=20, after_s=20, recover_s=90)


def main() -> int:
    """Runs the audit, and returns the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    options.add_argument("--minutes", type=float, default=30.0, help="how long faults are injected")
    options.add_argument("--seed", default=None, help="the seed of the faults; by default random")
    options.add_argument("--markdown", type=Path, default=Path("build/soak.md"))
    options.add_argument("--keep", type=Path, help="a folder in which the calls' records are kept")
    chosen = options.parse_args()
    seed = chosen.seed or str(random.SystemRandom().randrange(10**9))
    _say(f"seed {seed}, {chosen.minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="turbocql-soak-") as temporary:
        folder = chosen.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report = run(seed, _for(chosen.minutes, seed), _TIMES, folder, _say)
    text = f"# Faults for {chosen.minutes:g} minutes\n\n{report.markdown(seed)}"
    _say(text)
    chosen.markdown.parent.mkdir(parents=True, exist_ok=True)
    chosen.markdown.write_text(text, encoding="utf-8")
    _say(f"{report.violations} violations; written to {chosen.markdown}")
    return 1 if report.violations else 0


def _for(minutes: float, seed: str) -> Iterator[Step]:
    """Yields the steps of the plan until the time is over."""
    deadline: float | None = None
    for step in long_plan(seed):
        # The time is counted from here. The load is already running, because `run` starts it before
        # it requests the first step.
        deadline = deadline or time.monotonic() + minutes * 60
        if time.monotonic() > deadline:
            return
        yield step


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
