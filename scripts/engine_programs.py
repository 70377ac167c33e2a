"""Writes the programs of examples/engines and their output into docs/engines.md.

`make engine-programs` runs this script, which runs the programs on a real node. With --check, the
script does not write the page, but reports whether the page is up to date.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from turbocql.testing import Cassandra

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "engines.md"
ENGINES = ("ray", "spark", "duckdb", "dask")


def printed(engine: str, point: str) -> str:
    """Runs a program in its engine's environment, and returns its output."""
    python = ROOT / f".venv-{engine}" / "bin" / "python"
    assert python.exists(), f"make -C {ROOT} .venv-{engine}/.installed"
    completed = subprocess.run(
        [str(python), f"examples/engines/with_{engine}.py", point],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "PYSPARK_PYTHON": str(python),
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    if completed.returncode:
        raise SystemExit(f"with_{engine}.py failed:\n{completed.stderr[-4000:]}")
    return "\n".join(line.rstrip() for line in completed.stdout.rstrip().splitlines()) + "\n"


def written(page: str, engine: str, output: str) -> str:
    """Returns the page, with a program and its output between the comments that mark its place."""
    name = f"examples/engines/with_{engine}.py"
    program = (ROOT / name).read_text(encoding="utf-8")
    block = (
        f'<!-- {name} -->\n\n```python title="{name}"\n{program}```\n\n'
        f"It prints:\n\n```text\n{output}```\n\n<!-- end -->"
    )
    updated, count = re.subn(
        rf"<!-- {re.escape(name)} -->.*?<!-- end -->", lambda _: block, page, flags=re.S
    )
    assert count == 1, f"{PAGE} has no place for {name}"
    return updated


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    updated = page
    with Cassandra(heap_mb=512) as cluster:
        for engine in ENGINES:
            updated = written(updated, engine, printed(engine, cluster.contact_points[0]))
            print(f"with_{engine}.py ran", flush=True)
    if "--check" in sys.argv:
        print("the page has what they print" if updated == page else "the page has something else")
        return int(updated != page)
    PAGE.write_text(updated, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
