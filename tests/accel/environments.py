"""The environments of the drivers, and programs that run in them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "accel" / "programs"
PURELIB = ROOT / "packaging" / "turbocql.data" / "purelib"
"""What a wheel puts beside the package."""
SAFE = bool(os.environ.get("_TURBOCQL_TEST_INTERPRETER"))
"""Whether the native core runs as on an interpreter that nobody has tested."""
DRIVERS = ("scylla-driver", "cassandra-driver")
EARLIER = ("scylla-driver-previous", "scylla-driver-earlier", "cassandra-driver-earlier")
"""Releases that write and read otherwise; the last has no compiled codec."""
ALL_DRIVERS = [
    *DRIVERS,
    *(pytest.param(driver, marks=pytest.mark.exhaustive) for driver in EARLIER),
]

_HANDLERS = {
    name: f"protocol.{name}: recv_results_rows"
    for name in ("_ProtocolHandler", "LazyProtocolHandler", "NumpyProtocolHandler")
}
LEFT: dict[str, set[str]] = {
    "scylla-driver": set(),
    "scylla-driver-previous": set(),
    "scylla-driver-earlier": set(),
    # With NumPy 2, its parser gives no rows.
    "cassandra-driver": {_HANDLERS["NumpyProtocolHandler"]},
    # It has one way of reading pages.
    "cassandra-driver-earlier": {*_HANDLERS.values()},
}
"""The seams that stay the driver's."""


def installed_driver() -> str:
    """The driver of this environment: the file in requirements/ that pins its release."""
    for distribution in DRIVERS:
        try:
            pin = f"{distribution}=={version(distribution)}"
        except PackageNotFoundError:
            continue
        for driver in LEFT:
            pins = (ROOT / "requirements" / f"{driver}.txt").read_text(encoding="utf-8").split()
            if pin in pins:
                return driver
        raise LookupError(f"no file in requirements/ has {pin}: make the environment anew")
    raise LookupError(f"{sys.executable} has neither scylla-driver nor cassandra-driver")


def python_of(driver: str) -> str:
    """The interpreter of a driver's environment."""
    python = ROOT / f".venv-{driver}" / "bin" / "python"
    assert python.exists(), f"make -C {ROOT} .venv-{driver}/.installed"
    return str(python)


def run(
    python: str, *arguments: str, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """A program by that interpreter."""
    paths = os.pathsep.join((str(ROOT / "python"), str(ROOT)))
    return subprocess.run(
        [python, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def run_installed(
    python: str,
    tmp_path: Path,
    *arguments: str,
    variable: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """A program in `tmp_path`, with turbocql as if from a wheel."""
    site = tmp_path / "site"
    site.mkdir(exist_ok=True)
    # Python imports it at its start, also in the processes that are started.
    text = f"import site; site.addsitedir({str(PURELIB)!r})\n"
    (site / "sitecustomize.py").write_text(text, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT / "python")))}
    env.pop("TURBOCQL_ACCELERATE", None)
    if variable is not None:
        env["TURBOCQL_ACCELERATE"] = variable
    command = [python, *arguments]
    return subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120
    )
