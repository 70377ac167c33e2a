"""The environment of each client, and how a process of one is run.

Other drivers install the package `cassandra`, so each has an environment of its own. With another
interpreter, all of them get one more: `.venv-debian-NAME`, made here when it is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

__all__ = [
    "BUILD",
    "CLIENTS",
    "HERE",
    "RIVALS",
    "ROOT",
    "keep_samples",
    "python_of",
    "read_samples",
    "run",
    "write_samples",
]

HERE = Path(__file__).parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "bench"

CLIENTS = ("turbocql", "scylla-driver", "cassandra-driver", "floor")
RIVALS = CLIENTS[1:3]


def python_of(client: str, interpreter: Path | None = None) -> Path:
    """The interpreter that runs a client."""
    if interpreter is None:
        name = f".venv-{client}" if client in RIVALS else ".venv"
        return ROOT / name / "bin" / "python"
    environment = ROOT / f".venv-debian-{client if client in RIVALS else 'turbocql'}"
    if not (environment / ".installed").exists():
        _make(environment, client, interpreter)
    return environment / "bin" / "python"


def _make(environment: Path, client: str, interpreter: Path) -> None:
    # turbocql itself is not installed: its module stands in python/, and fits every interpreter of
    # the same minor version.
    wanted = ["-r", f"{client}.txt"] if client in RIVALS else ["-c", "dev.txt", "numpy"]
    subprocess.run([interpreter, "-m", "venv", environment], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    subprocess.run(
        [environment / "bin" / "python", *install], cwd=ROOT / "requirements", check=True
    )
    (environment / ".installed").touch()


def run(
    client: str,
    script: str,
    arguments: list[str],
    *,
    stdin: str = "",
    interpreter: Path | None = None,
) -> list[dict[str, Any]]:
    """One process of one client: the lines of JSON that it prints."""
    # Sets come in the same order in all processes.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if interpreter is not None:
        environment["PYTHONPATH"] = str(ROOT / "python")
    lines = subprocess.run(
        [python_of(client, interpreter), HERE / script, *arguments],
        env=environment,
        input=stdin,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=3600,
    ).stdout
    return [json.loads(line) for line in lines.splitlines()]


def read_samples(path: Path) -> list[dict[str, Any]]:
    """The samples of a file, or none when there is no such file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def keep_samples(path: Path, samples: list[dict[str, Any]]) -> None:
    """Puts samples into a file, instead of those of the same cases and interpreter there.

    So all clients of one case are of one run, and a run of some cases leaves the others alone.
    """

    def subject(sample: dict[str, Any]) -> tuple[Any, ...]:
        names = ("case", "series", "scenario", "shape", "in_flight", "interpreter", "variant")
        return tuple(sample.get(name) or None for name in names)

    taken = {subject(sample) for sample in samples}
    kept = [sample for sample in read_samples(path) if subject(sample) not in taken]
    write_samples(path, [*kept, *samples])


def write_samples(path: Path, samples: list[dict[str, Any]]) -> None:
    """The whole file: a line of JSON for each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(sample) + "\n" for sample in samples)
