"""The folders of the benchmarks, and the interpreters of their environments.

scylla-driver and cassandra-driver both install the package `cassandra`, so each has an environment
of its own. If a run names an interpreter with `--interpreter`, these two drivers and turbocql each
have one more environment, `.venv-debian-NAME`. `python_of` makes such an environment if
it is missing.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.harness.processes import Failed

__all__ = ["BUILD", "KEPT", "OURS", "RIVALS", "ROOT", "install", "python_in", "python_of"]

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
"""The folder of the samples of the last runs on this machine."""
KEPT = ROOT / "bench" / "samples"
"""The folder of the samples that the documentation's figures are computed from."""

OURS = ".venv"
"""The environment of turbocql, which runs the suites."""
RIVALS = ("scylla-driver", "cassandra-driver")


def python_in(environment: str) -> Path:
    """Returns the interpreter of an environment, such as `.venv-columns`.

    Raises: Failed if there is none.
    """
    python = ROOT / environment / "bin" / "python"
    if not python.exists():
        raise Failed(f"there is no {environment}: make {environment}/.installed")
    return python


def python_of(client: str, interpreter: Path | None = None) -> Path:
    """Returns the interpreter for those cases of a client that need no server."""
    if interpreter is None:
        return python_in(f".venv-{client}" if client in RIVALS else OURS)
    environment = ROOT / f".venv-debian-{client if client in RIVALS else 'turbocql'}"
    if not (environment / ".installed").exists():
        _make(environment, client, interpreter)
    return environment / "bin" / "python"


def _make(environment: Path, client: str, interpreter: Path) -> None:
    # turbocql itself is not installed: it is imported from python/. Its native module fits every
    # interpreter of the minor version for which it was built.
    packages = ["-r", f"{client}.txt"] if client in RIVALS else ["-c", "dev.txt", "numpy"]
    subprocess.run([interpreter, "-m", "venv", environment], check=True)
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    subprocess.run([environment / "bin" / "python", *pip], cwd=ROOT / "requirements", check=True)
    (environment / ".installed").touch()


def install(target: str) -> None:
    """Makes an environment or a program with `make`.

    Raises: Failed if `make` fails.
    """
    ended = subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ended.returncode:
        lines = ended.stdout.strip().splitlines() or ["nothing was printed"]
        raise Failed(f"{target} cannot be made: {lines[-1]}")
