"""The drivers' virtual environments, and functions that run programs in them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "accel" / "programs"
PURELIB = ROOT / "packaging" / "turbocql.data" / "purelib"
"""The folder with the files that a wheel installs beside the package."""
SAFE = bool(os.environ.get("_TURBOCQL_TEST_INTERPRETER"))
"""Whether the native core runs without quick paths, as on an untested interpreter."""
DRIVERS = ("scylla-driver", "cassandra-driver")
EARLIER = ("scylla-driver-previous", "scylla-driver-earlier", "cassandra-driver-earlier")
"""The environments of earlier releases of the drivers, which encode and decode differently from the
current releases. The earlier release of cassandra-driver has no compiled codec."""
ALL_DRIVERS = [
    *DRIVERS,
    *(pytest.param(driver, marks=pytest.mark.exhaustive) for driver in EARLIER),
]

_HANDLERS = {
    name: f"protocol.{name}: recv_results_rows"
    for name in ("_ProtocolHandler", "LazyProtocolHandler", "NumpyProtocolHandler")
}
_FUTURES = {
    f"cluster.ResponseFuture.{name}"
    for name in (
        *("__init__", "_start_timer", "_cancel_timer", "_set_result", "_set_final_result"),
        *("add_callback", "add_errback", "add_callbacks", "clear_callbacks", "result"),
    )
}
_FUTURES |= {"pool.HostConnection.borrow_connection", "cluster.ResponseFuture._query"}
_FUTURES |= {"cluster.Session._create_response_future"}
"""Methods that the accelerator replaces only if it knows their sources. It knows those of the
current scylla-driver and of both releases of cassandra-driver."""
LEFT: dict[str, set[str]] = {
    "scylla-driver": set(),
    "scylla-driver-previous": _FUTURES,
    "scylla-driver-earlier": _FUTURES,
    "cassandra-driver": set(),
    # In this release, `_ProtocolHandler` is another name of `ProtocolHandler`, which is patched.
    # The release lacks the other two handlers.
    "cassandra-driver-earlier": {*_HANDLERS.values()},
}
"""For each driver, the seams (functions that can be replaced) that are not patched."""
LEFT_LATER: dict[str, set[str]] = {
    **{driver: set() for driver in LEFT},
    # With NumPy 2, the driver's NumPy parser returns no rows.
    "cassandra-driver": {_HANDLERS["NumpyProtocolHandler"]},
}
"""For each driver, the seams that are patched only until their first use. From then on, the
driver's function handles all calls."""


def installed_driver() -> str:
    """Returns the name that this environment's driver has in the file names in requirements/."""
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
    """Returns the path of the interpreter in a driver's environment."""
    python = ROOT / f".venv-{driver}" / "bin" / "python"
    assert python.exists(), f"make -C {ROOT} .venv-{driver}/.installed"
    return str(python)


def run(
    python: str, *arguments: str, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs an interpreter with these arguments. It can import turbocql and the tests."""
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
    """Runs an interpreter in `tmp_path`, where turbocql is set up as if installed from a wheel.

    The program can also import `tests`.
    """
    return subprocess.run(
        [python, *arguments],
        cwd=tmp_path,
        env=installed_variables(tmp_path, variable),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def started(
    python: str, tmp_path: Path, *arguments: str, variable: str | None = None, stderr: IO[str]
) -> subprocess.Popen[str]:
    """Starts an interpreter as `run_installed` does, with pipes for its input and output."""
    return subprocess.Popen(
        [python, *arguments],
        cwd=tmp_path,
        env=installed_variables(tmp_path, variable),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def installed_variables(tmp_path: Path, variable: str | None) -> dict[str, str]:
    """Returns environment variables that set turbocql up as if installed from a wheel."""
    site = tmp_path / "site"
    site.mkdir(exist_ok=True)
    # Every Python process imports sitecustomize at its start, so child processes are also set up.
    text = f"import site; site.addsitedir({str(PURELIB)!r})\n"
    (site / "sitecustomize.py").write_text(text, encoding="utf-8")
    paths = (str(site), str(ROOT / "python"), str(ROOT))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    variables.pop("TURBOCQL_ACCELERATE", None)
    if variable is not None:
        variables["TURBOCQL_ACCELERATE"] = variable
    return variables
