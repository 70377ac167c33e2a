"""Finds the interpreters for which wheels are built, and on which tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
ABOUT = (
    "import platform as p, sysconfig;"
    " free = 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else '';"
    " print(p.python_implementation(), '.'.join(p.python_version_tuple()[:2]) + free)"
)
# The environment in which other interpreters are started. It lacks four of this process's
# variables: Python's own would affect the started interpreter, and PYO3_PYTHON would override
# maturin's choice of an interpreter.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYO3_PYTHON", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
}


def interpreters(variable: str) -> dict[str, str]:
    """Returns a dict from Python versions to executables. The environment variable `variable` names
    the executables.

    Without the variable, an executable for each of `VERSIONS` is found with pyenv or on PATH.

    Raises: SystemExit for an interpreter that is missing or does not run.
    """
    named = os.environ.get(variable, "").split()
    executables: dict[str, str] = {}
    for name in named:
        version = version_of(name)
        if version is None:
            fail(f"{variable}: {name} is no CPython that runs")
        executables[version] = name
    if named:
        return executables
    for version in VERSIONS:
        fitting = (name for name in candidates(version) if version_of(name) == version)
        python = next(fitting, None)
        if python is None:
            fail(
                f"CPython {version} was found neither with pyenv nor on PATH: install it, or say"
                f' which ones to take: {variable}="python3.12 python3.13"'
            )
        executables[version] = python
    return executables


def candidates(version: str) -> Iterator[str]:
    """Yields this version's interpreters: pyenv's (the latest first), then the one on PATH."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    releases = [path for path in root.glob(f"{version}.*") if path.name.split(".")[2].isdigit()]
    for path in sorted(releases, key=lambda path: int(path.name.split(".")[2]), reverse=True):
        yield str(path / "bin" / f"python{version}")
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path


def version_of(python: str) -> str | None:
    """Returns an interpreter's version, such as 3.12, or `None` if it is not CPython or does not
    run.

    The version of an interpreter built without the GIL ends with a `t`, as in 3.14t.
    """
    try:
        ran = subprocess.run(
            [python, "-I", "-c", ABOUT], capture_output=True, text=True, env=CLEAN, timeout=60
        )
    except OSError:
        return None
    words = ran.stdout.split()
    return words[1] if ran.returncode == 0 and words[0] == "CPython" else None


def fail(reason: str) -> NoReturn:
    """Ends the program and prints the reason on standard error."""
    raise SystemExit(reason)
